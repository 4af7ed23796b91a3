"""Threads in which a service calls functions that block."""

import threading
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from ...services.base import MAX_THREADS, ServiceError

__all__ = ["ServiceThreads"]


class ServiceThreads:
    """The threads of one service, one for each call, at most MAX_THREADS at a time.

    They are daemons: a call that never ends keeps neither the service nor the process from stopping. For the
    reactor thread.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._running = 0

    def run(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        """Call a function in a thread: see `ServiceContext.in_thread`.

        A simulated reactor has no threads, and a method `callBlocking` that calls the function soon.
        """
        if hasattr(self._reactor, "callBlocking"):
            simulated: Deferred[Any] = self._reactor.callBlocking(function, *args)
            return simulated
        if self._running >= MAX_THREADS:
            return fail(
                ServiceError(
                    f"{MAX_THREADS} threads of this service run already; call fewer functions at a time, and "
                    "give those that wait for something a time limit"
                )
            )
        result: Deferred[Any] = Deferred()
        thread = threading.Thread(target=self._call, args=(result, function, args), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            return fail(ServiceError(f"a thread cannot be started: {error}"))
        self._running += 1
        return result

    def _call(self, result: "Deferred[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            value: Any = function(*args)
        except BaseException as error:  # also SystemExit, which would end the thread without a result
            value = cast("Any", Failure)(error)
        self._reactor.callFromThread(self._end, result, value)

    def _end(self, result: "Deferred[Any]", value: Any) -> None:
        self._running -= 1
        if not result.called:
            result.callback(value)
