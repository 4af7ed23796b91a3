"""The application's side of a group's member: its handler, and whole states on their way in and out.

What the handler raises is logged, and the group goes on, also after `SystemExit` and `KeyboardInterrupt`: in
a callback of the reactor they would not end the process, but lose what comes behind them. Only a state that
cannot be received ends the member.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, cast

from ..model.events import InstallPart, ViewEvent
from .handler import GroupFailed, GroupHandler
from .order import Order
from .wire import decode_part, encode_parts

__all__ = ["Application", "Messages"]

NO_STATE: Final = (str, bytes, bytearray, memoryview, Mapping)
"""No states, though most of these could be iterated over: for long perhaps, and in vain."""


class Messages(NamedTuple):
    """Messages to hand out: the index of the first one, the member that sent them, and they."""

    first: int
    origin: int
    payloads: list[bytes]


class Application:
    """Calls the handler."""

    def __init__(
        self,
        handler: GroupHandler,
        order: Order[Any],
        log: Callable[[str], None],
        now: Callable[[], float],
    ) -> None:
        """`order` says which messages a state holds; `log` takes lines; `now` is a clock, in seconds."""
        self.position = 0
        """Index of the last message that the handler got, or that is part of the state it received."""
        self._handler = handler
        self._order = order
        self._log = log
        self._now = now
        self._head = b""
        """Of a state that is coming in, as are its chunks."""
        self._chunks: list[bytes] = []

    def deliver(self, index: int, origin: int, payloads: list[bytes], until: float) -> Messages | None:
        """Hand messages out until then, one at least; return those that are left. index: of the first."""
        delivered, now = self._handler.delivered, self._now
        last = len(payloads)
        for number, payload in enumerate(payloads, 1):
            self.position = index
            try:
                delivered(index, origin, payload)
            except BaseException as error:
                self._blame("delivered", error, f"for message {index}")
            index += 1
            if number < last and now() > until:
                return Messages(index, origin, payloads[number:])
        return None

    def change_view(self, event: ViewEvent) -> None:
        """Tell of a view."""
        try:
            self._handler.view_changed(event)
        except BaseException as error:
            self._blame("view_changed", error)

    def provide(self) -> Iterator[bytes] | None:
        """Return the parts of the state after the messages so far; None if the handler failed."""
        try:
            state: object = self._handler.provide_state()
            if type(state) is bytes:
                state = [state]
            elif isinstance(state, NO_STATE) or not isinstance(state, Iterable):
                self._refuse(type(state))
                return None
            chunks = deque(cast("Iterable[bytes]", state))
        except BaseException as error:
            self._blame("provide_state", error)
            return None
        for kind in set(map(type, chunks)) - {bytes}:
            # A class of the application's own, too: it must not fail once parts are on their way.
            self._refuse(kind, "an iterable with ")
            return None
        return chain((self._order.head(),), encode_parts(chunks))

    def _refuse(self, kind: type, where: str = "") -> None:
        self._log(
            f"defect: provide_state of the handler returned {where}{kind.__name__} after message "
            f"{self.position}: a state is bytes, or an iterable of bytes"
        )

    def install(self, event: InstallPart) -> None:
        """Take a part of what `provide` gave elsewhere; the last one replaces the state.

        Raises GroupFailed when the state cannot be used.
        """
        try:
            if event.number:
                self._chunks += decode_part(event.data)
            else:
                self._head, self._chunks = event.data, []
            if event.index is None:
                return
            chunks, self._chunks = self._chunks, []
            self._order.restore(self._head)
            self.position = self._order.position
            self._handler.receive_state(chunks)
        except GroupFailed:
            raise
        except BaseException as error:
            raise GroupFailed(
                f"the state of the other members cannot be used here: {_shown(error)}"
            ) from None

    def _blame(self, method: str, error: BaseException, when: str = "") -> None:
        when = when or f"after message {self.position}"
        self._log(f"defect: {method} of the handler raised {_shown(error)} {when}")


def _shown(error: BaseException) -> str:
    """What the handler raised; its own code may fail at that."""
    try:
        return repr(error)
    except BaseException:
        return f"{type(error).__name__}, which cannot be shown,"
