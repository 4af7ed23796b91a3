"""The checks of arguments and settings that are times in seconds."""

from typing import Final

__all__ = ["LEAST_S", "MAX_SECONDS", "seconds", "time_limit"]

MAX_SECONDS: Final = 1_000_000_000.0
"""Longest time that an argument may name, in seconds: about 30 years. Timers of event loops take no more."""
LEAST_S: Final = 0.001
"""Shortest time to find a master, in seconds."""


def seconds(name: str, value: object, *, least_s: float = 0.0, end: str = "") -> float:
    """Return the argument `name` as a number of seconds.

    `end` ends the sentence about what is allowed. Raises TypeError unless it is a number, ValueError for NaN
    and for a number outside `least_s` to `MAX_SECONDS`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}; give a number of seconds{end}")
    if not least_s <= value <= MAX_SECONDS:  # also NaN
        raise ValueError(f"{name} is {value!r}; give {least_s:g} to {MAX_SECONDS:.0f} seconds{end}")
    return float(value)


def time_limit(value: object, name: str = "timeout") -> float | None:
    """Return the time limit of an operation in seconds; None for no limit. Raises as `seconds` does."""
    return None if value is None else seconds(name, value, end=", or None for no limit")
