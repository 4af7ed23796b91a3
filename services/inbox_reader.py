"""Hands what an inbox keeps to a service, one notification after the other."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from twisted.internet.defer import maybeDeferred
from twisted.python.failure import Failure

from ..agents.builtin import FAILURES
from ..agents.envelope import Opaque
from ..agents.ids import AgentId
from ..agents.notification import Notification, decode, encode, known_type
from ..agents.service_inbox import InboxHandled, InboxNote, InboxOpened

if TYPE_CHECKING:
    from .context_base import ServiceContextBase

__all__ = ["InboxReader"]


class InboxReader:
    """Calls a service with each notification of its inbox, in order, and reports that it is handled."""

    def __init__(self, ctx: "ServiceContextBase", inbox: str, callback: Callable[..., Any]) -> None:
        """`inbox` is the name of the agent, `callback` that of `ServiceContext.receive`."""
        self._ctx = ctx
        self._inbox = inbox
        self._callback = callback
        self._waiting: deque[InboxNote] = deque()
        self._busy = False
        self._opened = False
        """Until the inbox has emitted `InboxOpened`, what it emits is emitted again after that, in order."""

    def emitted(self, _: AgentId, note: msgspec.Struct) -> None:
        """Queue a notification that the inbox has emitted."""
        if isinstance(note, InboxOpened):
            self._opened = True
        elif self._opened and isinstance(note, InboxNote):
            self._waiting.append(note)
            self._next()

    def _next(self) -> None:
        while self._waiting and not self._busy:
            self._busy = True
            note = self._waiting.popleft()
            handled = maybeDeferred(cast("Any", self._call), note)
            handled.addCallback(partial(self._answered, note)).addErrback(partial(self._failed, note))
            handled.addBoth(self._done)

    def _call(self, note: InboxNote) -> Any:
        cls = known_type(note.type)
        notification = (
            Opaque(note.type, note.payload, note.request) if cls is None else decode(cls, note.payload)
        )
        return self._callback(note.sender, notification)

    def _answered(self, note: InboxNote, answer: object) -> None:
        if answer is None:
            self._ctx.send(self._inbox, InboxHandled(note.number))
            return
        if not isinstance(answer, Notification):
            raise TypeError(f"the service returned {type(answer).__name__}; return a notification or None")
        self._ctx.send(self._inbox, InboxHandled(note.number, answer.type_name, encode(answer)))

    def _failed(self, note: InboxNote, failure: Failure) -> None:
        error, message = type(cast("Any", failure).value).__name__, failure.getErrorMessage()[:1000]
        self._ctx.log(f"handling {note.type} from {note.sender} failed: {error}: {message}")
        # A report of a failure is not answered with another one.
        told = "" if note.type in FAILURES else error
        text = message.encode("utf-8", "backslashreplace").decode()
        self._ctx.send(self._inbox, InboxHandled(note.number, error=told, message=text))

    def _done(self, _: object) -> None:
        self._busy = False
        self._next()
