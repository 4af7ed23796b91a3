"""The rerun of one agent's recorded reactions."""

import builtins
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

import msgspec

from ..agents import Agent, AgentError, AgentId, Create, agent_spec, decode
from ..agents.notification import UNREADABLE
from ..engine import Rerun
from ..engine.cell import Snapshot
from ..engine.current_reaction import Skipped
from ..engine.error_text import described, summary
from ..engine.routing import Routing

__all__ = ["AgentRerun", "Record", "Watch", "watch_of"]

MAX_SHOWN = 200
"""Characters of a request that are shown."""

_SKIPPED_ERROR: Final = summary(*described(Skipped()))
"""The recorded error of a reaction that the administrator has skipped."""


class Record(msgspec.Struct, gc=False):
    """The columns of the trace that a rerun needs."""

    position: int
    now_ns: int
    agent: str
    cls: str
    kind: str
    sender: str
    type: str
    payload: bytes
    request: int
    error: str
    outputs: bytes
    stamp: int
    name: str
    state: bytes
    requests: bytes = b""


@lru_cache(maxsize=65536)
def parse(text: str) -> AgentId:
    """Return an agent id from its text."""
    return AgentId.parse(text)


class AgentRerun:
    """Runs the reactions of one agent again, in the order of their positions."""

    def __init__(
        self,
        server: str,
        agent: str,
        names: Mapping[str, int],
        watch: Callable[[Agent], bool | None] | None = None,
    ) -> None:
        """Begin before the agent exists. ``watch`` looks at it after each reaction.

        ``names`` gives the ids of the servers that have traces, by name. They may not be all servers: they
        are used for rows whose file does not have the servers of the configuration.
        """
        self._server = server
        self._agent = agent
        self._names = names
        self._rerun: Rerun | None = None
        self._cls = ""
        self._reactions = 0
        self._errors = 0
        self._omitted = 0
        self._first = 0
        self._last = 0
        self._deleted = False
        self._different = 0
        self._watch = watch
        self._looked = False
        self._breached: int | None = None
        self._breach = ""
        self._diverged: int | None = None
        self._difference = ""
        self._skipped = ""
        self._begins: int | None = None
        self._missed = 0
        self._error = ""
        """The recorded error of the row that is run again."""
        self._configured: Mapping[str, int] | None = None
        self._routing: Routing | None = None
        """The servers of the configuration; None if the trace does not have them."""
        self._unknown = ""
        """A server that the reaction addressed, and that is not in the traces."""

    def apply(self, record: Record, configured: Mapping[str, int] | None = None) -> None:
        """Process the next row of the trace. ``configured``: all servers that there were, None if unknown."""
        if configured is not self._configured:
            self._configured = configured
            self._routing = (
                None if configured is None else Routing(parse(record.agent).host, configured, None)
            )
        self._first = self._first or record.position
        self._last = record.position
        switched = self._cls != record.cls and record.kind == "react"
        self._cls = record.cls
        if switched and self._rerun is not None and not self._skipped:
            self._switch(self._rerun, record)
        if record.kind == "create":
            self._create(record)
        elif record.kind == "delete":
            self._deleted = True
        elif record.kind == "react" and not self._skipped:
            self._react(record)

    def _create(self, record: Record) -> None:
        self._deleted = False
        try:
            self._make(record, Snapshot(location(record), record.name, record.state))
        except AgentError as error:
            self._skipped = str(error)
        except UNREADABLE as error:
            self._skipped = f"the row of its creation cannot be read: {error}"
        except ValueError as error:
            self._skipped = f"the state it was created with does not fit its class: {error}"

    def _begin(self, record: Record) -> None:
        """Begin with the snapshot of a row: the agent was created before the first one."""
        self._begins = record.position
        try:
            self._make(record, snapshot(record))
        except AgentError as error:
            self._skipped = str(error)
        except (*UNREADABLE, ValueError) as error:
            self._skipped = f"its snapshot at {record.position} cannot be read: {error}"

    def _make(self, record: Record, found: Snapshot) -> None:
        self._rerun = Rerun(
            parse(record.agent),
            record.cls,
            found.state,
            found.name or None,
            self._resolve,
            location=found.location,
        )
        self._look(self._rerun, record.position)

    def _switch(self, rerun: Rerun, record: Record) -> None:
        """Upgrade the agent, as the server did when it switched to a later version of its class."""
        try:
            rerun.become(record.cls)
        except (AgentError, ValueError) as error:
            self._skipped = f"at {record.position}: {error}"

    def _react(self, record: Record) -> None:
        if self._rerun is None:
            self._missed += 1
            if record.state:
                self._begin(record)
            return
        if record.error == _SKIPPED_ERROR:
            # It would perhaps never end, and it changed nothing.
            self._omitted += 1
            return
        error, outputs = "", b""
        self._error, self._unknown = record.error, ""
        try:
            outputs = self._rerun.apply(
                record.position,
                record.now_ns,
                parse(record.sender),
                record.type,
                record.payload,
                record.request,
                record.stamp,
            )
        except BaseException as raised:  # for the engine, too, any exception is a failed reaction
            error = summary(*described(raised))
            if error != record.error and not isinstance(raised, Exception | SystemExit):
                # The user interrupts the replay.
                raise
        # The trace has no row for an agent that deletes itself.
        self._deleted = self._deleted or self._rerun.deleted
        self._reactions += 1
        self._errors += bool(record.error)
        self._look(self._rerun, record.position)
        if outputs == record.outputs and error == record.error:
            self._compare(self._rerun, record)
            return
        self._different += 1
        if self._unknown and self._diverged is None:
            self._skipped = (
                f"at {record.position} it addresses the server {self._unknown!r}, of which the traces say "
                "nothing: give also the trace of that server"
            )
        elif self._diverged is None:
            self._diverged = record.position
            self._difference = difference(record, error, self._rerun.requests())

    def _compare(self, rerun: Rerun, record: Record) -> None:
        """Compare the state with the snapshot of a row, if it has one: attributes that both have."""
        if not record.state or record.error or not rerun.has_name(record.cls):
            return
        ours, theirs = (msgspec.msgpack.decode(each) for each in (rerun.state(), snapshot(record).state))
        for name, traced in theirs.items():
            if name in ours and ours[name] != traced:
                self._different += 1
                if self._diverged is None:
                    self._diverged = record.position
                    mine, then = (readable([each]) for each in (ours[name], traced))
                    self._difference = f"after {record.type}, {name} is {mine}; the trace has: {then}"
                return

    def _look(self, rerun: Rerun, position: int) -> None:
        """Look whether the condition holds for the first time."""
        if self._watch is None or self._breached is not None:
            return
        try:
            holds = self._watch(rerun.agent)
        except Exception as error:  # the condition is the user's own code
            holds, self._breach = True, f"the condition cannot be evaluated: {error!r}"
        self._looked = self._looked or holds is not None
        if holds:
            self._breached = position

    def _resolve(self, server: str | int) -> int:
        """Return the id of a server, as the engine did. Raises ValueError if there was no such server."""
        if self._routing is not None:
            return self._routing.resolve(server)
        if isinstance(server, int):
            return server
        known = self._names.get(server, int(server) if server.isdecimal() else None)
        if known is not None:
            return known
        kind, _, words = self._error.partition(": ")
        if kind == "ValueError" and words.startswith(f"there is no server {server!r};"):
            raise ValueError(words)
        # Outputs carry names as they were written, so any number will do, unless the reaction looks at it.
        self._unknown = server
        return 0

    def result(self) -> dict[str, Any]:
        """Return the fields of `AgentResult`, with the state as JSON text."""
        if self._rerun is None and self._missed:
            self._skipped = "it was created before the trace begins, which has no snapshot of it"
        return {
            "server": self._server,
            "agent": self._agent,
            "cls": self._cls,
            "reactions": self._reactions,
            "errors": self._errors,
            "omitted": self._omitted,
            "first": self._first,
            "last": self._last,
            "state": self._state(),
            "deleted": self._deleted,
            "diverged": self._diverged,
            "skipped": self._skipped,
            "difference": self._difference,
            "different": self._different,
            "breached": self._breached,
            "breach": self._breach,
            "looked": self._looked,
            "begins": self._begins,
        }

    def _state(self) -> str | None:
        if self._rerun is None or self._deleted or self._skipped:
            return None
        return msgspec.json.encode(plain(msgspec.msgpack.decode(self._rerun.state()))).decode()


def snapshot(record: Record) -> Snapshot:
    """Return the snapshot of a row. Raises one of UNREADABLE."""
    return msgspec.msgpack.decode(record.state, type=Snapshot)


def location(record: Record) -> str:
    """Return the ``module:Class`` of which an agent was created; "" if the name of the class says it."""
    return "" if ":" in record.cls else decode(Create, record.payload).class_name


Watch = Callable[[Agent], bool | None]
"""A condition on an agent; None if it says nothing of it."""


def watch_of(text: str, cls: str) -> Watch:
    """Return the condition of a Python expression over the attributes of agents of one class.

    It says nothing of agents that lack an attribute it names. ``cls``, if not "", is the name of the class.
    Raises ValueError if it is no expression.
    """
    try:
        code = compile(text, "<condition>", "eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"the condition {text!r} is no Python expression: {error}") from error
    names = [name for name in code.co_names if not hasattr(builtins, name)]

    def holds(agent: Agent) -> bool | None:
        if cls and agent_spec(type(agent)).name != cls:
            return None
        try:
            values = {name: getattr(agent, name) for name in names}
        except AttributeError:
            return None
        return bool(eval(code, {"__builtins__": builtins}, values))  # noqa: S307 - the user's own expression

    return holds


def difference(record: Record, error: str, requests: bytes) -> str:
    """Return what a reaction did and what the trace has recorded, in one sentence."""
    if error != record.error:
        actual = f"it raised {error}" if error else "it ended well"
        recorded = f"raised {record.error}" if record.error else "ended well"
        return f"on {record.type} {actual}, and the trace says that it {recorded}"
    if record.requests or not record.outputs:
        # The trace has what was asked for, or that it was nothing.
        return f"on {record.type} {told(requests, record.requests)}"
    return f"what it sent, set or emitted on {record.type} is not what the trace says"


def told(now: bytes, then: bytes) -> str:
    """Return the first request that is not the traced one, and that one."""
    empty: list[Any] = [[], [], [], [], False]
    kinds = ("sent", "set the timer", "cancelled the timer", "emitted")
    new, old = (msgspec.msgpack.decode(each) if each else empty for each in (now, then))
    for kind, ours, theirs in zip(kinds, new, old, strict=False):
        for mine, traced in zip_longest(ours, theirs):
            if mine != traced:
                did, had = ("nothing more" if each is None else readable(each) for each in (mine, traced))
                return f"it {kind}: {did}; the trace has: {had}"
    return f"it {'deleted' if new[4] else 'did not delete'} itself, other than in the trace"


def readable(request: Any) -> str:
    """Return a request as text, with the payload decoded."""
    if not isinstance(request, list):
        return str(request)
    parts: list[Any] = request  # pyright: ignore[reportUnknownVariableType]
    return " ".join(str(plain(decoded(part))) for part in parts)[:MAX_SHOWN]


def decoded(part: Any) -> Any:
    """Return bytes as the values in them, if they are MessagePack."""
    if not isinstance(part, bytes):
        return part
    try:
        return msgspec.msgpack.decode(part)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return part.hex()


def plain(value: Any) -> Any:
    """Return a decoded state in which every key is text, as JSON wants it."""
    if isinstance(value, dict):
        pairs: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {key if isinstance(key, str) else str(key): plain(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        items: list[Any] | tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return [plain(item) for item in items]
    return value
