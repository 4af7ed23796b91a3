"""The log of a replica with a disk: a log in memory, loaded from a journal."""

from collections.abc import Iterable

import msgspec

from ..model.log import (
    Accepted,
    Activated,
    Appended,
    Applied,
    Booted,
    Committed,
    Fitness,
    Foreseen,
    Leased,
    LogRecord,
    MemoryLog,
    Promised,
    Recovered,
    Reset,
    Truncated,
)
from ..model.messages import Entry
from ..model.submitters import Rows
from ..model.view import NO_TAG, NO_VIEW, Tag, View, ViewNumber

__all__ = ["DurableLog", "Remembered"]


class Remembered(msgspec.Struct, array_like=True):
    """Facts beside the entries that a replica must not forget. Records change them, in order."""

    promised: ViewNumber = NO_VIEW
    accepted: View | None = None
    active: bool = False
    """`accepted` is known to be, or to have been, active."""
    commit: int = 0
    base: Tag = NO_TAG
    """The entry before the first one kept."""
    last: int = 0
    """Index of the last entry: if the journal does not hold that entry, entries were lost."""
    guest: bool = False
    """The replica may join a cluster, but must not found one."""
    submitters: Rows = ()
    """Table of submitters after `commit`."""
    boots: int = 0
    """Number of processes of this incarnation that have submitted something."""
    lease_s: float = 0.0
    """Longest time for which an earlier process may have granted a lease, in seconds."""
    foreseen: bool = False
    """`accepted` is a first view that may become active at any moment."""
    unfit: bool = False
    """The state of the application is wrong, whatever the log says."""

    def apply(self, record: LogRecord) -> None:
        """Apply one record."""
        match record:
            case Appended():
                self.last = record.entries[-1].index
            case Committed():
                if record.index > self.commit:
                    self.commit = record.index
                    self.submitters = record.submitters
            case Truncated():
                self.last = record.index
            case Applied():
                pass  # Its outcome is in the frame of the write.
            case Promised():
                self.promised = record.number
            case Accepted():
                self.accepted = record.view
                self.promised = record.view.number
                self.active = self.foreseen = False
            case Foreseen():
                self.foreseen = self.accepted is not None and self.accepted.number == record.number
            case Activated():
                self.active = self.accepted is not None and self.accepted.number == record.number
            case Reset():
                self.base = record.base
                self.last = self.commit = record.base.at
                self.submitters = record.submitters
                self.unfit = False
            case Fitness():
                self.unfit = record.unfit
            case Booted():
                self.boots = record.boot
            case Leased():
                self.lease_s = record.lease_s


class DurableLog(MemoryLog):
    """A log in memory whose changes leave the channel as records, for a journal."""

    durable = True

    def __init__(self, remembered: Remembered, entries: Iterable[Entry] = ()) -> None:
        """Begin with the content of a journal. entries: those from base + 1 to last.

        The application must have recovered the state after the commit index by itself.
        """
        super().__init__()
        self.reset(remembered.base)
        for entry in entries:
            self.append(entry)
        commit = remembered.commit
        self._recovered = Recovered(
            promised=remembered.promised,
            accepted=remembered.accepted,
            active=remembered.active,
            commit=commit,
            applied=commit,
            submitters=remembered.submitters,
            boots=remembered.boots,
            lease_s=remembered.lease_s,
            guest=remembered.guest,
            foreseen=remembered.foreseen,
            unfit=remembered.unfit,
        )

    def recovered(self) -> Recovered:
        """Return what was promised, accepted and committed before the restart."""
        return self._recovered
