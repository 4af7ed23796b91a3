"""Notifications that threads of the process send to agents: see `LocalServer.direct_send_to`."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from twisted.python.failure import Failure

from ...agents import Note
from ...client.local.failures import failure_of, unavailable
from ...client.local.server import DirectSend
from ..master.requests import NotServing
from ..master.submissions import Submissions

__all__ = ["MAX_DIRECT_SENDS", "DirectSends"]

MAX_DIRECT_SENDS: Final = 16384
"""Notifications of threads whose outcome is not known yet."""

Outcome = Future[DirectSend]


class DirectSends:
    """Passes notifications from any thread to the master's submissions, and their outcomes back."""

    def __init__(
        self,
        submissions: Submissions,
        schedule: Callable[[Callable[[], None]], object],
        when_accepting: Callable[[Callable[[], None]], None],
    ) -> None:
        """`schedule` calls a function in the server's thread; `when_accepting` calls one in that thread when
        the server accepts input again."""
        self._submissions = submissions
        self._schedule = schedule
        self._when_accepting = when_accepting
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Note, Outcome]] = deque()
        self._outstanding = 0
        self._woken = False
        self._ended = ""

    def send(self, note: Note) -> Outcome:
        """Send a notification. Any thread calls it. Raises Unavailable."""
        outcome: Outcome = Future()
        outcome.set_running_or_notify_cancel()
        with self._lock:
            if self._ended:
                raise unavailable(f"the notification was not sent: {self._ended}")
            if self._outstanding >= MAX_DIRECT_SENDS:
                raise unavailable(
                    f"the outcomes of {MAX_DIRECT_SENDS} notifications of threads are not known yet; wait "
                    "for some of them before you send more"
                )
            self._outstanding += 1
            self._waiting.append((note, outcome))
            if self._woken:
                return outcome
            self._woken = True
        self._schedule(self.flush)
        return outcome

    def flush(self) -> None:
        """Submit what waits, as far as the server accepts input; drop it if it does not serve."""
        with self._lock:
            self._woken = False
        submissions = self._submissions
        while self._waiting:
            if submissions.serving and not submissions.accepting:
                self._woken = True
                self._when_accepting(self.flush)
                return
            note, outcome = self._waiting.popleft()
            try:
                committed = submissions.submit(note)
            except NotServing:
                self._set(outcome, DirectSend.DROPPED)
                continue
            committed.addCallbacks(
                self._committed, self._lost, callbackArgs=(outcome,), errbackArgs=(outcome,)
            )

    def close(self, reason: str) -> None:
        """Drop what waits, and refuse everything from now on."""
        with self._lock:
            self._ended = reason
            waiting, self._waiting = list(self._waiting), deque()
        for _, outcome in waiting:
            self._set(outcome, DirectSend.DROPPED)

    def _committed(self, failure: Note | None, outcome: Outcome) -> None:
        error = None if failure is None else failure_of(failure)
        if error is None:
            self._set(outcome, DirectSend.COMMITTED)
        else:
            self._count()
            outcome.set_exception(error)

    def _lost(self, _: Failure, outcome: Outcome) -> None:
        self._set(outcome, DirectSend.UNKNOWN)

    def _set(self, outcome: Outcome, value: DirectSend) -> None:
        self._count()
        outcome.set_result(value)

    def _count(self) -> None:
        with self._lock:
            self._outstanding -= 1
