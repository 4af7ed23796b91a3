"""Files and directories that only their owner can read: states, traces and logs hold what clients sent."""

import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["PRIVATE_DIRECTORY", "PRIVATE_FILE", "exposure", "make_directory", "private_opener"]

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents for their owner only. One that exists stays as it is.

    Raises OSError.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in (*reversed(missing), path):
        each.mkdir(PRIVATE_DIRECTORY, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """Open a file, as the argument `opener` of `open`; one that is created is for its owner only."""
    return os.open(path, flags, PRIVATE_FILE)


def exposure(directory: Path) -> str:
    """Return a sentence if other users can read the directory of a replica, DATA/SERVER/REPLICA; else ""."""
    try:
        modes = [each.stat().st_mode for each in (directory, directory.parent, directory.parent.parent)]
    except OSError:
        return ""
    if not all(mode & OTHERS for mode in modes):
        return ""
    return (
        f"other users of this machine may read the state and the log in {directory.absolute()} (mode "
        f"{stat.S_IMODE(modes[0]):o}); run `chmod 700 {directory.absolute()}` unless they should"
    )
