"""The built-in agent through which a service receives notifications: it keeps each until it is handled."""

from typing import Final

import attrs
import msgspec

from .agent import Agent, reacts
from .builtin import ExceptionNotification
from .context import Context
from .envelope import Opaque, ReplyTo
from .ids import AgentId, outside
from .notification import Notification

__all__ = [
    "MAX_INBOX_BYTES",
    "MAX_INBOX_NOTES",
    "InboxHandled",
    "InboxNote",
    "InboxOpen",
    "InboxOpened",
    "ServiceInbox",
]

MAX_INBOX_NOTES: Final = 10_000
"""Notifications that one inbox keeps; further ones are refused to their senders."""
MAX_INBOX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the payloads of these notifications."""


class InboxNote(msgspec.Struct, array_like=True, frozen=True):
    """A notification for a service, as the inbox keeps and emits it."""

    number: int
    """Counts the notifications of the inbox from 1."""
    sender: AgentId
    type: str
    payload: bytes
    request: int


class InboxOpened(msgspec.Struct, array_like=True, frozen=True):
    """Emitted for `InboxOpen`: what is not handled follows, then what comes later."""


@attrs.frozen
class InboxOpen(Notification, name="quorate.inbox.open"):
    """Notice of a service that has started: emit what is not handled, in order."""


@attrs.frozen
class InboxHandled(Notification, name="quorate.inbox.handled"):
    """Report of a service: a notification is handled, with an answer, an error, or neither."""

    number: int
    answer_type: str = ""
    answer: bytes = b""
    error: str = ""
    """The class of the exception that the service raised; "" if it raised none."""
    message: str = ""


@attrs.define
class ServiceInbox(Agent, name="quorate.service-inbox"):
    """Keeps what agents and clients send to a service until the service has handled it."""

    topic: str
    last_number: int = 0
    size_bytes: int = 0
    kept: dict[int, InboxNote] = attrs.field(factory=dict[int, InboxNote])

    @reacts
    def receive(self, ctx: Context, note: Opaque) -> None:
        """Keep a notification, and give it to the service. Raises OverflowError if too many are kept."""
        if len(self.kept) >= MAX_INBOX_NOTES or self.size_bytes + len(note.payload) > MAX_INBOX_BYTES:
            raise OverflowError(
                f"{len(self.kept)} notifications of {self.size_bytes} bytes wait for the service: send again "
                "when it has handled some"
            )
        self.last_number += 1
        kept = InboxNote(self.last_number, ctx.sender, note.type, note.payload, note.request)
        self.kept[kept.number] = kept
        self.size_bytes += len(note.payload)
        ctx.emit(self.topic, kept)

    @reacts
    def open(self, ctx: Context, _: InboxOpen) -> None:
        """Give everything that is kept to a service that has started."""
        _check_service(ctx)
        ctx.emit(self.topic, InboxOpened())
        for each in self.kept.values():
            ctx.emit(self.topic, each)

    @reacts
    def handled(self, ctx: Context, note: InboxHandled) -> None:
        """Drop a notification, and answer its sender. One that was dropped before is ignored."""
        _check_service(ctx)
        each = self.kept.pop(note.number, None)
        if each is None:
            return
        self.size_bytes -= len(each.payload)
        back = ReplyTo(each.sender, each.request)
        if note.error:
            ctx.send(back, ExceptionNotification(ctx.agent, each.type, note.error, note.message))
        elif note.answer_type:
            ctx.forward(each.sender, note.answer_type, note.answer, each.request)


def _check_service(ctx: Context) -> None:
    if ctx.sender != outside(ctx.agent.host):
        raise PermissionError("only the services of the server handle what an inbox keeps")
