"""The application of a member: calls of its handler, whose exceptions do no harm to the group.

An exception of the handler is logged, and the group goes on. This includes `SystemExit` and
`KeyboardInterrupt`: raised in a callback of the reactor, they would not end the process, but calls would be
lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, cast

from ..model.events import ViewEvent
from .handler import GroupFailed, GroupHandler

__all__ = ["Application", "Messages"]

NOT_A_STATE: Final = (str, bytes, bytearray, memoryview, Mapping)
"""Iterable types whose items are never the chunks of a state."""


class Messages(NamedTuple):
    """Consecutive messages of one member."""

    first: int
    """Index of the first message."""
    origin: int
    """The member that sent them."""
    payloads: list[bytes]


class Application:
    """Calls the methods of the handler."""

    def __init__(self, handler: GroupHandler, log: Callable[[str], None], now: Callable[[], float]) -> None:
        """log: writes a line. now: a clock, in seconds."""
        self.position = 0
        """Index of the last message that the handler got, directly or as part of a state."""
        self._handler = handler
        self._log = log
        self._now = now

    def deliver(self, first: int, origin: int, payloads: list[bytes], until: float) -> Messages | None:
        """Deliver messages, the first with index `first`, until the time `until`.

        At least one message is delivered. Return the rest, None if there is none.
        """
        delivered, now = self._handler.delivered, self._now
        index = first
        last = len(payloads)
        for number, payload in enumerate(payloads, 1):
            self.position = index
            try:
                delivered(index, origin, payload)
            except BaseException as error:
                self._log_raised("delivered", error, f"for message {index}")
            index += 1
            if number < last and now() > until:
                return Messages(index, origin, payloads[number:])
        return None

    def change_view(self, event: ViewEvent) -> None:
        """Report a view."""
        try:
            self._handler.view_changed(event)
        except BaseException as error:
            self._log_raised("view_changed", error)

    def provide_state(self) -> deque[bytes] | None:
        """Return the chunks of the state after the messages so far; None if the handler failed."""
        try:
            state = cast("object", self._handler.provide_state())
            kind: type[object] = type(state)
            if kind is bytes:
                state = [state]
            elif isinstance(state, NOT_A_STATE) or not isinstance(state, Iterable):
                self._log_wrong_state(kind)
                return None
            chunks = deque(cast("Iterable[bytes]", state))
        except BaseException as error:
            self._log_raised("provide_state", error)
            return None
        for kind in set(map(type, chunks)) - {bytes}:
            # A subclass of bytes is refused, too: its code might fail after some parts were sent.
            self._log_wrong_state(kind, "an iterable with ")
            return None
        return chunks

    def receive_state(self, chunks: list[bytes], position: int) -> None:
        """Replace the state by the one after the message with index `position`.

        Raises GroupFailed if the handler cannot use it: then the state of the handler is unknown.
        """
        self.position = position
        try:
            self._handler.receive_state(chunks)
        except BaseException as error:
            raise unusable_state(error) from None

    def _log_raised(self, method: str, error: BaseException, when: str = "") -> None:
        when = when or f"after message {self.position}"
        self._log(f"defect: {method} of the handler raised {_shown(error)} {when}")

    def _log_wrong_state(self, kind: type, where: str = "") -> None:
        self._log(
            f"defect: provide_state of the handler returned {where}{kind.__name__} after message "
            f"{self.position}: a state is bytes, or an iterable of bytes"
        )


def unusable_state(error: BaseException) -> GroupFailed:
    """Return the error of a member that cannot use the state that it received."""
    return GroupFailed(f"the state of the other members cannot be used here: {_shown(error)}")


def _shown(error: BaseException) -> str:
    """Return an exception as text, also when its own `__repr__` raises."""
    try:
        return repr(error)
    except BaseException:
        return f"{type(error).__name__}, which cannot be shown,"
