"""The common part of the blocking, asyncio and Twisted listeners: their errors and their end."""

import logging
from collections.abc import Callable
from typing import Final

from .driver import Driver
from .errors import QuorateClientError
from .frames import ServerNote
from .pending import Received, received

__all__ = ["EndCallback", "ListenerState", "check_callback"]

_log: Final = logging.getLogger("quorate.client")

EndCallback = Callable[[QuorateClientError | None], None]
"""Called once when the connection has ended: with None after an orderly close, else with the reason."""


class ListenerState:
    """The part of a listener that knows neither threads nor event loops."""

    def __init__(self, driver: Driver, ended: EndCallback | None):
        self._driver = driver
        self._ended = ended
        self.failures = 0
        """Exceptions that the callback has raised."""
        self.stopped = False
        """Whether no further notification is passed to the callback."""

    def message(self, note: ServerNote) -> Received:
        """Return a notification as the callback gets it."""
        return received(note)

    def failed(self, error: BaseException) -> None:
        """Count and log an exception of the callback.

        It is not logged if it only says that the program itself has closed the connection meanwhile.
        """
        self.failures += 1
        closed = self._driver.pending.closed_in_order and isinstance(error, QuorateClientError)
        if not closed:
            _log.error("the listener of the connection raised; it goes on with the next", exc_info=error)

    def end(self) -> None:
        """Report the end of the connection."""
        self.stopped = True
        pending = self._driver.pending
        if self._ended is not None:
            try:
                self._ended(pending.error)
            except Exception:
                _log.exception("the callback for the end of the connection raised")


def check_callback(callback: object, ended: object) -> None:
    """Raise TypeError, naming the argument, for a callback that cannot be called."""
    if not callable(callback):
        raise TypeError(f"callback is {callback!r}; give a function of one argument, which is a Received")
    if ended is not None and not callable(ended):
        raise TypeError(f"ended is {ended!r}; give a function of one argument, or None")
