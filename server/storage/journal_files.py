"""The files of a replica's journal: their names, the mark that there was one, journals set aside."""

import contextlib
from pathlib import Path
from typing import Final

from ...hachannel.journal.errors import FRAMES_SUFFIX, frames_path
from ...hachannel.journal.frame_file import sync_directory
from .private_files import PRIVATE_FILE

__all__ = ["JOURNAL_FILE", "JournalFiles"]

JOURNAL_FILE: Final = "journal.db"
CREATED_FILE: Final = "journal.made"
"""Marks that the replica had a journal: a missing or empty one is a loss then, not the first start."""
ASIDE: Final = "aside-"
SUFFIXES: Final = ("", "-wal", FRAMES_SUFFIX)
"""The suffixes of a journal's files, after the name of its database."""
KEPT_ASIDE: Final = 2
"""Journals set aside that are kept; older ones are removed."""


class JournalFiles:
    """The files of the journal in a replica's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / JOURNAL_FILE
        self._created = directory / CREATED_FILE

    def expected(self) -> bool:
        """Return whether the replica had a journal before: the mark says so, or a file of frames has data."""
        if self._created.exists():
            return True
        # The mark is written before the first frame, but a file of frames with data is as good.
        try:
            return frames_path(self.path).stat().st_size > 0
        except FileNotFoundError:
            return False

    def mark_created(self) -> None:
        """Record, durably, that the replica has a journal."""
        if not self._created.exists():
            self._created.touch(PRIVATE_FILE)
            sync_directory(self.directory)

    def size_bytes(self) -> int:
        """Return the size of the journal's files."""
        size = 0
        for suffix in SUFFIXES:
            with contextlib.suppress(OSError):
                size += (self.directory / (self.path.name + suffix)).stat().st_size
        return size

    def set_aside(self, incarnation: int) -> str:
        """Rename the journal's files; return the new name, "" if there was no file.

        Of the journals that were set aside only the last ones are kept.
        """
        kept = ""
        for suffix in SUFFIXES:
            path = self.directory / (self.path.name + suffix)
            if path.exists():
                name = f"{ASIDE}{incarnation}.db{suffix}"
                path.replace(self.directory / name)
                kept = kept or name
        sync_directory(self.directory)
        stems = {path.name.partition(".")[0] for path in self.directory.glob(f"{ASIDE}*.db*")}
        for old in sorted(stems)[:-KEPT_ASIDE]:
            for suffix in SUFFIXES:
                (self.directory / f"{old}.db{suffix}").unlink(missing_ok=True)
        return kept
