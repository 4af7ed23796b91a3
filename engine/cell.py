"""One agent in the engine: it runs reactions, and undoes those that fail."""

from collections.abc import Callable, Coroutine, Generator
from typing import Final, NamedTuple

import attrs
import msgspec

from ..agents import (
    Agent,
    AgentId,
    AgentSpec,
    Context,
    MemoryTable,
    Note,
    Opaque,
    RowChange,
    Rows,
    RowTable,
)
from ..agents.notification import UNREADABLE
from .current_reaction import CurrentReaction
from .error_text import described, error_text
from .reaction import outputs_hash
from .recursion import FixedDepth

__all__ = [
    "AgentState",
    "Cell",
    "Nondeterministic",
    "Ran",
    "Reacted",
    "Resolve",
    "Snapshot",
    "Unfit",
    "Unhandled",
    "Unstorable",
    "titled",
    "upgraded",
]

Resolve = Callable[[str | int], int]
"""A server's name or id to its id. Raises ValueError, with a sentence, for an unknown one."""

SMALL_BYTES: Final = 2048
"""A state up to this size is saved after every reaction."""
SNAPSHOT_EVERY: Final = 64
"""Reactions of an agent with a small state between two of its snapshots in the trace."""
_FRAMES_TO_METHOD: Final = 2
"""Calls from `Cell._rerun` to a method of an agent: _run, method."""
_FRAMES_TO_LOAD: Final = 1
"""For `_loaded`. In `react`, `AgentSpec.load` is as deep as a method: _encoded, load."""
_FRAMES_TO_UPGRADE: Final = 4
"""Calls from `upgraded` to an upgrade function: upgraded, apply_encoded, apply, _stepped."""
_UNWATCHED: Final = CurrentReaction()
"""For reactions that run outside of an engine."""
_LOG_FLOOR: Final = 8 * 1024
"""Bytes of reactions remembered before the state is saved again, for small states."""


class Unhandled(Exception):
    """Raised for a notification of a type to which the agent's class has no reaction."""


class Unfit(ValueError):
    """Raised for a payload that does not fit the type of its notification."""


class Unstorable(ValueError):
    """Raised when a reaction leaves a state that cannot be stored, or not be loaded again."""


class Nondeterministic(RuntimeError):
    """Raised when reactions that run again end in another way than before."""


class Ran(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The arguments of a reaction, to run it again."""

    note: Note
    now_ns: int
    position: int
    stamp: int
    outputs: bytes = b""
    """Hash of what it asked for, which the same reaction asks for again."""


class AgentState(msgspec.Struct, array_like=True, frozen=True):
    """An agent, as it is stored and sent."""

    identity: AgentId
    name: str | None
    cls: str
    """The name of its class: ``bank.account/1`` or ``module:Class``."""
    reactions: int
    state: bytes
    changed: int = 0
    """The entry that changed it last."""
    checked_bytes: int = 0
    """Size of its state when a reaction last had it saved."""
    since_bytes: int = 0
    """Size of the reactions since then."""
    since: tuple[Ran, ...] = ()
    """Reactions that `state` lacks: not empty only if the state after them cannot be stored."""
    location: str = ""
    """``module:Class``, from which the class is imported; "" if that is what `cls` says."""


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """An agent after a reaction, as the trace has it now and then."""

    location: str
    """``module:Class``, from which the class is imported; "" if that is what the name of the class says."""
    name: str
    """Its name, "" if it has none."""
    state: bytes
    """Its attributes, as `AgentSpec.save` writes them."""


_snapshots: Final = msgspec.msgpack.Encoder()


class Reacted(NamedTuple):
    """The context of a reaction, with its requests, and the hash of the requests."""

    context: Context
    outputs: bytes
    rows: list[RowChange]
    """What it has put into the rows of the agent, and removed; they still have what they had before."""


@attrs.define(eq=False)
class Cell:
    """An agent, and the data that are needed to undo a failed reaction.

    A small state is saved after every reaction. Of a large one the cell keeps an older saved state and the
    reactions since: undoing loads the one and runs the others again. The state is saved anew when these
    reactions have outgrown it, so the cost of saving, spread over reactions, does not grow with the state.
    Saving shows whether the state can be stored; if it cannot, the reaction is undone. Which reactions have
    the state saved is the same on every replica: it depends on nothing but the reactions.
    """

    identity: AgentId
    name: str | None
    spec: AgentSpec
    agent: Agent
    _saved: bytes
    _since: list[Ran]
    reactions: int = 0
    changed: int = 0
    """The entry that changed it last."""
    _checked_bytes: int = attrs.field(default=0, alias="checked_bytes")
    """Size of the state when a reaction last had it saved; `_since_bytes` is that of the reactions since."""
    _since_bytes: int = 0
    _tables: dict[str, RowTable] = attrs.field(factory=dict[str, RowTable], init=False)
    """The rows of the agent, by attribute."""

    def __attrs_post_init__(self) -> None:
        if self.spec.rows:
            self.bind(lambda _: MemoryTable())

    def bind(self, table: Callable[[str], RowTable]) -> None:
        """Have the rows of the agent in these tables: `table` returns that of an attribute."""
        self._tables = {name: table(name) for name, _ in self.spec.rows}
        self._attach()

    def _attach(self) -> None:
        """Give the agent its rows."""
        for name, kind in self.spec.rows:
            object.__setattr__(self.agent, name, Rows.of(kind, self._tables[name]))

    @classmethod
    def create(cls, identity: AgentId, name: str | None, spec: AgentSpec, state: bytes) -> "Cell":
        """Make a new agent with this state. Raises ValueError if it does not fit the class."""
        return cls(identity, name, spec, _loaded(spec, state), state, [], checked_bytes=len(state))

    @classmethod
    def load(cls, stored: AgentState, spec: AgentSpec, resolve: Resolve) -> "Cell":
        """Make the agent that `stored` returned, with the upgrades that its state needs.

        Raises ValueError, naming the agent, if the state does not fit the class.
        """
        try:
            if stored.cls in spec.former:
                stored = _upgraded(stored, spec)
            return cls._load(stored, spec, resolve)
        except ValueError as error:
            raise ValueError(f"{titled(stored)}: {error_text(error)}") from error

    @classmethod
    def _load(cls, stored: AgentState, spec: AgentSpec, resolve: Resolve) -> "Cell":
        cell = cls(
            stored.identity,
            stored.name,
            spec,
            _loaded(spec, stored.state),
            stored.state,
            list(stored.since),
            stored.reactions,
            stored.changed,
            stored.checked_bytes,
            stored.since_bytes,
        )
        if stored.since:
            try:
                cell._rerun(resolve)
            except Nondeterministic as error:
                raise ValueError(str(error)) from error
        return cell

    def react(
        self,
        note: Note,
        now_ns: int,
        position: int,
        stamp: int,
        resolve: Resolve,
        current: CurrentReaction = _UNWATCHED,
    ) -> "Reacted":
        """Run one reaction and return its requests. `current` shows it to other threads while it runs.

        If it raises anything, the agent has afterwards the state that it had before. Raises `Unhandled` if no
        method takes the notification, `Unfit` if its payload cannot be decoded, `Unstorable` if the reaction
        left a state that cannot be stored, `Skipped` if the administrator skips it, and anything that the
        agent's code raises.
        """
        if current.skips:
            current.check(position)
        # While `running` is set, Skipped may be raised anywhere: until then nothing of the cell is changed.
        saved: tuple[bytes, Agent] | None = None
        try:
            current.running = (position, note, self)
            context = self._run(note, now_ns, position, stamp, resolve)
            outputs = outputs_hash(context.outcome)
            size = self._since_bytes + len(note.payload) + 200
            rows = self._row_changes() if self.spec.rows else []
            # A reaction cannot be run again on rows that have changed since.
            small = self._checked_bytes <= SMALL_BYTES or bool(self.spec.rows)
            if small or size > max(_LOG_FLOOR, self._checked_bytes):
                saved = self._encoded()
            else:
                flaw = self.spec.flaw(self.agent)
                if flaw:
                    raise Unstorable(f"the state of {self.spec.name} can no longer be stored: {flaw}")
            current.running = None
            if current.skips:
                current.check(position)
        except (Unhandled, Unfit):
            current.running = None
            if current.skips:
                current.check(position)
            raise
        except (
            BaseException
        ):  # also SystemExit and KeyboardInterrupt: an agent's code ends nothing but itself
            current.running = None
            self._undo(resolve)
            if current.skips:
                # An agent may have caught Skipped and raised something else.
                current.check(position)
            raise
        if rows:
            self._keep(rows)
        if saved is None:
            self._since.append(Ran(note, now_ns, position, stamp, outputs))
            self._since_bytes = size
        else:
            self._replace(*saved)
        self.reactions += 1
        return Reacted(context, outputs, rows)

    def _row_changes(self) -> list[RowChange]:
        found: list[RowChange] = []
        for name, _ in self.spec.rows:
            rows: object = getattr(self.agent, name)
            if not isinstance(rows, Rows):
                raise Unstorable(
                    f"{name} of {self.spec.name} is {type(rows).__name__}; it must stay the Rows it was"
                )
            found += rows.changes(name)
        return found

    def _keep(self, rows: list[RowChange]) -> None:
        """Have the changes in tables that no engine keeps."""
        for name, table in self._tables.items():
            if isinstance(table, MemoryTable):
                table.apply([each for each in rows if each[0] == name])

    def _run(self, note: Note, now_ns: int, position: int, stamp: int, resolve: Resolve) -> Context:
        handler = self.spec.handlers.get(note.type)
        context = Context(
            agent=self.identity,
            name=self.name,
            sender=note.sender,
            request=note.request,
            now_ns=now_ns,
            position=position,
            next_stamp=stamp,
            resolve=resolve,
        )
        if handler is not None:
            method, decode = handler
            try:
                notification = decode(note.payload)
            except UNREADABLE as error:
                raise Unfit(f"the payload does not fit {note.type}: {error}") from error
            returned: object = method(self.agent, context, notification)
        elif self.spec.opaque is not None:
            returned = self.spec.opaque(self.agent, context, Opaque(note.type, note.payload, note.request))
        else:
            raise Unhandled(f"{self.spec.name} does not react to {note.type}")
        if returned is not None:
            _check_finished(returned)
        return context

    def _undo(self, resolve: Resolve) -> None:
        self.agent = _loaded(self.spec, self._saved)
        self._attach()
        self._rerun(resolve)

    def _rerun(self, resolve: Resolve) -> None:
        if not self._since:
            return
        try:
            with FixedDepth(_FRAMES_TO_METHOD):
                for ran in self._since:
                    context = self._run(ran.note, ran.now_ns, ran.position, ran.stamp, resolve)
                    if outputs_hash(context.outcome) != ran.outputs:
                        raise Nondeterministic(
                            f"{self.identity} ({self.spec.name}) cannot be restored: run again, its reaction "
                            f"to {ran.note.type} asks for something else than before; reactions may depend "
                            "only on state, notification and context"
                        )
        except Nondeterministic:
            raise
        except BaseException as error:
            kind, message = described(error)
            raise Nondeterministic(
                f"{self.identity} ({self.spec.name}) cannot be restored: a reaction that succeeded before "
                f"failed when run again ({kind}: {message}); reactions may depend only on "
                "state, notification and context"
            ) from error

    def _replace(self, saved: bytes, agent: Agent) -> None:
        """Keep the saved state, and replace the agent by the one that is loaded from it.

        The two may differ: an int in a float attribute becomes a float, one list in two attributes becomes
        two, a defaultdict becomes a dict. A replica that receives the state must react like this one.
        """
        self._saved, self.agent = saved, agent
        if self._tables:
            self._attach()
        if self._since:
            self._since = []
        self._checked_bytes = len(saved)
        self._since_bytes = 0

    def _encoded(self) -> tuple[bytes, Agent]:
        """Return the whole state, and the agent as it is loaded from that."""
        spec, agent = self.spec, self.agent
        try:
            saved = spec.save(agent)
            return saved, agent if spec.loads_equal(agent) else spec.load(saved)
        except Exception as error:
            raise Unstorable(
                f"the state of {self.spec.name} can no longer be stored: {error_text(error)}"
            ) from error

    def replace(self, spec: AgentSpec, state: bytes, agent: Agent) -> None:
        """Go on as an agent of another version of the class, in this state. `agent` was loaded from it."""
        former, self.spec = self._tables, spec
        self._tables = {name: former.get(name) or MemoryTable() for name, _ in spec.rows}
        self._replace(state, agent)

    # Outside of reactions

    @property
    def settled(self) -> bytes | None:
        """The whole state as it was saved, if no reaction has run since; otherwise None."""
        return None if self._since else self._saved

    @property
    def just_saved(self) -> bytes:
        """The state that the last reaction saved; empty if it saved none, or if the bytes may differ between
        replicas, as the order of sets does."""
        return b"" if self._since or self.spec.has_sets else self._saved

    @property
    def _location(self) -> str:
        """``module:Class``, "" if the name of the class says it."""
        return "" if self.spec.location == self.spec.name else self.spec.location

    def snapshot(self, saved: bytes) -> bytes:
        """Return what the trace keeps of the agent after the last reaction, by `Snapshot`; mostly nothing.

        saved: `just_saved`.

        Of a small state it is every `SNAPSHOT_EVERY`-th one, of a larger one each that is saved: so snapshots
        cost no more than the notifications. Agents with rows or sets have none.
        """
        if not saved or self.spec.rows or (len(saved) <= SMALL_BYTES and self.reactions % SNAPSHOT_EVERY):
            return b""
        return _snapshots.encode(Snapshot(self._location, self.name or "", saved))

    @property
    def saved_bytes(self) -> int:
        """The size of the last saved state."""
        return len(self._saved)

    def state(self) -> bytes:
        """Return the whole state, as it would be saved. Raises `Unstorable`.

        The state from which an undo starts stays the same: it must not differ between replicas, and they call
        this at different times.
        """
        return self._encoded()[0] if self._since else self._saved

    def stored(self) -> tuple[AgentState, str]:
        """Return the agent in the form to store or send, and what is wrong with its state, "" normally.

        If the state cannot be stored, the form has the last saved state and the reactions since.
        """
        flaw, state, since = "", self._saved, tuple(self._since)
        if since:
            try:
                state, since = self.state(), ()
            except Unstorable as error:
                flaw = f"agent {self.identity}: {error}"
        stored = AgentState(
            self.identity,
            self.name,
            self.spec.name,
            self.reactions,
            state,
            self.changed,
            self._checked_bytes,
            self._since_bytes,
            since,
            self._location,
        )
        return stored, flaw


def upgraded(spec: AgentSpec, name: str, state: bytes) -> bytes:
    """Return the state of this class for one that was saved under `name`, one of ``spec.former``.

    The upgrades may nest as many calls as a reaction. Raises ValueError.
    """
    with FixedDepth(_FRAMES_TO_UPGRADE):
        return spec.upgraded(name, state)


def _upgraded(stored: AgentState, spec: AgentSpec) -> AgentState:
    if stored.since:
        raise ValueError(
            f"{stored.cls} cannot become {spec.name}: it has reactions that only the former class can run "
            f"again, because the state after them could not be stored; start the code that has {stored.cls}"
        )
    state = upgraded(spec, stored.cls, stored.state)
    return msgspec.structs.replace(
        stored, cls=spec.name, state=state, checked_bytes=len(state), since_bytes=0, location=""
    )


def titled(stored: AgentState) -> str:
    """Return ``agent #0.0.1025 'alice' (bank.account/1)``."""
    name = "" if stored.name is None else f" {stored.name!r}"
    return f"agent {stored.identity}{name} ({stored.cls})"


def _loaded(spec: AgentSpec, state: bytes) -> Agent:
    """Load an agent at the depth at which a reaction loads what it has saved."""
    with FixedDepth(_FRAMES_TO_LOAD):
        return spec.load(state)


def _check_finished(returned: object) -> None:
    """Raise TypeError if a reaction has not run because it is a coroutine or a generator."""
    if isinstance(returned, Coroutine | Generator):
        returned.close()
        raise TypeError("the reaction is a coroutine or a generator, and has not run: make it a plain method")
