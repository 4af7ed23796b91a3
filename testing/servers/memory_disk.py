"""A disk in memory: it syncs after a while, and keeps what was synced when the process ends."""

import random
from collections.abc import Callable
from typing import Any

import attrs

from ...agents import AgentId
from ...engine import AgentState, Capture, Engine, Reaction, StagedPart
from ...hachannel.journal.durable_log import DurableLog, Remembered
from ...hachannel.model.log import Committed
from ...hachannel.model.messages import PAYLOAD
from ...server.node.outputs import Output
from ..channel.disk import DiskError, SimulatedDisk, Write

__all__ = ["AgentDisk", "DiskTimes", "MemoryDisk"]


@attrs.frozen
class DiskTimes:
    """How fast a disk is, and when the state of the engine is saved on it."""

    sync_s: tuple[float, float] = (0.001, 0.02)
    """The range of the duration of a sync, which makes a random number of the waiting writes durable."""
    write_s: float | None = None
    """For a slow disk, the duration of each sync; it covers all writes that wait when it begins."""
    snapshot_entries: int = 20
    """Entries after which the state may be saved and the log trimmed."""


@attrs.frozen
class Staging(Write[Capture]):
    """A write of agents that belong to an incoming state."""

    taken: StagedPart = attrs.field(kw_only=True)


@attrs.define(eq=False)
class AgentDisk(SimulatedDisk[Capture]):
    """A disk that keeps each agent of an engine in its last saved state."""

    header: bytes = b""
    agents: dict[AgentId, AgentState] = attrs.field(factory=dict[AgentId, AgentState])
    coming: dict[AgentId, AgentState] = attrs.field(factory=dict[AgentId, AgentState])
    """The agents of a state that is not complete. A start drops them."""

    def put(self, write: Write[Capture]) -> None:
        """Make one write durable. Raises DiskError."""
        super().put(write)
        if isinstance(write, Staging):
            if write.taken.anew:
                self.coming = {}
            self.coming |= {agent.identity: agent for agent in write.taken.agents}

    def save(self, state: Capture) -> None:
        """Save the agents that have changed."""
        if state.staged:
            self.agents, self.coming = self.coming, {}
        elif state.full:
            self.agents = {}
        for identity in state.deleted:
            self.agents.pop(identity, None)
        self.agents |= {agent.identity: agent for agent in state.agents}
        self.header = state.header


class MemoryDisk:
    """A disk that outlives the processes of its replica. `attach` gives it to the next one.

    Implements `DiskPort`.
    """

    def __init__(self, rng: random.Random, times: DiskTimes | None = None) -> None:
        self.content = AgentDisk()
        self.incarnation = 1
        """The voter that the content belongs to."""
        self.times = times or DiskTimes()
        self.recoveries = 0
        """The number of entries that were applied again at a start."""
        self._random = rng
        self._process = 0

    def lose(self) -> None:
        """Replace the content by nothing: the replica joins as a new voter, and never founds a cluster."""
        self.content = AgentDisk(Remembered(guest=True))
        self.incarnation += 1

    def crash(self) -> None:
        """End the process: a prefix of the waiting writes becomes durable."""
        self._process += 1
        self.content.crash(self._random.randint(0, len(self.content.waiting)))

    def recover(self, engine: Engine) -> tuple[DurableLog, list[Reaction]]:
        """Bring an engine to the state on the disk; return the log, and the reactions that ran again.

        Raises DiskError if entries are missing between the state and the log.
        """
        disk = self.content
        disk.coming = {}
        if disk.header:
            engine.load(disk.header, disk.agents.values())
        base = disk.remembered.base.at
        if disk.saved < base:
            raise DiskError(f"a state after {disk.saved} and entries from {base + 1} on")
        reactions: list[Reaction] = []
        for index in range(disk.saved + 1, disk.remembered.commit + 1):
            entry = disk.entries[index]
            if entry.kind == PAYLOAD:
                self.recoveries += 1
                reactions += engine.apply(entry.index, entry.stamp_ns, entry.payload).trace
        return disk.log(), reactions

    def attach(self, reactor: Any, engine: Engine, log: DurableLog, persisted: Callable[[int], None]) -> None:
        """Serve a process: `persisted` is called with a token once the records up to it are durable.

        `reactor` has the clock of the process.
        """
        self._reactor, self._engine, self._log, self._persisted = reactor, engine, log, persisted

    def write(self, out: Output) -> None:
        """Begin to make the records and the staged agents of an output durable."""
        for staged in out.staged:
            self._put(Staging((), taken=staged))
        if out.persist:
            installed = out.installed
            saved = installed.index if installed is not None else 0
            self._put(Write(out.persist, out.token, installed, saved))
            due = self._engine.applied - self.content.saved >= self.times.snapshot_entries
            if due and self._random.random() < 0.2:
                self.save()
        if out.switched:
            self.save()

    def save(self) -> None:
        """Save the state of the engine now, as far as the disk is fast enough."""
        capture = self._engine.capture(self.content.saved)
        capture.step()
        trim = min(self._log.base.at, capture.index)
        self._put(Write([Committed(capture.index)], 0, capture, capture.index, trim))

    def _put(self, write: Write[Capture]) -> None:
        waiting = self.content.waiting
        waiting.append(write)
        if len(waiting) == 1:
            self._sync_later()

    def _sync_later(self) -> None:
        times, count = self.times, len(self.content.waiting)
        if times.write_s is None:
            self._reactor.callLater(self._random.uniform(*times.sync_s), self._sync, self._process, 0)
        else:
            self._reactor.callLater(times.write_s, self._sync, self._process, count)

    def _sync(self, process: int, count: int) -> None:
        """End a sync of the first `count` waiting writes, of a random number for 0."""
        disk = self.content
        if process != self._process or not disk.waiting:
            return
        # Writes that began during a sync wait for the next one.
        token = disk.sync(count or self._random.randint(1, len(disk.waiting)))
        if disk.waiting:
            self._sync_later()
        if token:
            self._persisted(token)
