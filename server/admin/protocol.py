"""Administration as the replica serves it: what it needs of the replica, and one connection's handler."""

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.logger import Logger
from twisted.python.failure import Failure as TwistedFailure

from ...agents.envelope import Note
from ...agents.ids import AgentId, outside
from ...hachannel import ChangeRefused, NotYet
from ..config import MAX_ID
from ..network.hello import Address
from . import wire

MAX_PENDING = 64
"""Calls of one connection that wait for their answers."""
MAX_TIMEOUT_S = 300.0
"""The longest wait for a reply that an administrator may ask for."""
MAX_SENTENCE_CHARS = 2000

MASTER = "master"

_log = Logger()


class NotMaster(Exception):
    """This replica cannot do it; `master` is the (host, port) of the one that can, or None if not known.

    diagnosis: what keeps it from being master or slave, or from serving, in one sentence, "" if nothing does.
    leads: it is the master, and does not serve.
    """

    def __init__(self, master: Address | None, diagnosis: str = "", *, leads: bool = False) -> None:
        said = "is the master, and does not serve now" if leads else "is not the master"
        super().__init__(f"This replica {said}{f' ({diagnosis})' if diagnosis else ''}.")
        self.master = master


class AdminTarget(Protocol):
    """What administration needs of a replica. Called in the reactor thread."""

    @property
    def server_id(self) -> int:
        """Identifier of the agent server."""
        ...

    @property
    def role(self) -> str:
        """As in `status`."""
        ...

    def status(self) -> "Deferred[Mapping[str, Any]]":
        """How the replica is, in values that MessagePack has.

        Keys: server (name), server_id, replica, role ("joining", "slave", "master", ...), view (number),
        members (replica ids), master (replica id or None), commit, applied, last (indexes), lag
        (entries behind what it knows to be committed), connections, notifications (reactions done),
        garbage, incarnation, pid, host, port, agents, uptime_s, counters (map), gauges (map). `quorate
        status --json` shows whatever else there is, too.
        """
        ...

    def master_address(self) -> Address | None:
        """The (host, port) of the network listener of the master of this server, None when there is none."""
        ...

    def diagnosis(self) -> str:
        """What keeps this replica from being master or slave, in one sentence; "" if nothing does.

        Of a master, whom it lacks if it cannot go on as one.
        """
        ...

    def lacks_all(self) -> str:
        """Why this replica holds no agents, in a sentence that says which ones do; "" if it may hold some."""
        ...

    def agents(self) -> Iterable[tuple[AgentId, str, str, int]]:
        """(id, name or "", class "module:Class", reactions) of every agent, in any order."""
        ...

    def state_of(self, address: AgentId | str) -> bytes | None:
        """The state of an agent as a MessagePack map; None if there is no such agent."""
        ...

    def lacks(self, address: AgentId | str) -> bool:
        """Whether no agent can have the address: it is of this server, which has none, or of none at all."""
        ...

    def post(self, note: Note) -> "Deferred[None] | None":
        """Put a notification into the next batch; the Deferred fires once it is committed.

        Raises (or fails with) NotMaster. None: fire and forget.
        """
        ...

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for its reply.

        Raises (or fails with) NotMaster when nothing was done, TimeoutError when no reply came, any other
        exception when this replica stopped being master meanwhile.
        """
        ...

    def admit(self, replica: int, data: bytes, *, witness: bool) -> bool:
        """Let a replica belong to the cluster: see `Channel.admit`. Raises NotMaster, ChangeRefused."""
        ...

    def remove(self, replica: int) -> bool:
        """Let it belong to the cluster no more: see `Channel.remove`. Raises NotMaster, ChangeRefused."""
        ...

    def stop(self, *, together: bool) -> "Deferred[None] | None":
        """Stop the replica in order, `together` with all others of its server, and then its process."""
        ...


class AdminProtocol:
    """One administration connection, after the hello. The owner of the transport calls `frame_received`.

    `send` writes a frame (the length is put in front by the owner).
    """

    def __init__(self, target: AdminTarget, send: Callable[[bytes], None]) -> None:
        self._target = target
        self._send = send
        self._pending = 0
        self._lost = False

    def frame_received(self, frame: bytes) -> None:
        """Serve one call. Raises hello.ProtocolError when the frame is none: count it, log it, close."""
        call = wire.decode_call(frame)
        if self._pending >= MAX_PENDING:
            self._fail(call.id, "refused", f"More than {MAX_PENDING} calls are under way on this connection.")
            return
        self._pending += 1
        done: Deferred[object] = maybeDeferred(self._serve, call.body)
        done.addCallbacks(self._answer, self._failed, callbackArgs=(call,), errbackArgs=(call.id,))
        done.addErrback(self._broken, call.id)
        if isinstance(call.body, wire.Stop):
            # After the answer, so that the command learns of it before the connection goes.
            stop = cast("Callable[..., Any]", self._target.stop)
            stopping: Deferred[Any] = maybeDeferred(stop, together=call.body.together)
            stopping.addErrback(_stop_failed)

    @property
    def busy(self) -> bool:
        """Whether calls wait for their answers."""
        return self._pending > 0

    def connection_lost(self) -> None:
        """Forget the connection: answers to calls under way are dropped."""
        self._lost = True

    def _serve(self, body: wire.Body) -> "Deferred[Any] | object":
        match body:
            case wire.Status():
                return self._target.status().addCallback(dict)
            case wire.Agents():
                self._require_agents(body.anywhere)
                return _page(self._target.agents(), body.after, min(max(body.limit, 1), wire.MAX_PAGE))
            case wire.Inspect():
                self._require_agents(body.anywhere)
                return self._inspect(body.agent)
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
            case wire.Stop():
                return None

    def _post(self, body: wire.Post) -> "Deferred[Any]":
        lacked = self._target.lacks(body.to)
        posted: Deferred[Any] = maybeDeferred(
            cast("Callable[[Note], Any]", self._target.post), self._note(body)
        )

        def settled(_: object) -> None:
            # Only before: it was created meanwhile. Only now: it may have deleted itself in its reaction.
            if lacked and self._target.lacks(body.to):
                raise _Unknown(f"There is no agent {body.to} on this server.")

        return posted.addCallback(settled)

    def _note(self, body: "wire.Post | wire.Request") -> Note:
        return Note(body.to, outside(self._target.server_id), body.type, body.payload)

    def _require_agents(self, anywhere: bool) -> None:
        if anywhere and (sentence := self._target.lacks_all()):
            raise _Refusal(sentence)
        if not anywhere and self._target.role != MASTER:
            raise NotMaster(self._target.master_address(), self._target.diagnosis())

    def _inspect(self, address: AgentId | str) -> wire.AgentState:
        state = self._target.state_of(address)
        if state is not None and len(state) > wire.MAX_STATE_BYTES:
            raise _Refusal(
                f"The state of agent {address} is too large to be shown: {len(state)} bytes, where "
                f"{wire.MAX_STATE_BYTES} are the most."
            )
        if state is not None:
            for row in self._target.agents():
                if address in (row[0], row[1]):
                    return wire.AgentState(wire.AgentRow(*row), state)
        raise _Unknown(f"There is no agent {address} on this server.")

    def _answer(self, result: object, call: wire.Call) -> None:
        # Also of a master: it may be one that is cut off from the others.
        behind = self._target.diagnosis() if isinstance(call.body, wire.Agents | wire.Inspect) else ""
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
        """An answer that cannot be encoded (too large, or a value MessagePack has not)."""
        self._finish(wire.Failure(call_id, "refused", str(_error(failure))[:MAX_SENTENCE_CHARS]))

    def _fail(self, call_id: int, kind: wire.FailureKind, sentence: str) -> None:
        self._send(wire.encode(wire.Failure(call_id, kind, sentence)))

    def _finish(self, message: wire.Answer | wire.Failure) -> None:
        frame = wire.encode(message)
        self._pending -= 1
        if not self._lost:
            self._send(frame)


def serve_admin(target: AdminTarget, send: Callable[[bytes], None]) -> AdminProtocol:
    """Serve administration on a connection whose hello for ADMIN is done.

    Give every further frame to `frame_received` of the result, and tell it of the end by `connection_lost`.
    """
    return AdminProtocol(target, send)


def _error(failure: Any) -> BaseException:
    return cast("BaseException", failure.value)


def _stop_failed(failure: TwistedFailure) -> None:
    _log.failure("The replica does not stop in order", failure)


class _Unknown(Exception):
    """There is no such agent."""


class _Refusal(Exception):
    """The call is not acceptable."""


def _page(
    rows: Iterable[tuple[AgentId, str, str, int]], after: AgentId | None, limit: int
) -> list[wire.AgentRow]:
    wanted = (row for row in rows if after is None or row[0] > after)
    return [wire.AgentRow(*row) for row in heapq.nsmallest(limit, wanted)]
