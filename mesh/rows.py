"""Rows: what each daemon has on its disk and with whom it is connected, as far as it is known here. Pure."""

from collections.abc import Iterable

import attrs

from .log import FactKind, Log
from .messages import Row
from .model import Stream

__all__ = ["KnownRow", "Rows"]

ROW = FactKind("row", int, tuple[int, int])
HAVE = FactKind("row have", tuple[int, Stream], int)


@attrs.define
class KnownRow:
    """A row, as it is known here."""

    life: int
    version: int = 0
    links: tuple[int, ...] = ()
    have: dict[Stream, int] = attrs.field(factory=dict[Stream, int])


class Rows:
    """The rows of all daemons but this one.

    A daemon in a new life may have lost records that it had: its row begins anew. Links are not kept on the
    disk.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.known: dict[int, KnownRow] = {daemon: KnownRow(life) for daemon, (life, _) in ROW.load(log)}
        for (daemon, stream), number in HAVE.load(log):
            if daemon in self.known:
                self.known[daemon].have[stream] = number
        self.changed: dict[int, set[Stream]] = {}
        """Daemons whose row has changed since it was told to the others, and the streams that changed."""

    def merge(self, daemon: int, row: Row) -> set[Stream]:
        """Learn of a row. Return the streams of which the daemon has more than was known."""
        known = self.known.get(daemon)
        if known is not None and row.life < known.life:
            return set()
        if known is None or row.life > known.life:
            if known is not None:
                self._clear(daemon, known)
            known = self.known[daemon] = KnownRow(row.life)
            ROW.put(self._log, daemon, (row.life, 0))
            self.changed.setdefault(daemon, set())
        changed: set[Stream] = set()
        for stream, number in row.have:
            if number > known.have.get(stream, 0):
                known.have[stream] = number
                HAVE.put(self._log, (daemon, stream), number)
                changed.add(stream)
        if row.version > known.version:
            known.version, known.links = row.version, row.links
            self.changed.setdefault(daemon, set())
        if changed:
            self.changed.setdefault(daemon, set()).update(changed)
        return changed

    def _clear(self, daemon: int, known: KnownRow) -> None:
        for stream in known.have:
            HAVE.delete(self._log, (daemon, stream))
        known.have.clear()

    def take_changes(self) -> list[tuple[int, Row]]:
        """Return the changes since the last call, as rows to tell others."""
        found: list[tuple[int, Row]] = []
        for daemon, streams in self.changed.items():
            row = self.known.get(daemon)
            if row is not None:
                have = [(stream, row.have[stream]) for stream in streams if stream in row.have]
                found.append((daemon, Row(row.life, row.version, row.links, have)))
        self.changed = {}
        return found

    def whole(self) -> list[tuple[int, Row]]:
        """Return all rows."""
        return [
            (daemon, Row(row.life, row.version, row.links, list(row.have.items())))
            for daemon, row in self.known.items()
        ]

    def lowest(self, stream: Stream, daemons: Iterable[int]) -> int:
        """Return the number up to which all of these daemons have a stream; 0 if one is not known."""
        lowest: int | None = None
        for daemon in daemons:
            row = self.known.get(daemon)
            number = 0 if row is None else row.have.get(stream, 0)
            lowest = number if lowest is None else min(lowest, number)
        return (1 << 62) if lowest is None else lowest

    def highest(self, stream: Stream) -> int:
        """Return the highest number of a stream that any daemon is known to have."""
        return max((row.have.get(stream, 0) for row in self.known.values()), default=0)

    def holders(self, stream: Stream, number: int) -> int:
        """Return how many daemons are known to have a stream up to a number."""
        return sum(row.have.get(stream, 0) >= number for row in self.known.values())

    def drop_stream(self, stream: Stream) -> None:
        """Forget a stream."""
        for daemon, row in self.known.items():
            if row.have.pop(stream, None) is not None:
                HAVE.delete(self._log, (daemon, stream))

    def drop_daemon(self, daemon: int) -> None:
        """Forget a daemon."""
        known = self.known.pop(daemon, None)
        if known is not None:
            self._clear(daemon, known)
            ROW.delete(self._log, daemon)
            self.changed.pop(daemon, None)

    def region(self, me: int, links: Iterable[int], members: Iterable[int]) -> tuple[int, ...]:
        """Return the daemons that this one is connected with, directly or through others.

        A link of two daemons counts if both have it.
        """
        seen = {me}
        waiting = [daemon for daemon in links if daemon in self.known]
        allowed = set(members)
        while waiting:
            daemon = waiting.pop()
            if daemon in seen or daemon not in allowed:
                continue
            seen.add(daemon)
            waiting += [
                other
                for other in self.known[daemon].links
                if other not in seen and other in self.known and daemon in self.known[other].links
            ]
        return tuple(sorted(seen))
