"""The simulated disk of one replica: what is on it, what waits for a sync, and what a crash leaves.

It stands for the journal of `hachannel/journal/journal.py`, in its unit, the transaction: several writes
that wait are made durable by one sync, all or none of them; they reach the disk in their order. A
transaction that is half-written when the process or the machine ends is cut at the next start, as if it
had never been. Anything else that is not as it was written is refused as a whole.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from ...hachannel import LogRecord
from ...hachannel.journal.durable_log import DurableLog, Remembered
from ...hachannel.model.log import Appended, Reset, Truncated
from ...hachannel.model.messages import Entry
from ...hachannel.model.view import Tag

__all__ = ["DiskError", "SimulatedDisk", "Write"]

StateT = TypeVar("StateT")


class DiskError(AssertionError):
    """The channel asks for something that no journal could do."""


@attrs.frozen
class Write(Generic[StateT]):
    """What is to be durable as one piece."""

    records: Sequence[LogRecord]
    token: int = 0
    """For `Channel.persisted`; 0 when nobody waits."""
    state: StateT | None = None
    """The state of the application, to be saved with the records."""
    saved: int = 0
    """`state` is the one after this entry."""
    trim: int = 0
    """Entries up to here are not needed any more once `state` is saved."""


@attrs.define(eq=False)
class SimulatedDisk(Generic[StateT]):
    """What is durable, and what waits to be. How a state is kept is up to the subclass."""

    remembered: Remembered = attrs.field(factory=Remembered)
    entries: dict[int, Entry] = attrs.field(factory=dict[int, Entry])
    saved: int = 0
    """The state is the one after this entry."""
    waiting: deque[Write[StateT]] = attrs.field(factory=deque[Write[StateT]])
    syncs: int = 0

    def put(self, write: Write[StateT]) -> None:
        """One write is on the disk. Raises DiskError."""
        for record in write.records:
            if isinstance(record, Appended):
                for entry in record.entries:
                    if entry.index != self.remembered.last + 1:
                        raise DiskError(f"entry {entry.index} is recorded after {self.remembered.last}")
                    self.remembered.apply(Appended((entry,)))
                    self.entries[entry.index] = entry
                continue
            if isinstance(record, Truncated | Reset):
                above = record.index if isinstance(record, Truncated) else -1
                self.entries = {index: entry for index, entry in self.entries.items() if index <= above}
                if isinstance(record, Truncated) and record.index < self.remembered.commit:
                    raise DiskError(f"what is committed up to {self.remembered.commit} is cut: {record}")
            self.remembered.apply(record)
        if write.state is not None:
            self.save(write.state)
            self.saved = write.saved
            self._trim(write.trim)

    def save(self, state: StateT) -> None:
        """Keep a state of the application."""
        raise NotImplementedError

    def _trim(self, index: int) -> None:
        if self.remembered.base.at < index:
            self.remembered.base = Tag(self.entries[index].view, index)
            self.entries = {kept: entry for kept, entry in self.entries.items() if kept > index}

    def sync(self, count: int) -> int:
        """The first `count` writes that wait become durable; returns the last token among them."""
        token = 0
        for _ in range(count):
            write = self.waiting.popleft()
            self.put(write)
            token = write.token or token
        self.syncs += 1
        return token

    def crash(self, survive: int) -> None:
        """The process ends: of what waits, the first `survive` writes are there all the same."""
        for _ in range(survive):
            self.put(self.waiting.popleft())
        self.waiting.clear()

    def log(self) -> DurableLog:
        """The log as a restart finds it."""
        kept = self.remembered
        entries = [self.entries[index] for index in range(kept.base.at + 1, kept.last + 1)]
        return DurableLog(kept, entries)
