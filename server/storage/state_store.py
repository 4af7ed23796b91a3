"""The state of an engine in the file of the journal: every agent a row, rewritten when it has changed.

A state that comes from another replica gathers in a table of its own, write by write, which takes the place
of the agents at the end, in one step. A start drops what has not come to that. A save of much that has
changed gathers in the same way, becomes part of the state, in one step, and moves to the other agents
afterwards, some at a time: no write takes long.
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
"""The tables, for `Journal.open`."""

_MODULUS: Final = 1 << 64
_encoder = msgspec.msgpack.Encoder()
_rest: msgspec.msgpack.Decoder[tuple[int, int, int, tuple[Ran, ...], str]] = msgspec.msgpack.Decoder(
    tuple[int, int, int, tuple[Ran, ...], str]
)
_UNREADABLE: Final = (TypeError, ValueError, AttributeError, OverflowError, struct.error)
FETCH_ROWS: Final = 512


@attrs.frozen
class StoredState:
    """What the file has of an engine."""

    index: int
    """It is the state after this entry."""
    header: bytes
    agents: Generator[AgentState]
    """All of them; raises Damaged at the first that is not as it was written, or at the end if some lack.
    Close it before the connection."""


@attrs.define
class _Table:
    """A table of agents: how many there are, and the sum of their checksums."""

    name: str
    count: int = 0
    total: int = 0

    def create(self, connection: sqlite3.Connection) -> None:
        """Make it, if it is not there."""
        connection.execute(_AGENTS.format(self.name))

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove it, if it is there."""
        connection.execute(f"DROP TABLE IF EXISTS {self.name}")
        self.count = self.total = 0

    def put(self, connection: sqlite3.Connection, agents: Sequence[AgentState]) -> None:
        """Add agents, or replace them."""
        self._forget(connection, [str(agent.identity) for agent in agents])
        rows = [_row(agent) for agent in agents]
        sql = f"INSERT OR REPLACE INTO {self.name} VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
        connection.executemany(sql, rows)
        self.count += len(rows)
        self.total = (self.total + sum(int.from_bytes(row[-1], "little") for row in rows)) % _MODULUS

    def remove(self, connection: sqlite3.Connection, ids: Sequence[AgentId]) -> None:
        """Remove those of the agents that are there."""
        gone = [str(identity) for identity in ids]
        self._forget(connection, gone)
        sql = f"DELETE FROM {self.name} WHERE id = ?"  # noqa: S608
        connection.executemany(sql, [(identity,) for identity in gone])

    def sums(self, connection: sqlite3.Connection, ids: Sequence[str]) -> tuple[int, int]:
        """How many of these agents are there, and the sum of their checksums."""
        sql = f"SELECT checksum FROM {self.name} WHERE id = ?"  # noqa: S608
        count = total = 0
        for identity in ids:
            row = connection.execute(sql, (identity,)).fetchone()
            if row is not None:
                count += 1
                total += int.from_bytes(row[0], "little")
        return count, total

    def _forget(self, connection: sqlite3.Connection, ids: Sequence[str]) -> None:
        count, total = self.sums(connection, ids)
        self.count -= count
        self.total = (self.total - total) % _MODULUS


class StateStore:
    """The tables of the engine's state. Used by the thread that uses the journal's connection.

    The row of the header has the number of the agents and the sum of their checksums, so that a row that is
    missing, old or too many is noticed, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._agents = _Table("agents")
        self._coming = _Table("coming")
        self._changes = _Table("changes")
        self._grown = (0, 0)
        """What `changes` adds to the number of the agents, and to the sum of their checksums."""
        self._merging = _Table("merging")
        """Agents that take the place of those in the table of the agents."""
        self.merging = False
        """There are some: `merge` is to be called."""

    def read(self, connection: sqlite3.Connection) -> StoredState | None:
        """The state, or None if none was ever saved. Raises Damaged."""
        row = connection.execute("SELECT idx, header, agents, total, checksum FROM state").fetchone()
        if row is None:
            (agents,) = connection.execute("SELECT count(*) FROM agents").fetchone()
            if agents:
                raise self._damaged("the row of the engine's state is missing")
            return None
        try:
            index, header, count, total, kept = row
            sound = _header_sum(index, header, count, total) == kept
        except _UNREADABLE:
            sound = False
        if not sound:
            raise self._damaged("the row of the engine's state is spoiled")
        self._agents.count, self._agents.total = count, int.from_bytes(total, "little")
        return StoredState(index, header, self._rows(connection))

    def unfinished(self, connection: sqlite3.Connection) -> list[str]:
        """What `settle` is to be called for, before `read`; empty if there is nothing."""
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        return [table.name for table in (self._coming, self._changes, self._merging) if table.name in found]

    def settle(self, connection: sqlite3.Connection) -> None:
        """Drop what has not come as a whole, and complete what has. Called within a transaction."""
        self._coming.drop(connection)
        self._changes.drop(connection)
        self._merging.create(connection)
        self.merge(connection)

    def stage(self, connection: sqlite3.Connection, taken: StagedPart) -> None:
        """Write what has come of a state, beside the one that is there."""
        if taken.anew:
            self._coming.drop(connection)
        if taken.agents:
            self._coming.create(connection)
            self._coming.put(connection, taken.agents)

    def gather(
        self, connection: sqlite3.Connection, agents: Sequence[AgentState], *, full: bool, anew: bool
    ) -> None:
        """Write some of the agents of a capture that `save` completes, beside the state that is there.

        full: it is a full one. anew: these are the first.
        """
        changes = self._changes
        if anew:
            if self.merging:
                self.merge(connection)
            changes.drop(connection)
            self._grown = (0, 0)
        changes.create(connection)
        old = (0, 0) if full else self._agents.sums(connection, [str(agent.identity) for agent in agents])
        changes.put(connection, agents)
        self._grown = (self._grown[0] - old[0], self._grown[1] - old[1])

    def merge(self, connection: sqlite3.Connection, limit_bytes: int | None = None) -> bool:
        """Move some of the agents that were gathered, or all, to the others; says whether that is done."""
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

    def save(self, connection: sqlite3.Connection, capture: Capture, *, gathered: bool = False) -> None:
        """Write a complete capture. Called within a transaction; a failed one ends the use of this object.

        gathered: its agents were given to `gather`; call `merge` from now on, until it is done.
        """
        agents = self._agents
        if self.merging:
            self.merge(connection)
        if capture.staged:
            coming = self._coming
            coming.create(connection)
            agents.drop(connection)
            connection.execute(f"ALTER TABLE {coming.name} RENAME TO {agents.name}")
            agents.count, agents.total = coming.count, coming.total
            coming.count = coming.total = 0
        elif capture.full:
            agents.drop(connection)
            agents.create(connection)
        agents.remove(connection, capture.deleted)
        if gathered:
            changes = self._changes
            connection.execute(f"ALTER TABLE {changes.name} RENAME TO {self._merging.name}")
            agents.count += changes.count + self._grown[0]
            agents.total = (agents.total + changes.total + self._grown[1]) % _MODULUS
            changes.count = changes.total = 0
            self.merging = True
        else:
            self._changes.drop(connection)
            agents.put(connection, capture.agents)
        self._grown = (0, 0)
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
        # An open query would keep the file open, whoever closes the connection.
        with closing(rows):
            for id, name, cls, reactions, state, rest, kept in rows:
                try:
                    agent = AgentState(AgentId.parse(id), name, cls, reactions, state, *_rest.decode(rest))
                    sound = _row(agent)[-1] == kept
                except _UNREADABLE:
                    sound = False
                if not sound:
                    raise self._damaged(f"agent {id} is not what was written")
                count += 1
                total += int.from_bytes(kept, "little")
                yield agent
        if (count, total % _MODULUS) != (self._agents.count, self._agents.total):
            raise self._damaged(
                f"it holds {count} agents, and not the {self._agents.count} that were written"
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
