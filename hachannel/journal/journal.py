"""The journal: the records of the channel, in files that survive a crash of the process or the machine.

A write appends one frame to a file of frames (`frame_file`): the facts to remember and the new entries. The
rows of an application are in an SQLite database beside that file. The database also has the facts as of its
last transaction, and the manifest of the file of frames. A write that changes rows of the application goes to
both files, as a whole or not at all. Files are synced before a write returns, and have checksums. A frame or
transaction that a loss of power left incomplete is dropped. Any other difference from what was written raises
`Damaged`: such data is never used.
"""

import contextlib
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ..codec.buffers import Body, gather, parts_of
from ..codec.checksum import crc32
from ..model.log import Appended, Applied, LogRecord, Reset, Truncated
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
from .frame_file import PRIVATE_FILE, FrameFile, Manifest
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
"""Page size of a new database. Larger pages make small writes larger, smaller ones split large writes."""
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""Length of the write-ahead log at which SQLite moves its content into the database."""

_SCHEMA: Final = tuple(
    f"CREATE TABLE {table} (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB, checksum BLOB)"
    for table in ("meta", "remembered", "frames")
)


class Identity(msgspec.Struct, frozen=True):
    """The owner of a journal: a replica, its server and its cluster."""

    cluster: str
    """A hash that identifies the cluster."""
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


def _create_private(path: Path) -> None:
    """Create an empty database for its owner only: SQLite gives its other files the same mode."""
    # SQLite reports what is wrong with the directory.
    with contextlib.suppress(OSError):
        path.touch(PRIVATE_FILE)


class Journal:
    """An open journal. Make one with `open`; use it in one thread at a time."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        frames: FrameFile,
        incarnation: int,
        remembered: Remembered,
        entries: Sequence[Entry] = (),
        outcomes: Mapping[int, bytes] | None = None,
    ) -> None:
        self.path = path
        self.connection = connection
        """For tables of the application. Read them at any time; change them only in `also` of `write`."""
        self.frames = frames
        self.incarnation = incarnation
        """The incarnation of the replica while it uses this journal."""
        self.remembered = remembered
        """The facts that the journal has now."""
        self.recovered: Sequence[Entry] = entries
        """The entries that it had when it was opened."""
        self.outcomes: Mapping[int, bytes] = outcomes or {}
        """The recorded outcomes of these entries, by index; some may be missing."""
        self._views: list[tuple[int, ViewNumber]] = []
        """(index, view): entries from that index on have that view, up to the next item."""
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

        existing: there was one before, so a missing or empty file is damaged. guest: marks a new journal, see
        `Recovered.guest`. schema: statements that create the application's tables in a new journal.
        Raises Foreign, Damaged, and JournalError if the files cannot be read or written.
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
            if fresh:
                _create_private(path)
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
            raise Foreign(f"{path} is a database, not the journal of a replica; choose another directory.")
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
            remembered, entries, outcomes = recover(frames, remembered)
            check(remembered, entries)
        return cls(path, connection, frames, meta.incarnation, remembered, entries, outcomes)

    def write(
        self,
        records: Iterable[LogRecord],
        *,
        trim: int = 0,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Make records durable, as a whole or not at all.

        trim: entries up to this index are no longer needed. also: changes tables of the application in the
        same transaction. Raises WriteFailed; then the records may or may not be durable, and nothing more may
        be written.
        """
        remembered = msgspec.structs.replace(self.remembered)
        entries: list[Entry] = []
        outcomes: list[tuple[int, bytes]] = []
        for record in records:
            if isinstance(record, Appended):
                entries += record.entries
            elif isinstance(record, Applied):
                outcomes.append((record.index, record.outcome))
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
            if entries or outcomes or also is None:
                self._append(remembered, entries, outcomes, joint=also is not None)
            if also is not None:
                self._store(remembered, also=also)
        except (sqlite3.Error, OSError) as error:
            raise self._refused(error) from None
        self.remembered = remembered

    def note(self) -> None:
        """Store the number of the last frame in the database: then its loss is noticed. Raises WriteFailed.

        A damaged frame after the stored number counts as an interrupted last write, and is dropped.
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
        """Give the journal to another incarnation, and make records durable, in one transaction.

        Raises WriteFailed.
        """

        def replace(connection: sqlite3.Connection) -> None:
            meta = _decode_meta(connection.execute("SELECT body FROM meta").fetchone()[0])
            put_row(connection, "meta", _encode(msgspec.structs.replace(meta, incarnation=incarnation)))

        self.write(records, also=replace)
        self.incarnation = incarnation

    def close(self) -> None:
        """Close the journal, after a `note`. Never raises: what was written is safe."""
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

    def _append(
        self,
        remembered: Remembered,
        entries: Sequence[Entry],
        outcomes: Sequence[tuple[int, bytes]],
        *,
        joint: bool,
    ) -> None:
        """Write a frame. If it does not fit, first store a manifest with another segment."""
        frames = self.frames
        body = gather(Frame(remembered, entries, frames.last.count, outcomes), "entries")
        if not frames.fits(_size(body)):
            # The frame contains the number of manifests, which grows now and may need another byte.
            body = gather(Frame(remembered, entries, frames.last.count + 1, outcomes), "entries")
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
        """Store the facts and a new manifest in one transaction. room: see `FrameFile.manifest`."""
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
        """Return the view of an entry. Calls must have rising indices: earlier views are forgotten."""
        at = bisect_right(self._views, index, key=lambda view: view[0]) - 1
        del self._views[:at]
        return self._views[0][1]


def _size(body: Body) -> int:
    return sum(map(len, parts_of(body)))


def _salt(meta: _Meta) -> int:
    return crc32(_encode(meta))


def _configure(connection: sqlite3.Connection, page_bytes: int) -> None:
    for pragma in (
        # No other process may open it, so no memory needs to be shared.
        "locking_mode = EXCLUSIVE",
        f"page_size = {page_bytes}",
        "journal_mode = WAL",
        "synchronous = FULL",
        f"wal_autocheckpoint = {CHECKPOINT_BYTES // page_bytes}",
        f"journal_size_limit = {2 * CHECKPOINT_BYTES}",
        # Some builds have it on by default: then every freed page is overwritten with zeros.
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
