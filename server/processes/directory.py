"""The temporary directory of servers that a program has started, and those that dead programs have left."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["temporary_directory"]

_PREFIX: Final = "quorate-servers-"
_MOST: Final = 100
"""Directories of dead programs that are removed at a time."""


def temporary_directory() -> Path:
    """Make a directory, and remove those of programs that were killed before they could.

    Raises OSError if it cannot be made.
    """
    _sweep(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _sweep(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for path in sorted(parent.glob(f"{_PREFIX}*-*"))[:_MOST]:
            number = path.name.removeprefix(_PREFIX).partition("-")[0]
            if number.isdigit() and path.stat().st_uid == os.getuid() and not _runs(int(number)):
                shutil.rmtree(path, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
