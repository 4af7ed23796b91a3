"""Copies of closed trace files in another place: a directory, or a file system with a URI."""

import json
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from .discovery import TRACE_DIRECTORY
from .errors import NoTrace, ReplayError, require
from .files import positions_of
from .frames import Progress, ignore
from .removed import CLOSED_FILE, REMOVED_FILE, Removed
from .schema import COLUMNS, EVENTS_SUFFIX

__all__ = ["PushReport", "push"]

PRIVATE_UMASK: Final = 0o077
"""Traces hold what clients sent, so only their owner reads them."""
SERVER_ID: Final = tuple(COLUMNS).index("server_id")
CHUNK_BYTES: Final = 4 * 1024 * 1024


@attrs.frozen
class PushReport:
    """The outcome of `push`."""

    replicas: int
    copied: int
    copied_bytes: int
    there: int
    """Files that were there already."""
    removed: int
    """Files that were removed from the target, since they were too old."""


def push(
    data: str | Path,
    target: str,
    *,
    keep_s: float = 0.0,
    now: float = 0.0,
    progress: Progress | None = None,
) -> PushReport:
    """Copy the closed trace files of all replicas below ``data`` to ``target``, and remove old ones there.

    ``target`` is a directory or a URI such as ``s3://bucket/traces``. Files keep their places,
    SERVER/REPLICA/trace/FILE. What is there already is not copied again; a file has its name only when it is
    whole, so that a push may be interrupted and repeated at any time. ``keep_s``, unless 0, removes files
    from the target that were put there more than so many seconds before ``now`` (in seconds since 1970); the
    latest file of a replica stays, and it is recorded how far was removed, as servers do.
    Raises NoTrace when there is no trace, ReplayError when a file cannot be read or written.
    """
    require("pyarrow.fs", "pyarrow.parquet")
    places = sorted(path for path in Path(data).rglob(TRACE_DIRECTORY) if path.is_dir())
    sources = [path for path in places if any(True for _ in closed(path))]
    if not sources:
        raise NoTrace(f"there is no closed trace file below {data}: has the server written one yet?")
    copied = copied_bytes = there = removed = 0
    before = os.umask(PRIVATE_UMASK)
    try:
        files: Any = import_module("pyarrow.fs")
        system, root = opened(files, target)
        for source in sources:
            name = "/".join(source.parts[-3:])
            (progress or ignore)(f"copying {name}")
            place = Place(files, system, f"{root}/{name}")
            for path in sorted(path for path in closed(source) if not place.is_gone(path.name)):
                size = place.copy(path)
                copied, copied_bytes = copied + (size > 0), copied_bytes + size
                there += not size
            for path in source.glob(f"*{EVENTS_SUFFIX}"):
                place.copy(path)
            removed += place.keep(source, now - keep_s if keep_s else None)
    except (OSError, ValueError) as error:
        raise ReplayError(f"the traces cannot be copied to {target}: {error}.") from error
    finally:
        os.umask(before)
    return PushReport(len(sources), copied, copied_bytes, there, removed)


def closed(place: Path) -> Iterator[Path]:
    """Yield the files of a trace that their server has closed."""
    return (path for path in place.iterdir() if CLOSED_FILE.fullmatch(path.name))


def opened(files: Any, target: str) -> tuple[Any, str]:
    """Return the file system of a target, and the path in it."""
    if "://" not in target:
        return files.LocalFileSystem(), str(Path(target).absolute())
    system, path = files.FileSystem.from_uri(target)
    return system, path.rstrip("/")


class Place:
    """The directory of one replica's trace in the target."""

    def __init__(self, files: Any, system: Any, path: str) -> None:
        self._files = files
        self._system = system
        self._path = path
        self._sizes: dict[str, int] = {}
        self._times: dict[str, float] = {}
        system.create_dir(path, recursive=True)
        self._list()
        self._gone = self._read_gone()
        """By incarnation: the last file that was removed from the target, or never came to it."""

    def _read_gone(self) -> dict[int, int]:
        if REMOVED_FILE not in self._sizes:
            return {}
        with self._system.open_input_stream(f"{self._path}/{REMOVED_FILE}") as stream:
            return Removed.parse(stream.read()).numbers

    def is_gone(self, name: str) -> bool:
        """Return whether a file was removed from the target before."""
        match = CLOSED_FILE.fullmatch(name)
        return match is not None and int(match[2]) <= self._gone.get(int(match[1]), 0)

    def _list(self) -> None:
        found = self._system.get_file_info(self._files.FileSelector(self._path))
        own = [one for one in found if one.type == self._files.FileType.File]
        self._sizes = {one.base_name: int(one.size) for one in own}
        self._times = {one.base_name: one.mtime.timestamp() for one in own}

    def copy(self, path: Path) -> int:
        """Copy a file unless it is there with its size; return how many bytes were copied."""
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return 0  # the retention of the server has just removed it
        if self._sizes.get(path.name) == size:
            return 0
        part = f"{self._path}/{path.name}.part"
        with path.open("rb") as source, self._system.open_output_stream(part) as target:
            while chunk := source.read(CHUNK_BYTES):
                target.write(chunk)
        written = self._system.get_file_info(part).size
        if written < size:
            raise OSError(f"{path.name} has {size:,} bytes, and only {written:,} were written")
        self._system.move(part, f"{self._path}/{path.name}")
        return size

    def keep(self, source: Path, before: float | None) -> int:
        """Remove files put there before a time, and record up to where files are gone; return how many."""
        self._list()
        numbered = sorted(
            (int(match[1]), int(match[2]), name)
            for name in self._sizes
            if (match := CLOSED_FILE.fullmatch(name)) is not None
        )
        surplus: list[str] = []
        for _, _, name in numbered[:-1]:
            if before is None or self._times[name] >= before:
                break
            surplus.append(name)
        left = numbered[len(surplus) :]
        known = Removed.read(source)
        # Retention of the server may have removed files that were never copied.
        gone = dict(self._gone)
        for incarnation, number in known.numbers.items():
            kept = min((at for life, at, _ in left if life == incarnation), default=number + 1)
            gone[incarnation] = max(min(number, kept - 1), gone.get(incarnation, 0))
        for incarnation, number, _ in numbered[: len(surplus)]:
            gone[incarnation] = max(number, gone.get(incarnation, 0))
        gone = {incarnation: number for incarnation, number in gone.items() if number}
        if gone and gone != self._gone:
            server, first = self._server_and_position(left[0][2])
            self._record(Removed(server, max(0, first - 1), gone))
        for name in surplus:
            self._system.delete_file(f"{self._path}/{name}")
        return len(surplus)

    def _server_and_position(self, name: str) -> tuple[int, int]:
        """Return the id of the server and the first position of a file."""
        parquet: Any = import_module("pyarrow.parquet")
        metadata: Any = parquet.read_metadata(f"{self._path}/{name}", filesystem=self._system)
        return int(metadata.row_group(0).column(SERVER_ID).statistics.max), positions_of(metadata)[0]

    def _record(self, removed: Removed) -> None:
        part = f"{self._path}/{REMOVED_FILE}.part"
        with self._system.open_output_stream(part) as target:
            target.write(json.dumps(removed.as_json()).encode())
        self._system.move(part, f"{self._path}/{REMOVED_FILE}")


def as_lines(report: PushReport) -> Sequence[str]:
    """Return the outcome as sentences."""
    copied = f"{report.copied:,} files with {report.copied_bytes:,} bytes copied"
    lines = [f"{copied}, {report.there:,} were there already."]
    if report.removed:
        lines.append(f"{report.removed:,} old files removed from the target.")
    return lines
