"""The timer of a state machine, with one scheduled call of the reactor."""

import math
from collections.abc import Callable

from .ports import ClockPort, DelayedCallPort

__all__ = ["Timer"]

RAISED_PAUSE_S = 0.1
"""Pause after a call that raised, in seconds: without it, a defect could keep the reactor busy forever."""


class Timer:
    """Calls `due` when the deadline is reached.

    deadline: returns the deadline in seconds of the clock `now`; None while there is none.
    """

    def __init__(
        self,
        deadline: Callable[[], float | None],
        reactor: ClockPort,
        now: Callable[[], float],
        due: Callable[[], None],
    ) -> None:
        self._deadline = deadline
        self._reactor = reactor
        self._now = now
        self._due = due
        self._call: DelayedCallPort | None = None
        self._at = 0.0
        self._not_before = -math.inf
        """The earliest time of the next call, after one that raised."""
        self._stopped = False

    @property
    def set_up(self) -> bool:
        """Whether a call of the reactor is scheduled."""
        return self._call is not None

    def arm(self) -> None:
        """Schedule a call for the present deadline. An earlier call is kept: it schedules the next one."""
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
        """Make no more calls."""
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
            self._due()
        except BaseException:
            # The reactor logs the defect. Later deadlines must be met all the same.
            self._not_before = self._now() + RAISED_PAUSE_S
            self._cancel()
            self.arm()
            raise
