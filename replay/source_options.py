"""The values of options of the data source, which Spark gives as text."""

from collections.abc import Mapping, Sequence

from .errors import ReplayError

__all__ = ["number", "one_of"]


def one_of(options: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    """Return the value of an option that has few; the first one is the default."""
    value = str(options.get(name) or values[0]).lower()
    if value not in values:
        raise ReplayError(f"the option {name} is {' or '.join(values)}, and not {value!r}.")
    return value


def number(options: Mapping[str, str], name: str, default: float) -> float:
    """Return an option that is a number."""
    value = options.get(name)
    try:
        found = default if value is None else float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found < 2**53:
        raise ReplayError(f"the option {name} is a number from 0, and not {value!r}.")
    return found
