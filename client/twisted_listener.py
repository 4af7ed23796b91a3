"""The listener of a Twisted connection: it calls the callback in the reactor's thread."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.python.failure import Failure

from .driver import Driver
from .frames import ServerNote
from .listener import EndCallback, ListenerState
from .pending import Received

__all__ = ["ReactorListener"]


class _Reactor(Protocol):
    """The part of the reactor that is used here."""

    def callLater(self, delay: float, function: Any, *args: Any) -> Any: ...  # noqa: N802


class ReactorListener(ListenerState):
    """Calls a callback with each notification, one at a time. It is itself the waiter for the next one."""

    def __init__(
        self,
        reactor: _Reactor,
        driver: Driver,
        callback: Callable[[Received], object],
        ended: EndCallback | None,
    ):
        super().__init__(driver, ended)
        self._reactor = reactor
        self._callback = callback
        self._waits = False
        self._busy = False
        """Whether the callback, or the Deferred that it returned, is not done yet."""
        self._calling = False
        """Whether the callback itself runs."""
        self._stopping: list[Deferred[None]] = []
        reactor.callLater(0, self._next)

    def stop(self) -> "Deferred[None]":
        """Pass no further notification to the callback. The Deferred fires when its present call is done.

        It has fired already if the callback itself, and not a Deferred that it returned, calls this.
        """
        self.stopped = True
        if self._waits:
            self._waits = False
            self._driver.pending.cancel_receive(self)
        stopped: Deferred[None] = Deferred()
        if self._busy and not self._calling:
            self._stopping.append(stopped)
        else:
            stopped.callback(None)
        return stopped

    # The waiter for the next notification.

    def done(self) -> bool:
        """Return whether it does not wait."""
        return not self._waits

    def set_result(self, held: list[ServerNote], /) -> None:
        """Pass a notification to the callback."""
        self._waits = False
        self._busy = self._calling = True
        result: Deferred[Any] = maybeDeferred(self._call, held[0])
        self._calling = False
        result.addErrback(self._log)
        result.addBoth(self._finished, held)

    def set_exception(self, exception: BaseException, /) -> None:  # noqa: ARG002
        """Report the end of the connection."""
        self._waits = False
        if not self.stopped:
            self.end()

    def _call(self, note: ServerNote) -> object:
        result = self._callback(self.message(note))
        if isinstance(result, Coroutine):
            return ensureDeferred(cast("Coroutine[Deferred[Any], Any, Any]", result))
        return result

    def _log(self, failure: Failure) -> None:
        self.failed(cast("BaseException", cast("Any", failure).value))

    def _finished(self, _: object, held: list[ServerNote]) -> None:
        self._busy = False
        self._driver.release(held)
        stopping, self._stopping = self._stopping, []
        for stopped in stopping:
            stopped.callback(None)
        if not self.stopped:
            # In a turn of its own: the reactor does its other work, and calls do not nest.
            self._reactor.callLater(0, self._next)

    def _next(self) -> None:
        if self.stopped:
            return
        self._waits = True
        self._driver.pending.hold(self, 1)
