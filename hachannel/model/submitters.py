"""Who has submitted how much: the last number of every origin. A leaf: replicated state in a plain table.

Any member may submit. It numbers what it submits, and a number counts once, in order; so the table of the
last numbers is what keeps a payload that was sent again from coming twice. It is a function of the log: what
a prefix of the log says, every replica that has the prefix knows.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

__all__ = ["Row", "Rows", "Source", "Submitters"]


class Source(NamedTuple):
    """Who submitted an entry: one process of one life of a replica, and its number for it, from 1."""

    replica: int
    incarnation: int
    boot: int
    """Which process of this life; above 1 only with a disk."""
    oseq: int

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}.{self.boot}:{self.oseq}"


Row: TypeAlias = Source
"""The last entry that the log has of a replica."""

Rows: TypeAlias = tuple[Row, ...]


class Submitters:
    """The last entry of each origin. One row for each replica: its latest process replaces earlier ones."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[int, Row] = {row.replica: row for row in rows}
        self._kept: Rows | None = None

    def copy(self) -> "Submitters":
        """A table that goes its own way from here."""
        return Submitters(self._rows.values())

    @property
    def rows(self) -> Rows:
        """The table, ordered by replica; the same object until it changes."""
        kept = self._kept
        if kept is None:
            kept = self._kept = tuple(sorted(self._rows.values()))
        return kept

    def expected(self, source: Source) -> int:
        """The number that comes next from the process of `source`; 0 when a later process has submitted."""
        row = self._rows.get(source.replica)
        if row is None or row[1:3] < source[1:3]:
            return 1
        return row.oseq + 1 if row[1:3] == source[1:3] else 0

    def add(self, source: Source) -> None:
        """An entry of this source is next in the log."""
        self._rows[source.replica] = source
        self._kept = None

    def last(self, replica: int, incarnation: int, boot: int) -> int:
        """The last number of a process; 0 when there is none."""
        row = self._rows.get(replica)
        return row.oseq if row is not None and row[1:3] == (incarnation, boot) else 0

    def before(self, entries: Iterable[Source | None]) -> Rows:
        """The table before `entries`, the sources of the last entries in it, in order.

        The row of a replica whose process began among them is left out: those entries put it back.
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
