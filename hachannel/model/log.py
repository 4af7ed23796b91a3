"""The replicated log: its interface, its records for a journal, and an implementation in memory."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs

from .messages import RECONFIG, Entry
from .submitters import Rows
from .view import NO_TAG, NO_VIEW, Tag, View, ViewNumber

ENTRY_BYTES = 32
"""Approximate memory of an entry beside its payload, in bytes."""


@attrs.frozen
class Promised:
    """Record: views below this number are no longer acknowledged."""

    number: ViewNumber


@attrs.frozen
class Accepted:
    """Record: the last view accepted or recorded."""

    view: View


@attrs.frozen
class Activated:
    """Record: the view accepted last is, or was, active.

    No message waits until it is durable, but it must be durable before the records that follow it.
    """

    number: ViewNumber


@attrs.frozen
class Foreseen:
    """Record: the last accepted view is a first view, and may become active at any moment."""

    number: ViewNumber


@attrs.frozen
class Appended:
    """Record: entries at the end of the log."""

    entries: tuple[Entry, ...]


@attrs.frozen
class Truncated:
    """Record: the entries above `index` are removed."""

    index: int


@attrs.frozen
class Committed:
    """Record: the entries up to `index` are committed. No message waits until it is durable."""

    index: int
    submitters: Rows = ()
    """Table of submitters after `index`."""


@attrs.frozen
class Applied:
    """Record: the application has applied the entry `index`. No message waits until it is durable."""

    index: int
    outcome: bytes
    """What came of it, in the application's own encoding: to be compared when the entry is applied again."""


@attrs.frozen
class Reset:
    """Record: all entries are removed; the log begins after `base`, whose state came as a snapshot."""

    base: Tag
    submitters: Rows = ()
    """Table of submitters after this entry."""


@attrs.frozen
class Fitness:
    """Record: whether the state of the application is wrong. A whole state (`Reset`) makes it right."""

    unfit: bool


@attrs.frozen
class Booted:
    """Record: a process with this number has begun to submit."""

    boot: int


@attrs.frozen
class Leased:
    """Record: from now on a grant of a lease lasts `lease_s` seconds."""

    lease_s: float


LogRecord: TypeAlias = (
    Promised
    | Accepted
    | Foreseen
    | Activated
    | Appended
    | Truncated
    | Committed
    | Applied
    | Reset
    | Fitness
    | Booted
    | Leased
)


@attrs.frozen
class Recovered:
    """Facts that a durable log remembers when its replica restarts with the same incarnation."""

    promised: ViewNumber = NO_VIEW
    accepted: View | None = None
    active: bool = False
    """`accepted` is known to be, or to have been, active."""
    commit: int = 0
    applied: int = 0
    """The application has recovered by itself the state after this entry, which is not above `commit`."""
    submitters: Rows = ()
    """Table of submitters after `commit`."""
    boots: int = 0
    """Number of processes of this incarnation that have submitted something."""
    guest: bool = False
    """The earlier state is lost or unusable: the replica may join a cluster, but never found one."""
    lease_s: float = 0.0
    """Longest time that a grant of an earlier process may last after the end of that process."""
    foreseen: bool = False
    """`accepted` is a first view that may become active at any moment, or is active already."""
    unfit: bool = False
    """The state of the application is wrong: see `Channel.disqualify`."""


class Log(Protocol):
    """The entries base+1 to last, without gaps. Only the channel that owns the log writes to it."""

    durable: bool
    """Whether `Channel.persisted` must confirm what is written before messages depend on it."""
    base: Tag
    """The entry before the first one kept."""
    last: Tag
    """The last entry, or the base when there is none."""
    size_bytes: int
    """Payload bytes kept."""

    def recovered(self) -> Recovered:
        """Return what was promised, accepted and committed before the restart."""
        ...

    def __len__(self) -> int: ...

    def tag(self, index: int) -> Tag:
        """The tag of an entry from base to last. Raises IndexError."""
        ...

    def get(self, index: int) -> Entry:
        """The entry at `index`, base < index <= last. Raises IndexError."""
        ...

    def slice(self, after: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Entries after `after` up to `last`; at least one, then as many as fit in `max_bytes`."""
        ...

    def append(self, entry: Entry) -> None:
        """Add the entry last+1."""
        ...

    def truncate(self, index: int) -> None:
        """Forget the entries above `index`."""
        ...

    def trim(self, index: int) -> None:
        """Forget the entries up to and including `index`, which becomes the base."""
        ...

    def reset(self, base: Tag) -> None:
        """Forget all entries and start anew after `base`."""
        ...

    def reconfig(self, after: int) -> Entry | None:
        """The last RECONFIG entry above `after`, if any."""
        ...


class MemoryLog:
    """A log in memory, lost with its process."""

    durable = False

    def __init__(self) -> None:
        self.base = NO_TAG
        self.last = NO_TAG
        self.size_bytes = 0
        self._entries: list[Entry] = []
        self._start = 0
        """Position in `_entries` of the entry base+1: trimming moves it and seldom copies."""
        self._reconfigs: list[Entry] = []

    def recovered(self) -> Recovered:
        """Return defaults: a log in memory remembers nothing."""
        return Recovered()

    def __len__(self) -> int:
        return self.last.at - self.base.at

    def tag(self, index: int) -> Tag:
        """The tag of an entry from base to last. Raises IndexError."""
        if index == self.base.at:
            return self.base
        return Tag(self.get(index).view, index)

    def get(self, index: int) -> Entry:
        """The entry at `index`. Raises IndexError."""
        offset = index - self.base.at - 1
        if offset < 0:
            raise IndexError(index)
        return self._entries[self._start + offset]

    def slice(self, after: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Entries after `after` up to `last`; at least one, then as many as fit in `max_bytes`."""
        result: list[Entry] = []
        size = 0
        for index in range(after + 1, min(last, self.last.at) + 1):
            entry = self.get(index)
            size += len(entry.payload) + ENTRY_BYTES
            if result and size > max_bytes:
                break
            result.append(entry)
        return result

    def append(self, entry: Entry) -> None:
        """Add the entry last+1."""
        self._entries.append(entry)
        self.size_bytes += len(entry.payload)
        self.last = Tag(entry.view, entry.index)
        if entry.kind == RECONFIG:
            self._reconfigs.append(entry)

    def truncate(self, index: int) -> None:
        """Forget the entries above `index`."""
        if index >= self.last.at:
            return
        keep = self._start + index - self.base.at
        self.size_bytes -= sum(len(entry.payload) for entry in self._entries[keep:])
        del self._entries[keep:]
        self.last = self.tag(index)
        self._reconfigs = [entry for entry in self._reconfigs if entry.index <= index]

    def trim(self, index: int) -> None:
        """Forget the entries up to and including `index`, which becomes the base."""
        index = min(index, self.last.at)
        count = index - self.base.at
        if count <= 0:
            return
        base = self.tag(index)
        stop = self._start + count
        for position in range(self._start, stop):
            self.size_bytes -= len(self._entries[position].payload)
            self._entries[position] = _TRIMMED
        self._start = stop
        self.base = base
        if self._start > len(self._entries) // 2:
            del self._entries[: self._start]
            self._start = 0
        self._reconfigs = [entry for entry in self._reconfigs if entry.index > index]

    def reset(self, base: Tag) -> None:
        """Forget all entries and start anew after `base`."""
        self._entries.clear()
        self._reconfigs.clear()
        self._start = 0
        self.size_bytes = 0
        self.base = self.last = base

    def reconfig(self, after: int) -> Entry | None:
        """The last RECONFIG entry above `after`, if any."""
        if self._reconfigs and self._reconfigs[-1].index > after:
            return self._reconfigs[-1]
        return None


_TRIMMED = Entry(NO_VIEW, 0, 0, b"")
