"""The engine: runs the agents of one server, deterministically.

Every replica of a server feeds its engine the same entries and gets the same states and outputs.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from ..agents import (
    FAILURES,
    FIRST_FREE_STAMP,
    AgentId,
    AgentSpec,
    Context,
    Note,
    Notification,
    outside,
)
from ..agents import factory as factory_of
from .batch import BatchError, Item, NetAck, NetInput, NetPeer, Posts, decode_batch
from .capture import Capture
from .cell import Cell, Nondeterministic, Unfit, Unhandled
from .classes import load_class
from .directory import AgentState, Directory
from .effects import Effects
from .factory import Factory
from .links import Link, Links
from .routing import Mail, Routing
from .settings import EngineSettings
from .snapshot import Snapshot, encode_header, read_header, read_snapshot, write_snapshot
from .timers import Timer, Timers
from .trace import Reaction

__all__ = ["Engine", "EngineStopped"]

N = TypeVar("N", bound=Notification)


class EngineStopped(RuntimeError):
    """A reaction raised, and the settings say to stop then."""


class Engine:
    """The agents of one server and their queues.

    A pure state machine: `apply` takes entries of the ordered log, in order, and returns what is to be done.
    The rule of the queues is that of the HA ScalAgent platform (HA Joram specification, 4.4): the local queue
    is drained before the next external notification is taken.
    """

    def __init__(
        self,
        server: int,
        names: Mapping[str, int],
        settings: EngineSettings | None = None,
        load: Callable[[str], AgentSpec] = load_class,
        routes: Mapping[int, int] | None = None,
    ) -> None:
        """Make the engine of `server`, with no agents.

        `names` gives the ids of all servers by name. `load` finds an agent class by its name. `routes` gives
        for every server that can be reached the neighbour that leads there; without it all are neighbours.
        """
        self.server = server
        self.settings = settings or EngineSettings()
        self._routing = Routing(server, names, routes)
        self._load = load
        self._outside = outside(server)
        self._factory_id = factory_of(server)
        self._clear()

    def _clear(self) -> None:
        self._directory = Directory()
        self._timers = Timers()
        self._mail = Mail(self.server, self._routing, self.settings, self._dead_letter)
        self._factory = Factory(self.server, self._load, self.settings)
        self.birth = 0
        """The time of the first entry this server ever applied, 0 before. It names the life of this state: a
        server that begins again with nothing has another one."""
        self.next_stamp = FIRST_FREE_STAMP
        self.position = 0
        self.applied = 0
        self.now_ns = 0
        self.dead_letters = 0
        self._chain = b""
        self._capture: Capture | None = None

    # What can be asked

    @property
    def next_timer_ns(self) -> int | None:
        """When the next timer is due: then the master submits a `Tick`."""
        return self._timers.next_due_ns

    def cells(self) -> Iterable[Cell]:
        """All agents of this server."""
        return self._directory

    def find(self, address: AgentId | str) -> Cell | None:
        """The agent at an id or name, in any of the forms of an address; None if it is not here."""
        try:
            host, local = self._routing.locate(address)
        except ValueError:
            return None
        return self._directory.find(local) if host == self.server else None

    def state_of(self, address: AgentId | str) -> bytes | None:
        """The state of an agent as a MessagePack map, or None if there is no such agent."""
        cell = self.find(address)
        return None if cell is None else cell.spec.save(cell.agent)

    @property
    def backlog(self) -> int:
        """Notifications waiting for other servers."""
        return self._mail.links.backlog

    def resolve(self, server: str | int) -> int:
        """A server's name or number to its id. Raises ValueError for an unknown one."""
        return self._routing.resolve(server)

    def pending(self, server: int) -> tuple[int, list[Note]]:
        """What `server` has not acknowledged: the number of the first, and the notifications."""
        link = self._mail.links.look(server)
        return link.first_seq, list(link.waiting)

    def received(self, server: int, birth: int) -> int:
        """The number of the last notification taken from `server` in the life of that birth."""
        link = self._mail.links.look(server)
        return link.received if link.peer_birth == birth else 0

    def peer_birth(self, server: int) -> int:
        """The birth of `server` as far as it is known here; 0 before the two have met."""
        return self._mail.links.look(server).peer_birth

    def peers(self) -> list[int]:
        """The servers with which notifications have been exchanged."""
        return self._mail.links.servers()

    def digest(self) -> bytes:
        """16 bytes that are equal on all replicas that have applied the same entries.

        Costs the agents that have changed since the last call.
        """
        header = (
            self._directory.digest().to_bytes(16, "big"),
            self._chain,
            self.birth,
            self.next_stamp,
            self.position,
            self.dead_letters,
            self._mail.links.facts(),
            [(timer.due_ns, timer.timer) for timer in self._timers.state()],
        )
        return hashlib.blake2b(msgspec.msgpack.encode(header), digest_size=16).digest()

    # Snapshots

    def snapshot(self) -> list[bytes]:
        """The whole state after the last applied entry, in chunks of about a megabyte."""
        return write_snapshot(self._header(), self._directory.states())

    def capture(self) -> Capture:
        """What has changed since the last capture, as of the last applied entry; all of it the first time.

        Encode it with `Capture.step`; the engine may go on meanwhile. Raises RuntimeError while an earlier
        capture is not complete.
        """
        if self._capture is not None and not self._capture.done:
            raise RuntimeError("a capture is under way: complete that first")
        changed = self._directory.changes()
        pending = [cell.identity for cell in self._directory] if changed is None else changed
        header = encode_header(self._header())
        self._capture = Capture(self.applied, header, changed is None, pending, self._directory.find)
        return self._capture

    def _header(self) -> Snapshot:
        return Snapshot(
            server=self.server,
            birth=self.birth,
            applied=self.applied,
            now_ns=self.now_ns,
            position=self.position,
            next_stamp=self.next_stamp,
            dead_letters=self.dead_letters,
            chain=self._chain,
            links=self._mail.links.states(),
            timers=self._timers.state(),
            keys=self._factory.keys,
        )

    def restore(self, chunks: Iterable[bytes]) -> None:
        """Replace the whole state by a snapshot.

        Raises SnapshotError, with one sentence, if it is damaged or of another server, AgentError if it
        names a class that cannot be loaded here; the engine is then empty.
        """
        self._clear()
        header, agents = read_snapshot(chunks, self.server)
        self._replace(header, agents)

    def load(self, header: bytes, agents: Iterable[AgentState]) -> None:
        """Replace the whole state by what captures have stored; the next one has what changes from here on.

        Raises what `restore` raises, and what `agents` raises.
        """
        self._clear()
        self._replace(read_header(header, self.server), agents)
        self._directory.changes()

    def _replace(self, header: Snapshot, agents: Iterable[AgentState]) -> None:
        try:
            for state in agents:
                self._directory.load(state, self._load(state.cls))
        except Exception:
            self._clear()
            raise
        self.birth = header.birth
        self.applied = header.applied
        self.now_ns = header.now_ns
        self.position = header.position
        self.next_stamp = header.next_stamp
        self.dead_letters = header.dead_letters
        self._chain = header.chain
        self._mail.links = Links(header.links)
        for timer in header.timers:
            self._timers.add(timer)
        self._factory.keys.update(header.keys)

    # Entries

    def apply(self, index: int, now_ns: int, payload: bytes) -> Effects:
        """Run the reactions to one entry of the log.

        `now_ns` is the master's stamp on it. Returns what is to be done outside. An entry that is not a batch
        is reported and passed over, on every replica alike.
        Raises EngineStopped (see `EngineSettings.stop_on_exception`), Nondeterministic.
        """
        effects = Effects(index)
        self.applied = index
        self.now_ns = max(self.now_ns, now_ns)
        self.birth = self.birth or max(1, self.now_ns)
        try:
            items = decode_batch(payload)
        except BatchError as error:
            self._report(effects, f"entry {index} passed over: {error}")
            return effects
        for item in items:
            self._take(item, effects)
        if effects.trace:
            hasher = hashlib.blake2b(self._chain, digest_size=16)
            for reaction in effects.trace:
                hasher.update(reaction.outputs or reaction.error.encode())
            self._chain = hasher.digest()
        return effects

    def _take(self, item: Item, effects: Effects) -> None:
        if isinstance(item, Posts):
            for note in item.notes:
                self._turn(note, effects)
        elif isinstance(item, NetInput):
            link = self._meet(item.server, item.birth, effects)
            for note in link.accept(item.first_seq, item.notes):
                self._turn(note, effects)
            effects.net_acks[item.server] = (item.birth, link.received)
        elif isinstance(item, NetAck):
            self._mail.links.acknowledge(item.server, item.birth, item.upto)
        elif isinstance(item, NetPeer):
            self._meet(item.server, item.birth, effects)
        else:
            for timer in self._timers.pop_due(self.now_ns, self.settings.max_timers_per_tick):
                self._turn(Note(timer.agent, timer.agent, timer.type, timer.payload), effects)

    def _meet(self, server: int, birth: int, effects: Effects) -> Link:
        """Another server was heard in the life of that birth."""
        link = self._mail.links[server]
        known = link.peer_birth
        if link.meet(birth):
            effects.births[server] = birth
            # These have numbers of the former life; they are among what waits.
            effects.network.pop(server, None)
            if known:
                self._report(
                    effects,
                    f"server {server} has begun a new life without its state: the {len(link.waiting)} "
                    "notifications that wait for it go to the new life, and what the former one had "
                    "acknowledged is lost with it",
                )
        return link

    def _turn(self, note: Note, effects: Effects) -> None:
        """React to one external notification, and to what follows from it on this server."""
        local = self._mail.local
        bound = self.position + self.settings.max_turn
        self._mail.route(note, effects)
        while local:
            if self.position >= bound:
                self._report(
                    effects,
                    f"the turn of {note.type} to {note.to} was stopped after {self.settings.max_turn} "
                    f"reactions; {len(local)} notifications went to the dead letters: "
                    "local agents must not answer each other for ever",
                )
                while local:
                    self._dead_letter(local.popleft(), "runaway turn", effects)
                return
            self._deliver(local.popleft(), effects)

    def _deliver(self, note: Note, effects: Effects) -> None:
        if note.to == self._factory_id:
            self._factory_turn(note, effects)
            return
        cell = self._directory.find(note.to)
        if cell is None:
            self._mail.unknown(note, effects)
            return
        self.position += 1
        stamp = self.next_stamp
        if self._capture is not None:
            self._capture.before(cell)
        try:
            context, outputs = cell.react(note, self.now_ns, self.position, stamp, self.resolve)
        except (Unhandled, Unfit) as error:
            self._failed(cell, note, error, effects)
        except Nondeterministic:
            raise
        except BaseException as error:
            self._failed(cell, note, error, effects)
            if self.settings.stop_on_exception:
                raise EngineStopped(
                    f"{cell.identity} ({cell.spec.name}) raised {type(error).__name__}: {_words(error)}"
                ) from error
        else:
            self._directory.touch(cell)
            sends = len(context.outcome.sends) if context.asked else 0
            self._trace(effects, cell, note, sends=sends, outputs=outputs, stamp=stamp)
            if context.asked:
                self._carry_out(cell, context, effects)

    def _carry_out(self, cell: Cell, context: Context, effects: Effects) -> None:
        outcome = context.outcome
        self.next_stamp = context.next_stamp
        for note in outcome.sends:
            self._mail.route(note, effects)
        for topic, message in outcome.emitted:
            effects.emissions.append((topic, cell.identity, message))
        for timer, due_ns, type_name, payload in outcome.timers:
            self._timers.add(Timer(due_ns, timer, cell.identity, type_name, payload))
        for timer in outcome.cancelled:
            self._timers.cancel(cell.identity, timer)
        if outcome.deleted:
            self._remove(cell)

    def _remove(self, cell: Cell) -> None:
        if self._capture is not None:
            self._capture.before(cell)
        self._directory.remove(cell)
        self._timers.cancel_all(cell.identity)

    def _factory_turn(self, note: Note, effects: Effects) -> None:
        """React to a notification to the factory agent of this server."""
        self.position += 1
        stamp = self.next_stamp
        result = self._factory.react(note, self._directory, stamp)
        self.next_stamp = result.next_stamp
        if result.created is not None:
            cell = result.created
            self._directory.add(cell)
            self._trace(
                effects, cell, note, kind="create", stamp=stamp, name=cell.name or "", state=cell.state()
            )
        elif result.deleted is not None:
            self._trace(effects, result.deleted, note, kind="delete", stamp=stamp)
            self._remove(result.deleted)
        else:
            self._trace(effects, None, note, error=result.error, stamp=stamp)
        if result.error:
            self._report(effects, f"factory: {result.error}")
        if result.answer is not None:
            self._mail.answer(note, self._factory_id, result.answer, effects)

    # Failures

    def _failed(self, cell: Cell, note: Note, error: BaseException, effects: Effects) -> None:
        kind = type(error).__name__
        message = _words(error)
        self._trace(effects, cell, note, error=f"{kind}: {message}"[:1000], stamp=self.next_stamp)
        if note.type in FAILURES and isinstance(error, Unhandled):
            return  # agents need not react to reports of failures
        self._report(effects, f"{cell.identity} ({cell.spec.name}) failed on {note.type}: {kind}: {message}")
        self._mail.refuse(note, kind, message, effects, cell.identity)

    def _dead_letter(self, note: Note, reason: str, effects: Effects) -> None:
        self.dead_letters += 1
        self.position += 1
        self._trace(effects, None, note, kind="deadletter", error=reason, stamp=self.next_stamp)
        self._report(effects, f"dead letter: {note.type} from {note.sender} to {note.to}: {reason}")

    def _report(self, effects: Effects, line: str) -> None:
        if len(effects.reports) < self.settings.max_reports:
            effects.reports.append(line)
        else:
            effects.suppressed += 1

    def _trace(
        self,
        effects: Effects,
        cell: Cell | None,
        note: Note,
        *,
        stamp: int,
        kind: str = "react",
        error: str = "",
        sends: int = 0,
        outputs: bytes = b"",
        name: str = "",
        state: bytes = b"",
    ) -> None:
        identity = (
            cell.identity if cell is not None else note.to if isinstance(note.to, AgentId) else self._outside
        )
        effects.trace.append(
            Reaction(
                self.position,
                effects.index,
                len(effects.trace),
                self.now_ns,
                identity,
                cell.spec.name if cell is not None else "",
                kind,
                note.sender,
                note.type,
                note.payload,
                note.request,
                error,
                sends,
                outputs,
                stamp,
                name,
                state,
            )
        )


def _words(error: BaseException) -> str:
    """What an exception says; its own code may fail at that."""
    try:
        return str(error)[:1000]
    except Exception:
        return "its message cannot be shown"
