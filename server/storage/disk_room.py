"""How much room there is on the disk of a replica, and how much of it the replica uses."""

import shutil
from pathlib import Path
from typing import Final

import attrs

from .journal_files import JournalFiles

__all__ = ["LOW_BYTES", "DiskRoom", "disk_room"]

LOW_BYTES: Final = 256 * 1024 * 1024
"""With less room than this a replica says so: a journal and a saved state may not fit any more."""
MIB: Final = 1024 * 1024


@attrs.frozen
class DiskRoom:
    """The room on a disk."""

    free_bytes: int
    journal_bytes: int
    """Bytes of the files of the journal, with the saved state."""

    def problem(self, directory: Path) -> str:
        """Return a sentence if there is little room, "" otherwise."""
        if self.free_bytes >= LOW_BYTES:
            return ""
        return (
            f"the disk of {directory.absolute()} has only {self.free_bytes // MIB} MiB left: free some, or "
            "this replica stops when it is full"
        )


def disk_room(directory: Path) -> DiskRoom | None:
    """Return the room on the disk of the directory of a replica; None if it cannot be told."""
    try:
        free = shutil.disk_usage(directory).free
    except OSError:
        return None
    return DiskRoom(free, JournalFiles(directory).size_bytes())
