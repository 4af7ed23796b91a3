"""The deadline of a state machine, kept with the reactor."""

import math
from collections.abc import Callable

from .ports import ClockPort, DelayedCallPort

__all__ = ["Timer"]

RAISED_PAUSE_S = 0.1
"""A call that raised is made again after this: at once it would perhaps do nothing but raise."""


class Timer:
    """Calls `ring` when the deadline is reached; `now` is the clock of the deadline. None: there is none."""

    def __init__(
        self,
        deadline: Callable[[], float | None],
        reactor: ClockPort,
        now: Callable[[], float],
        ring: Callable[[], None],
    ) -> None:
        self._deadline = deadline
        self._reactor = reactor
        self._now = now
        self._ring = ring
        self._call: DelayedCallPort | None = None
        self._at = 0.0
        self._not_before = -math.inf
        """A call raised: no other one until then."""
        self._stopped = False

    @property
    def set_up(self) -> bool:
        """Whether a call is to come."""
        return self._call is not None

    def arm(self) -> None:
        """Look at the deadline. A call that comes too early is left: it looks again."""
        deadline = self._deadline()
        if deadline is None or self._stopped:
            return
        deadline = max(deadline, self._not_before)
        call = self._call
        if call is not None and call.active():
            if self._at <= deadline:
                return
            call.cancel()
        self._at = deadline
        self._call = self._reactor.callLater(max(0.0, deadline - self._now()), self._wake)

    def stop(self) -> None:
        """Never ring again."""
        self._stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _wake(self) -> None:
        self._call = None
        deadline = self._deadline()
        if deadline is None or deadline > self._now():
            self.arm()
            return
        try:
            self._ring()
        except BaseException:
            # A defect, of which the reactor tells. What is due later must come all the same.
            self._not_before = self._now() + RAISED_PAUSE_S
            self._cancel()
            self.arm()
            raise
