"""Errors of a journal. Each text is a sentence that names the file, the cause and what to do."""

import errno
import sqlite3
from pathlib import Path
from typing import Final

from .frame_file import FramesCorrupt
from .rows import Corrupt

__all__ = [
    "FRAMES_SUFFIX",
    "Damaged",
    "Foreign",
    "JournalError",
    "WriteFailed",
    "database_error",
    "frames_path",
    "missing_journal",
    "open_error",
    "reason_of",
    "unusable",
    "write_failed",
]

MAX_PATH_BYTES: Final = 503
"""Longest path, in bytes: SQLite allows 512, including the suffixes of its other files."""
FRAMES_SUFFIX: Final = "-frames"
"""Suffix of the file of frames, after the name of the database."""

_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT}
_SHORT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_IN_ITS_PLACE: Final = {errno.EISDIR, errno.ENXIO, errno.ELOOP}
_IN_USE: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NO_DAMAGE: Final = {
    *_IN_USE,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_AUTH,
}


class JournalError(Exception):
    """The journal cannot be used. The text is one sentence."""


class Foreign(JournalError):
    """The journal belongs to another replica, or to another version of this program."""


class Damaged(JournalError):
    """The journal differs from what was written."""


class WriteFailed(JournalError):
    """A write to the journal has failed; no more records can be made durable."""


def frames_path(path: Path) -> Path:
    """Return the path of the file of frames of the journal at `path`."""
    return path.with_name(path.name + FRAMES_SUFFIX)


def reason_of(error: sqlite3.Error | OSError) -> str:
    """Return the reason of SQLite or the operating system, in words."""
    if _is_full(error):
        return "no space is left on the disk"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def open_error(path: Path, error: BaseException) -> BaseException:
    """Return the error of a journal that cannot be opened. An OSError concerns its file of frames."""
    match error:
        case sqlite3.Error():
            return database_error(path, error)
        case FramesCorrupt():
            return Damaged(f"The journal {frames_path(path)} is damaged: {error}.")
        case Corrupt():
            return Damaged(f"The journal {path} is damaged: {error}.")
        case UnicodeDecodeError():
            # SQLite puts the damaged schema into its message, and that is not UTF-8.
            return Damaged(f"The journal {path} is damaged: its schema is not what was written.")
        case FileNotFoundError():
            return Damaged(f"The journal {frames_path(path)} is damaged: it is missing.")
        case OSError():
            return unusable(frames_path(path), error)
        case _:
            return error


def database_error(path: Path, error: sqlite3.Error) -> JournalError:
    """Return the error of a database that is damaged, or unusable for another reason."""
    code = _code(error)
    if code in _IN_USE:
        return JournalError(f"The journal {path} is in use by another process; stop that process first.")
    if code in _NO_DAMAGE:
        return unusable(path, error)
    return Damaged(f"The journal {path} is damaged: {error}.")


def unusable(path: Path, error: sqlite3.Error | OSError) -> JournalError:
    """Return the error of a file that cannot be read or written, for another reason than damage."""
    length = len(str(path.absolute()).encode(errors="surrogateescape"))
    if length > MAX_PATH_BYTES and _code(error) == sqlite3.SQLITE_CANTOPEN:
        return JournalError(
            f"The journal {path} cannot be used: its path has {length} bytes, and SQLite allows "
            f"{MAX_PATH_BYTES}; choose a directory with a shorter path with --data."
        )
    return JournalError(f"The journal {path} cannot be used: {reason_of(error)}; {_remedy(error)}.")


def write_failed(path: Path, error: sqlite3.Error | OSError) -> WriteFailed:
    """Return the error of a failed write. An OSError concerns the file of frames."""
    file = frames_path(path) if isinstance(error, OSError) else path
    return WriteFailed(f"The journal {file} cannot be written: {reason_of(error)}.")


def missing_journal(path: Path) -> Damaged:
    """Return the error of a journal that existed and is missing now."""
    return Damaged(f"The journal {path} is damaged: it is missing or empty, but it existed before.")


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code of an error; None if it has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_full(error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return error.errno in _NO_SPACE
    return _code(error) == sqlite3.SQLITE_FULL


def _remedy(error: sqlite3.Error | OSError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if _is_full(error):
        return "free some space"
    if number == errno.EIO or _code(error) == sqlite3.SQLITE_IOERR:
        return "repair or replace the disk"
    if number in _SHORT or _code(error) == sqlite3.SQLITE_NOMEM:
        return "stop other programs, or raise the limits of this one"
    if number in _IN_ITS_PLACE:
        return "move away what has the name of the file"
    return "let this user read and write it, or choose the right directory with --data"
