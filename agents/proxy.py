"""The proxy agent of a client: the connection context, replicated because it is an agent's state.

Source: HA Joram specification, sections 5.1.2 to 5.1.6. A service posts what the client sends, and writes
to the client what the proxy emits under the topic ``client``. Only what the service of this server posts
counts as coming from the client; everything else that reaches the proxy is a notification *for* the client.
"""

from typing import Annotated, Final

import attrs
import msgspec

from .activity import OUTCOME_TYPES
from .agent import Agent, reacts
from .builtin import FAILURES, ExceptionNotification, UnknownAgent
from .client_addresses import recipient
from .client_output import (
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_NOTES,
    MAX_WAITING_BYTES,
    MAX_WAITING_NOTES,
    DropPage,
    OutputFlow,
    OutputPage,
    PageRead,
    ReadPage,
    ServerNote,
    WaitingOutput,
    note_bytes,
    page_id,
)
from .context import Context
from .envelope import MAX_REQUEST, Opaque
from .ids import (
    AgentId,
    connection_manager,
    outside,
)
from .notification import Notification, decode, encode
from .permissions import Permissions
from .presence import (
    ClientMoved,
    ClientSuspected,
    ConnectionPresence,
    ExpireCheck,
    Moved,
    Suspect,
    Trust,
    Unwatch,
)
from .rights import NOT_PERMITTED, Grant

__all__ = [
    "CLIENT_INPUT",
    "CLIENT_TOPIC",
    "MAX_INPUT_NOTES",
    "ClientDenied",
    "ClientEnd",
    "ClientInput",
    "ClientNote",
    "ClientOutput",
    "CloseConnection",
    "ConnectionEnded",
    "IdleCheck",
    "MasterChanged",
    "ProxyAgent",
    "Reopen",
    "ReopenRefused",
    "Reopened",
    "WatchConnection",
    "decode_input",
]

CLIENT_TOPIC: Final = "client"
"""Topic of what proxies emit for their clients."""
CLIENT_INPUT: Final = "quorate.connection.input/1"
"""Type name of the input of a client: the body of an input frame, unchanged."""
MAX_INPUT_NOTES: Final = 4096
"""Most notifications in one input. They are one reaction, and what it sends is one turn of the engine."""
MAX_WATCHERS: Final = 10_000
"""Most agents that a proxy tells about the end of its connection."""
LATE_NS: Final = 1_000_000_000
"""An idle check later than this shows that there was no master: the idle time of the client restarts."""


class ClientNote(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, gc=False):
    """A notification of a client."""

    to: AgentId | str
    type: str
    payload: bytes
    request: Annotated[int, msgspec.Meta(ge=0, le=MAX_REQUEST)] = 0
    """The client's number for this request; 0 if it is none."""


class ClientInput(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=3):
    """Consecutive notifications of a client; without any, an acknowledgement and keep-alive."""

    out_ack: int
    """Number of the last notification that the client has received."""
    first_seq: int
    """Number of the first of `notes`, or of the next one if there are none; the client numbers from 1."""
    notes: list[ClientNote]
    credit_notes: Annotated[int, msgspec.Meta(ge=0, le=MAX_REQUEST)] = 0
    """How many notifications that answer no request the client takes, counted from the first one of the
    connection; 0 if it names no limit."""
    credit_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_REQUEST)] = 0
    """How many bytes of payloads these may have; the last one may exceed it."""


class ClientOutput(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Consecutive notifications for a client; without any, an acknowledgement."""

    in_ack: int
    """Number of the last notification that the server has from the client."""
    first_seq: int
    """Number of the first of `notes`; the server numbers from 1."""
    notes: list[ServerNote]


class ClientEnd(msgspec.Struct, array_like=True, frozen=True):
    """The end of a connection, or of its TCP connection, emitted by its proxy."""

    code: str
    """Code of the ``Bye`` frame: ``closed``, ``expired`` or ``unavailable``."""
    text: str


class ClientDenied(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a proxy for the log: its client has asked for something that its user may not do."""

    user: str
    text: str


@attrs.frozen
class Reopen(Notification, name="quorate.connection.reopen"):
    """Request of the service: the client has reconnected. Answered with `Reopened` or `ReopenRefused`."""

    user: str
    out_ack: int
    administrator: bool = False
    """Whether the user may create and administer agents."""
    home: int | None = None
    """The replica of the client; None where clients connect to the master only."""
    attempt: int = 0
    """Number of the handshake of the client."""
    local: bool = False
    """What groups have for the client is at one replica only."""
    grants: list[Grant] | None = None
    """The rights of the user, see `rights`; None: none are set."""


@attrs.frozen
class Reopened(Notification, name="quorate.connection.reopened"):
    """Answer to `Reopen`: what the server has, and what the client has not acknowledged."""

    in_ack: int
    first_seq: int
    notes: list[ServerNote]
    idle_timeout_s: float


@attrs.frozen
class ReopenRefused(Notification, name="quorate.connection.reopen-refused"):
    """Answer to `Reopen`: the connection belongs to another user."""

    replaced: bool = False
    """It is that of this user, but the client has connected again meanwhile."""
    home: int | None = None
    """The replica that has what groups have for the client: it must connect there."""
    taken: str = ""
    """The connection is ended, since its user has lost a right that it uses: a sentence."""


@attrs.frozen
class CloseConnection(Notification, name="quorate.connection.close"):
    """Request of the service, or of the connection manager: the connection ends for good."""


@attrs.frozen
class MasterChanged(Notification, name="quorate.connection.master-changed"):
    """Notice of the service to the connection manager, which forwards it to the proxies.

    All idle times restart.
    """


@attrs.frozen
class IdleCheck(Notification, name="quorate.connection.idle-check"):
    """Timer of a proxy, sent to itself."""


@attrs.frozen
class WatchConnection(Notification, name="quorate.connection.watch"):
    """Request of an agent to a proxy: send it `ConnectionEnded` when the connection ends.

    An agent that watches a connection twice is told once. If the proxy does not exist any more, the agent
    gets `UnknownAgent`; if too many agents watch it, an `ExceptionNotification` that says so.
    """

    presence: bool = False
    """Send `ConnectionPresence`, too: now, and whenever the client moves, is suspected or trusted."""


@attrs.frozen
class ConnectionEnded(Notification, name="quorate.connection.ended"):
    """Notice of a proxy, when it deletes itself, to the connection manager and those that watch it."""


decode_input = msgspec.msgpack.Decoder(ClientInput).decode
_encode_page = msgspec.msgpack.Encoder().encode
_decode_page = msgspec.msgpack.Decoder(list[ServerNote]).decode


@attrs.define
class ProxyAgent(Agent, name="quorate.proxy"):
    """One client connection. Lives until the client closes it or is silent for too long."""

    permissions: Permissions
    idle_timeout_s: float = 60.0
    last_in: int = 0
    """Number of the last notification accepted from the client."""
    last_out: int = 0
    """Number of the last notification for the client."""
    last_out_ack: int = 0
    """Number of the last notification that the client has."""
    output: list[ServerNote] = attrs.field(factory=list[ServerNote])
    """Notifications that were sent and the client has not acknowledged, in order. The first has the number
    after `last_out_ack`."""
    output_bytes: int = 0
    """Bytes of `output`, by `note_bytes`."""
    flow: OutputFlow = attrs.field(factory=OutputFlow)
    """What the client takes, and what waits for it."""
    last_heard_ns: int = 0
    check_due_ns: int = 0
    ended: bool = False
    watchers: dict[AgentId, None] = attrs.field(factory=dict[AgentId, None])
    """Agents that are told when the connection ends."""
    home: int | None = None
    """The replica of the client; None where clients connect to the master only."""
    attempt: int = 0
    """Number of the last handshake of the client."""
    suspected: bool = False
    suspicions: int = 0
    """How often the client was suspected."""
    presence: dict[AgentId, None] = attrs.field(factory=dict[AgentId, None])
    """Those of the watchers that are told where the client is, and whether it is suspected."""

    @reacts
    def opaque(self, ctx: Context, note: Opaque) -> None:
        """Forward what the client sends, keep and emit what is for the client."""
        if note.type == CLIENT_INPUT and ctx.sender == outside(ctx.agent.host):
            self._accept_input(ctx, decode_input(note.payload))
        elif note.type == UnknownAgent.type_name and self._page_lost(ctx, note):
            self._send_waiting(ctx)
        else:
            self._queue_output(ctx, ctx.sender, note.type, note.payload, note.request)

    @reacts
    def master_changed(self, ctx: Context, note: MasterChanged) -> None:
        """Start the idle time: sent by the manager to a new proxy, and to all when the master changed."""
        if ctx.sender != connection_manager(ctx.agent.host):
            self._stray(ctx, note)
            return
        self.last_heard_ns = ctx.now_ns
        if not self.check_due_ns:
            self._arm(ctx)

    @reacts
    def reopen(self, ctx: Context, note: Reopen) -> None:
        """Return what the client has to send and to receive again, so that it can continue."""
        if ctx.sender != outside(ctx.agent.host):
            self._stray(ctx, note)
            return
        if note.user != self.permissions.user:
            ctx.send(ctx.sender, ReopenRefused())
            return
        if taken := self.permissions.renew(note.administrator, note.grants):
            ctx.send(ctx.sender, ReopenRefused(taken=taken))
            self._end(ctx, "closed", taken)
            return
        if note.home is not None:
            if note.attempt < self.attempt:
                ctx.send(ctx.sender, ReopenRefused(replaced=True))
                return
            if note.local and self.presence and note.home != self.home:
                ctx.send(ctx.sender, ReopenRefused(home=self.home))
                return
            self._move(ctx, note.home, note.attempt)
        self.last_heard_ns = ctx.now_ns
        self._acknowledge(note.out_ack)
        self._resume_waiting(ctx)
        ctx.send(
            ctx.sender,
            Reopened(self.last_in, self.last_out_ack + 1, list(self.output), self.idle_timeout_s),
        )

    @reacts
    def close(self, ctx: Context, note: CloseConnection) -> None:
        """End the connection, as the client asks, or the manager of a client that has lost its master."""
        here = ctx.agent.host
        if ctx.sender == connection_manager(here):
            self._end(ctx, "closed", "another replica became master")
        elif ctx.sender == outside(here):
            self._end(ctx, "closed", "the client closed the connection")
        else:
            self._stray(ctx, note)

    @reacts
    def watch(self, ctx: Context, note: WatchConnection) -> None:
        """Remember an agent that is to be told when the connection ends."""
        if ctx.sender == outside(ctx.agent.host) or ctx.sender == ctx.agent:
            self._stray(ctx, note)
            return
        if len(self.watchers) >= MAX_WATCHERS and ctx.sender not in self.watchers:
            raise ValueError(f"{MAX_WATCHERS} agents watch connection {ctx.agent} already, and no more can")
        self.watchers[ctx.sender] = None
        if note.presence:
            self.presence[ctx.sender] = None
            ctx.send(ctx.sender, self._presence())

    @reacts
    def suspect(self, ctx: Context, note: Suspect) -> None:
        """Suspect the client, unless it has connected again since."""
        if ctx.sender != outside(ctx.agent.host) and ctx.sender not in self.presence:
            self._stray(ctx, note)
        else:
            self._suspect(ctx, note)

    def _suspect(self, ctx: Context, note: Suspect) -> None:
        if note.attempt == self.attempt and (note.expire_s or not self.suspected):
            self.suspicions += 1
            if note.expire_s and self.presence:
                ctx.timer(note.expire_s, ExpireCheck(self.suspicions))
            ctx.emit(CLIENT_TOPIC, ClientSuspected(self.attempt))
            if not self.suspected:
                self.suspected = True
                self._tell_presence(ctx)

    @reacts
    def unwatch(self, ctx: Context, _: Unwatch) -> None:
        """Tell an agent no more where the client is."""
        self.presence.pop(ctx.sender, None)

    @reacts
    def trust(self, ctx: Context, note: Trust) -> None:
        """Trust the client again: its home hears it."""
        if ctx.sender != outside(ctx.agent.host):
            self._stray(ctx, note)
        elif note.attempt == self.attempt and self.suspected:
            self.suspected = False
            self.last_heard_ns = ctx.now_ns
            self._tell_presence(ctx)

    @reacts
    def check_expired(self, ctx: Context, note: ExpireCheck) -> None:
        """End the connection if the client is still suspected."""
        if ctx.sender == ctx.agent and self.suspected and note.suspicion == self.suspicions:
            self._end(ctx, "expired", "the client was suspected, and did not connect again in time")

    def _move(self, ctx: Context, home: int, attempt: int) -> None:
        """Note that the client is connected to a replica, perhaps another one."""
        if home != self.home:
            ctx.send(connection_manager(ctx.agent.host), Moved(home))
        self.home, self.attempt = home, attempt
        self.suspected = False
        ctx.emit(CLIENT_TOPIC, ClientMoved(home, attempt))
        self._tell_presence(ctx)

    def _presence(self) -> ConnectionPresence:
        return ConnectionPresence(self.permissions.user, self.home, self.attempt, self.suspected)

    def _tell_presence(self, ctx: Context) -> None:
        for watcher in self.presence:
            ctx.send(watcher, self._presence())

    @reacts
    def page_read(self, ctx: Context, note: PageRead) -> None:
        """Send what a page held, as far as the client has room."""
        waiting = self.flow.waiting
        if (
            waiting is None
            or ctx.sender != page_id(ctx.agent, note.page)
            or not waiting.page_read(note.page, _decode_page(note.notes))
        ):
            self._stray(ctx, note)
            return
        ctx.send(ctx.sender, DropPage())
        self._send_waiting(ctx)

    @reacts
    def check_idle(self, ctx: Context, _: IdleCheck) -> None:
        """End the connection if the client has been silent for too long."""
        if ctx.sender != ctx.agent or ctx.now_ns < self.check_due_ns:
            return
        if ctx.now_ns - self.check_due_ns > LATE_NS:
            self.last_heard_ns = ctx.now_ns
        if ctx.now_ns - self.last_heard_ns >= self.idle_timeout_s * 1e9:
            self._end(ctx, "expired", f"nothing was heard from the client for {self.idle_timeout_s:g} s")
            return
        self._arm(ctx)

    def _arm(self, ctx: Context) -> None:
        """Set the timer of the next check. There is one timer at a time; inputs only record their time."""
        idle_ns = round(self.idle_timeout_s * 1e9)
        remaining_ns = max(self.last_heard_ns + idle_ns - ctx.now_ns, 1_000_000)
        self.check_due_ns = ctx.now_ns + remaining_ns
        ctx.timer(remaining_ns / 1e9, IdleCheck())

    def _stray(self, ctx: Context, note: Notification) -> None:
        """Forward a request that does not come from the service to the client, as any notification."""
        self._queue_output(ctx, ctx.sender, note.type_name, encode(note), ctx.request)

    def _accept_input(self, ctx: Context, frame: ClientInput) -> None:
        self.last_heard_ns = ctx.now_ns
        self._acknowledge(frame.out_ack)
        self.flow.credit.raise_to(frame.credit_notes, frame.credit_bytes)
        self._resume_waiting(ctx)
        known = self.last_in + 1 - frame.first_seq
        if known < 0:
            # A post of the service was lost; the client sends its notifications again when it reopens.
            ctx.emit(
                CLIENT_TOPIC, ClientEnd("unavailable", f"notification {self.last_in + 1} did not arrive")
            )
            return
        if not frame.notes:
            return
        for note in frame.notes[known:]:
            if self.ended:
                return
            self.last_in += 1
            self._forward(ctx, note)
        ctx.emit(CLIENT_TOPIC, ClientOutput(self.last_in, self.last_out + 1, []))

    def _forward(self, ctx: Context, note: ClientNote) -> None:
        """Forward a notification of the client.

        A wrong address is answered with a failure: an exception would undo the whole input.
        """
        try:
            to = recipient(ctx, note.to)
            refusal, lacking = self.permissions.refusal(ctx, to, note.type, note.payload)
            error = "PermissionError"
            if lacking:
                error = NOT_PERMITTED if self.permissions.grants is not None else error
                ctx.emit(CLIENT_TOPIC, ClientDenied(self.permissions.user, f"{note.type} to {to}"))
            if note.type in OUTCOME_TYPES:
                refusal = "clients may not send outcomes of activities"
            if refusal:
                refusing = to if isinstance(to, AgentId) else ctx.agent
                failure: Notification = ExceptionNotification(refusing, note.type, error, refusal)
            else:
                ctx.forward(to, note.type, note.payload, note.request, checked=self.permissions.administrator)
                return
        except ValueError:
            failure = UnknownAgent(str(note.to), note.type)
        self._queue_output(ctx, ctx.agent, failure.type_name, encode(failure), note.request)

    def _queue_output(self, ctx: Context, sender: AgentId, type: str, payload: bytes, request: int) -> None:
        if len(payload) > MAX_OUTPUT_BYTES:
            self._too_large(ctx, sender, type, len(payload), request)
            return
        note = ServerNote(sender, type, payload, request)
        waiting = self.flow.waiting
        # Answers do not wait for the client's inbox, so they overtake what does.
        if (waiting is None or (request and waiting.answers.empty)) and self._send(note):
            ctx.emit(CLIENT_TOPIC, ClientOutput(self.last_in, self.last_out, [note]))
            return
        if waiting is None:
            waiting = self.flow.waiting = WaitingOutput()
        if waiting.has_room(note):
            self._append_waiting(ctx, waiting, note)
        else:
            self._refuse_output(ctx, waiting, note)

    def _send(self, note: ServerNote) -> bool:
        """Give a notification the next number, and keep it until it is acknowledged.

        Return False, and do nothing, if the client does not take it now.
        """
        output, size = self.output, note_bytes(note)
        if output and (self.output_bytes + size > MAX_OUTPUT_BYTES or len(output) >= MAX_OUTPUT_NOTES):
            return False
        if not (note.request or self.flow.credit.spend(note)):
            return False
        output.append(note)
        self.output_bytes += size
        self.last_out += 1
        return True

    def _append_waiting(self, ctx: Context, waiting: WaitingOutput, note: ServerNote) -> None:
        page = self.flow.next_page
        notes = waiting.append(note, page)
        if notes is not None:
            self.flow.last_page = page
            state = {"proxy": ctx.agent, "page": page, "notes": _encode_page(notes)}
            ctx.create_at(page_id(ctx.agent, page), OutputPage, state)

    def _send_waiting(self, ctx: Context) -> None:
        """Send what waits, as far as the client has room."""
        waiting = self.flow.waiting
        if waiting is None:
            return
        first, sent = self.last_out + 1, list[ServerNote]()
        for queue in (waiting.answers, waiting.others):
            queue.remove(0)
            while queue.head:
                count = 0
                for note in queue.head:
                    if not self._send(note):
                        break
                    waiting.sent(note)
                    sent.append(note)
                    count += 1
                if not count:
                    break
                queue.remove(count)
            page = queue.next_page()
            if page is not None:
                ctx.send(page_id(ctx.agent, page), ReadPage())
            if not queue.empty:
                break
        if sent:
            ctx.emit(CLIENT_TOPIC, ClientOutput(self.last_in, first, sent))
        if waiting.empty:
            self.flow.waiting = None

    def _resume_waiting(self, ctx: Context) -> None:
        """Send what waits, in a turn that begins.

        A page that is still being read is asked for again: the turn before was stopped.
        """
        if self.flow.waiting is not None:
            for page in self.flow.waiting.reading():
                ctx.send(page_id(ctx.agent, page), ReadPage())
            self._send_waiting(ctx)

    def _page_lost(self, ctx: Context, note: Opaque) -> bool:
        """Skip a page that is being read, if the notification reports that it does not exist."""
        waiting = self.flow.waiting
        if waiting is None or ctx.sender != outside(ctx.agent.host):
            return False
        address = decode(UnknownAgent, note.payload).agent
        lost = [page for page in waiting.reading() if address == str(page_id(ctx.agent, page))]
        for page in lost:
            waiting.page_lost(page)
        return bool(lost)

    def _refuse_output(self, ctx: Context, waiting: WaitingOutput, note: ServerNote) -> None:
        """Report that too much waits for the client: to the sender, and to a client that waits for the
        answer."""
        reason = (
            f"{waiting.notes} notifications of {waiting.size_bytes} bytes wait for client {ctx.agent} of "
            f"user {self.permissions.user} already; a server holds at most {MAX_WAITING_NOTES} of them and "
            f"{MAX_WAITING_BYTES} bytes for a client: send again when it has received some"
        )
        failure = ExceptionNotification(ctx.agent, note.type, "Backlog", reason)
        if note.sender != ctx.agent and note.type not in FAILURES:
            ctx.send(note.sender, failure)
        # One report for each request, and not without bound.
        if note.request and note.request != waiting.refused and waiting.notes < 2 * MAX_WAITING_NOTES:
            waiting.refused = note.request
            report = ServerNote(ctx.agent, failure.type_name, encode(failure), note.request)
            self._append_waiting(ctx, waiting, report)

    def _too_large(self, ctx: Context, sender: AgentId, type: str, size: int, request: int) -> None:
        """Report a notification that is too large for a client.

        The report goes to the sender, and to the client if it waits for an answer.
        """
        reason = f"it has {size} bytes, and a client can be sent {MAX_OUTPUT_BYTES} at most: send it in parts"
        failure = ExceptionNotification(ctx.agent, type, "ValueError", reason)
        if sender != ctx.agent:
            ctx.send(sender, failure)
        if request:
            self._queue_output(ctx, ctx.agent, failure.type_name, encode(failure), request)

    def _acknowledge(self, out_ack: int) -> None:
        known = min(out_ack, self.last_out) - self.last_out_ack
        if known > 0:
            self.output_bytes -= sum([note_bytes(note) for note in self.output[:known]])
            del self.output[:known]
            self.last_out_ack += known

    def _end(self, ctx: Context, code: str, text: str) -> None:
        self.ended = True
        ctx.emit(CLIENT_TOPIC, ClientEnd(code, text))
        for watcher in (connection_manager(ctx.agent.host), *self.watchers):
            ctx.send(watcher, ConnectionEnded())
        for page in self.flow.waiting.pages() if self.flow.waiting is not None else ():
            ctx.send(page_id(ctx.agent, page), DropPage())
        ctx.delete()
