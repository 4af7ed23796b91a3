"""The state of an engine in the file of the journal: every agent a row, rewritten when it has changed."""

import sqlite3
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from ..agents import AgentId
from ..engine import AgentState, Capture, Ran
from ..hachannel.journal import Damaged, checksum

__all__ = ["SCHEMA", "StateStore", "StoredState"]

SCHEMA: Final = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), idx INTEGER, header BLOB, agents INTEGER, "
    "total BLOB, checksum BLOB)",
    "CREATE TABLE agents (id TEXT PRIMARY KEY, name TEXT, cls TEXT, reactions INTEGER, state BLOB, "
    "rest BLOB, checksum BLOB)",
)
"""The tables, for `Journal.open`."""

_MODULUS: Final = 1 << 64
_encoder = msgspec.msgpack.Encoder()
_rest: msgspec.msgpack.Decoder[tuple[int, int, int, tuple[Ran, ...]]] = msgspec.msgpack.Decoder(
    tuple[int, int, int, tuple[Ran, ...]]
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


class StateStore:
    """The tables of the engine's state. Used by the thread that uses the journal's connection.

    The row of the header has the number of the agents and the sum of their checksums, so that a row that is
    missing, old or too many is noticed, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._total = 0

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
        self._count, self._total = count, int.from_bytes(total, "little")
        return StoredState(index, header, self._agents(connection))

    def save(self, connection: sqlite3.Connection, capture: Capture) -> None:
        """Write a complete capture. Called within a transaction; a failed one ends the use of this object."""
        count, total = self._count, self._total
        if capture.full:
            count = total = 0
            connection.execute("DELETE FROM agents")
        else:
            gone = [str(identity) for identity in capture.deleted]
            gone += [str(agent.identity) for agent in capture.agents]
            for old in _sums(connection, gone):
                count -= 1
                total -= old
            connection.executemany(
                "DELETE FROM agents WHERE id = ?", [(str(identity),) for identity in capture.deleted]
            )
        rows = [_row(agent) for agent in capture.agents]
        connection.executemany("INSERT OR REPLACE INTO agents VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        count += len(rows)
        total = (total + sum(int.from_bytes(row[-1], "little") for row in rows)) % _MODULUS
        packed = total.to_bytes(8, "little")
        kept = _header_sum(capture.index, capture.header, count, packed)
        connection.execute(
            "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)",
            (capture.index, capture.header, count, packed, kept),
        )
        self._count, self._total = count, total

    def _agents(self, connection: sqlite3.Connection) -> Generator[AgentState]:
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
        if (count, total % _MODULUS) != (self._count, self._total):
            raise self._damaged(f"it holds {count} agents, and not the {self._count} that were written")

    def _damaged(self, flaw: str) -> Damaged:
        return Damaged(f"The journal {self._path} is damaged: {flaw}.")


def _row(agent: AgentState) -> tuple[Any, ...]:
    identity = str(agent.identity)
    name = b"" if agent.name is None else b"+" + agent.name.encode()
    rest = _encoder.encode((agent.changed, agent.checked_bytes, agent.since_bytes, agent.since))
    kept = checksum(
        identity.encode(), name, agent.cls.encode(), struct.pack("<q", agent.reactions), agent.state, rest
    )
    return identity, agent.name, agent.cls, agent.reactions, agent.state, rest, kept


def _header_sum(index: int, header: bytes, count: int, total: bytes) -> bytes:
    return checksum(struct.pack("<qq", index, count), header, total)


def _sums(connection: sqlite3.Connection, ids: Sequence[str]) -> Iterator[int]:
    """The checksums of those of the agents that have a row."""
    for identity in ids:
        row = connection.execute("SELECT checksum FROM agents WHERE id = ?", (identity,)).fetchone()
        if row is not None:
            yield int.from_bytes(row[0], "little")
