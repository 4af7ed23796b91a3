"""A disk in memory: it syncs after a while, and keeps what was synced when the process ends."""

import random
from collections.abc import Callable

from ...engine import Capture, Engine, Reaction
from ...hachannel.journal.durable_log import DurableLog, Remembered
from ...hachannel.model.log import Committed
from ...hachannel.model.messages import PAYLOAD
from ...hachannel.transport.ports import ClockPort
from ...server.node.outputs import Output
from ..channel.disk import Write
from .durable_cluster import AgentDisk, Staging

__all__ = ["MemoryDisk"]

SNAPSHOT_ENTRIES = 20
"""Entries after which the state may be saved and the log trimmed."""
SYNC_S = (0.001, 0.02)


class MemoryDisk:
    """A disk that outlives the processes of its replica. `attach` gives it to the next one.

    Implements `DiskPort`.
    """

    def __init__(self, rng: random.Random) -> None:
        self.content = AgentDisk()
        self.incarnation = 1
        """The voter that the content belongs to."""
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
        """Bring an engine to the state on the disk; return the log, and the reactions that ran again."""
        disk = self.content
        disk.coming = {}
        if disk.header:
            engine.load(disk.header, disk.agents.values())
        reactions: list[Reaction] = []
        for index in range(disk.saved + 1, disk.remembered.commit + 1):
            entry = disk.entries[index]
            if entry.kind == PAYLOAD:
                reactions += engine.apply(entry.index, entry.stamp_ns, entry.payload).trace
        return disk.log(), reactions

    def attach(
        self, reactor: ClockPort, engine: Engine, log: DurableLog, persisted: Callable[[int], None]
    ) -> None:
        """Serve a process: `persisted` is called with a token once the records up to it are durable."""
        self._reactor, self._engine, self._log, self._persisted = reactor, engine, log, persisted

    def write(self, out: Output) -> None:
        """Begin to make the records and the staged agents of an output durable."""
        for staged in out.staged:
            self._put(Staging((), taken=staged))
        if out.persist:
            installed = out.installed
            saved = installed.index if installed is not None else 0
            self._put(Write(out.persist, out.token, installed, saved))
            self._snapshot()

    def _snapshot(self) -> None:
        engine, disk = self._engine, self.content
        if engine.applied - disk.saved >= SNAPSHOT_ENTRIES and self._random.random() < 0.2:
            capture = engine.capture()
            capture.step()
            trim = min(self._log.base.at, capture.index)
            self._put(Write([Committed(capture.index)], 0, capture, capture.index, trim))

    def _put(self, write: Write[Capture]) -> None:
        waiting = self.content.waiting
        waiting.append(write)
        if len(waiting) == 1:
            self._sync_later()

    def _sync_later(self) -> None:
        self._reactor.callLater(self._random.uniform(*SYNC_S), self._sync, self._process)

    def _sync(self, process: int) -> None:
        disk = self.content
        if process != self._process or not disk.waiting:
            return
        token = disk.sync(self._random.randint(1, len(disk.waiting)))
        if disk.waiting:
            self._sync_later()
        if token:
            self._persisted(token)
