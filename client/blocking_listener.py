"""The listener of a blocking connection: a thread that calls the callback."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from .driver import Driver
from .errors import QuorateClientError
from .frames import ServerNote
from .listener import EndCallback, ListenerState
from .pending import Received

__all__ = ["ListenerThread"]

HELD_NOTES: Final = 64
"""Most notifications that the thread takes out of the inbox at once. What it has not processed when it is
stopped goes back."""

Post = Callable[[Callable[[], None], "Future[list[ServerNote]] | None"], None]
"""Runs a function in the thread of the connection; fails the future if that has ended."""


class ListenerThread(ListenerState):
    """Calls a callback with each notification, one at a time, in a thread of its own."""

    def __init__(
        self, driver: Driver, post: Post, callback: Callable[[Received], object], ended: EndCallback | None
    ):
        super().__init__(driver, ended)
        self._post = post
        self._callback = callback
        self._waiter: Future[list[ServerNote]] = Future()
        self._held: list[ServerNote] = []
        self._done = 0
        """Notifications of `_held` for which the callback has returned."""
        self._thread = threading.Thread(target=self._run, name="quorate-listener", daemon=True)

    def start(self) -> None:
        """Begin to call the callback, which may stop this listener at once."""
        self._thread.start()

    def stop(self, timeout_s: float | None) -> bool:
        """Pass no further notification to the callback, and wait until it has returned.

        Returns whether it has within `timeout_s`; True at once in the callback itself.
        """
        self.stopped = True
        if threading.current_thread() is self._thread:
            # Before the program begins anything else: what it receives next has to come first.
            rest, self._held = self._held[self._done + 1 :], self._held[: self._done + 1]
            self._post(lambda: self._driver.pending.put_back(rest), None)
            return True
        self._post(self._wake, None)
        return self.join(timeout_s)

    def join(self, timeout_s: float | None) -> bool:
        """Wait until the thread has ended, for at most `timeout_s`; not in the thread itself.

        Returns whether it has.
        """
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _wake(self) -> None:
        """Have the thread see that it is stopped. Runs in the thread of the connection."""
        waiter = self._waiter
        self._driver.pending.cancel_receive(waiter)
        if not waiter.done():
            waiter.set_result([])

    def _hold(self, waiter: "Future[list[ServerNote]]") -> None:
        if not self.stopped:
            self._driver.pending.hold(waiter, HELD_NOTES)
        elif not waiter.done():
            waiter.set_result([])

    def _run(self) -> None:
        while not self.stopped:
            waiter = self._waiter = Future[list[ServerNote]]()
            self._post(partial(self._hold, waiter), waiter)
            try:
                self._held = waiter.result()
            except QuorateClientError:
                if not self.stopped:
                    self.end()
                return
            self._process()
            self._post(partial(self._give_back, self._held, self._done), None)

    def _process(self) -> None:
        """Call the callback with what is held, until the listener is stopped or the connection closed."""
        self._done = 0
        pending = self._driver.pending
        while self._done < len(self._held) and not (self.stopped or pending.closed_in_order):
            try:
                self._callback(self.message(self._held[self._done]))
            except BaseException as error:  # also SystemExit: the thread must not end silently
                self.failed(error)
            self._done += 1

    def _give_back(self, held: list[ServerNote], done: int) -> None:
        self._driver.pending.put_back(held[done:])
        self._driver.release(held[:done])
