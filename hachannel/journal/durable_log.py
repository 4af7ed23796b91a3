"""The log of a replica that has a disk: the one in memory, loaded with what the disk remembers."""

from collections.abc import Iterable

import msgspec

from ..model.log import (
    Accepted,
    Activated,
    Appended,
    Booted,
    Committed,
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
    """What a replica must not forget besides its entries. Records change it, in their order."""

    promised: ViewNumber = NO_VIEW
    accepted: View | None = None
    active: bool = False
    """`accepted` is known to be, or to have been, active."""
    commit: int = 0
    base: Tag = NO_TAG
    """The entry before the first one kept."""
    last: int = 0
    """Index of the last entry: it must be there, or entries were lost."""
    guest: bool = False
    """The replica may join a cluster, but never found one."""
    submitters: Rows = ()
    """Table of submitters after `commit`."""
    boots: int = 0
    """Number of processes of this incarnation so far."""
    lease_s: float = 0.0
    """Longest time for which an earlier process may have granted a lease, in seconds."""
    foreseen: bool = False
    """`accepted` is a first view that may become active at any moment."""

    def apply(self, record: LogRecord) -> None:
        """Change the remembered by one record."""
        match record:
            case Appended():
                self.last = record.entries[-1].index
            case Committed():
                if record.index > self.commit:
                    self.commit = record.index
                    self.submitters = record.submitters
            case Truncated():
                self.last = record.index
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
            case Booted():
                self.boots = record.boot
            case Leased():
                self.lease_s = record.lease_s


class DurableLog(MemoryLog):
    """Entries are kept in memory as ever; what changes leaves the channel as records, for a journal."""

    durable = True

    def __init__(self, remembered: Remembered, entries: Iterable[Entry] = ()) -> None:
        """Begin with what a journal remembers: `entries` are those from base + 1 to last.

        The application must have applied everything up to the commit index by itself.
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
        )

    def recovered(self) -> Recovered:
        """Return what was promised, accepted and committed before the restart."""
        return self._recovered
