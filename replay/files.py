"""The files of a trace: their footers, and those among them that cannot be read."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from .discovery import FoundFiles, ReplicaDirectory, reason
from .errors import NoTrace, require
from .schema import COLUMNS, MARK, MESH_MARK, SCHEMA_VERSION, WRITER_DROPPED, Origin, arrow_schema

__all__ = ["Footer", "SourceId", "TraceFiles", "checked_dataset", "inspect_files", "unreadable"]

READERS = 4
POSITION = tuple(COLUMNS).index("position")
MAGIC = b"PAR1"
"""The first and the last bytes of a Parquet file."""

_OTHER_KIND = {
    False: "these are traces of a mesh, which has no agents: use `quorate replay mesh`.",
    True: "these are traces of servers with agents, not of a mesh: use the other jobs.",
}
SourceId = tuple[int, int, int]
"""Server id, replica and incarnation."""


@attrs.frozen
class Footer:
    """The summary at the end of a trace file."""

    rows: int
    origin: Origin
    dropped: int
    """Rows that the writer had lost before it closed the file."""
    first: int = 0
    """The lowest position."""
    last: int = 0
    """The highest position."""

    @property
    def source(self) -> SourceId:
        """The incarnation of the replica that wrote the file."""
        return self.origin.server_id, self.origin.replica, self.origin.incarnation


@attrs.frozen
class TraceFiles:
    """The files of one run of the jobs. Files that appear later are not among them."""

    footers: Mapping[Path, Footer]
    """The files that can be read."""
    bad: tuple[str, ...] = ()
    """One line for each file or directory that cannot be used."""
    notes: tuple[str, ...] = ()
    """One line for each file that was left out and is no fault."""
    bare: tuple[ReplicaDirectory, ...] = ()
    """Directories of replicas without a trace."""
    removed: Mapping[int, int] = attrs.field(factory=dict[int, int])
    """By the id of a server: up to which position retention has removed files of its traces."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that can be read."""
        return tuple(self.footers)

    @property
    def origins(self) -> dict[SourceId, Origin]:
        """The origin of each source."""
        return {footer.source: footer.origin for footer in self.footers.values()}

    @property
    def rows(self) -> dict[SourceId, int]:
        """The rows of each source."""
        found: dict[SourceId, int] = {}
        for footer in self.footers.values():
            found[footer.source] = found.get(footer.source, 0) + footer.rows
        return found

    @property
    def dropped(self) -> dict[SourceId, int]:
        """The rows that the writer of each source has lost."""
        found: dict[SourceId, int] = {}
        for footer in self.footers.values():
            found[footer.source] = max(found.get(footer.source, 0), footer.dropped)
        return found

    def without(self, damaged: Mapping[Path, str]) -> "TraceFiles":
        """Return the rest when files turned out to be damaged, by path. Raises NoTrace when none is left."""
        good = {path: footer for path, footer in self.footers.items() if path not in damaged}
        bad = (*self.bad, *(f"{path}: {why}" for path, why in damaged.items()))
        if not good:
            raise NoTrace(f"none of the {len(bad)} trace files can be read; the first is {bad[0]}")
        return attrs.evolve(self, footers=good, bad=bad)


def inspect_files(found: FoundFiles, *, mesh: bool = False) -> TraceFiles:
    """Read the footer of each file and set aside those that are not whole.

    mesh: take the traces of daemons of a mesh; otherwise those of servers with agents.

    Raises NoTrace when none is left.
    """
    require("pyarrow.parquet")
    with ThreadPoolExecutor(READERS) as pool:
        footers = dict(zip(found.paths, pool.map(footer, found.paths), strict=True))
    whole = {path: read for path, read in footers.items() if isinstance(read, Footer)}
    good = {path: read for path, read in whole.items() if read.origin.mesh == mesh}
    if whole and not good:
        raise NoTrace(_OTHER_KIND[mesh])
    damaged = {path: read for path, read in footers.items() if isinstance(read, str)}
    everything = TraceFiles(good, (), found.notes, found.bare, found.removed).without(damaged)
    return attrs.evolve(everything, bad=(*found.problems, *everything.bad))


def footer(path: Path) -> Footer | str:
    """Return the footer of a file, or why the file cannot be used."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        broken = flaw(path)
        if broken:
            return broken
        metadata: Any = parquet.read_metadata(path)
        pairs: dict[bytes, bytes] = metadata.metadata or {}
        version = pairs.get(MARK) or pairs.get(MESH_MARK)
        if version is None:
            return "not the trace of a server"
        if version != str(SCHEMA_VERSION).encode():
            return f"trace schema {version.decode()}, this program reads {SCHEMA_VERSION}"
        if not has_trace_columns(metadata.schema):
            return "the columns are not those of a trace"
        if not metadata.num_rows:
            return "there is no row in it"
        writers = {
            each for at in range(metadata.num_row_groups) for each in writers_of(metadata.row_group(at))
        }
        if len(writers) > 1:
            return "it has rows of several replicas or incarnations"
        name, server, replica, incarnation = writers.pop()
        origin = Origin.read(str(name), int(server), int(replica), int(incarnation), pairs)
        first, last = positions_of(metadata)
        return Footer(int(metadata.num_rows), origin, int(pairs.get(WRITER_DROPPED, b"0")), first, last)
    except Exception as error:  # pyarrow has no common base for what a broken file makes it raise
        return first_line(error)


def writers_of(group: Any) -> set[tuple[Any, ...]]:
    """Return the lowest and the highest server, server id, replica and incarnation of a row group."""
    found = [group.column(at).statistics for at in range(4)]
    return {tuple(each.min for each in found), tuple(each.max for each in found)}


def positions_of(metadata: Any) -> tuple[int, int]:
    """Return the lowest and the highest position of a file."""
    found = [metadata.row_group(at).column(POSITION).statistics for at in range(metadata.num_row_groups)]
    return int(min(each.min for each in found)), int(max(each.max for each in found))


def flaw(path: Path) -> str:
    """Return why a file cannot be a whole Parquet file, "" if it may be one."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            size = file.seek(0, 2)
            file.seek(max(0, size - len(MAGIC)))
            tail = file.read(len(MAGIC))
    except OSError as error:
        return f"it cannot be opened: {reason(error)}"
    if not size:
        return "it is empty"
    if head != MAGIC:
        return "it is not a Parquet file"
    return "" if tail == MAGIC and size > 2 * len(MAGIC) else "it is truncated: its end is missing"


def has_trace_columns(schema: Any) -> bool:
    """Return whether a Parquet schema has the columns of a trace, in their order and with their types."""
    if list(schema.names) != list(COLUMNS):
        return False
    written: Any = schema.to_arrow_schema()
    return all(
        plain_type(found.type) == plain_type(wanted.type)
        for found, wanted in zip(written, arrow_schema({}), strict=True)
    )


def plain_type(kind: Any) -> Any:
    """Return an Arrow type, that of the values for a dictionary."""
    return getattr(kind, "value_type", kind)


def checked_dataset(paths: Sequence[Path]) -> Any:
    """Return files as a pyarrow dataset that checks the checksums of pages; text columns are plain."""
    dataset: Any = import_module("pyarrow.dataset")
    checked = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return dataset.dataset(
        [str(path) for path in paths],
        schema=arrow_schema({}, dictionaries=False),
        format=dataset.ParquetFileFormat(default_fragment_scan_options=checked),
    )


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
