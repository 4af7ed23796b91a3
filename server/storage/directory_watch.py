"""Notices that the directory of a running replica was removed, or another one put in its place.

Its files stay open, so what is written to them succeeds, and is gone when the process ends.
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
"""How often it is looked at: a few calls of stat."""
NAMES: Final = (PID_FILE, JOURNAL_FILE, f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}{FRAMES_SUFFIX}")

Identity = tuple[int, int]


class DirectoryWatch:
    """Looks whether a directory and its journal are still the same: `begin`, and `end` before they change."""

    def __init__(self, directory: Path, reactor: ClockPort, lost: Callable[[Path], None]) -> None:
        """`lost` is called once, with what is not there any more or is another one."""
        self._directory = directory
        self._reactor = reactor
        self._lost = lost
        self._known: dict[Path, Identity] = {}
        self._timer: DelayedCallPort | None = None

    def begin(self) -> None:
        """From now on what is there is to stay."""
        self.end()
        paths = (self._directory, *(self._directory / name for name in NAMES))
        self._known = {path: found for path in paths if (found := _identity(path)) is not None}
        self._timer = self._reactor.callLater(WATCH_S, self._look)

    def end(self) -> None:
        """Look no more."""
        self._known = {}
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def missing(self) -> Path | None:
        """What is not there any more, or is another one; None if all is well, or after `end`."""
        return next((path for path, known in self._known.items() if not _is(path, known)), None)

    def _look(self) -> None:
        missing = self.missing()
        if missing is None:
            self._timer = self._reactor.callLater(WATCH_S, self._look)
        else:
            self._lost(missing)


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is(path: Path, known: Identity) -> bool:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # A disk that does not answer is noticed where something is written to it.
    return (found.st_dev, found.st_ino) == known
