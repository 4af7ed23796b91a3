"""The journal: what the channel records, in an SQLite file that survives the process and the machine.

One file for each replica, in WAL mode, synced before a write returns. Every row has a checksum. What a loss
of power leaves half-written is dropped by SQLite; anything else that is not as it was written is `Damaged`:
it is never served. The rows of an application can go into the same file, in the same transactions.
"""

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from .durable import Remembered
from .journal_wal import inspect_wal, page_size_of
from .log import Appended, LogRecord, Reset, Truncated
from .messages import Entry
from .origins import Source
from .view import Tag, ViewNumber

__all__ = [
    "Damaged",
    "Foreign",
    "Identity",
    "Journal",
    "JournalError",
    "WriteFailed",
    "checksum",
    "explain",
    "translated",
]

FORMAT: Final = 3
OLD_FORMAT: Final = 2
"""Read and written as it is: the checksum of an entry goes over its whole payload."""
PAGE_BYTES: Final = 16384
"""Of a new journal. Larger ones make small writes larger, smaller ones make large writes many."""
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""The write-ahead log is moved into the file when it is so long. Entries that were trimmed by then have given
their pages to others, which are moved once: so it is a few times what is kept of the log."""
TRIM_ROWS: Final = 256
"""Entries below the base that one transaction deletes: a write must not wait long for the old ones."""

_SCHEMA: Final = (
    "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB, checksum BLOB)",
    "CREATE TABLE remembered (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB, checksum BLOB)",
    "CREATE TABLE entries (idx INTEGER PRIMARY KEY, view BLOB, kind INTEGER, stamp INTEGER, source BLOB, "
    "payload BLOB, checksum BLOB)",
)


class JournalError(Exception):
    """The journal cannot be used. The text is one sentence."""


class Foreign(JournalError):
    """It is not the journal of this replica, or of another version of this program."""


class Damaged(JournalError):
    """It is not as it was written."""


class WriteFailed(JournalError):
    """Nothing more can be made durable."""


class Identity(msgspec.Struct, frozen=True):
    """Whose journal it is."""

    cluster: str
    """A hash of what makes the cluster what it is."""
    server: str
    replica: int


class _Meta(msgspec.Struct, frozen=True):
    format: int
    identity: Identity
    incarnation: int


_encode = msgspec.msgpack.Encoder().encode
_decode_remembered = msgspec.msgpack.Decoder(Remembered).decode
_decode_meta = msgspec.msgpack.Decoder(_Meta).decode
_decode_source = msgspec.msgpack.Decoder(Source).decode
_decode_view = msgspec.msgpack.Decoder(ViewNumber).decode
_NUMBERS: Final = struct.Struct("<qqq")
_UNREADABLE: Final = (TypeError, ValueError, struct.error, msgspec.MsgspecError)


def checksum(*parts: bytes) -> bytes:
    """Eight bytes over the parts, each with its length."""
    hasher = blake2b(digest_size=8)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def explain(error: sqlite3.Error) -> str:
    """What SQLite means, in words."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
        return "no space is left on the disk"
    return str(error)


class Journal:
    """An open journal. Made by `open`; used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        incarnation: int,
        remembered: Remembered,
        entries: list[Entry],
        format: int,
    ) -> None:
        self.path = path
        self._format = format
        self.connection = connection
        """For tables of the application: read at any time, written in `write` only."""
        self.incarnation = incarnation
        """The voter that this journal makes this replica."""
        self.remembered = remembered
        """What it remembers now."""
        self.recovered: Sequence[Entry] = entries
        """The entries it had when it was opened."""
        self._deleted = 0
        """Entries up to this one have been deleted."""
        self._views: tuple[ViewNumber, bytes] | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        identity: Identity,
        incarnation: int,
        *,
        existing: bool = False,
        guest: bool = False,
        schema: Sequence[str] = (),
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
    ) -> "Journal":
        """Open the journal at `path`, or make one for `incarnation` if there is none.

        With `existing` there was one: a missing or empty file is damaged then. `guest` marks a new one, see
        `Recovered.guest`; `schema` makes the application's tables in it.
        Raises Foreign, Damaged, and JournalError when it cannot be read or written.
        """
        try:
            fresh = not path.exists() or not path.stat().st_size
            page_bytes = page_size_of(path) or PAGE_BYTES
            report = inspect_wal(path.with_name(path.name + "-wal"), page_bytes)
        except OSError as error:
            raise JournalError(f"The journal {path} cannot be read ({error.strerror}).") from None
        if report.lost and not fresh:
            raise Damaged(
                f"The journal {path} is damaged: its write-ahead log is spoiled after frame {report.valid}, "
                f"with {report.lost} confirmed transactions behind that."
            )
        if fresh and existing:
            raise _gone(path)
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(path, isolation_level=None, check_same_thread=False, timeout=0)
            _configure(connection, page_bytes)
            journal = cls._load(
                path, connection, _Meta(FORMAT, identity, incarnation), existing, guest, schema
            )
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise translated(path, error) from None
            raise
        return journal

    @classmethod
    def _load(
        cls,
        path: Path,
        connection: sqlite3.Connection,
        own: _Meta,
        existing: bool,
        guest: bool,
        schema: Sequence[str],
    ) -> "Journal":
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            if existing:
                raise _gone(path)
            remembered = Remembered(guest=guest)
            _create(connection, own, remembered, schema)
            return cls(path, connection, own.incarnation, remembered, [], own.format)
        if "meta" not in tables:
            raise Foreign(f"{path} is a database, but no journal of a replica; choose another directory.")
        (flaw,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if flaw != "ok":
            raise Damaged(f"The journal {path} is damaged: {' '.join(str(flaw).split())}.")
        meta = _decode_row(path, connection, "meta", _decode_meta)
        if meta.format not in (FORMAT, OLD_FORMAT):
            raise Foreign(
                f"The journal {path} has format {meta.format}, this program reads {FORMAT}; upgrade it."
            )
        identity = own.identity
        if meta.identity != identity:
            raise Foreign(
                f"The journal {path} belongs to replica {meta.identity.replica} of {meta.identity.server} "
                f"in another configuration, not to replica {identity.replica} of {identity.server}; "
                "choose another directory with --data."
            )
        remembered = _decode_row(path, connection, "remembered", _decode_remembered)
        entries = _entries(path, connection, remembered, meta.format)
        return cls(path, connection, meta.incarnation, remembered, entries, meta.format)

    def write(
        self,
        records: Iterable[LogRecord],
        *,
        trim: int = 0,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Make records durable, in one transaction, in which `also` may write to tables of its own.

        `trim`: the entries up to this index are needed no more. Raises WriteFailed; then nothing of this is
        certain, and nothing more may be written.
        """
        remembered = msgspec.structs.replace(self.remembered)
        execute = self.connection.execute
        rows: list[tuple[Any, ...]] = []
        try:
            execute("BEGIN IMMEDIATE")
            for record in records:
                if isinstance(record, Appended):
                    rows += map(self._row, record.entries)
                elif isinstance(record, Truncated | Reset):
                    self._insert(rows)
                    above = record.index if isinstance(record, Truncated) else -1
                    execute("DELETE FROM entries WHERE idx > ?", (above,))
                remembered.apply(record)
            self._insert(rows)
            if remembered.base.at < trim <= remembered.last:
                (view,) = execute("SELECT view FROM entries WHERE idx = ?", (trim,)).fetchone()
                remembered.base = Tag(_decode_view(view), trim)
            deleted = self._delete(remembered.base.at)
            if also is not None:
                also(self.connection)
            body = _encode(remembered)
            execute("INSERT OR REPLACE INTO remembered VALUES (1, ?, ?)", (body, checksum(body)))
            execute("COMMIT")
        except sqlite3.Error as error:
            raise WriteFailed(f"The journal {self.path} cannot be written: {explain(error)}.") from None
        self.remembered = remembered
        self._deleted = deleted

    def rename(self, incarnation: int, records: Iterable[LogRecord]) -> None:
        """Make it that of another voter, and records durable, in one transaction. Raises WriteFailed."""

        def replace(connection: sqlite3.Connection) -> None:
            (body,) = connection.execute("SELECT body FROM meta").fetchone()
            body = _encode(msgspec.structs.replace(_decode_meta(body), incarnation=incarnation))
            connection.execute("UPDATE meta SET body = ?, checksum = ?", (body, checksum(body)))

        self.write(records, also=replace)
        self.incarnation = incarnation

    def close(self) -> None:
        """Move the write-ahead log into the file, and close it. Never raises: what was written is safe."""
        try:
            self.connection.close()
        except sqlite3.Error:
            return

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self.connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            rows.clear()

    def _row(self, entry: Entry) -> tuple[Any, ...]:
        known = self._views
        if known is None or known[0] != entry.view:
            known = self._views = (entry.view, _encode(entry.view))
        view = known[1]
        source = b"" if entry.source is None else _encode(entry.source)
        kept = _entry_sum(view, source, entry, self._format)
        return entry.index, view, entry.kind, entry.stamp_ns, source, entry.payload, kept

    def _delete(self, base: int) -> int:
        """Delete some of the entries up to `base`; returns up to where they are gone."""
        if self._deleted >= base:
            return min(self._deleted, base)
        execute = self.connection.execute
        (first,) = execute("SELECT min(idx) FROM entries").fetchone()
        if first is None or first > base:
            return base
        upto = min(base, first + TRIM_ROWS)
        execute("DELETE FROM entries WHERE idx <= ?", (upto,))
        return int(upto)


def _gone(path: Path) -> Damaged:
    return Damaged(f"The journal {path} is damaged: it is missing or empty, and there was one.")


def _entry_sum(view: bytes, source: bytes, entry: Entry, format: int) -> bytes:
    payload = entry.payload
    if format != OLD_FORMAT:
        # Payloads are long, and this is the one that costs least.
        payload = zlib.crc32(payload).to_bytes(4, "little")
    return checksum(_NUMBERS.pack(entry.index, entry.kind, entry.stamp_ns), view, source, payload)


def _configure(connection: sqlite3.Connection, page_bytes: int) -> None:
    for pragma in (
        # Nobody else may open it, and no memory is shared for nobody.
        "locking_mode = EXCLUSIVE",
        f"page_size = {page_bytes}",
        "journal_mode = WAL",
        "synchronous = FULL",
        f"wal_autocheckpoint = {CHECKPOINT_BYTES // page_bytes}",
        f"journal_size_limit = {2 * CHECKPOINT_BYTES}",
        # Where it is on by default, every page that is given back is written once more, with zeros.
        "secure_delete = OFF",
        "cache_size = -8192",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _create(
    connection: sqlite3.Connection, meta: _Meta, remembered: Remembered, schema: Sequence[str]
) -> None:
    execute = connection.execute
    execute("BEGIN IMMEDIATE")
    for statement in (*_SCHEMA, *schema):
        execute(statement)
    for table, fields in (("meta", meta), ("remembered", remembered)):
        body = _encode(fields)
        execute(f"INSERT INTO {table} VALUES (1, ?, ?)", (body, checksum(body)))  # noqa: S608
    execute("COMMIT")


def _decode_row(
    path: Path, connection: sqlite3.Connection, table: str, decode: Callable[[bytes], Any]
) -> Any:
    row = connection.execute(f"SELECT body, checksum FROM {table}").fetchone()  # noqa: S608
    try:
        if row is not None and checksum(row[0]) == row[1]:
            return decode(row[0])
    except _UNREADABLE:
        pass
    raise Damaged(f"The journal {path} is damaged: its row of {table} is missing or spoiled.")


def _entries(path: Path, connection: sqlite3.Connection, remembered: Remembered, format: int) -> list[Entry]:
    """The entries from base + 1 to last, all of them and unspoiled."""
    entries: list[Entry] = []
    wanted = remembered.base.at + 1
    rows = connection.execute(
        "SELECT idx, view, kind, stamp, source, payload, checksum FROM entries WHERE idx > ? ORDER BY idx",
        (remembered.base.at,),
    )
    # An open query would keep the file open, whoever closes the connection.
    with closing(rows):
        for index, view, kind, stamp, source, payload, kept in rows:
            if index != wanted:
                break
            try:
                origin = _decode_source(source) if source else None
                entry = Entry(_decode_view(view), index, stamp, payload, kind, origin)
                sound = _entry_sum(view, source, entry, format) == kept
            except _UNREADABLE:
                sound = False
            if not sound:
                raise Damaged(f"The journal {path} is damaged: entry {index} is not what was written.")
            entries.append(entry)
            wanted += 1
    if wanted - 1 != remembered.last:
        flaw = "missing" if wanted <= remembered.last else "too many"
        raise Damaged(
            f"The journal {path} is damaged: it should hold entries {remembered.base.at + 1} to "
            f"{remembered.last}, and entry {wanted} is {flaw}."
        )
    return entries


def translated(path: Path, error: sqlite3.Error) -> JournalError:
    """A damaged file, or one that cannot be used for another reason."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _NO_DAMAGE:
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return JournalError(f"The journal {path} is in use by another process; end that first.")
        return JournalError(f"The journal {path} cannot be used: {explain(error)}.")
    return Damaged(f"The journal {path} is damaged: {error}.")


_NO_DAMAGE: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_AUTH,
}
