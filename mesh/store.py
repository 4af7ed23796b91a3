"""The state of a daemon in a file of SQLite, with the last records in memory.

Changes gather until `take_batch`; `write_batch` makes them durable in one transaction, in another thread if
need be. What is read is always the newest: records are in memory until they are on the disk, and longer while
there is room; what was dropped is left out of what the file still has.
"""

import sqlite3
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import msgspec

from .model import Stream

__all__ = ["Batch", "SqliteLog"]

CACHE_BYTES: Final = 64 * 1024 * 1024
"""Records on the disk that are kept in memory."""
ROW_BYTES: Final = 80
"""What a record in memory counts besides its bytes."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS format (version INTEGER);
CREATE TABLE IF NOT EXISTS streams (id INTEGER PRIMARY KEY, stream BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS records (place INTEGER PRIMARY KEY, message INTEGER, record BLOB);
CREATE TABLE IF NOT EXISTS facts (kind TEXT, key BLOB, value BLOB, PRIMARY KEY (kind, key)) WITHOUT ROWID;
"""
VERSION: Final = 1
NUMBERS: Final = 1 << 40
"""A record's place is its number and this many times the id of its stream: one key of a table in its order.
A key of two columns took a table without rowid, which keeps longer records apart and is four times slower."""
PAGE_BYTES: Final = 8192
CHECKPOINT_PAGES: Final = 4000
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_stream: Final = msgspec.msgpack.Decoder(Stream).decode


@attrs.define
class _Tail:
    """A stream: its records in memory, and what is dropped."""

    id: int
    numbers: list[int] = attrs.field(factory=list[int])
    records: list[bytes] = attrs.field(factory=list[bytes])
    messages: list[bool] = attrs.field(factory=list[bool])
    start: int = 0
    """Records before this index of the lists are evicted."""
    evicted: int = 0
    """Records up to this number are only in the file."""
    stripped: int = 0
    trimmed: int = 0
    message_bytes: int = 0


@attrs.define
class Batch:
    """Changes that become durable together."""

    streams: list[tuple[int, bytes]] = attrs.field(factory=list[tuple[int, bytes]])
    rows: list[tuple[int, bool, bytes]] = attrs.field(factory=list[tuple[int, bool, bytes]])
    strips: dict[int, int] = attrs.field(factory=dict[int, int])
    trims: dict[int, int] = attrs.field(factory=dict[int, int])
    drops: list[int] = attrs.field(factory=list[int])
    facts: dict[tuple[str, bytes], bytes | None] = attrs.field(factory=dict[tuple[str, bytes], bytes | None])
    evictable: list[tuple[_Tail, int, int]] = attrs.field(factory=list[tuple[_Tail, int, int]])
    """(stream, number, bytes): what need not stay in memory once this is durable."""

    def __bool__(self) -> bool:
        return bool(self.streams or self.rows or self.strips or self.trims or self.drops or self.facts)


class SqliteLog:
    """Implements `Log`."""

    def __init__(self, directory: Path, cache_bytes: int = CACHE_BYTES) -> None:
        """Open the file, or make it. Raises sqlite3.Error, OSError, or ValueError for another format."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = directory / "mesh.sqlite"
        # Only its owner reads it. The files beside it get the same mode from SQLite.
        self._path.touch(mode=0o600)
        self._writing = self._connect()
        self._writing.executescript(_SCHEMA)
        found = self._writing.execute("SELECT version FROM format").fetchone()
        if found is None:
            self._writing.execute("INSERT INTO format VALUES (?)", (VERSION,))
        elif found[0] != VERSION:
            raise ValueError(f"it has the format {found[0]}, and this version of Quorate has {VERSION}")
        self._reading = self._connect()
        self._cache_bytes = cache_bytes
        self._cached = 0
        self._durable: deque[tuple[_Tail, int, int]] = deque()
        self._batch = Batch()
        self._tails: dict[Stream, _Tail] = {}
        self._next_id = 1
        self._load()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        db.execute("PRAGMA synchronous=FULL")
        return db

    def _load(self) -> None:
        for id, encoded in self._reading.execute("SELECT id, stream FROM streams"):
            tail = self._tails[_decode_stream(encoded)] = _Tail(id)
            self._next_id = max(self._next_id, id + 1)
            last, size = self._reading.execute(
                "SELECT coalesce(max(place), 0), coalesce(sum(message * length(record)), 0) "
                "FROM records WHERE place BETWEEN ? AND ?",
                _places(id),
            ).fetchone()
            tail.evicted, tail.message_bytes = last % NUMBERS, size

    def close(self) -> None:
        """Close the file. What is not written is lost."""
        self._reading.close()
        self._writing.close()

    # The thread that writes

    def take_batch(self) -> Batch:
        """Return the changes since the last call."""
        batch, self._batch = self._batch, Batch()
        return batch

    def write_batch(self, batch: Batch) -> None:
        """Make changes durable, all or none. Called for one batch at a time. Raises sqlite3.Error."""
        db = self._writing
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO streams VALUES (?, ?)", batch.streams)
            db.executemany("INSERT INTO records VALUES (?, ?, ?)", batch.rows)
            db.executemany(
                "DELETE FROM records WHERE place BETWEEN ? AND ? AND message",
                [_places(id, upto) for id, upto in batch.strips.items()],
            )
            db.executemany(
                "DELETE FROM records WHERE place BETWEEN ? AND ?",
                [_places(id, upto) for id, upto in batch.trims.items()],
            )
            for id in batch.drops:
                db.execute("DELETE FROM records WHERE place BETWEEN ? AND ?", _places(id))
                db.execute("DELETE FROM streams WHERE id = ?", (id,))
            kept = [(*key, value) for key, value in batch.facts.items() if value is not None]
            db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", kept)
            gone = [key for key, value in batch.facts.items() if value is None]
            db.executemany("DELETE FROM facts WHERE kind = ? AND key = ?", gone)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def written(self, batch: Batch) -> None:
        """Note that a batch is durable: its records may leave the memory."""
        self._durable.extend(batch.evictable)
        while self._cached > self._cache_bytes and self._durable:
            tail, number, size = self._durable.popleft()
            self._cached -= size
            self._evict(tail, number)

    def _evict(self, tail: _Tail, upto: int) -> None:
        tail.evicted = max(tail.evicted, upto)
        tail.start = bisect_right(tail.numbers, upto, lo=tail.start)
        _compact(tail)

    # The port

    def _tail(self, stream: Stream) -> _Tail:
        tail = self._tails.get(stream)
        if tail is None:
            tail = self._tails[stream] = _Tail(self._next_id)
            self._next_id += 1
            self._batch.streams.append((tail.id, _encode(stream)))
        return tail

    def append(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Implement `Log.append`."""
        if not records:
            return
        tail = self._tail(stream)
        base, size, messages = tail.id * NUMBERS, 0, 0
        rows = self._batch.rows
        for number, record, is_message in records:
            rows.append((base + number, is_message, record))
            tail.numbers.append(number)
            tail.records.append(record)
            tail.messages.append(is_message)
            size += len(record)
            if is_message:
                messages += len(record)
        tail.message_bytes += messages
        size += ROW_BYTES * len(records)
        self._cached += size
        self._batch.evictable.append((tail, records[-1][0], size))

    def read(self, stream: Stream, first: int, last: int, size_bytes: int) -> list[tuple[int, bytes]]:
        """Implement `Log.read`."""
        tail = self._tails.get(stream)
        if tail is None:
            return []
        found: list[tuple[int, bytes]] = []
        first = max(first, tail.trimmed + 1)
        base, size = tail.id * NUMBERS, 0
        if first <= tail.evicted:
            rows = self._reading.execute(
                "SELECT place, record FROM records WHERE place BETWEEN ? AND ? "
                "AND (NOT message OR place > ?) ORDER BY place",
                (base + first, base + min(last, tail.evicted), base + tail.stripped),
            )
            for place, record in rows:
                number = place - base
                if found and size + len(record) > size_bytes:
                    rows.close()
                    return found
                found.append((number, record))
                size += len(record)
        numbers, records = tail.numbers, tail.records
        at = bisect_left(numbers, first, lo=tail.start)
        end = len(numbers)
        while at < end and numbers[at] <= last:
            record = records[at]
            if found and size + len(record) > size_bytes:
                break
            found.append((numbers[at], record))
            size += len(record)
            at += 1
        return found

    def strip(self, stream: Stream, upto: int) -> None:
        """Implement `Log.strip`."""
        tail = self._tails.get(stream)
        if tail is None or upto <= tail.stripped:
            return
        self._forget_bytes(tail, upto)
        tail.stripped = upto
        end = bisect_right(tail.numbers, upto, lo=tail.start)
        kept = [at for at in range(tail.start, end) if not tail.messages[at]]
        tail.numbers[tail.start : end] = [tail.numbers[at] for at in kept]
        tail.records[tail.start : end] = [tail.records[at] for at in kept]
        tail.messages[tail.start : end] = [False] * len(kept)
        self._batch.strips[tail.id] = upto

    def trim(self, stream: Stream, upto: int) -> None:
        """Implement `Log.trim`."""
        tail = self._tails.get(stream)
        if tail is None or upto <= tail.trimmed:
            return
        self._forget_bytes(tail, upto)
        tail.trimmed = upto
        tail.stripped = max(tail.stripped, upto)
        tail.start = bisect_right(tail.numbers, upto, lo=tail.start)
        _compact(tail)
        self._batch.trims[tail.id] = upto

    def _forget_bytes(self, tail: _Tail, upto: int) -> None:
        """Subtract the messages up to a number from the size of those that are kept."""
        if not tail.message_bytes or upto <= tail.stripped:
            return
        if tail.stripped < tail.evicted:
            base = tail.id * NUMBERS
            (size,) = self._reading.execute(
                "SELECT coalesce(sum(length(record)), 0) FROM records "
                "WHERE place > ? AND place <= ? AND message",
                (base + tail.stripped, base + min(upto, tail.evicted)),
            ).fetchone()
            tail.message_bytes -= size
        end = bisect_right(tail.numbers, upto, lo=tail.start)
        tail.message_bytes -= sum(len(tail.records[at]) for at in range(tail.start, end) if tail.messages[at])

    def drop(self, stream: Stream) -> None:
        """Implement `Log.drop`."""
        tail = self._tails.pop(stream, None)
        if tail is not None:
            self._batch.drops.append(tail.id)

    def message_bytes(self, stream: Stream) -> int:
        """Implement `Log.message_bytes`."""
        tail = self._tails.get(stream)
        return 0 if tail is None else tail.message_bytes

    def put(self, kind: str, key: bytes, value: bytes) -> None:
        """Implement `Log.put`."""
        self._batch.facts[kind, key] = value

    def delete(self, kind: str, key: bytes) -> None:
        """Implement `Log.delete`."""
        self._batch.facts[kind, key] = None

    def facts(self, kind: str) -> Iterable[tuple[bytes, bytes]]:
        """Implement `Log.facts`: those that are on the disk."""
        return self._reading.execute("SELECT key, value FROM facts WHERE kind = ?", (kind,)).fetchall()


def _places(id: int, upto: int = NUMBERS - 1) -> tuple[int, int]:
    """Return the first and the last place of the records of a stream up to a number."""
    return id * NUMBERS, id * NUMBERS + upto


def _compact(tail: _Tail) -> None:
    if tail.start > 256 and tail.start * 2 > len(tail.numbers):
        del tail.numbers[: tail.start]
        del tail.records[: tail.start]
        del tail.messages[: tail.start]
        tail.start = 0
