"""Keep-alives of an open TCP connection: when to send one, and when the replica counts as silent. Pure."""

import enum
from typing import Final

__all__ = ["KeepAlive", "Liveness"]

SILENT_INTERVALS: Final = 3
"""A replica of which nothing is heard for this many intervals is left for another one."""


class Liveness(enum.Enum):
    """The result of `KeepAlive.tick`."""

    ALIVE = enum.auto()
    PING = enum.auto()
    """A keep-alive has to be sent now."""
    SILENT = enum.auto()
    """Nothing was received for too long: the connection has failed."""


class KeepAlive:
    """The times of the last bytes received and of the next keep-alive."""

    def __init__(self, now: float, interval_s: float):
        self.heard_at = now
        """When the last bytes came from the replica."""
        self._interval_s = interval_s
        self._ping_at = now + interval_s

    @property
    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        return min(self._ping_at, self._silent_at)

    @property
    def _silent_at(self) -> float:
        return self.heard_at + SILENT_INTERVALS * self._interval_s

    def tick(self, now: float) -> Liveness:
        """Compare the times with `now`."""
        if now >= self._silent_at + self._interval_s:
            # This process itself was stopped for a while: first let it read what has arrived meanwhile.
            self.heard_at = now - (SILENT_INTERVALS - 1) * self._interval_s
        elif now >= self._silent_at:
            return Liveness.SILENT
        if now < self._ping_at:
            return Liveness.ALIVE
        self._ping_at = now + self._interval_s
        return Liveness.PING
