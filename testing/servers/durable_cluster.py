"""A simulated cluster whose replicas have disks. A killed replica loses what was not synced."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...server.node.node import Node
from ...server.node.outputs import Output
from ..channel.disk import DiskError
from .cluster import Cluster, SimulatedReplica
from .memory_disk import DiskTimes, MemoryDisk

__all__ = ["DurableCluster"]


class DurableCluster(Cluster):
    """A `Cluster` whose replicas have disks.

    write_s: for replicas with a slow disk, the duration of each sync. snapshot_entries: see `DiskTimes`. A
    killed replica restarts with its disk as the same voter, unless `lose_disk` was called.
    """

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        write_s: Mapping[int, float] | None = None,
        snapshot_entries: int = 20,
        **options: Any,
    ) -> None:
        self.disks: dict[int, MemoryDisk] = {}
        self._write_s = write_s or {}
        self._snapshot_entries = snapshot_entries
        super().__init__(seed, size, **options)

    @property
    def recoveries(self) -> int:
        """The number of entries that were applied again after a restart."""
        return sum(disk.recoveries for disk in self.disks.values())

    def kill(self, id: int) -> None:
        """End the process of a replica at once. A prefix of the waiting writes may become durable."""
        self.disks[id].crash()
        super().kill(id)

    def lose_disk(self, id: int) -> None:
        """Replace the disk of a killed replica by an empty one."""
        self.disks[id].lose()
        self.replicas[id].incarnation = self.disks[id].incarnation

    def restart(self, id: int) -> None:
        """Start a killed replica again with what is on its disk."""
        replica = self.replicas[id]
        replica.node = self._node(id, replica.incarnation)
        self._start(id)

    def save(self, id: int) -> None:
        """Save the state of a replica now, as far as the disk is fast enough."""
        self.disks[id].save()

    def _node(self, id: int, incarnation: int) -> Node:
        if id not in self.disks:
            times = DiskTimes(write_s=self._write_s.get(id), snapshot_entries=self._snapshot_entries)
            self.disks[id] = MemoryDisk(self.random, times)
        disk, engine = self.disks[id], self._new_engine(id)
        try:
            log, reactions = disk.recover(engine)
        except DiskError as error:
            raise self.violation("no gap", str(error)) from error
        for reaction in reactions:
            known = self.known(reaction)
            if known != reaction:
                raise self.violation("one reaction", f"recovered with {reaction}, before {known}")
        disk.attach(self.time, engine, log, partial(self._persisted, id))
        return self._make(id, incarnation, log=log, engine=engine)

    def _act(self, replica: SimulatedReplica, out: Output) -> None:
        self.disks[replica.id].write(out)
        super()._act(replica, out)

    def _persisted(self, id: int, token: int) -> None:
        replica = self.replicas[id]
        if replica.alive:
            self._do(replica, replica.node.persisted, token)
