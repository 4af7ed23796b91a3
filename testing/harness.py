"""One server in a test: agents and a virtual clock, without processes, sockets and disks."""

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from ..agents import (
    Address,
    Agent,
    AgentError,
    AgentId,
    AgentSpec,
    Create,
    Created,
    CreateFailed,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    known_type,
    outside,
    read,
)
from ..engine import Effects, Engine, EngineSettings, Item, NetAck, Posts, Tick, encode_batch, load_class
from .determinism.guard import Guard
from .determinism.hash_seeds import HASH_SEEDS, check_hash_seeds, modules_of
from .determinism.rerun_log import Job

__all__ = ["Harness"]


class Harness:
    """Runs agents as a server would, one entry per call, on a clock that the test moves.

    ::

        harness = Harness()
        account = harness.deploy(Account, name="alice")
        assert harness.send("alice", Deposit(5)) == [Balance(5)]

    Classes that are deployed need not be importable; those that agents create with ``ctx.create`` must be.
    Each call raises `NondeterministicReaction` if a reaction used a clock, the random module or anything else
    that differs between replicas.
    """

    def __init__(
        self,
        server: int = 0,
        names: dict[str, int] | None = None,
        settings: EngineSettings | None = None,
        routes: dict[int, int] | None = None,
        *,
        guard: Guard | bool = True,
    ) -> None:
        """Make the server with the id `server`.

        names: the ids of all servers by name, this one included; by default only this one, as "s0" for 0.
        settings: of the engine. routes: for each server that can be reached, the neighbour that leads there.
        guard: watches the reactions; False: they are not watched, and may use what they like.
        """
        self.now_ns = 1_700_000_000_000_000_000
        self._classes: dict[str, AgentSpec] = {}
        self._names = names or {f"s{server}": server}
        self._routes = routes
        self.engine = Engine(server, self._names, settings, self._load, routes)
        self.guard = Guard() if guard is True else guard or None
        """Watches the reactions; None: nothing does."""
        if self.guard is not None:
            self.engine.current = self.guard.reaction_of()
        self.log: list[tuple[int, int, bytes]] = []
        """The entries so far: index, time stamp in nanoseconds, payload."""
        self.reports: list[str] = []
        """The reports of the engine so far."""
        self.agent_lines: list[str] = []
        """The lines that agents wrote with ``ctx.log`` so far."""

    def _load(self, location: str) -> AgentSpec:
        return self._classes.get(location) or load_class(location)

    def know(self, *classes: type[Agent]) -> None:
        """Let these classes be created by ``module:Class`` though they cannot be imported."""
        for cls in classes:
            spec = agent_spec(cls)
            self._classes[spec.location] = spec

    def apply(self, *items: Item) -> Effects:
        """Apply one entry with these items. Return what the server would do: replies, messages, reports."""
        return self.replay(self.engine.applied + 1, self.now_ns, encode_batch(items))

    def replay(self, index: int, now_ns: int, payload: bytes) -> Effects:
        """Apply an entry of the `log` of another harness."""
        self.log.append((index, now_ns, payload))
        try:
            effects = self.engine.apply(index, now_ns, payload)
        finally:
            if self.guard is not None:
                self.guard.end()
        self.reports.extend(effects.reports)
        self.agent_lines.extend(effects.agent_lines)
        if self.guard is not None:
            self.guard.raise_findings()
        return effects

    def deploy(self, cls: type[Agent], name: str | None = None, **state: Any) -> AgentId:
        """Create an agent from the arguments of its constructor, and return its id. Raises AgentError if that
        fails."""
        self.know(cls)
        values = msgspec.msgpack.encode(state)
        create = Create(class_name=agent_spec(cls).location, name=name, state=values)
        answer = self.send(factory(self.engine.server), create)[0]
        if isinstance(answer, CreateFailed):
            raise AgentError(answer.reason)
        if not isinstance(answer, Created):
            raise AgentError(f"the factory answered {answer}")
        return answer.id

    def post(self, *notes: Note) -> Effects:
        """Apply one entry with these notifications, as a master submits them, and return its effects."""
        return self.apply(Posts(self.engine.checked(list(notes))))

    def note(self, to: Address, notification: Notification, request: int = 0) -> Note:
        """Return the envelope of a notification that comes from outside of the server."""
        sender = outside(self.engine.server)
        return Note(to, sender, notification.type_name, encode(notification), request)

    def send(self, to: Address, notification: Notification) -> list[Notification]:
        """Send a notification from outside, and return the notifications that come back outside."""
        return self.decoded(self.post(self.note(to, notification)).replies)

    @staticmethod
    def decoded(notes: list[Note]) -> list[Notification]:
        """Return the notifications in these envelopes. Raises LookupError for a type that is not defined."""
        found: list[Notification] = []
        for note in notes:
            cls = known_type(note.type)
            if cls is None:
                raise LookupError(f"no notification class {note.type} is defined here")
            found.append(read(cls, note.type, note.payload))
        return found

    def advance(self, seconds: float) -> Effects:
        """Move the clock by `seconds`, and fire the timers that are due. Raises ValueError below 0."""
        if not seconds >= 0:
            raise ValueError(f"the clock cannot be moved by {seconds} s; give 0 or more")
        self.now_ns += round(seconds * 1_000_000_000)
        return self.apply(Tick())

    def acknowledge(self, server: int, upto: int) -> Effects:
        """Apply the acknowledgement of another server for everything up to the number `upto`."""
        return self.apply(NetAck(server, self.engine.peer_birth(server), upto))

    def check_hash_seeds(self, seeds: Sequence[int] = HASH_SEEDS) -> None:
        """Apply the entries so far again, in one new process for each hash seed, and compare the results.

        It finds what depends on the order of a set of text, on `hash` of text or on an address. The classes
        of the agents must be importable. It takes about as long as starting Python.
        Raises NondeterministicReaction, which names the first line that went otherwise, and HashSeedError if
        the entries cannot be applied in another process.
        """
        classes = {spec.cls for spec in self._classes.values()}
        classes |= {cell.spec.cls for cell in self.engine.cells()}
        check_hash_seeds(
            Job(
                self.engine.server,
                self._names,
                self._routes,
                attrs.asdict(self.engine.settings),
                modules_of(classes),
                self.log,
            ),
            seeds,
        )

    def agent(self, address: Address) -> Agent:
        """Return the agent itself, to inspect its state. Raises LookupError if there is none."""
        cell = self.engine.find(address)
        if cell is None:
            raise LookupError(f"there is no agent {address}")
        return cell.agent
