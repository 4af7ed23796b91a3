"""The table of submitters: the last number that each replica has used. A leaf: replicated state.

Any member may submit. It numbers its payloads, and each number is appended once, in order: the table is how a
master recognises a payload that was sent again. It is a function of the log, so all replicas with the same
prefix of the log have the same table. Source: the client table of Viewstamped Replication.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

__all__ = ["Row", "Rows", "Source", "Submitters"]


class Source(NamedTuple):
    """The submitter of an entry: one process of one life of a replica, and its number for it, from 1."""

    replica: int
    incarnation: int
    boot: int
    """Number of the process within this life; above 1 only with a disk."""
    oseq: int

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}.{self.boot}:{self.oseq}"


Row: TypeAlias = Source
"""The last entry that the log has of a replica."""

Rows: TypeAlias = tuple[Row, ...]


class Submitters:
    """The last number of each submitter. One row per replica: its latest process replaces earlier ones."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[int, Row] = {row.replica: row for row in rows}
        self._kept: Rows | None = None

    def copy(self) -> "Submitters":
        """Return an independent copy."""
        return Submitters(self._rows.values())

    @property
    def rows(self) -> Rows:
        """The table, ordered by replica; the same object until it changes."""
        kept = self._kept
        if kept is None:
            kept = self._kept = tuple(sorted(self._rows.values()))
        return kept

    def expected(self, source: Source) -> int:
        """Return the next number of the process of `source`; 0 if a later process has submitted since."""
        row = self._rows.get(source.replica)
        if row is None or row[1:3] < source[1:3]:
            return 1
        return row.oseq + 1 if row[1:3] == source[1:3] else 0

    def add(self, source: Source) -> None:
        """Record the source of the next entry of the log."""
        self._rows[source.replica] = source
        self._kept = None

    def last(self, replica: int, incarnation: int, boot: int) -> int:
        """Return the last number of a process; 0 if it has submitted nothing."""
        row = self._rows.get(replica)
        return row.oseq if row is not None and row[1:3] == (incarnation, boot) else 0

    def before(self, entries: Iterable[Source | None]) -> Rows:
        """Return the table as it was before the last entries. entries: their sources, in order.

        The row of a replica whose present process began among them is left out: the entries restore it.
        """
        first: dict[int, Row] = {}
        for source in entries:
            if source is not None:
                first.setdefault(source.replica, source)
        rows: list[Row] = []
        for row in self.rows:
            later = first.get(row.replica)
            if later is None:
                rows.append(row)
            elif later.oseq > 1:
                rows.append(later._replace(oseq=later.oseq - 1))
        return tuple(rows)
