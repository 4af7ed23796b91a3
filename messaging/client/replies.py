"""Answers to requests of messaging, given to functions instead of futures."""

from collections.abc import Callable, Iterable
from typing import Any

from ...agents import Notification
from ...client import UnknownAgentError
from ...client.pending import Waiter
from .destinations import Destination
from .errors import NoSuchDestination

__all__ = ["Reply", "complete_all", "fail_all"]


class Reply:
    """A waiter that calls one of two functions."""

    def __init__(
        self,
        answered: Callable[[Notification], Any],
        failed: Callable[[Exception], Any],
        destination: Destination,
    ) -> None:
        self._answered = answered
        self._failed = failed
        self._destination = destination
        self._done = False

    def set_result(self, result: Any, /) -> None:
        """Give the answer on."""
        self._done = True
        self._answered(result)

    def set_exception(self, exception: BaseException, /) -> None:
        """Give the failure on."""
        self._done = True
        if isinstance(exception, UnknownAgentError):
            exception = NoSuchDestination(
                f"there is no {self._destination}; declare it in a3servers.xml, or list what there is with "
                f"`quorate agents --name '{self._destination.kind.value}:*'`"
            )
        assert isinstance(exception, Exception)
        self._failed(exception)

    def done(self) -> bool:
        """Return whether one of the functions was called."""
        return self._done


def complete_all(waiters: Iterable[Waiter | None]) -> None:
    """Complete waiters with None. The program may go on within this call, and change what the caller has."""
    for waiter in waiters:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def fail_all(waiters: Iterable[Waiter | None], error: Exception) -> None:
    """Fail waiters. The program may go on within this call, and change what the caller has."""
    for waiter in waiters:
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
