"""The contexts of members on the disk of their home, with ``context="local"``: items and positions.

A home files the items of its groups here, and then tells the agents of the groups that they need not keep
them for this home any more. Items stay until all members of this home have acknowledged them. SQLite, one
transaction for each batch; used by one thread at a time.
"""

import sqlite3
from pathlib import Path
from typing import Final

import attrs
import msgspec

from ..agents.ids import AgentId
from .agents.items import Page

__all__ = ["FiledGroup", "FilingBatch", "HomeStore"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (grp INTEGER, first INTEGER, page BLOB, PRIMARY KEY (grp, first))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (grp INTEGER, member TEXT, upto INTEGER, PRIMARY KEY (grp, member))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS filed (grp INTEGER PRIMARY KEY, upto INTEGER);
"""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Page).decode


@attrs.define
class FiledGroup:
    """What the disk has of a group."""

    upto: int = 0
    """Everything up to this item was filed."""
    positions: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    """By member of this home: it has everything up to this item."""


@attrs.define
class FilingBatch:
    """Changes of one group that become durable together."""

    group: AgentId
    pages: list[tuple[int, Page]] = attrs.field(factory=list[tuple[int, Page]])
    upto: int = 0
    """The last item of `pages`, or the one up to which nothing was to be filed; 0: no change."""
    positions: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    gone: list[AgentId] = attrs.field(factory=list[AgentId])
    """Members that are none any more."""
    drop_upto: int = 0
    """All members of this home have everything up to this item."""
    forget: bool = False
    """The group has no members at this home: drop all of it."""


class HomeStore:
    """The file of a home."""

    def __init__(self, directory: Path) -> None:
        """Open the file, or make it. Raises sqlite3.Error or OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(directory / "groups.sqlite", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def groups(self) -> dict[int, FiledGroup]:
        """Return what is filed, by the stamp of the agent of each group."""
        found = {group: FiledGroup(upto) for group, upto in self._db.execute("SELECT grp, upto FROM filed")}
        for group, member, upto in self._db.execute("SELECT grp, member, upto FROM members"):
            found.setdefault(group, FiledGroup()).positions[AgentId.parse(member)] = upto
        return found

    def write(self, batches: list[FilingBatch]) -> None:
        """Make changes durable, all or none. Raises sqlite3.Error."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for batch in batches:
                self._write(batch)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _write(self, batch: FilingBatch) -> None:
        db, group = self._db, batch.group.stamp
        if batch.forget:
            db.execute("DELETE FROM items WHERE grp = ?", (group,))
            db.execute("DELETE FROM members WHERE grp = ?", (group,))
            db.execute("DELETE FROM filed WHERE grp = ?", (group,))
            return
        db.executemany(
            "INSERT OR REPLACE INTO items VALUES (?, ?, ?)",
            [(group, first, _encode(page)) for first, page in batch.pages],
        )
        db.executemany(
            "INSERT OR REPLACE INTO members VALUES (?, ?, ?)",
            [(group, str(member), upto) for member, upto in batch.positions.items()],
        )
        db.executemany(
            "DELETE FROM members WHERE grp = ? AND member = ?",
            [(group, str(member)) for member in batch.gone],
        )
        if batch.upto:
            db.execute("INSERT OR REPLACE INTO filed VALUES (?, ?)", (group, batch.upto))
        if batch.drop_upto:
            # The page that has the next item stays.
            db.execute(
                "DELETE FROM items WHERE grp = ? AND first < "
                "(SELECT max(first) FROM items WHERE grp = ? AND first <= ?)",
                (group, group, batch.drop_upto + 1),
            )

    def read(
        self, group: AgentId, after: int, below: int, most_bytes: int
    ) -> tuple[list[tuple[int, Page]], bool]:
        """Return pages with the items after one, and whether there are more.

        below: up to the page that begins there; 0: all.
        """
        low = self._db.execute(
            "SELECT max(first) FROM items WHERE grp = ? AND first <= ?", (group.stamp, after + 1)
        ).fetchone()[0]
        found: list[tuple[int, Page]] = []
        size = 0
        rows = self._db.execute(
            "SELECT first, page FROM items WHERE grp = ? AND first >= ? AND (? = 0 OR first < ?) "
            "ORDER BY first",
            (group.stamp, low or 0, below, below),
        )
        for first, data in rows:
            if found and size + len(data) > most_bytes:
                rows.close()
                return found, True
            found.append((first, _decode(data)))
            size += len(data)
        return found, False
