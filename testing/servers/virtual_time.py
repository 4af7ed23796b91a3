"""Virtual time: calls in the order of their times, as fast as they can be made."""

import heapq
from collections.abc import Callable
from typing import Any

__all__ = ["VirtualCall", "VirtualTime"]

TURN_S = 1e-6
"""The shortest delay of a call of a reactor: time goes on also where a machine is called again at once."""


class VirtualCall:
    """A call that is to be made at a virtual time. It has the interface of Twisted's delayed calls."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self._call: Callable[[], None] | None = call

    def active(self) -> bool:
        """Return whether the call is neither made nor cancelled."""
        return self._call is not None

    def cancel(self) -> None:
        """Cancel the call; nothing happens if it was made."""
        self._call = None

    def make(self) -> None:
        """Make the call, unless it was cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call()


class VirtualTime:
    """The clock and the calls of one simulation. It has the interface of the clock of a Twisted reactor."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        """Virtual seconds."""
        self._queue: list[tuple[float, int, VirtualCall]] = []
        self._count = 0

    @property
    def next_at(self) -> float | None:
        """The time of the next call; None if there is none."""
        return self._queue[0][0] if self._queue else None

    def at(self, delay_s: float, call: Callable[[], None]) -> VirtualCall:
        """Have a call made after `delay_s`; calls of one time are made in the order of this method."""
        self._count += 1
        made = VirtualCall(self.now + max(0.0, delay_s), call)
        heapq.heappush(self._queue, (made.at, self._count, made))
        return made

    def step(self) -> None:
        """Go to the time of the next call, and make it. Raises IndexError if there is none."""
        at, _, call = heapq.heappop(self._queue)
        self.now = max(self.now, at)
        call.make()

    def advance(self, seconds: float) -> None:
        """Let virtual seconds pass, and make the calls of that time."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.step()
        self.now = max(self.now, end)

    # The clock of a reactor

    def seconds(self) -> float:
        """Return the virtual time."""
        return self.now

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any) -> VirtualCall:  # noqa: N802
        """Call a function after `delay` virtual seconds."""
        return self.at(max(TURN_S, delay), lambda: function(*args))
