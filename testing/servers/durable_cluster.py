"""A simulated cluster whose replicas have disks. A killed replica loses what was not synced."""

from collections.abc import Mapping
from typing import Any

import attrs

from ...agents import AgentId
from ...engine import AgentState, Capture, StagedPart
from ...hachannel.journal.durable_log import DurableLog, Remembered
from ...hachannel.model.log import Committed
from ...hachannel.model.messages import PAYLOAD
from ...server.node.node import Node
from ...server.node.outputs import Output
from ..channel.disk import SimulatedDisk, Write
from .cluster import Cluster, SimulatedReplica

__all__ = ["AgentDisk", "DurableCluster", "Staging"]


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


class DurableCluster(Cluster):
    """A `Cluster` whose replicas have disks.

    sync_s: range of the duration of a sync. write_s: for replicas with a slow disk, the duration of each
    sync; it covers all writes that wait when it begins. snapshot_entries: entries after which a replica may
    save a snapshot. A killed replica restarts with its disk as the same voter, unless `lose_disk` was called.
    """

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        sync_s: tuple[float, float] = (0.001, 0.02),
        write_s: Mapping[int, float] | None = None,
        snapshot_entries: int = 20,
        **options: Any,
    ) -> None:
        self.disks = {id: AgentDisk() for id in range(size)}
        self.recoveries = 0
        """The number of entries that were applied again after a restart."""
        self._logs: dict[int, DurableLog] = {}
        self._sync_s = sync_s
        self._write_s = write_s or {}
        self._snapshot_entries = snapshot_entries
        super().__init__(seed, size, **options)

    def kill(self, id: int) -> None:
        """End the process of a replica at once. A prefix of the waiting writes may become durable."""
        disk = self.disks[id]
        disk.crash(self.random.randint(0, len(disk.waiting)))
        super().kill(id)

    def lose_disk(self, id: int) -> None:
        """Replace the disk of a killed replica by an empty one."""
        self.disks[id] = AgentDisk(Remembered(guest=True))
        self.replicas[id].incarnation += 1

    def restart(self, id: int) -> None:
        """Start a killed replica again with what is on its disk."""
        replica = self.replicas[id]
        replica.node = self._node(id, replica.incarnation)
        self._start(id)

    def _node(self, id: int, incarnation: int) -> Node:
        disk = self.disks[id]
        disk.coming = {}
        engine = self._new_engine(id)
        if disk.header:
            engine.load(disk.header, disk.agents.values())
        base = disk.remembered.base.at
        if disk.saved < base:
            raise self.violation("no gap", f"a state after {disk.saved} and entries from {base + 1} on")
        for index in range(disk.saved + 1, disk.remembered.commit + 1):
            entry = disk.entries[index]
            if entry.kind == PAYLOAD:
                self.recoveries += 1
                for reaction in engine.apply(entry.index, entry.stamp_ns, entry.payload).trace:
                    known = self.known(reaction)
                    if known != reaction:
                        raise self.violation("one reaction", f"recovered with {reaction}, before {known}")
        self._logs[id] = log = disk.log()
        return self._make(id, incarnation, log=log, engine=engine)

    def _act(self, replica: SimulatedReplica, out: Output) -> None:
        for taken in out.staged:
            self._write(replica, Staging((), taken=taken))
        if out.persist:
            installed = out.installed
            saved = installed.index if installed is not None else 0
            self._write(replica, Write(out.persist, out.token, installed, saved))
            self._snapshot(replica)
        if out.switched:
            self.save(replica.id)
        super()._act(replica, out)

    def save(self, id: int) -> None:
        """Save the state of a replica now, as far as the disk is fast enough."""
        engine = self.replicas[id].node.engine
        capture = engine.capture(self.disks[id].saved)
        capture.step()
        trim = min(self._logs[id].base.at, capture.index)
        self._write(self.replicas[id], Write([Committed(capture.index)], 0, capture, capture.index, trim))

    def _snapshot(self, replica: SimulatedReplica) -> None:
        """Save the state of the engine at random times."""
        engine, disk = replica.node.engine, self.disks[replica.id]
        if engine.applied - disk.saved >= self._snapshot_entries and self.random.random() < 0.2:
            self.save(replica.id)

    def _write(self, replica: SimulatedReplica, write: Write[Capture]) -> None:
        disk = self.disks[replica.id]
        disk.waiting.append(write)
        if len(disk.waiting) == 1:
            self._sync_later(replica.id, replica.life)

    def _sync_later(self, id: int, life: int) -> None:
        slow_s = self._write_s.get(id)
        if slow_s is None:
            self.at(self.random.uniform(*self._sync_s), lambda: self._synced(id, life))
        else:
            count = len(self.disks[id].waiting)
            self.at(slow_s, lambda: self._synced(id, life, count))

    def _synced(self, id: int, life: int, count: int = 0) -> None:
        """End a sync of the first `count` waiting writes, of a random number for 0."""
        replica, disk = self.replicas[id], self.disks[id]
        if not replica.alive or replica.life != life or not disk.waiting:
            return
        # Writes that began during a sync wait for the next one.
        token = disk.sync(count or self.random.randint(1, len(disk.waiting)))
        if disk.waiting:
            self._sync_later(id, life)
        if token:
            self._do(replica, replica.node.persisted, token)
