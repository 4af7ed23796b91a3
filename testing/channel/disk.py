"""The simulated disk of one replica: durable records, writes that wait for a sync, and the effect of a crash.

It replaces the journal of `hachannel/journal/journal.py`. Its unit is the transaction: one sync makes several
waiting writes durable, all or none of them, in their order. A transaction that is half-written when the
process or the machine ends is truncated at the next start. Any other corruption is refused as a whole.
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
    """Raised if the channel asks for a write that no journal could do."""


@attrs.frozen
class Write(Generic[StateT]):
    """A write that becomes durable as one piece."""

    records: Sequence[LogRecord]
    token: int = 0
    """The token for `Channel.persisted`; 0 if the channel does not wait."""
    state: StateT | None = None
    """The state of the application, saved with the records."""
    saved: int = 0
    """The index of the last entry in `state`."""
    trim: int = 0
    """The index up to which entries are not needed once `state` is saved."""


@attrs.define(eq=False)
class SimulatedDisk(Generic[StateT]):
    """The durable content of a disk, and the waiting writes. A subclass keeps the application's state."""

    remembered: Remembered = attrs.field(factory=Remembered)
    entries: dict[int, Entry] = attrs.field(factory=dict[int, Entry])
    saved: int = 0
    """The index of the last entry in the saved state."""
    waiting: deque[Write[StateT]] = attrs.field(factory=deque[Write[StateT]])
    syncs: int = 0

    def put(self, write: Write[StateT]) -> None:
        """Make one write durable. Raises DiskError."""
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
        """Make the first `count` waiting writes durable. Return the last token among them."""
        token = 0
        for _ in range(count):
            write = self.waiting.popleft()
            self.put(write)
            token = write.token or token
        self.syncs += 1
        return token

    def crash(self, survive: int) -> None:
        """End the process: the first `survive` waiting writes become durable, the others are lost."""
        for _ in range(survive):
            self.put(self.waiting.popleft())
        self.waiting.clear()

    def log(self) -> DurableLog:
        """Return the log that a restart finds."""
        kept = self.remembered
        entries = [self.entries[index] for index in range(kept.base.at + 1, kept.last + 1)]
        return DurableLog(kept, entries)
