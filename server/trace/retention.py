"""The retention of a trace: the oldest files are removed, and it is recorded how far."""

import json
import os
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from ...hachannel.journal.frame_file import sync_directory
from ...replay.removed import CLOSED_FILE, REMOVED_FILE, Removed
from ...replay.schema import EVENTS_SUFFIX
from ..storage.private_files import private_opener

__all__ = ["Retention"]


@attrs.frozen
class _File:
    incarnation: int
    number: int
    path: Path
    size_bytes: int
    closed_at: float


@attrs.frozen
class Retention:
    """Keeps the finished files of one directory within bounds; the latest file always stays."""

    directory: Path
    server: int
    keep_bytes: int
    """The most bytes of all files; 0: no limit."""
    keep_s: float
    """Files that were closed before so many seconds are removed; 0: no limit."""
    now: Callable[[], float] = time.time

    def apply(self) -> int:
        """Remove files beyond the bounds, and return how many. Raises OSError.

        What is removed is recorded before, so that a reader never takes it for lost.
        """
        files = self._files()
        surplus = self._surplus(files)
        if not surplus:
            return 0
        before = Removed.read(self.directory)
        numbers = dict(before.numbers)
        position = before.position
        for each in surplus:
            numbers[each.incarnation] = max(numbers.get(each.incarnation, 0), each.number)
            position = max(position, _last_position(each.path))
        self._record(Removed(self.server, position, numbers))
        for each in surplus:
            each.path.unlink(missing_ok=True)
        self._remove_events(files[len(surplus)].incarnation)
        sync_directory(self.directory)
        return len(surplus)

    def _remove_events(self, first: int) -> None:
        """Remove the files of events of lives before the first one of which files are left."""
        for path in self.directory.glob(f"*{EVENTS_SUFFIX}"):
            name = path.name.removesuffix(EVENTS_SUFFIX)
            if name.isdecimal() and int(name) < first:
                path.unlink(missing_ok=True)

    def _files(self) -> list[_File]:
        found: list[_File] = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                match = CLOSED_FILE.fullmatch(entry.name)
                if match is not None:
                    stat = entry.stat()
                    path = self.directory / entry.name
                    found.append(_File(int(match[1]), int(match[2]), path, stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda each: (each.incarnation, each.number))

    def _surplus(self, files: list[_File]) -> list[_File]:
        size_bytes = sum([each.size_bytes for each in files])
        surplus: list[_File] = []
        for each in files[:-1]:
            large = 0 < self.keep_bytes < size_bytes
            old = bool(self.keep_s) and each.closed_at < self.now() - self.keep_s
            if not large and not old:
                break
            surplus.append(each)
            size_bytes -= each.size_bytes
        return surplus

    def _record(self, removed: Removed) -> None:
        path = self.directory / REMOVED_FILE
        part = path.with_name(f"{REMOVED_FILE}.part")
        with open(part, "w", encoding="utf-8", opener=private_opener) as file:
            json.dump(removed.as_json(), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_directory(self.directory)


def _last_position(path: Path) -> int:
    """Return the highest position in a file, 0 if the file cannot be read."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        metadata: Any = parquet.read_metadata(path)
        place = list(metadata.schema.names).index("position")
        groups = (metadata.row_group(at).column(place) for at in range(metadata.num_row_groups))
        return max((int(each.statistics.max) for each in groups), default=0)
    except Exception:  # a damaged file is removed like any other
        return 0
