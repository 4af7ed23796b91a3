"""Everything that a simulated cluster hears of its servers: their logs, what they apply, and invariants."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ...agents import Address, Agent, AgentSpec
from ...engine import Engine, load_class
from ...server.config import Config, Server
from ..channel.violation import Violation
from ..determinism.guard import Guard
from .memory_replica import MemoryReplica
from .memory_server import MemoryServer, ServerFollower
from .recorded_engine import RecordedEngines
from .virtual_time import VirtualTime

__all__ = ["ClusterWatch", "Invariant", "ReplicaView"]

LOG_LINES: Final = 200
"""Lines of the logs of all replicas that are kept."""
SHOWN_LINES: Final = 30
"""Lines of them that an error shows."""


class ReplicaView:
    """The agents of one replica, for an invariant. To be read only."""

    def __init__(self, server: str, replica: int, engine: Engine) -> None:
        self.server = server
        self.replica = replica
        self._engine = engine

    @property
    def applied(self) -> int:
        """The last entry that the replica has applied."""
        return self._engine.applied

    def agent(self, address: Address) -> Agent | None:
        """Return an agent by its id or name; None if it is not there, for example not yet."""
        cell = self._engine.find(address)
        return None if cell is None else cell.agent

    def agents(self, cls: type[Agent] | None = None) -> list[Agent]:
        """Return all agents, or those of a class."""
        kind = Agent if cls is None else cls
        return [cell.agent for cell in self._engine.cells() if isinstance(cell.agent, kind)]


Invariant = Callable[[ReplicaView], object]
"""Raises AssertionError, or returns False, if the agents of a replica are not as they must be."""


class ClusterWatch(ServerFollower):
    """Keeps the logs, checks the invariants of a test, and makes the engines of all replicas."""

    def __init__(self, seed: int, time: VirtualTime, guard: Guard | None) -> None:
        """guard: watches the reactions of all replicas; None: nothing does."""
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        """The last lines of the logs of all replicas, and the faults."""
        self.classes: dict[str, AgentSpec] = {}
        """The agent classes of the test by location; others are imported."""
        self.each_entry: list[tuple[str, Invariant]] = []
        """The invariants that are checked after each entry, with their names."""
        self.at_end: list[tuple[str, Invariant]] = []
        """Those that are checked at the end."""
        self.engines = RecordedEngines(
            lambda location: self.classes.get(location) or load_class(location), guard
        )
        self._seed = seed
        self._time = time
        self._began_at = time.now

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._time.now - self._began_at

    def check(
        self, invariants: Sequence[tuple[str, Invariant]], server: MemoryServer, replica: MemoryReplica
    ) -> None:
        """Check invariants on a replica. Raises Violation."""
        view = ReplicaView(server.server.name, replica.id, replica.engine)
        for name, check in invariants:
            why = ""
            try:
                holds = check(view) is not False
            except AssertionError as error:
                holds, why = False, f": {error}" if str(error) else ""
            if not holds:
                where = f"replica {replica.id} of {server.server.name}, after entry {view.applied}"
                self.broken = self.violation(name, f"does not hold on {where}{why}")
                raise self.broken

    def explain(self, error: BaseException) -> None:
        """Add the seed and the last lines of the logs to an error, once."""
        if not getattr(error, "__notes__", None):
            lines = "\n".join(f"  {line}" for line in list(self.log)[-SHOWN_LINES:])
            error.add_note(
                f"The run is repeated with seed={self._seed}. The last lines of the replicas:\n{lines}"
            )

    def _load(self, location: str) -> AgentSpec:
        return self.classes.get(location) or load_class(location)

    # Reports of the servers

    def new_engine(self, config: Config, server: Server) -> Engine:
        """Return an engine that keeps its entries, and whose reactions the guard watches."""
        return self.engines.new_engine(config, server)

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, with the seed and the virtual time."""
        at = f"seed {self._seed}, at {self.now:.3f} s"
        error = Violation(f"{invariant}: {text} ({at})", invariant=invariant, at=self.now)
        error.seed = self._seed
        return error

    def applied(self, server: MemoryServer, replica: MemoryReplica) -> None:
        """Check the invariants of each entry."""
        self.check(self.each_entry, server, replica)

    def follow_log(self, server: MemoryServer, replica: int, line: str) -> None:
        """Keep a line of the log of a replica."""
        self.log.append(f"{self.now:9.3f} s  {server.server.name}.{replica}  {line}")
