"""Detection that the directory of a running replica was removed or replaced.

The open files of a removed directory can still be written, and their content is lost when the process ends.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...hachannel.journal.journal import FRAMES_SUFFIX
from ...hachannel.transport.ports import ClockPort, DelayedCallPort
from .data_directory import PID_FILE
from .journal_files import JOURNAL_FILE

__all__ = ["WATCH_S", "DirectoryWatch"]

WATCH_S: Final = 1.0
"""The interval between two checks, each a few calls of stat."""
NAMES: Final = (PID_FILE, JOURNAL_FILE, f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}{FRAMES_SUFFIX}")

Identity = tuple[int, int]


class DirectoryWatch:
    """Checks that a directory and its journal are still the same files. Call `stop` before they change."""

    def __init__(self, directory: Path, reactor: ClockPort, on_lost: Callable[[Path], None]) -> None:
        """`on_lost` is called once, with the first path that is missing or is another file now."""
        self._directory = directory
        self._reactor = reactor
        self._on_lost = on_lost
        self._known: dict[Path, Identity] = {}
        self._timer: DelayedCallPort | None = None

    def start(self) -> None:
        """Remember the files that exist now, and check them from now on."""
        self.stop()
        paths = (self._directory, *(self._directory / name for name in NAMES))
        self._known = {path: found for path in paths if (found := _identity(path)) is not None}
        self._timer = self._reactor.callLater(WATCH_S, self._check)

    def stop(self) -> None:
        """Stop checking."""
        self._known = {}
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def missing(self) -> Path | None:
        """Return the first path that is missing or another file now; None if all are there, or if stopped."""
        return next((path for path, known in self._known.items() if not _is_same(path, known)), None)

    def _check(self) -> None:
        missing = self.missing()
        if missing is None:
            self._timer = self._reactor.callLater(WATCH_S, self._check)
        else:
            self._on_lost(missing)


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_same(path: Path, known: Identity) -> bool:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # A disk that does not answer is detected by the next write.
    return (found.st_dev, found.st_ino) == known
