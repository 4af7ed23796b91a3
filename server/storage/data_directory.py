"""The directory of one replica: the lock that keeps other processes out, and the replica's incarnation."""

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Self

from .private_files import PRIVATE_FILE, make_directory, private_opener

PID_FILE = "pid"
INCARNATION_FILE = "incarnation"
MAX_INCARNATION = 1 << 62
"""Higher numbers in the file are taken for damage; messages have 63 bits for one."""


class DataDirectoryError(Exception):
    """The directory cannot be used; the text says why and what to do."""

    exit_code = 1


class DataDirectory:
    """The locked directory of a replica. `open` makes one; `close` releases the lock."""

    def __init__(self, path: Path, lock: int, incarnation: int) -> None:
        self.path = path
        self.incarnation = incarnation
        """Rises with every start: the milliseconds since 1970, or the last incarnation plus one."""
        self._lock = lock

    @classmethod
    def open(cls, data: Path, server: str, replica: int) -> Self:
        """Create DATA/SERVER/REPLICA if it does not exist, and lock it for this process.

        Raises DataDirectoryError when it cannot be written or another process runs this replica.
        """
        path = data / server / str(replica)
        lock = -1
        try:
            make_directory(path)
            lock = os.open(path / PID_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return cls(path, lock, _next_incarnation(path / INCARNATION_FILE))
        except OSError as error:
            pid = _written_pid(lock)
            if lock >= 0:
                os.close(lock)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES) and pid:
                raise DataDirectoryError(
                    f"{server}.{replica} runs already as process {pid} on {path}; stop it first."
                ) from None
            raise DataDirectoryError(directory_error(path, error)) from None

    def close(self) -> None:
        """Release the lock. The pid file stays, empty."""
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = -1


def running_process(data: Path, server: str, replica: int) -> int | None:
    """Return the id of the process that runs a replica on DATA/SERVER/REPLICA; it may not listen yet.

    None if there is none, or if it is not certain (the process of another user, or in a container).
    """
    try:
        lock = os.open(data / server / str(replica) / PID_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Only a process that has the lock writes its id. Trying the lock would tell the same, but a replica
        # that starts at that moment would find it taken.
        pid = _written_pid(lock)
        if not pid or not _has_open(pid, os.fstat(lock)):
            return None
        # This process has the file open in any case.
        return int(pid) if int(pid) != os.getpid() or _is_locked(lock) else None
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _has_open(pid: str, file: os.stat_result) -> bool:
    """Return whether a process has a file open, according to /proc."""
    with contextlib.suppress(OSError):
        for descriptor in Path("/proc", pid, "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(descriptor.stat(), file):
                    return True
    return False


def directory_error(path: Path, error: OSError) -> str:
    """Return one sentence: the directory cannot be used, the file in it that caused that, what to do."""
    file = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
    where = f"{file.name}: " if path in file.parents else ""
    other = "choose another with --data"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            remedy = "free some space"
        case errno.EACCES | errno.EPERM:
            remedy = f"let this user read and write it, or {other}"
        case errno.EROFS:
            remedy = f"mount its disk for writing, or {other}"
        case errno.EISDIR | errno.ENOTDIR | errno.EEXIST:
            remedy = f"move away what stands in the way, or {other}"
        case errno.ENAMETOOLONG:
            remedy = f"{other} that has a shorter path"
        case _:
            remedy = other
    return f"The data directory {path} cannot be used ({where}{error.strerror}); {remedy}."


def _written_pid(lock: int) -> str:
    """Return the process id that the pid file holds, "" if it holds none."""
    if lock < 0:
        return ""
    try:
        text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return text if text.isdigit() else ""


def _next_incarnation(path: Path) -> int:
    try:
        last = int(path.read_text("ascii"))
    except (OSError, ValueError):
        last = 0
    if last >= MAX_INCARNATION:
        # No clock has come so far: the file is as damaged as one without a number.
        last = 0
    incarnation = max(last + 1, time.time_ns() // 1_000_000)
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="ascii", opener=private_opener) as file:
        file.write(f"{incarnation}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    return incarnation
