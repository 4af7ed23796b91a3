"""Jumps of the wall clock, which stamps the entries of a master. Pure."""

from typing import Final

__all__ = ["JUMP_S", "WallClock"]

JUMP_S: Final = 60.0
"""A smaller difference between two entries is not reported: clocks are corrected all the time."""


class WallClock:
    """Compares the wall clock with the monotonic clock, which nobody sets."""

    def __init__(self) -> None:
        self._offset_s: float | None = None
        """Difference of the two clocks when they were compared last; None before."""

    def observe(self, now: float, wall_ns: int) -> str:
        """Compare the clocks, at an entry of this master; return a sentence about a jump, else "".

        `now` is in monotonic seconds, `wall_ns` in nanoseconds since the epoch.
        """
        before, self._offset_s = self._offset_s, wall_ns / 1e9 - now
        if before is None:
            return ""
        jump_s = self._offset_s - before
        if jump_s >= JUMP_S:
            return (
                f"the clock of this machine has jumped forward by {_duration(jump_s)} (it was set, or the "
                "machine was suspended): timers of agents that are due by it fire now, and time does not go "
                "back when the clock is set back"
            )
        if jump_s <= -JUMP_S:
            return (
                f"the clock of this machine was set back by {_duration(-jump_s)}: for agents time goes on "
                "at half speed until the clock has caught up"
            )
        return ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
