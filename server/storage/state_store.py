"""The stored state of an engine: one row for each agent, in the journal's database.

An incoming state (from another replica) is written part by part to the table `incoming`; one transaction
makes it the table of all agents. A large capture is written slice by slice to the table `changes`; one
transaction makes it part of the state, as the table `merging`, whose agents then move to the table of all
agents slice by slice. So no transaction takes long. A start drops `incoming` and `changes`, and completes
the move.
"""

import sqlite3
import struct
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from ...agents import AgentId
from ...engine import AgentState, Capture, Ran, StagedPart
from ...hachannel.journal.journal import Damaged, checksum

__all__ = ["SCHEMA", "StateStore", "StoredState"]

_AGENTS: Final = (
    "CREATE TABLE IF NOT EXISTS {} (id TEXT PRIMARY KEY, name TEXT, cls TEXT, reactions INTEGER, state BLOB, "
    "rest BLOB, checksum BLOB)"
)
SCHEMA: Final = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER, header BLOB, agents INTEGER, "
    "total BLOB, checksum BLOB)",
    _AGENTS.format("agents"),
)
"""The statements that create the tables, for `Journal.open`."""

_MODULUS: Final = 1 << 64
_encoder = msgspec.msgpack.Encoder()
_rest: msgspec.msgpack.Decoder[tuple[int, int, int, tuple[Ran, ...], str]] = msgspec.msgpack.Decoder(
    tuple[int, int, int, tuple[Ran, ...], str]
)
_UNREADABLE: Final = (TypeError, ValueError, AttributeError, OverflowError, struct.error)
FETCH_ROWS: Final = 512


@attrs.frozen
class StoredState:
    """A state of an engine, as read from the database."""

    index: int
    """The state is the one after this entry."""
    header: bytes
    agents: Generator[AgentState]
    """All agents. Raises Damaged at the first that is corrupt, or at the end if some are missing. Close the
    generator before the connection."""


@attrs.define
class _Table:
    """A table of agents, with their number and the sum of their checksums."""

    name: str
    count: int = 0
    total: int = 0

    def create(self, connection: sqlite3.Connection) -> None:
        """Create the table if it does not exist."""
        connection.execute(_AGENTS.format(self.name))

    def drop(self, connection: sqlite3.Connection) -> None:
        """Drop the table if it exists."""
        connection.execute(f"DROP TABLE IF EXISTS {self.name}")
        self.count = self.total = 0

    def put(self, connection: sqlite3.Connection, agents: Sequence[AgentState]) -> None:
        """Add agents, or replace them."""
        self._subtract(connection, [str(agent.identity) for agent in agents])
        rows = [_row(agent) for agent in agents]
        sql = f"INSERT OR REPLACE INTO {self.name} VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
        connection.executemany(sql, rows)
        self.count += len(rows)
        self.total = (self.total + sum(int.from_bytes(row[-1], "little") for row in rows)) % _MODULUS

    def remove(self, connection: sqlite3.Connection, ids: Sequence[AgentId]) -> None:
        """Remove agents; ignore those that the table does not have."""
        gone = [str(identity) for identity in ids]
        self._subtract(connection, gone)
        sql = f"DELETE FROM {self.name} WHERE id = ?"  # noqa: S608
        connection.executemany(sql, [(identity,) for identity in gone])

    def sums(self, connection: sqlite3.Connection, ids: Sequence[str]) -> tuple[int, int]:
        """Return how many of these agents the table has, and the sum of their checksums."""
        sql = f"SELECT checksum FROM {self.name} WHERE id = ?"  # noqa: S608
        count = total = 0
        for identity in ids:
            row = connection.execute(sql, (identity,)).fetchone()
            if row is not None:
                count += 1
                total += int.from_bytes(row[0], "little")
        return count, total

    def _subtract(self, connection: sqlite3.Connection, ids: Sequence[str]) -> None:
        count, total = self.sums(connection, ids)
        self.count -= count
        self.total = (self.total - total) % _MODULUS


class StateStore:
    """The tables of an engine's state. Used by the thread that uses the journal's connection.

    The header's row has the number of the agents and the sum of their checksums, so that a missing, outdated
    or surplus row is detected.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._agents = _Table("agents")
        self._incoming = _Table("incoming")
        self._changes = _Table("changes")
        self._replaced = (0, 0)
        """The number of stored agents that `changes` replaces, and the sum of their checksums."""
        self._merging = _Table("merging")
        """Agents of the state that replace those in the table of all agents."""
        self.merging = False
        """The table `merging` is not empty: call `merge`."""

    def read(self, connection: sqlite3.Connection) -> StoredState | None:
        """Return the state, or None if none was ever saved. Raises Damaged."""
        row = connection.execute("SELECT idx, header, agents, total, checksum FROM state").fetchone()
        if row is None:
            (agents,) = connection.execute("SELECT count(*) FROM agents").fetchone()
            if agents:
                raise self._damaged("the row of the engine's state is missing")
            return None
        index, header, count, total, kept = row
        try:
            sound = _header_sum(index, header, count, total) == kept
        except _UNREADABLE:
            sound = False
        if not sound:
            raise self._damaged("the row of the engine's state is corrupt")
        self._agents.count, self._agents.total = count, int.from_bytes(total, "little")
        return StoredState(index, header, self._rows(connection))

    def unfinished(self, connection: sqlite3.Connection) -> list[str]:
        """Return the tables that an interrupted save left; if there are any, call `recover` before `read`."""
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        return [table.name for table in (self._incoming, self._changes, self._merging) if table.name in found]

    def recover(self, connection: sqlite3.Connection) -> None:
        """Drop incomplete states, and complete the move of agents. Called within a transaction."""
        self._incoming.drop(connection)
        self._changes.drop(connection)
        self._merging.create(connection)
        self.merge(connection)

    def stage(self, connection: sqlite3.Connection, part: StagedPart) -> None:
        """Write a part of an incoming state, beside the stored one."""
        if part.anew:
            self._incoming.drop(connection)
        if part.agents:
            self._incoming.create(connection)
            self._incoming.put(connection, part.agents)

    def write_slice(
        self, connection: sqlite3.Connection, agents: Sequence[AgentState], *, full: bool, first: bool
    ) -> None:
        """Write some agents of a capture beside the stored state; `save` with `slices_written` completes it.

        full: the capture has all agents, not only those that have changed. first: this is its first slice.
        """
        changes = self._changes
        if first:
            if self.merging:
                self.merge(connection)
            changes.drop(connection)
            self._replaced = (0, 0)
        changes.create(connection)
        old = (0, 0) if full else self._agents.sums(connection, [str(agent.identity) for agent in agents])
        changes.put(connection, agents)
        self._replaced = (self._replaced[0] + old[0], self._replaced[1] + old[1])

    def merge(self, connection: sqlite3.Connection, limit_bytes: int | None = None) -> bool:
        """Move agents from `merging` to the table of all agents: all, or about `limit_bytes` of them.

        Returns whether all have moved.
        """
        merging, agents = self._merging.name, self._agents.name
        size = 0
        rows = connection.execute(f"SELECT id, length(state) FROM {merging} ORDER BY id")  # noqa: S608
        ids: list[tuple[str]] = []
        with closing(rows):
            for identity, length in rows:
                if limit_bytes is not None and size >= limit_bytes:
                    break
                ids.append((identity,))
                size += length
        move = f"INSERT OR REPLACE INTO {agents} SELECT * FROM {merging} WHERE id = ?"  # noqa: S608
        connection.executemany(move, ids)
        connection.executemany(f"DELETE FROM {merging} WHERE id = ?", ids)  # noqa: S608
        self.merging = connection.execute(f"SELECT 1 FROM {merging} LIMIT 1").fetchone() is not None  # noqa: S608
        if not self.merging:
            self._merging.drop(connection)
        return not self.merging

    def save(self, connection: sqlite3.Connection, capture: Capture, *, slices_written: bool = False) -> None:
        """Make a complete capture the stored state. Called within a transaction; do not use this object
        after one that failed.

        slices_written: `write_slice` has written its agents; after this, call `merge` until it returns True.
        """
        agents = self._agents
        if self.merging:
            self.merge(connection)
        if capture.staged:
            incoming = self._incoming
            incoming.create(connection)
            agents.drop(connection)
            connection.execute(f"ALTER TABLE {incoming.name} RENAME TO {agents.name}")
            agents.count, agents.total = incoming.count, incoming.total
            incoming.count = incoming.total = 0
        elif capture.full:
            agents.drop(connection)
            agents.create(connection)
        agents.remove(connection, capture.deleted)
        if slices_written:
            changes = self._changes
            connection.execute(f"ALTER TABLE {changes.name} RENAME TO {self._merging.name}")
            agents.count += changes.count - self._replaced[0]
            agents.total = (agents.total + changes.total - self._replaced[1]) % _MODULUS
            changes.count = changes.total = 0
            self.merging = True
        else:
            self._changes.drop(connection)
            agents.put(connection, capture.agents)
        self._replaced = (0, 0)
        packed = agents.total.to_bytes(8, "little")
        kept = _header_sum(capture.index, capture.header, agents.count, packed)
        connection.execute(
            "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)",
            (capture.index, capture.header, agents.count, packed, kept),
        )

    def _rows(self, connection: sqlite3.Connection) -> Generator[AgentState]:
        count = total = 0
        rows = connection.execute(
            "SELECT id, name, cls, reactions, state, rest, checksum FROM agents ORDER BY id"
        )
        rows.arraysize = FETCH_ROWS
        # An open query would keep the file open after the connection is closed.
        with closing(rows):
            for id, name, cls, reactions, state, rest, kept in rows:
                agent: AgentState | None
                try:
                    agent = AgentState(AgentId.parse(id), name, cls, reactions, state, *_rest.decode(rest))
                    sound = _row(agent)[-1] == kept
                except _UNREADABLE:
                    agent, sound = None, False
                if agent is None or not sound:
                    raise self._damaged(f"agent {id} is corrupt")
                count += 1
                total += int.from_bytes(kept, "little")
                yield agent
        if (count, total % _MODULUS) != (self._agents.count, self._agents.total):
            raise self._damaged(
                f"it has {count} agents instead of the {self._agents.count} that were written"
            )

    def _damaged(self, flaw: str) -> Damaged:
        return Damaged(f"The journal {self._path} is damaged: {flaw}.")


def _row(agent: AgentState) -> tuple[Any, ...]:
    identity = str(agent.identity)
    name = b"" if agent.name is None else b"+" + agent.name.encode()
    rest = _encoder.encode(
        (agent.changed, agent.checked_bytes, agent.since_bytes, agent.since, agent.location)
    )
    kept = checksum(
        identity.encode(), name, agent.cls.encode(), struct.pack("<q", agent.reactions), agent.state, rest
    )
    return identity, agent.name, agent.cls, agent.reactions, agent.state, rest, kept


def _header_sum(index: int, header: bytes, count: int, total: bytes) -> bytes:
    return checksum(struct.pack("<qq", index, count), header, total)
