"""Pending requests of a connection: acknowledgements and replies matched with their waiters. No I/O."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import attrs

from ..agents.builtin import ExceptionNotification, UnknownAgent
from ..agents.envelope import Opaque
from ..agents.ids import FACTORY_ADDRESS, AgentId
from ..agents.notification import Notification, decode, has_name, known_type, read
from ..agents.rights import NOT_PERMITTED
from .errors import (
    ConnectionClosed,
    NotPermitted,
    QuorateClientError,
    ReactionError,
    UnexpectedReply,
    UnhandledTypeError,
    UnknownAgentError,
)
from .events import Acknowledged, Delivered, Ended, Event, Opened, Streamed
from .frames import ServerNote, StreamItems

__all__ = ["INBOX_LIMIT", "PendingRequests", "Received", "ReplyTypes", "Waiter", "outcome", "received"]

INBOX_LIMIT: Final = 65536
"""Notifications kept for ``receive``."""

ReplyTypes = tuple[type[Notification], ...]


@attrs.frozen
class Received:
    """A notification from an agent that answers no waiting request."""

    sender: AgentId
    notification: Notification | Opaque
    """Left undecoded (`Opaque`) if this process does not know its type."""


class Waiter(Protocol):
    """A future for one outcome. The futures of asyncio and of threads are such."""

    def set_result(self, result: Any, /) -> None:
        """Set the outcome."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Set the failure."""
        ...

    def done(self) -> bool:
        """Return whether the outcome is set, or the waiter was cancelled."""
        ...


def outcome(note: ServerNote, types: ReplyTypes = ()) -> Notification:
    """Decode a reply; `types` are the classes that the caller accepts, all known ones if there are none.

    Raises `NotPermitted`, `ReactionError`, `UnhandledTypeError`, `UnknownAgentError` for the failures that
    the platform reports, and `UnexpectedReply`.
    """
    if note.type == ExceptionNotification.type_name:
        failure = decode(ExceptionNotification, note.payload)
        if failure.error == "Unhandled":
            text = failure.message or f"agent {failure.agent} has no handler for {failure.type}"
            raise UnhandledTypeError(text, failure)
        if failure.error == NOT_PERMITTED:
            raise NotPermitted(failure.message)
        raise ReactionError(
            f"agent {failure.agent} failed on {failure.type}: {failure.error}: {failure.message}", failure
        )
    if note.type == UnknownAgent.type_name:
        unknown = decode(UnknownAgent, note.payload)
        raise UnknownAgentError(_missing(unknown.agent))
    opaque = Opaque(note.type, note.payload, note.request)
    cls = known_type(note.type)
    if types:
        cls = next((c for c in types if has_name(c, note.type)), None)
        if cls is None:
            names = ", ".join(c.type_name for c in types)
            raise UnexpectedReply(f"the reply is a {note.type}, not {names}", opaque)
    if cls is None:
        raise UnexpectedReply(
            f"the reply is a {note.type}, which is not defined in this process; import its module", opaque
        )
    try:
        return read(cls, note.type, note.payload)
    except Exception as error:  # The code of the class may raise anything, in a validator say.
        raise UnexpectedReply(
            f"the reply does not fit {note.type} as it is defined here: {error}", opaque
        ) from None


class PendingRequests:
    """Matches acknowledgements and replies with their waiters. For one thread."""

    def __init__(self, inbox_limit: int = INBOX_LIMIT):
        self.connection: str | None = None
        self.dropped = 0
        """Notifications that the inbox did not keep."""
        self.error: QuorateClientError | None = None
        """Set once the session has ended."""
        self.ended = False
        self.inbox: deque[ServerNote] = deque()
        self._inbox_limit = inbox_limit
        self._inbox_plain = 0
        """Notifications in the inbox that answer no request."""
        self._opening: list[Waiter] = []
        self._acks: deque[tuple[int, Waiter]] = deque()
        self._replies: dict[int, tuple[Waiter, ReplyTypes]] = {}
        self._receivers: deque[tuple[Waiter, int]] = deque()
        """Waiters for notifications, each with the limit of `hold`; 0: one notification that is not held."""
        self._ending: list[Waiter] = []
        self.sinks: dict[str, Callable[[ServerNote], bool]] = {}
        """By type: takes notifications that answer no request, and returns whether it has handled them."""
        self.streams: dict[AgentId, Callable[[StreamItems], None]] = {}
        """By stream: takes its items."""
        self.on_received: Callable[[ServerNote], None] = _ignore
        """Called with each notification that a receiver gets."""
        self.on_acknowledged: Callable[[int], None] = _ignore
        self.on_ended: Callable[[QuorateClientError], None] = _ignore

    @property
    def closed_in_order(self) -> bool:
        """Whether the program itself has closed the connection."""
        return self.ended and self.error is None

    def expect_open(self, waiter: Waiter) -> None:
        """Complete the waiter with the identifier of the connection when it is open."""
        if not self._refuse(waiter):
            self._opening.append(waiter)

    def expect_ack(self, seq: int, waiter: Waiter) -> None:
        """Complete the waiter with None when the cluster has notification `seq`.

        Calls come in the order of `seq`.
        """
        if not self._refuse(waiter):
            self._acks.append((seq, waiter))

    def expect_reply(self, request: int, waiter: Waiter, types: ReplyTypes) -> None:
        """Complete the waiter with the reply to a request."""
        if not self._refuse(waiter):
            self._replies[request] = (waiter, types)

    def expect_notification(self, waiter: Waiter) -> None:
        """Complete the waiter with the next notification of the inbox."""
        if self.inbox:
            note = self.inbox.popleft()
            self._inbox_plain -= not note.request
            self.on_received(note)
            waiter.set_result(received(note))
        elif not self._refuse(waiter):
            self._receivers.append((waiter, 0))

    def hold(self, waiter: Waiter, limit: int) -> None:
        """Complete the waiter with the next 1 to `limit` notifications, as a list, undecoded.

        They still take room in the inbox: call `on_received` with each once it is processed, or `put_back`.
        """
        if self.inbox:
            count = min(limit, len(self.inbox))
            held = [self.inbox.popleft() for _ in range(count)]
            self._inbox_plain -= sum(not note.request for note in held)
            waiter.set_result(held)
        elif not self._refuse(waiter):
            self._receivers.append((waiter, limit))

    def put_back(self, held: Sequence[ServerNote]) -> None:
        """Put notifications from `hold` back, in front of the inbox."""
        self.inbox.extendleft(reversed(held))
        self._inbox_plain += sum(not note.request for note in held)

    def expect_end(self, waiter: Waiter) -> None:
        """Complete the waiter with None when the session has ended, in whatever way."""
        if self.ended:
            waiter.set_result(None)
        else:
            self._ending.append(waiter)

    def cancel_reply(self, request: int) -> None:
        """Remove the waiter of a request. A reply that comes later goes to the inbox."""
        self._replies.pop(request, None)

    def cancel_receive(self, waiter: Waiter) -> None:
        """Remove a waiter for the next notification."""
        for entry in self._receivers:
            if entry[0] is waiter:
                self._receivers.remove(entry)
                return

    def handle(self, event: Event) -> None:
        """Process an event of the session."""
        match event:
            case Acknowledged(seq):
                acks = self._acks
                while acks and acks[0][0] <= seq:
                    waiter = acks.popleft()[1]
                    if not waiter.done():
                        waiter.set_result(None)
                self.on_acknowledged(seq)
            case Delivered(notes):
                for note in notes:
                    self._deliver(note)
            case Streamed(frame):
                follower = self.streams.get(frame.stream)
                if follower is not None:
                    follower(frame)
            case Opened(connection):
                self.connection = connection
                for waiter in self._opening:
                    if not waiter.done():
                        waiter.set_result(connection)
                self._opening.clear()
            case Ended(error):
                self._end(error)
            case _:
                pass

    def abandon(self, error: QuorateClientError) -> None:
        """End with `error`, and forget all waiters and the inbox without completing anything."""
        self.ended = True
        self.error = error
        self.inbox.clear()
        self._acks.clear()
        self._replies.clear()
        for waiters in (self._opening, self._receivers, self._ending):
            cast("list[Any]", waiters).clear()

    def _deliver(self, note: ServerNote) -> None:
        expected = self._replies.pop(note.request, None) if note.request else None
        if expected is not None and not expected[0].done():
            waiter, types = expected
            try:
                waiter.set_result(outcome(note, types))
            except QuorateClientError as error:
                waiter.set_exception(error)
            return
        sink = self.sinks.get(note.type)
        if sink is not None and not note.request and sink(note):
            self.on_received(note)
            return
        while self._receivers:
            waiter, limit = self._receivers.popleft()
            if waiter.done():
                continue
            if limit:
                waiter.set_result([note])
            else:
                self.on_received(note)
                waiter.set_result(received(note))
            return
        self._keep(note)

    def _keep(self, note: ServerNote) -> None:
        """Put a notification into the inbox. The server sends only as many plain ones as have room there.

        An answer that nothing waits for is dropped if the inbox is full: it is late, or a second one.
        """
        waiting = len(self.inbox) if note.request else self._inbox_plain
        if waiting >= self._inbox_limit:
            self.dropped += 1
            return
        self._inbox_plain += not note.request
        self.inbox.append(note)

    def _refuse(self, waiter: Waiter) -> bool:
        if self.ended:
            waiter.set_exception(self.reason())
        return self.ended

    def reason(self) -> QuorateClientError:
        """Return why the session has ended."""
        return self.error or ConnectionClosed("the connection is closed; open a new one with quorate.connect")

    def _end(self, error: QuorateClientError | None) -> None:
        self.ended = True
        self.error = error
        if error is None:
            # The program has closed the connection: it receives nothing more.
            self.inbox.clear()
        reason = self.reason()
        waiting = [
            *self._opening,
            *(waiter for _, waiter in self._acks),
            *(waiter for waiter, _ in self._replies.values()),
            *(waiter for waiter, _ in self._receivers),
        ]
        for queue in (self._opening, self._acks, self._replies, self._receivers):
            queue.clear()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(reason)
        for waiter in self._ending:
            if not waiter.done():
                waiter.set_result(None)
        self._ending.clear()
        self.on_ended(reason)


def _missing(agent: str) -> str:
    name, at, server = agent.rpartition("@")
    if at and name == FACTORY_ADDRESS:
        return f"there is no server {server}, or it cannot be reached; `quorate check` lists the servers"
    other = f", or no server {server}" if at else ""
    return f"there is no agent {agent}{other}; deploy it, or list the agents with `quorate agents`"


def received(note: ServerNote) -> Received:
    """Decode a notification for the inbox, as far as its type is known here."""
    cls = known_type(note.type)
    if cls is not None:
        try:
            return Received(note.sender, read(cls, note.type, note.payload))
        except Exception:  # The code of the class may raise anything, in a validator say.
            return Received(note.sender, Opaque(note.type, note.payload, note.request))
    return Received(note.sender, Opaque(note.type, note.payload, note.request))


def _ignore(_: object) -> None:
    return
