"""What the sessions of all faces have in common: acknowledge modes, arguments of messages, transactions."""

import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import attrs

from ...agents import ColumnValue, Notification
from ...client.connection_base import ConnectionBase
from ...client.pending import ReplyTypes, Waiter
from ..agents.branches import Prepare, Prepared, XidParts
from ..agents.manager import MANAGER, DeleteTemporary, MakeTemporary, TemporaryMade
from ..agents.protocol import (
    MAX_PRIORITY,
    PROPERTY_PREFIX,
    Browse,
    Browsed,
    Commit,
    Committed,
    Refused,
    Rollback,
    RolledBack,
    Settlement,
    Unsubscribe,
    Unsubscribed,
)
from ..agents.settings import Kind
from .answers import AnswerCore, SendFailure
from .bodies import Body, encode_body
from .consumer import ConsumerCore, ConsumerOptions
from .destinations import Destination, Queue, Topic, named
from .errors import MessagingError, NoSuchDestination, SessionClosed, TransactionRolledBack, refusal
from .hub import hub_of
from .message import Message
from .producer import Outgoing, ProducerCore
from .replies import Reply
from .tracing import tracer

__all__ = ["Ack", "Browser", "MessageOptions", "SessionBase", "check_text"]

LAZY_MESSAGES: Final = 64
LAZY_S: Final = 0.5
"""With Ack.DUPS_OK messages are acknowledged by so many, or after so long."""
_MAX_SPAN_S: Final = 10 * 365 * 24 * 3600.0


class Ack(Enum):
    """When a message that was received counts as done with."""

    AUTO = "auto"
    """When ``receive`` has returned it; in an iteration or a listener, when its turn has ended well."""
    CLIENT = "client"
    """When the program calls ``ack`` of it or of a later message of the session."""
    DUPS_OK = "dups-ok"
    """Like AUTO, a little later: after a failure some messages may come again."""
    INDIVIDUAL = "individual"
    """When the program calls ``ack`` of it."""


@attrs.frozen(kw_only=True)
class MessageOptions:
    """What a message may have beside its body."""

    priority: int | None = None
    """0 to 9; 9 is delivered first. 4 unless given."""
    ttl_s: float | None = None
    """Seconds from its arrival after which it expires."""
    delay_s: float | None = None
    """Seconds from its arrival before which it is not delivered."""
    properties: Mapping[str, ColumnValue] = attrs.field(factory=dict[str, ColumnValue])
    """Numbers, texts and bools by name, for selectors and for the receiver."""
    correlation_id: str | None = None
    reply_to: Destination | str | None = None
    type: str | None = None
    group: str | None = None
    """Messages of one group go to one consumer, one after the other."""
    key: str | None = None
    """In a last-value queue a message replaces the waiting one with the same key."""
    duplicate_id: str | None = None
    """The destination drops a second message with this id."""
    persistent: bool = True
    """False: ``send`` does not wait until the destination has the message."""

    def columns(self) -> dict[str, ColumnValue]:
        """Return the columns of a message. Raises TypeError or ValueError, naming the argument."""
        columns: dict[str, ColumnValue] = {}
        if self.priority is not None:
            if type(self.priority) is not int or not 0 <= self.priority <= MAX_PRIORITY:
                raise ValueError(f"priority is {self.priority!r}; give 0 to {MAX_PRIORITY}")
            columns["priority"] = self.priority
        for name, span_s in (("ttl", self.ttl_s), ("delay", self.delay_s)):
            if span_s is not None:
                if isinstance(span_s, bool) or not 0 <= span_s <= _MAX_SPAN_S:
                    raise ValueError(f"{name}_s is {span_s!r}; give seconds, 0 to {_MAX_SPAN_S:g}")
                # A span that is less than a millisecond is one all the same.
                columns[name] = max(1, round(span_s * 1000)) if span_s else None
        texts = {
            "correlation": ("correlation_id", self.correlation_id),
            "type": ("type", self.type),
            "group": ("group", self.group),
            "key": ("key", self.key),
            "duplicate": ("duplicate_id", self.duplicate_id),
        }
        for column, (argument, value) in texts.items():
            if value is not None:
                if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise TypeError(f"{argument} is {value!r}; give text")
                columns[column] = value
        if self.reply_to is not None:
            columns["reply"] = named(self.reply_to).address
        if not self.persistent:
            columns["mode"] = "NON_PERSISTENT"
        for name, each in self.properties.items():
            columns[PROPERTY_PREFIX + name] = _property(name, each)
        return columns


def _property(name: object, value: object) -> ColumnValue:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{name!r} is not the name of a property; write it like a name in Python")
    if value is not None and not isinstance(value, int | float | str | bool):
        kind = type(value).__name__
        raise TypeError(f"the property {name} is a {kind}; give a number, text or a bool")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"the property {name} is {value}, which has more than 64 bits")
    return value


class SessionBase:
    """One session: its acknowledge mode, and the messages that it has received and not settled.

    The methods of this class that may be called from any thread say so; the others run in the connection's
    loop.
    """

    def __init__(
        self, connection: ConnectionBase, ack: Ack = Ack.AUTO, transacted: bool = False, client_id: str = ""
    ) -> None:
        if not isinstance(connection, ConnectionBase):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{connection!r} is no connection; open one with quorate.connect")
        if not isinstance(ack, Ack):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"ack is {ack!r}; give one of quorate.messaging.Ack")
        if transacted and ack is not Ack.AUTO:
            raise ValueError("a transacted session acknowledges when it commits; leave out ack")
        self._hub = hub_of(connection)
        self._ack = ack
        self._transacted = transacted
        self._client_id = client_id
        self._closed = False
        self._guard = threading.Lock()
        self._received: list[tuple[ConsumerCore, Message]] = []
        """What the program has received and not settled, where it settles them together."""
        self._lazy_timer = False
        self._producers: dict[str, ProducerCore] = {}
        self._consumers: list[ConsumerCore] = []
        self._answers: AnswerCore | None = None
        """The consumer of the answers to requests, once there was one."""
        self._transaction = next(self._hub.transactions) if transacted else 0

    # From any thread

    @property
    def transacted(self) -> bool:
        """Whether the session has transactions."""
        return self._transacted

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed("the session is closed; open another one on the connection")

    def _check_transacted(self) -> None:
        self._check_open()
        if not self._transacted:
            raise MessagingError("the session has no transactions; open it with transacted=True")

    def _outgoing(
        self, destination: Destination, body: Body, options: MessageOptions, waiter: Waiter | None
    ) -> Outgoing:
        """Return a message to be sent. Raises TypeError or ValueError."""
        encoding, data = encode_body(body)
        columns = options.columns()
        if encoding is not None:
            columns["encoding"] = encoding
        outgoing = Outgoing(data, columns, waiter, self._transaction)
        following = tracer()
        if following is not None:
            following.sending(outgoing, destination)
        return outgoing

    @staticmethod
    def _not_sent(outgoing: Outgoing, error: BaseException) -> None:
        """Say that a message was not sent, or that nobody waits any more for its confirmation."""
        following = tracer()
        if following is not None:
            following.not_sent(outgoing, error)

    def _hand_over(self, core: ConsumerCore, message: Message) -> None:
        """Give a message to the program, from ``receive``."""
        following = tracer()
        if following is not None:
            following.received(message)
        self._note_received(core, message)

    def _note_received(self, core: ConsumerCore, message: Message) -> None:
        """Apply the acknowledge mode to a message that the program gets now."""
        if self._transacted or self._ack is Ack.CLIENT:
            core.saw(message.number)
            with self._guard:
                self._received.append((core, message))
        elif self._ack is Ack.AUTO:
            message.settled = True
            core.settle(message.number, Settlement.ACCEPTED)
        elif self._ack is Ack.DUPS_OK:
            self._accept_lazily(core, message)
        else:
            core.saw(message.number)

    def _begin_turn(self, core: ConsumerCore, message: Message) -> None:
        """Give a message to an iteration or a listener, which says later how its turn has ended."""
        if self._ack is Ack.AUTO and not self._transacted:
            core.saw(message.number)
        else:
            self._note_received(core, message)
        following = tracer()
        if following is not None:
            core.turn = following.begun(message)

    def _end_turn(self, core: ConsumerCore, message: Message, error: Exception | None = None) -> None:
        """Settle the message of an iteration or a listener, where the session does that by itself.

        error: what the listener has raised.
        """
        self._forget_turn(core, error)
        well = error is None
        if self._ack is Ack.AUTO and not self._transacted and core.error is None:
            message.settled = True
            core.settle(message.number, Settlement.ACCEPTED if well else Settlement.RETURNED)

    @staticmethod
    def _forget_turn(core: ConsumerCore, error: BaseException | None = None) -> None:
        """Tell the tracer that a message is not handled any more."""
        turn, core.turn = core.turn, None
        if turn is not None:
            turn.end(error)

    def _accept_lazily(self, core: ConsumerCore, message: Message) -> None:
        message.settled = True
        core.saw(message.number)
        with self._guard:
            self._received.append((core, message))
            many = len(self._received) >= LAZY_MESSAGES
            arm, self._lazy_timer = not (many or self._lazy_timer), True
        if many:
            self._accept_all()
        elif arm:
            self._hub.run(self._arm_lazy)

    def _arm_lazy(self) -> None:
        self._hub.extension.later(LAZY_S, self._lazily)

    def _lazily(self) -> None:
        with self._guard:
            self._lazy_timer = False
        self._accept_all()

    def _accept_all(self, transaction: int = 0) -> None:
        """Accept all that was received and not settled."""
        with self._guard:
            received, self._received = self._received, []
        for core, message in received:
            if core.error is None:
                message.settled = True
                core.settle(message.number, Settlement.ACCEPTED, transaction)

    def _settle(self, core: ConsumerCore, message: Message, settlement: Settlement, delay_ms: int) -> None:
        """Settle a message as the program asks. Raises MessagingError if the mode does not allow it."""
        self._check_open()
        if self._ack is not Ack.INDIVIDUAL and settlement is not Settlement.ACCEPTED:
            raise MessagingError("single messages are rejected in sessions with Ack.INDIVIDUAL only")
        if self._transacted or self._ack in (Ack.AUTO, Ack.DUPS_OK):
            return
        if message.settled:
            raise MessagingError(f"{message!r} is acknowledged or rejected already, or was recovered")
        if self._ack is Ack.CLIENT:
            self._accept_all()
            return
        message.settled = True
        core.settle(message.number, settlement, 0, delay_ms)

    # In the loop

    def _recover(self, done: Waiter) -> None:
        with self._guard:
            received, self._received = self._received, []
        for _, message in received:
            message.settled = True
        for core in self._consumers:
            if core.error is None:
                core.recover()
        done.set_result(None)

    def _unsubscribe(self, topic: Topic, name: str, done: Waiter, client_id: str | None = None) -> None:
        client_id = self._client_id if client_id is None else client_id
        candidates = [address for address, _ in topic.candidates]

        def answered(answer: Notification) -> None:
            if done.done():
                return
            if isinstance(answer, Refused):
                done.set_exception(refusal(answer))
            else:
                done.set_result(None)

        def failed(error: Exception) -> None:
            if isinstance(error, NoSuchDestination) and candidates:
                ask()
            elif not done.done():
                done.set_exception(error)

        def ask() -> None:
            reply = Reply(answered, failed, topic)
            request = Unsubscribe(name, client_id)
            self._hub.extension.request(candidates.pop(0), request, reply, (Unsubscribed, Refused))

        ask()

    def _browse(self, queue: Destination, after: int, done: Waiter) -> None:
        def answered(answer: Notification) -> None:
            if isinstance(answer, Refused):
                done.set_exception(refusal(answer))
            else:
                assert isinstance(answer, Browsed)
                done.set_result(answer.pack)

        reply = Reply(answered, done.set_exception, queue)
        self._hub.extension.request(queue.address, Browse(after), reply, (Browsed, Refused))

    # The manager of messaging

    def _ask_manager(
        self,
        request: Notification,
        types: ReplyTypes,
        done: Waiter,
        answered: Callable[[Any], Any],
        server: str = "",
    ) -> None:
        """Ask the manager of a server, "" for that of the connection; complete the waiter with its answer."""

        def reply(answer: Notification) -> None:
            if done.done():
                return
            if isinstance(answer, Refused):
                done.set_exception(refusal(answer))
            elif isinstance(answer, RolledBack):
                done.set_exception(TransactionRolledBack(answer.text))
            else:
                done.set_result(answered(answer))

        def failed(error: Exception) -> None:
            if isinstance(error, NoSuchDestination):
                where = f"server {server}" if server else "the server"
                error = NoSuchDestination(f"{where} keeps no queues and topics: declare one in a3servers.xml")
            if not done.done():
                done.set_exception(error)

        address = f"{MANAGER}@{server}" if server else MANAGER
        wait = Reply(reply, failed, Queue(MANAGER))
        self._hub.extension.request(address, request, wait, (*types, Refused))

    def _make_temporary(self, kind: type[Queue] | type[Topic], server: str, done: Waiter) -> None:
        def made(answer: Any) -> Destination:
            return kind(f"{answer.title}@{server}" if server else answer.title)

        request = MakeTemporary((Kind.QUEUE if kind is Queue else Kind.TOPIC).value)
        self._ask_manager(request, (TemporaryMade,), done, made, server)

    def _delete_temporary(self, destination: Destination) -> None:
        title, _, server = destination.title.partition("@")
        manager = f"{MANAGER}@{server}" if server else MANAGER
        self._hub.extension.post(manager, DeleteTemporary(f"{destination.kind.value}:{title}"))

    def _open_answers(self, queue: Destination, done: Waiter) -> None:
        """Open the consumer of the answers to requests, once for the session."""
        settler = Browser(queue)
        self._answers = AnswerCore(self._hub, queue, settler)
        self._answers.open(ConsumerOptions(), done)

    def _request_options(self, options: Mapping[str, Any]) -> MessageOptions:
        """Return the options of a request, which has a new correlation. Raises TypeError."""
        assert self._answers is not None
        if "correlation_id" in options or "reply_to" in options:
            raise TypeError("a request has a correlation_id and a reply_to of its own; leave them out")
        correlation = self._answers.correlation()
        return MessageOptions(reply_to=self._answers.destination, correlation_id=correlation, **options)

    def _ask_by_message(
        self, producer: ProducerCore, body: Body, options: MessageOptions, done: Waiter
    ) -> None:
        """Send a request; its answer completes the waiter."""
        assert self._answers is not None
        assert options.correlation_id is not None
        outgoing = self._outgoing(producer.destination, body, options, SendFailure(done))
        self._answers.expect(options.correlation_id, done)
        producer.send(outgoing)

    def _forget_request(self, options: MessageOptions) -> None:
        if self._answers is not None:
            self._answers.forget(options.correlation_id or "")

    @staticmethod
    def _reply_options(message: Message, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of an answer to a message. Raises ValueError if it wants none."""
        if message.reply_to is None:
            raise ValueError(f"{message!r} wants no answer: it has no reply_to")
        return {"correlation_id": message.correlation_id or message.id, **options}

    # Transactions

    def _participants(self, number: int) -> list[tuple[str, int]]:
        """Return the destinations of a transaction, and how many notifications were sent to each for it."""
        parts: dict[str, int] = {}
        for endpoint in self._endpoints():
            sent = endpoint.sent_parts.pop(number, 0)
            if sent:
                parts[endpoint.address] = parts.get(endpoint.address, 0) + sent
        return sorted(parts.items())

    def _commit(self, done: Waiter) -> None:
        """Commit: everything was queued before. Completes the waiter with None or the failure."""
        self._when_sent(done, self._send_commit)

    def _when_sent(self, done: Waiter, end: Callable[[int, list[tuple[str, int]], Waiter], None]) -> None:
        """Begin the end of the transaction, once all of it was sent: `end` gets its number and participants.

        If it cannot be committed, the waiter fails.
        """
        self._accept_all(self._transaction)
        self._hub.flush()
        waiting = [each for each in self._producers.values() if each.error is None and not each.all_sent]
        if waiting:
            waiting[0].when_sent(lambda: self._when_sent(done, end))
            return
        number = self._transaction
        parts = self._participants(number)
        self._transaction = next(self._hub.transactions)
        ended = next((each.error for each in self._producers.values() if each.error is not None), None)
        if ended is not None and not self._closed:
            self._end_transaction(number, parts)
            done.set_exception(TransactionRolledBack(f"the transaction was rolled back: {ended}"))
            return
        end(number, parts, done)

    def _send_commit(self, number: int, parts: list[tuple[str, int]], done: Waiter) -> None:
        if not parts:
            done.set_result(None)
            return

        def answered(answer: Notification) -> None:
            if done.done():
                return
            if isinstance(answer, RolledBack):
                done.set_exception(TransactionRolledBack(answer.text))
            else:
                done.set_result(None)

        def failed(error: Exception) -> None:
            if not done.done():
                done.set_exception(error)

        first = parts[0][0]
        reply = Reply(answered, failed, self._destination(first))
        commit = Commit(number, [address for address, _ in parts], [count for _, count in parts])
        self._hub.extension.request(first, commit, reply, (Committed, RolledBack))

    def _send_prepare(self, xid: XidParts, number: int, parts: list[tuple[str, int]], done: Waiter) -> None:
        """Prepare the transaction. Completes the waiter with whether there is something to commit."""
        request = Prepare(xid, number, [address for address, _ in parts], [count for _, count in parts])
        self._ask_manager(request, (Prepared, RolledBack), done, lambda answer: not answer.read_only)

    def _destination(self, address: str) -> Destination:
        return next(each.destination for each in self._endpoints() if each.address == address)

    def _rollback(self, done: Waiter) -> None:
        """Give everything of the transaction up."""
        number = self._transaction
        for producer in self._producers.values():
            producer.discard(number)
        self._hub.flush()
        parts = self._participants(number)
        self._transaction = next(self._hub.transactions)
        self._end_transaction(number, parts)
        self._recover(done)

    def _end_transaction(self, number: int, parts: list[tuple[str, int]]) -> None:
        for address, _ in parts:
            self._hub.extension.post(address, Rollback(number))

    # The end

    def _endpoints(self) -> list[ConsumerCore | ProducerCore]:
        """Return the consumers and producers of the session."""
        answers = [] if self._answers is None else [self._answers]
        return [*self._consumers, *answers, *self._producers.values()]


class Browser:
    """The settler of copies: they cannot be settled."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination

    def settle(self, message: Message, settlement: Settlement, delay_ms: int = 0) -> None:
        """Raise MessagingError."""
        del settlement, delay_ms
        raise MessagingError(f"{message!r} is a copy, from browsing; consume the queue to settle messages")


def check_text(name: str, value: Any) -> str:
    """Return an argument that is text. Raises TypeError, naming it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give text")
    return value
