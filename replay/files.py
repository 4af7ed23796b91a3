"""The files of a trace: their paths, and those among them that cannot be read."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from .errors import NoTrace
from .schema import COLUMNS, MARK, SCHEMA_VERSION, WRITER_DROPPED, Origin

__all__ = ["Footer", "SourceId", "TraceFiles", "Traces", "find_files", "inspect_files", "unreadable"]

SUFFIX = ".parquet"
READERS = 4

Traces = str | Path | Iterable[str | Path]
"""The traces of a replay: files, directories (searched) or globs."""
SourceId = tuple[int, int, int]
"""Server id, replica and incarnation."""


@attrs.frozen
class Footer:
    """The summary at the end of a trace file."""

    rows: int
    origin: Origin
    dropped: int
    """Rows that the writer had lost before it closed the file."""


@attrs.frozen
class TraceFiles:
    """The files of one run of the jobs. Files that appear later are not among them."""

    paths: tuple[Path, ...]
    bad: tuple[str, ...]
    """One line for each file that was set aside."""
    rows: int
    dropped: dict[SourceId, int]
    """Rows lost by the writer."""
    origins: dict[SourceId, Origin]


def find_files(traces: Traces) -> list[Path]:
    """Return every trace file in or below the given places, sorted; ``.part`` files are left out.

    Raises NoTrace when a place does not exist or when there is no file at all.
    """
    places = [traces] if isinstance(traces, str | Path) else list(traces)
    found: set[Path] = set()
    for place in places:
        paths = expand(str(place))
        if not paths:
            raise NoTrace(f"there is no {place}: give the data directory of a server, or its trace files.")
        for path in paths:
            found.update(below(path))
    if not found:
        where = ", ".join(str(place) for place in places)
        raise NoTrace(f"there is no trace file ({SUFFIX}) in {where}: has the server written one yet?")
    return sorted(found)


def expand(place: str) -> list[Path]:
    """Return the existing paths that a path or a glob means."""
    path = Path(place)
    if path.exists():
        return [path]
    return [Path(match) for match in sorted(glob.glob(place, recursive=True))]


def below(path: Path) -> Iterator[Path]:
    """Yield a file, or the trace files anywhere below a directory, as absolute paths."""
    if not path.is_dir():
        if path.name.endswith(SUFFIX):
            yield path.absolute()
        return
    for directory, _, names in os.walk(path):
        for name in names:
            if name.endswith(SUFFIX):
                yield (Path(directory) / name).absolute()


def inspect_files(paths: Sequence[Path]) -> TraceFiles:
    """Read the footer of each file and set aside those that are not whole.

    Raises NoTrace when none is left.
    """
    with ThreadPoolExecutor(READERS) as pool:
        footers = list(pool.map(footer, paths))
    good: list[Path] = []
    bad: list[str] = []
    dropped: dict[SourceId, int] = {}
    origins: dict[SourceId, Origin] = {}
    rows = 0
    for path, found in zip(paths, footers, strict=True):
        if isinstance(found, str):
            bad.append(f"{path}: {found}")
            continue
        good.append(path)
        rows += found.rows
        origin = found.origin
        source = (origin.server_id, origin.replica, origin.incarnation)
        origins[source] = origin
        dropped[source] = max(dropped.get(source, 0), found.dropped)
    if not good:
        raise NoTrace(f"none of the {len(bad)} trace files can be read; the first is {bad[0]}")
    return TraceFiles(tuple(good), tuple(bad), rows, dropped, origins)


def footer(path: Path) -> Footer | str:
    """Return the footer of a file, or why the file cannot be used."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        metadata: Any = parquet.read_metadata(path)
        pairs: dict[bytes, bytes] = metadata.metadata or {}
        names: list[str] = list(metadata.schema.names)
        if MARK not in pairs:
            return "not the trace of a server"
        if pairs[MARK] != str(SCHEMA_VERSION).encode():
            return f"trace schema {pairs[MARK].decode()}, this program reads {SCHEMA_VERSION}"
        if names != list(COLUMNS):
            return "the columns are not those of a trace"
        lost = int(pairs.get(WRITER_DROPPED, b"0"))
        if not metadata.num_rows:
            return "there is no row in it"
        group: Any = metadata.row_group(0)
        name, server, replica, incarnation = (group.column(at).statistics.min for at in range(4))
        origin = Origin.read(str(name), int(server), int(replica), int(incarnation), pairs)
        return Footer(int(metadata.num_rows), origin, lost)
    except Exception as error:  # pyarrow has no common base for what a broken file makes it raise
        return first_line(error)


def unreadable(paths: Sequence[Path]) -> dict[Path, str]:
    """Read every page of every file, and return why for those that are damaged. Slow."""
    parquet: Any = import_module("pyarrow.parquet")
    found: dict[Path, str] = {}
    for path in paths:
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group, use_threads=False)
        except Exception as error:  # as above
            found[path] = first_line(error)
    return found


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
