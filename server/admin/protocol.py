"""The serving side of administration: the handler of one connection, and its view of the replica."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.logger import Logger
from twisted.python.failure import Failure as TwistedFailure

from ...agents.envelope import Note
from ...agents.ids import AgentId, outside
from ...agents.lifecycle import AgentPage, AgentRow, ListAgents
from ...engine import AgentState, DeadLetter, Timer
from ...hachannel import ChangeRefused, NotYet
from ..config import MAX_ID
from ..network.hello import Address
from . import wire
from .audit import Act, act_of
from .failures import failure_sentence, missing_agent

MAX_PENDING = 64
"""Most calls of one connection that may wait for their answers."""
MAX_TIMEOUT_S = 300.0
"""The longest wait for a reply that an administrator may ask for."""
MAX_SENTENCE_CHARS = 2000

MASTER = "master"
_SHOWING = wire.Agents | wire.Timers | wire.DeadLetters | wire.Inspect
_AGENTS = _SHOWING | wire.Stored | wire.Post | wire.Request | wire.BeginBackup

_log = Logger()


class NotMaster(Exception):
    """This replica does not serve as master, which the call needs.

    `master` is the (host, port) of the replica that does, None if that is not known.

    diagnosis: what keeps it from being master or slave, or from serving, in one sentence, "" if nothing does.
    `leads`: this replica is the master, but does not serve.
    """

    def __init__(self, master: Address | None, diagnosis: str = "", *, leads: bool = False) -> None:
        state = "is the master, and does not serve now" if leads else "is not the master"
        super().__init__(f"This replica {state}{f' ({diagnosis})' if diagnosis else ''}.")
        self.master = master


class AdminTarget(Protocol):
    """The operations of a replica for administration. Called in the reactor thread."""

    @property
    def server_id(self) -> int:
        """Identifier of the agent server."""
        ...

    @property
    def role(self) -> str:
        """The role of the replica, as in `status`."""
        ...

    def status(self) -> "Deferred[Mapping[str, Any]]":
        """The state of the replica, in values that MessagePack has.

        Keys: server (name), server_id, replica, role ("joining", "slave", "master", ...), view (number),
        members (replica ids), master (replica id or None), commit, applied, last (indexes), lag
        (entries behind what it knows to be committed), connections, notifications (number of reactions),
        garbage, incarnation, pid, host, port, agents, uptime_s, counters (map), gauges (map). Other keys
        are shown by `quorate status --json`, too.
        """
        ...

    def master_address(self) -> Address | None:
        """The (host, port) of the network listener of the master of this server, None when there is none."""
        ...

    def diagnosis(self) -> str:
        """Return why this replica is neither master nor slave, in one sentence; "" if it is one.

        For a master that cannot serve: which replicas it lacks.
        """
        ...

    def lacks_all(self) -> str:
        """Return why this replica never holds agents, and which replicas do; "" if it may hold some."""
        ...

    def agentless(self) -> str:
        """Return why this server never has agents, in one sentence; "" if it may have some."""
        ...

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out a command of a mesh. Raises ChangeRefused."""
        ...

    def page(self, ask: ListAgents) -> AgentPage:
        """Return a page of the agents, at the cost of that page. Raises ValueError for a wrong `after`."""
        ...

    def timers(
        self, address: AgentId | str | None, after: tuple[int, int] | None, limit: int
    ) -> list[Timer] | None:
        """Return timers in the order in which they are due, those of an agent or all.

        The result is None if there is no such agent.
        """
        ...

    def letters(self, after: int, limit: int) -> list[DeadLetter]:
        """Return kept dead letters with numbers above `after`, oldest first."""
        ...

    def inspect(self, address: AgentId | str) -> tuple[AgentRow, bytes] | None:
        """Return an agent with its state, a MessagePack map; None if there is no such agent."""
        ...

    def stored(self, identity: AgentId) -> AgentState:
        """Return an agent in the form in which it is stored."""
        ...

    def post(self, note: Note) -> "Deferred[Note | None]":
        """Put a notification into the next batch; the Deferred fires once it is committed.

        The result is the failure if the recipient on this server has failed or there is no recipient.
        Raises (or fails with) NotMaster.
        """
        ...

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for its reply.

        Raises (or fails with) NotMaster when nothing was done, TimeoutError when no reply came, any other
        exception when this replica ceased to be master meanwhile.
        """
        ...

    def figures(self) -> list[wire.FigureRow]:
        """Return the figures of the queues and topics that this replica has, the first ones by name."""
        ...

    def begin_backup(self, birth: int, have: int) -> wire.BackupBegun:
        """Begin to copy the state: see `wire.BeginBackup`. Raises ChangeRefused."""
        ...

    def continue_backup(self, token: int) -> "Deferred[wire.BackupPart]":
        """Return the next part of the copy. Raises, or fails with, ChangeRefused."""
        ...

    def admit(self, replica: int, data: bytes, *, witness: bool) -> bool:
        """Add a replica to the cluster: see `Channel.admit`. Raises NotMaster, ChangeRefused."""
        ...

    def remove(self, replica: int) -> bool:
        """Remove a replica from the cluster: see `Channel.remove`. Raises NotMaster, ChangeRefused."""
        ...

    def stop(self, *, together: bool, again: bool) -> "Deferred[None] | None":
        """Stop the replica in order, `together` with all others of its server, and then its process.

        again: the process executes its command anew, with the same id.
        """
        ...


class AdminProtocol:
    """One administration connection after the hello. The owner of the transport calls `frame_received`.

    `send` writes the body of a frame; the owner adds the header.
    """

    def __init__(
        self,
        target: AdminTarget,
        send: Callable[[bytes], None],
        audit: Callable[[Act, str], None] = lambda _act, _outcome: None,
    ) -> None:
        """audit: is told of each act that may change something, and its outcome."""
        self._target = target
        self._send = send
        self._audit = audit
        self._pending = 0
        self._lost = False

    def frame_received(self, frame: bytes) -> None:
        """Serve one call. Raises ProtocolError for a frame that is no call: then close the connection."""
        call = wire.decode_call(frame)
        if self._pending >= MAX_PENDING:
            self._fail(call.id, "refused", f"More than {MAX_PENDING} calls are under way on this connection.")
            return
        self._pending += 1
        done: Deferred[object] = maybeDeferred(self._serve, call.body)
        act = act_of(call.body)
        if act is not None:
            done.addCallbacks(self._acted, self._not_acted, callbackArgs=(act,), errbackArgs=(act,))
        done.addCallbacks(self._answer, self._failed, callbackArgs=(call,), errbackArgs=(call.id,))
        done.addErrback(self._broken, call.id)
        if isinstance(call.body, wire.Stop):
            # After the answer, so that the command receives it before the connection is closed.
            stop = cast("Callable[..., Any]", self._target.stop)
            stopping: Deferred[Any] = maybeDeferred(stop, together=call.body.together, again=call.body.again)
            stopping.addErrback(_stop_failed)

    def _acted(self, result: object, act: Act) -> object:
        failed = failure_sentence(result.type, result.payload) if isinstance(result, wire.Reply) else ""
        self._audit(act, failed or "done")
        return result

    def _not_acted(self, failure: TwistedFailure, act: Act) -> TwistedFailure:
        self._audit(act, str(_error(failure)) or type(_error(failure)).__name__)
        return failure

    @property
    def busy(self) -> bool:
        """Whether calls wait for their answers."""
        return self._pending > 0

    def connection_lost(self) -> None:
        """Forget the connection: answers to calls under way are dropped."""
        self._lost = True

    def _serve(self, body: wire.Body) -> "Deferred[Any] | object":
        if isinstance(body, _AGENTS) and (sentence := self._target.agentless()):
            raise _Refusal(sentence)
        match body:
            case wire.Status():
                return self._target.status().addCallback(dict)
            case wire.Agents():
                self._require_agents(body.anywhere)
                return self._agents(body)
            case wire.Timers():
                self._require_agents(anywhere=False)
                return self._timers(body)
            case wire.DeadLetters():
                self._require_agents(anywhere=False)
                return self._letters(body)
            case wire.Inspect():
                self._require_agents(body.anywhere)
                return self._inspect(body.agent)
            case wire.Stored():
                self._require_agents(anywhere=False)
                return self._stored(body.after)
            case wire.Post():
                return self._post(body)
            case wire.Request():
                if not 0 < body.timeout_s <= MAX_TIMEOUT_S:
                    raise _Refusal(f"The timeout of a request is at most {MAX_TIMEOUT_S:g} s.")
                replied = self._target.request(self._note(body), body.timeout_s)
                return replied.addCallback(lambda note: wire.Reply(note.sender, note.type, note.payload))
            case wire.Admit():
                if not 0 <= body.replica <= MAX_ID:
                    raise _Refusal(f"The id of a replica is from 0 to {MAX_ID}.")
                return self._target.admit(body.replica, body.address, witness=body.witness)
            case wire.Remove():
                return self._target.remove(body.replica)
            case wire.Figures():
                return self._target.figures()
            case wire.BeginBackup():
                return self._target.begin_backup(body.birth, body.have)
            case wire.ContinueBackup():
                return self._target.continue_backup(body.token)
            case wire.Command():
                return cast("object", self._target.command(body.name, body.arguments))
            case wire.Stop():
                return None

    def _post(self, body: wire.Post) -> "Deferred[Any]":
        def settled(failure: Note | None) -> None:
            if failure is None:
                return
            # An agent may hand on what it got: then it is another agent that is missing.
            if missing_agent(failure.type, failure.payload) in (str(body.to), str(body.to).partition("@")[0]):
                raise _Unknown(f"There is no agent {body.to} on this server.")
            raise _Refusal(failure_sentence(failure.type, failure.payload) or f"It failed: {failure.type}.")

        return self._target.post(self._note(body)).addCallback(settled)

    def _note(self, body: "wire.Post | wire.Request") -> Note:
        return Note(body.to, outside(self._target.server_id), body.type, body.payload)

    def _require_agents(self, anywhere: bool) -> None:
        if anywhere and (sentence := self._target.lacks_all()):
            raise _Refusal(sentence)
        if not anywhere and self._target.role != MASTER:
            raise NotMaster(self._target.master_address(), self._target.diagnosis())

    def _agents(self, body: wire.Agents) -> wire.AgentPage:
        ask = ListAgents(body.class_name, body.name, body.after, _within_page(body.limit), body.platform)
        try:
            page = self._target.page(ask)
        except ValueError as error:
            raise _Refusal(f"The agents cannot be listed: {error}.") from None
        return wire.AgentPage(page.agents, page.next)

    def _timers(self, body: wire.Timers) -> list[wire.TimerRow]:
        timers = self._target.timers(body.agent, body.after, _within_page(body.limit))
        if timers is None:
            raise _Unknown(f"There is no agent {body.agent} on this server.")
        return [
            wire.TimerRow(each.timer, each.agent, each.due_ns, each.type, len(each.payload))
            for each in timers
        ]

    def _letters(self, body: wire.DeadLetters) -> list[wire.DeadLetterRow]:
        return [
            wire.DeadLetterRow(
                each.number,
                each.now_ns,
                each.reason,
                each.note.sender,
                each.note.to,
                each.note.type,
                each.size_bytes,
                each.whole,
            )
            for each in self._target.letters(body.after, _within_page(body.limit))
        ]

    def _inspect(self, address: AgentId | str) -> wire.AgentState:
        found = self._target.inspect(address)
        if found is None:
            raise _Unknown(f"There is no agent {address} on this server.")
        row, state = found
        if len(state) > wire.MAX_STATE_BYTES:
            raise _Refusal(
                f"The state of agent {address} is too large to be shown: it has {len(state)} bytes, and at "
                f"most {wire.MAX_STATE_BYTES} can be sent."
            )
        return wire.AgentState(row, state)

    def _stored(self, after: AgentId | None) -> list[AgentState]:
        page: list[AgentState] = []
        size = 0
        ask = ListAgents(after="" if after is None else str(after), limit=wire.MAX_PAGE, platform=True)
        for identity in (row.id for row in self._target.page(ask).agents):
            state = self._target.stored(identity)
            if len(state.state) > wire.MAX_STATE_BYTES:
                raise _Refusal(
                    f"The state of agent {identity} is too large to be sent: it has {len(state.state)} "
                    "bytes; stop a replica in order, and check its directory."
                )
            size += len(state.state) + sum(len(ran.note.payload) for ran in state.since)
            if page and size > wire.MAX_PAGE_BYTES:
                break
            page.append(state)
        return page

    def _answer(self, result: object, call: wire.Call) -> None:
        # A master may be behind, too, when it is cut off from the others.
        behind = self._target.diagnosis() if isinstance(call.body, _SHOWING) else ""
        self._finish(wire.Answer(call.id, wire.pack(result), behind[:MAX_SENTENCE_CHARS]))

    def _failed(self, failure: TwistedFailure, call_id: int) -> None:
        error = _error(failure)
        sentence = str(error)[:MAX_SENTENCE_CHARS]
        match error:
            case NotMaster():
                self._finish(wire.Failure(call_id, "not master", sentence, error.master))
            case _Unknown():
                self._finish(wire.Failure(call_id, "unknown", sentence))
            case NotYet():
                self._finish(wire.Failure(call_id, "not yet", sentence))
            case _Refusal() | ChangeRefused():
                self._finish(wire.Failure(call_id, "refused", sentence))
            case TimeoutError() | DeferredTimeout() | ConnectTimeout():
                self._finish(wire.Failure(call_id, "timeout", "No reply came in time."))
            case _:
                _log.failure("An administration call failed", failure)
                self._finish(wire.Failure(call_id, "interrupted", sentence or type(error).__name__))

    def _broken(self, failure: TwistedFailure, call_id: int) -> None:
        """Report an answer that cannot be encoded: it is too large, or has a value that MessagePack lacks."""
        self._finish(wire.Failure(call_id, "refused", str(_error(failure))[:MAX_SENTENCE_CHARS]))

    def _fail(self, call_id: int, kind: wire.FailureKind, sentence: str) -> None:
        self._send(wire.encode(wire.Failure(call_id, kind, sentence)))

    def _finish(self, message: wire.Answer | wire.Failure) -> None:
        frame = wire.encode(message)
        self._pending -= 1
        if not self._lost:
            self._send(frame)


def serve_admin(
    target: AdminTarget,
    send: Callable[[bytes], None],
    audit: Callable[[Act, str], None] = lambda _act, _outcome: None,
) -> AdminProtocol:
    """Serve administration on a connection after its hello for ADMIN.

    Pass every further frame to `frame_received` of the result, and call its `connection_lost` at the end.
    """
    return AdminProtocol(target, send, audit)


def _error(failure: Any) -> BaseException:
    return cast("BaseException", failure.value)


def _stop_failed(failure: TwistedFailure) -> None:
    _log.failure("The replica does not stop in order", failure)


class _Unknown(Exception):
    """No agent has the address."""


class _Refusal(Exception):
    """The call is not acceptable."""


def _within_page(limit: int) -> int:
    return min(max(limit, 1), wire.MAX_PAGE)
