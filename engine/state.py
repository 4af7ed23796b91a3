"""The state of one server's agents and queues: queries, captures for the disk, transfer to a replica."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ..agents import FIRST_FREE_STAMP, AgentId, AgentSpec, Note, outside
from ..agents import factory as factory_of
from ..agents.lifecycle import AgentPage, AgentRow, ListAgents
from .agent_log import AgentLog
from .causal_order import Awaited
from .cell import AgentState, Cell
from .class_loading import Program, load_class
from .class_versions import UpgradePending, VersionTable
from .current_reaction import CurrentReaction
from .dead_letters import DeadLetter, DeadLetters
from .directory import Directory
from .effects import Effects
from .factory import Factory
from .lifecycle import row_of
from .paused import PausedAgents
from .routing import Mail, Routing
from .runaway import Runaways, TimerRate
from .server_links import LinkNumbers, Links
from .settings import EngineSettings
from .snapshot.capture import Capture
from .snapshot.digest import IncrementalDigest, digest_of
from .snapshot.header import Snapshot, SnapshotError, SnapshotTooEarly, encode_header, read_header
from .snapshot.transfer import Source, Staging, spec_of
from .timers import Timer, Timers

__all__ = ["EngineState"]


class EngineState:
    """The replicated state of an `Engine`, as a whole.

    The class has more than 20 methods. They are three views of one state that must agree on what belongs to
    it: queries, captures for the disk, transfer to another replica. Each view's work is in a class of its own
    (`Directory`, `Capture`, `Source`, `Staging`); this class has the parts that all of them need.
    """

    def __init__(
        self,
        server: int,
        names: Mapping[str, int],
        settings: EngineSettings | None = None,
        load: Callable[[str], AgentSpec] = load_class,
        routes: Mapping[int, int] | None = None,
        program: Program | None = None,
        causal: Sequence[Collection[int]] = (),
    ) -> None:
        """Make the engine of `server`, with no agents.

        `names` gives the ids of all servers by name. `load` finds an agent class by ``module:Class``.
        `routes` gives for every server that can be reached the neighbour that leads there; without it all are
        neighbours. `program`: the agent classes in place of those of this process, `load` included. `causal`
        has the servers of each domain of this one in which the order is causal.
        """
        self.server = server
        self._causal = [frozenset(members) for members in causal]
        self.settings = settings or EngineSettings()
        self._routing = Routing(server, names, routes)
        self.program = program or Program(load)
        """The agent classes of this process."""
        self._outside = outside(server)
        self._factory_id = factory_of(server)
        self.current = CurrentReaction()
        """What is applied at this moment; other threads read it."""
        self._clear()

    def _clear(self) -> None:
        self._directory = Directory()
        self._timers = Timers()
        self._paused = PausedAgents()
        self._letters = DeadLetters()
        self._timer_rate = TimerRate(self.settings.max_timers_per_s)
        self._runaways = Runaways()
        self._agent_log = AgentLog()
        self._bound = 0
        """The position that the present turn may reach."""
        self._passing: AgentId | None = None
        """The agent that is being resumed, while the notification that it is to get has not reached it."""
        self._orphans: deque[Note] = deque()
        """What had waited for paused agents that were deleted. Empty between two entries."""
        self._mail = Mail(self.server, self._routing, self.settings, self._dead_letter)
        self.classes = VersionTable(self.program)
        """The versions of agent classes in use."""
        self._factory = Factory(self.server, self.program.load, self.settings, self.classes)
        self._mail.links = self._links()
        self.birth = 0
        """The time of the first entry this server ever applied, 0 before. It names the life of this state: a
        server that begins again with nothing has another one."""
        self.next_stamp = FIRST_FREE_STAMP
        self.rows_made = 0
        """How many rows were ever made: each has an id of its own."""
        self.position = 0
        self.applied = 0
        self.now_ns = 0
        self.dead_letters: int = 0
        self.stopped_turn = ""
        """The report of the last turn that was stopped here. It only serves the status: it is no part of the
        replicated state."""
        self.failures: int = 0
        """Reactions that have failed since this process began; no part of the replicated state either."""
        self.chain = b""
        """The outputs of all reactions, hashed one after the other."""
        self._capture: Capture | None = None
        self._rest: Capture | None = None
        """The agents of the last parts of a transfer, as of one entry, until they are encoded."""

    # Queries

    @property
    def next_timer_ns(self) -> int | None:
        """The time at which the next timer is due, when the master submits a `Tick`. None: there is no
        timer."""
        return self._timers.next_due_ns

    def cells(self) -> Iterable[Cell]:
        """Return all agents of this server."""
        return self._directory

    @property
    def agents(self) -> int:
        """How many agents there are, those of the platform included and rows not."""
        return len(self._directory) - self._directory.rows.count

    def find(self, address: AgentId | str) -> Cell | None:
        """Return the agent at an id or name, in any form of an address; None if it is not here."""
        try:
            host, local = self._routing.locate(address)
        except ValueError:
            return None
        return self._directory.find(local) if host == self.server else None

    def page(self, ask: ListAgents) -> AgentPage:
        """Return a page of the agents, at the cost of that page. Raises ValueError for a wrong `after`."""
        cells, after = self._directory.index.page(ask, self._directory.find)
        return AgentPage([row_of(cell, self._paused) for cell in cells], after)

    def row(self, address: AgentId | str) -> AgentRow | None:
        """Return what a list of the agents says of one, or None if there is no such agent."""
        cell = self.find(address)
        return None if cell is None else row_of(cell, self._paused)

    def timers(
        self, agent: AgentId | None = None, after: tuple[int, int] | None = None, limit: int = 1000
    ) -> list[Timer]:
        """Return timers in the order in which they are due: see `Timers.page`."""
        return self._timers.page(agent, after, limit)

    def letters(self, after: int = 0, limit: int = 1000) -> list[DeadLetter]:
        """Return kept dead letters with numbers above `after`, oldest first."""
        return self._letters.page(after, limit)

    def declared(self, key: str) -> bool:
        """Return whether the declared agent with this key was made, in this life of the server."""
        return key in self._factory.declared

    @property
    def paused_agents(self) -> int:
        """How many agents are paused."""
        return len(self._paused)

    def state_of(self, address: AgentId | str) -> bytes | None:
        """Return the state of an agent as a MessagePack map, or None if there is no such agent."""
        cell = self.find(address)
        return None if cell is None else cell.spec.save(cell.agent)

    @property
    def backlog(self) -> int:
        """Notifications waiting for other servers."""
        return self._mail.links.backlog

    def resolve(self, server: str | int) -> int:
        """Return the id of a server by its name or number. Raises ValueError for an unknown one."""
        return self._routing.resolve(server)

    def pending(self, server: int) -> tuple[int, list[Note]]:
        """Return what `server` has not acknowledged: the number of the first, and the notifications."""
        link = self._mail.links.peek(server)
        return link.first_seq, list(link.waiting)

    def received(self, server: int, birth: int) -> int:
        """Return the number of the last notification from `server`, in the life of that birth, that is
        acknowledged: accepted, and not held back."""
        links = self._mail.links
        return links.delivered(server) if links.peek(server).peer_birth == birth else 0

    def settled(self, server: int) -> int:
        """Return up to which count lives of `server` have acknowledged, in a domain with causal order."""
        return self._mail.links.settled(server)

    def awaited(self, server: int) -> tuple[int, Awaited | None]:
        """Return how many notifications of `server` are held back, and what the first of them waits for."""
        return self._mail.links.awaited(server)

    def link_numbers(self, server: int) -> LinkNumbers:
        """Return the numbers of the exchange with `server`."""
        return self._mail.links.peek(server).numbers

    def peer_birth(self, server: int) -> int:
        """Return the last known birth of `server`; 0 before the two servers have met."""
        return self._mail.links.peek(server).peer_birth

    def peers(self) -> list[int]:
        """Return the servers with which notifications have been exchanged."""
        return self._mail.links.servers()

    def digest(self) -> bytes:
        """Return 16 bytes that are equal on all replicas that have applied the same entries.

        The cost is that of the agents that have changed since the last call. Use `incremental_digest` where
        that may be too much at once.
        """
        return digest_of(self._directory.digest(), self._own_facts())

    def incremental_digest(self) -> IncrementalDigest:
        """Return the digest as of now, to be computed in steps while the engine applies further entries."""
        return IncrementalDigest(self._directory, self._own_facts())

    def _own_facts(self) -> tuple[object, ...]:
        return self._facts(self._mail.links, self._timers, self._paused, self._letters, self)

    def has_digest(self, digest: IncrementalDigest) -> bool:
        """Return whether a digest is of this state, not of one that `install` or `load` has replaced."""
        return digest.of(self._directory)

    @staticmethod
    def _facts(
        links: Links,
        timers: Timers,
        paused: PausedAgents,
        letters: DeadLetters,
        rest: "EngineState | Snapshot",
    ) -> tuple[object, ...]:
        return (
            rest.chain,
            rest.birth,
            rest.next_stamp,
            rest.position,
            rest.dead_letters,
            links.facts(),
            [(timer.due_ns, timer.timer) for timer in timers.state()],
            paused.facts(),
            letters.facts(),
            sorted((rest.classes.used if isinstance(rest, EngineState) else rest.versions).items()),
            *links.causal_facts(),
            *((rest.rows_made,) if rest.rows_made else ()),
        )

    # Captures, for the disk

    @property
    def capturing(self) -> bool:
        """True while a capture is not complete."""
        return self._capture is not None and not self._capture.done

    def capture(self, index: int = 0) -> Capture:
        """Return a capture of the changes since the last one, as of the last applied entry.

        The first capture has the whole state. `index`: the capture counts as the state after this entry; the
        entries up to it do not change the engine. Encode it with `Capture.step`; the engine may apply entries
        meanwhile. Raises RuntimeError while an earlier capture is not complete.
        """
        if self.capturing:
            raise RuntimeError("a capture is under way: complete that first")
        changed = self._directory.changes()
        covered = [cell.identity for cell in self._directory] if changed is None else changed
        self._capture = self._captured(index, covered, changed is None)
        return self._capture

    def adopted(self, index: int, gone: Sequence[AgentId]) -> Capture:
        """Return a complete capture without agents, for a store that has received all of them in parts.

        The store deletes the agents in `gone`.
        """
        self._directory.changes()
        capture = self._capture = self._captured(index, [], False)
        capture.deleted.extend(gone)
        capture.staged = True
        return capture

    def _captured(self, index: int, covered: Sequence[AgentId], full: bool) -> Capture:
        header = encode_header(self._header())
        return Capture(max(self.applied, index), header, full, covered, self._directory.find)

    def _header(self) -> Snapshot:
        return Snapshot(
            server=self.server,
            birth=self.birth,
            applied=self.applied,
            now_ns=self.now_ns,
            position=self.position,
            next_stamp=self.next_stamp,
            rows_made=self.rows_made,
            dead_letters=self.dead_letters,
            chain=self.chain,
            links=self._mail.links.states(),
            clocks=self._mail.links.clocks(),
            timers=self._timers.state(),
            keys=self._factory.keys,
            declared=self._factory.declared,
            paused=self._paused.states(),
            letters=self._letters.state(),
            versions=self.classes.used,
        )

    def load(self, header: bytes, agents: Iterable[AgentState]) -> None:
        """Replace the whole state by the one that captures have stored. The next capture has later changes.

        Raises SnapshotError, with one sentence, if the state is damaged or of another server, AgentError if
        it names a class that cannot be loaded here, and what `agents` raises; the engine is then empty.
        """
        self._clear()
        head = read_header(header, self.server)
        specs: dict[tuple[str, str], AgentSpec] = {}
        try:
            for state in agents:
                names = (state.cls, state.location)
                if names not in specs:
                    specs[names] = spec_of(self.program, state)
                self._directory.load(state, specs[names], self.resolve)
            try:
                self._directory.bind_all()
            except ValueError as error:
                raise SnapshotError(f"the state cannot be used: {error}") from error
        except Exception:
            self._clear()
            raise
        self._directory.changes()
        self._replace(head, self._links(head), _timers(head))
        self.classes.ahead = self.classes.later({spec.name for spec in specs.values()})

    # Transfer, to another replica

    def source(self, marker: bytes = b"", have: int = 0) -> Source:
        """Return the whole state in parts, for a replica that has the state after entry `have`, or `marker`.

        The engine may apply entries meanwhile. A new source ends the one before.
        """
        return Source(self._directory, lambda: self.applied, self._freeze, self.birth, marker, have)

    def _freeze(self, rest: Sequence[AgentId]) -> tuple[Capture, IncrementalDigest]:
        self._rest = self._captured(0, rest, False)
        return self._rest, self.incremental_digest()

    def staging(self) -> Staging:
        """Return an object that collects the parts of another engine's state."""
        return Staging(
            lambda identity: self._directory.find(identity),
            lambda: self.birth,
            self.program,
            self.resolve,
        )

    def install(self, staging: Staging) -> None:
        """Replace the whole state by the collected parts. The next capture has the differences.

        Raises SnapshotError, and changes nothing, if the parts are incomplete or differ from the source;
        SnapshotTooEarly if they are from before the switch to the agent classes of this process.
        """
        for _ in self.installing(staging):
            pass

    def installing(self, staging: Staging, limit: int = 1000) -> Iterator[None]:
        """Install in steps of `limit` agents. Nothing is changed before the last step.

        The engine must not apply entries meanwhile.
        """
        end = staging.end
        if end is None:
            raise SnapshotError("the state is not complete")
        head = read_header(end.header, self.server)
        earlier, directory, capture = self._directory, Directory(), self._capture
        directory.succeed(earlier, () if capture is None or capture.written else capture.covered)
        names: set[str] = set()
        for count, (identity, cell) in enumerate(staging.cells.items(), 1):
            names.add(cell.spec.name)
            own = earlier.find(identity) is cell
            directory.adopt(cell, earlier.hash_of(cell) if own else staging.hashes[identity], earlier)
            if count % limit == 0:
                yield
        for count, cell in enumerate(earlier, 1):
            directory.lose(cell)
            if count % limit == 0:
                yield
        ahead = VersionTable(self.program, head.versions).later(names)
        if ahead:
            raise SnapshotTooEarly(str(UpgradePending(ahead)))
        links, timers = self._links(head), _timers(head)
        facts = self._facts(links, timers, PausedAgents(head.paused), DeadLetters(head.letters), head)
        if digest_of(directory.digest(), facts) != end.digest:
            raise SnapshotError("the state that was received is not the one that was sent")
        try:
            directory.bind_all()
        except ValueError as error:
            raise SnapshotError(f"the state cannot be used: {error}") from error
        self._clear()
        self._directory = directory
        self._replace(head, links, timers)

    def snapshot(self) -> list[bytes]:
        """Return the whole state after the last applied entry, for `restore`."""
        source = self.source()
        parts: list[bytes] = []
        while not source.over:
            part = source.next()
            if part is not None:
                parts.append(part.data)
        return parts

    def restore(self, parts: Iterable[bytes]) -> None:
        """Replace the whole state by a snapshot. Raises what `Staging.accept` and `install` raise."""
        staging = self.staging()
        for part in parts:
            staging.accept(part)
        self.install(staging)

    def _links(self, header: Snapshot | None = None) -> Links:
        states, clocks = ((), ()) if header is None else (header.links, header.clocks)
        return Links(states, clocks, server=self.server, causal=self._causal)

    def _replace(self, header: Snapshot, links: Links, timers: Timers) -> None:
        self.birth = header.birth
        self.applied = header.applied
        self.now_ns = header.now_ns
        self.position = header.position
        self.next_stamp = header.next_stamp
        self.rows_made = header.rows_made
        self.dead_letters = header.dead_letters
        self.chain = header.chain
        self._mail.links = links
        self._timers = timers
        self._paused = PausedAgents(header.paused)
        self._letters = DeadLetters(header.letters)
        self._factory.keys.update(header.keys)
        self._factory.declared.update(header.declared)
        self.classes.used.update(header.versions)

    def _dead_letter(self, note: Note, reason: str, effects: Effects) -> None:
        """Record a notification that has no recipient."""
        raise NotImplementedError


def _timers(header: Snapshot) -> Timers:
    timers = Timers()
    for timer in header.timers:
        timers.add(timer)
    return timers
