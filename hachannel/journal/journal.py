"""The journal: what the channel records, in files that survive the process and the machine.

A write is one frame of a file that is written over where it is needed no more (`frame_file`): what is
remembered, and the new entries. The rows of an application are in an SQLite database beside it, which has
what is remembered as of its last transaction, too, and says where the frames are; a write that changes those
rows is both, as a whole or not at all. Each is synced before a write returns, and has checksums. What a loss
of power leaves half-written is dropped; anything else that is not as it was written is `Damaged`: it is never
served.
"""

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ..codec.buffers import Body, gather, parts_of
from ..codec.checksum import crc32
from ..model.log import Appended, LogRecord, Reset, Truncated
from ..model.messages import Entry
from ..model.view import Tag, ViewNumber
from .durable_log import Remembered
from .errors import (
    FRAMES_SUFFIX,
    Damaged,
    Foreign,
    JournalError,
    WriteFailed,
    database_error,
    frames_path,
    missing_journal,
    open_error,
    unusable,
    write_failed,
)
from .frame_file import FrameFile, Manifest
from .recovery import Frame, check, recover
from .rows import Corrupt, checksum, put_row, row_of
from .wal_check import inspect_wal, page_size_of

__all__ = [
    "FRAMES_SUFFIX",
    "Damaged",
    "Foreign",
    "Identity",
    "Journal",
    "JournalError",
    "WriteFailed",
    "checksum",
    "database_error",
]

FORMAT: Final = 1
"""The format of the files of a journal. Journals with any other are refused."""
PAGE_BYTES: Final = 16384
"""Of a new database. Larger ones make small writes larger, smaller ones make large writes many."""
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""The write-ahead log of the database is moved into it when it is so long."""

_SCHEMA: Final = tuple(
    f"CREATE TABLE {table} (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB, checksum BLOB)"
    for table in ("meta", "remembered", "frames")
)


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
_decode_manifest = msgspec.msgpack.Decoder(Manifest).decode


class Journal:
    """An open journal. Made by `open`; used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        frames: FrameFile,
        incarnation: int,
        remembered: Remembered,
        entries: Sequence[Entry] = (),
    ) -> None:
        self.path = path
        self.connection = connection
        """For tables of the application: read at any time, written in `write` only."""
        self.frames = frames
        self.incarnation = incarnation
        """The voter that this journal makes this replica."""
        self.remembered = remembered
        """Return what the journal remembers now."""
        self.recovered: Sequence[Entry] = entries
        """The entries it had when it was opened."""
        self._views: list[tuple[int, ViewNumber]] = []
        """From which index on entries have which view."""
        self._failed = False
        self._note_views(entries)

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
            raise unusable(Path(error.filename or path), error) from None
        if report.lost and not fresh:
            raise Damaged(
                f"The journal {path} is damaged: its write-ahead log is spoiled after frame {report.valid}, "
                f"with {report.lost} confirmed transactions behind that."
            )
        if fresh and existing:
            raise missing_journal(path)
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(path, isolation_level=None, check_same_thread=False, timeout=0)
            _configure(connection, page_bytes)
            journal = cls._load(
                path, connection, _Meta(FORMAT, identity, incarnation), existing, guest, schema
            )
            with journal.frames.open_or_closed():
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except BaseException as error:
            if connection is not None:
                connection.close()
            raise open_error(path, error) from None
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
                raise missing_journal(path)
            remembered = Remembered(guest=guest)
            frames = _create(path, connection, own, remembered, schema)
            return cls(path, connection, frames, own.incarnation, remembered)
        if "meta" not in tables:
            raise Foreign(f"{path} is a database, but no journal of a replica; choose another directory.")
        (flaw,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if flaw != "ok":
            raise Corrupt(" ".join(str(flaw).split()))
        meta = row_of(connection, "meta", _decode_meta)
        if meta.format != FORMAT:
            raise Foreign(
                f"The journal {path} has format {meta.format}, and this version of the program reads format "
                f"{FORMAT} only; start the version that wrote it."
            )
        identity = own.identity
        if meta.identity != identity:
            said, kept = (f"replica {each.replica} of {each.server}" for each in (identity, meta.identity))
            if said == kept:
                raise Foreign(
                    f"The journal {path} belongs to {kept} in another configuration, where {identity.server} "
                    "has another id or is of another kind; put that back in the file, or choose another "
                    "directory with --data."
                )
            raise Foreign(
                f"The journal {path} belongs to {kept}, not to {said}; choose another directory with --data."
            )
        remembered = row_of(connection, "remembered", _decode_remembered)
        frames = FrameFile(frames_path(path), row_of(connection, "frames", _decode_manifest))
        with frames.open_or_closed():
            remembered, entries = recover(frames, remembered)
            check(remembered, entries)
        return cls(path, connection, frames, meta.incarnation, remembered, entries)

    def write(
        self,
        records: Iterable[LogRecord],
        *,
        trim: int = 0,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Make records durable, as a whole or not at all; with them what `also` writes to tables of its own.

        `trim`: the entries up to this index are needed no more. Raises WriteFailed; then nothing of this is
        certain, and nothing more may be written.
        """
        remembered = msgspec.structs.replace(self.remembered)
        entries: list[Entry] = []
        for record in records:
            if isinstance(record, Appended):
                entries += record.entries
            elif isinstance(record, Truncated):
                while entries and entries[-1].index > record.index:
                    entries.pop()
            elif isinstance(record, Reset):
                entries.clear()
            remembered.apply(record)
        self._note_views(entries)
        if remembered.base.at < trim <= remembered.last:
            remembered.base = Tag(self._view_at(trim), trim)
        try:
            if entries or also is None:
                self._append(remembered, entries, joint=also is not None)
            if also is not None:
                self._store(remembered, also=also)
        except (sqlite3.Error, OSError) as error:
            raise self._refused(error) from None
        self.remembered = remembered

    def note(self) -> None:
        """Have the database know of the last frame: if that is lost later, it is noticed. Raises WriteFailed.

        A frame that the database does not know of may have been the last write, and interrupted.
        """
        if self.frames.number > self.frames.last.number:
            try:
                self._store(self.remembered)
            except (sqlite3.Error, OSError) as error:
                raise self._refused(error) from None

    def _refused(self, error: sqlite3.Error | OSError) -> WriteFailed:
        self._failed = True
        return write_failed(self.path, error)

    def rename(self, incarnation: int, records: Iterable[LogRecord]) -> None:
        """Make it that of another voter, and records durable, in one transaction. Raises WriteFailed."""

        def replace(connection: sqlite3.Connection) -> None:
            meta = _decode_meta(connection.execute("SELECT body FROM meta").fetchone()[0])
            put_row(connection, "meta", _encode(msgspec.structs.replace(meta, incarnation=incarnation)))

        self.write(records, also=replace)
        self.incarnation = incarnation

    def close(self) -> None:
        """Close it. Never raises: what was written is safe.

        The database learns of the last frame: if that is spoiled later, it is no interrupted write.
        """
        try:
            if not self._failed:
                self.note()
        except WriteFailed:
            pass
        try:
            self.frames.close()
            self.connection.close()
        except (sqlite3.Error, OSError):
            return

    def _append(self, remembered: Remembered, entries: Sequence[Entry], *, joint: bool) -> None:
        """Write a frame; where there is no place for it, what was written before is stored as such first."""
        frames = self.frames
        body = gather(Frame(remembered, entries, frames.last.count), "entries")
        if not frames.fits(_size(body)):
            # The frame says how often a manifest was stored: once more then, which may take another byte.
            body = gather(Frame(remembered, entries, frames.last.count + 1), "entries")
            self._store(self.remembered, room=_size(body))
        frames.append(body, joint=joint)
        frames.hold(entries[0].index if entries else remembered.last + 1, remembered.last)

    def _store(
        self,
        remembered: Remembered,
        *,
        room: int = 0,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """A transaction of the database."""
        connection = self.connection
        manifest = self.frames.manifest(remembered.base.at, room)
        connection.execute("BEGIN IMMEDIATE")
        if also is not None:
            also(connection)
        put_row(connection, "remembered", _encode(remembered))
        put_row(connection, "frames", _encode(manifest))
        connection.execute("COMMIT")
        self.frames.stored(manifest)

    def _note_views(self, entries: Sequence[Entry]) -> None:
        views = self._views
        while entries and views and views[-1][0] >= entries[0].index:
            views.pop()
        for entry in entries:
            if not views or views[-1][1] != entry.view:
                views.append((entry.index, entry.view))

    def _view_at(self, index: int) -> ViewNumber:
        """The view of an entry; those before it are not asked for any more."""
        at = bisect_right(self._views, index, key=lambda view: view[0]) - 1
        del self._views[:at]
        return self._views[0][1]


def _size(body: Body) -> int:
    return sum(map(len, parts_of(body)))


def _salt(meta: _Meta) -> int:
    return crc32(_encode(meta))


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
    path: Path, connection: sqlite3.Connection, meta: _Meta, remembered: Remembered, schema: Sequence[str]
) -> FrameFile:
    manifest = Manifest.first(_salt(meta))
    frames = FrameFile(frames_path(path), manifest, create=True)
    with frames.open_or_closed():
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*_SCHEMA, *schema):
            connection.execute(statement)
        put_row(connection, "meta", _encode(meta))
        put_row(connection, "remembered", _encode(remembered))
        put_row(connection, "frames", _encode(manifest))
        connection.execute("COMMIT")
    return frames
