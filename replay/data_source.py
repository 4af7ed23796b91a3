"""Traces as a data source of Spark: ``spark.read.format("quorate")``, and the same with ``readStream``.

Import it only where pyspark is installed; `quorate.replay.register_source` does so.
"""

import json
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from .cover import FileSpan, Part, Piece, abreast, parts
from .discovery import FoundFiles, find_files
from .errors import NoTrace, ReplayError
from .files import Footer, checked_dataset, first_line, footer
from .reports import spans
from .schema import COLUMNS, ddl
from .source_options import number, one_of

if TYPE_CHECKING:
    from .data_sink import StreamWriter, Writer

__all__ = ["QuorateDataSource"]

COMPARISONS: Mapping[type[Filter], str] = {
    EqualTo: "eq",
    EqualNullSafe: "eq",
    GreaterThan: "gt",
    GreaterThanOrEqual: "ge",
    LessThan: "lt",
    LessThanOrEqual: "le",
    StringStartsWith: "starts_with",
    StringEndsWith: "ends_with",
    StringContains: "match_substring",
}
"""The function for each filter that is evaluated while files are read, of `operator` or pyarrow.compute."""
BATCH_ROWS = 10_000


@attrs.frozen
class Settings:
    """The options of the data source."""

    paths: tuple[str, ...]
    server: str | None
    gaps: bool
    """Whether positions that no file has are passed over."""
    gap_s: float
    """For a stream: how long it waits for positions, if a file with later ones has been there for so long."""
    max_rows: int | None
    apart: bool
    """Whether the rows of all replicas are read, and not each position once."""
    latest: bool
    """For a stream: whether it begins at the end."""

    @property
    def passes(self) -> bool:
        """Whether positions that no file has are passed over."""
        return self.gaps or self.apart

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "Settings":
        """Return the settings. Raises ReplayError for an option that has no such value."""
        places = [options["path"]] if options.get("path") else json.loads(options.get("paths") or "[]")
        if not places:
            raise ReplayError("tell where the traces are: .load(DIRECTORY).")
        return cls(
            tuple(places),
            options.get("server"),
            one_of(options, "gaps", ("error", "skip")) == "skip",
            number(options, "gapSeconds", 60.0),
            int(number(options, "maxRowsPerTrigger", 0)) or None,
            one_of(options, "replicas", ("merged", "all")) == "all",
            one_of(options, "startingPosition", ("earliest", "latest")) == "latest",
        )


class Places:
    """The trace files in some places. The footer of a file is read once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._footers: dict[Path, Footer] = {}
        self.removed: Mapping[int, int] = {}

    def files(self) -> list[FileSpan]:
        """Return the files that there are now. Raises ReplayError if one cannot be read."""
        try:
            found = find_files(self._settings.paths)
        except NoTrace:
            found = FoundFiles(())
        self.removed = found.removed
        self._footers = {path: self._footer(path) for path in found.paths}
        wanted = self._settings.server
        return [
            self._span(path, one)
            for path, one in self._footers.items()
            if wanted is None or wanted in (one.origin.server, str(one.origin.server_id))
        ]

    def _span(self, path: Path, one: Footer) -> FileSpan:
        origin = one.origin
        if not self._settings.apart:
            return FileSpan(path, origin.server_id, origin.server, one.first, one.last, one.rows)
        # Whoever reads all replicas wants to see their holes.
        span = one.last - one.first + 1
        source = f"{origin.replica}/{origin.incarnation}"
        return FileSpan(path, origin.server_id, origin.server, one.first, one.last, span, source)

    def _footer(self, path: Path) -> Footer:
        known = self._footers.get(path)
        if known is not None:
            return known
        read = footer(path)
        if isinstance(read, str):
            raise ReplayError(f"{path} cannot be read: {read}.")
        return read


def removed(places: Places) -> dict[str, int]:
    """Return up to which position retention has removed files, by the key of the server."""
    return {str(server): position for server, position in places.removed.items()}


def chosen(
    settings: Settings, files: Sequence[FileSpan], after: Mapping[str, int], rows: int | None = None
) -> list[Part]:
    """Return what is read of each server, or of each source."""
    if settings.apart:
        return abreast(files, after, rows=rows)
    return parts(files, after, rows=rows, gaps=settings.gaps)


def refuse(part: Part, why: str) -> ReplayError:
    """Return what is said of positions that no file has."""
    return ReplayError(
        f"{part.server}: no trace file has the positions {spans(part.gaps)}{why}: ask `quorate replay "
        "verify` what is missing, or set the option gaps to skip."
    )


class QuorateDataSource(DataSource):
    """The reactions of all servers, each position once, from whichever replica has it.

    Options: ``server``, its name or id; ``gaps``, ``error`` (default) or ``skip``; ``replicas``, ``merged``
    (default) or ``all``, which reads the rows of all of them, also beside holes; for a stream
    ``maxRowsPerTrigger``, ``startingPosition`` (``earliest`` or ``latest``) and ``gapSeconds``. Columns are
    those of the trace; a ``schema`` with fewer of them reads only those.

    What is written goes to a running server: each row is a notification, see `quorate.replay.data_sink`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = options

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "quorate"

    def schema(self) -> str:
        """Return the columns of a trace."""
        return ddl()

    def reader(self, schema: StructType) -> "Reader":
        """Return what reads the files that there are now."""
        return Reader(Settings.read(self._options), column_names(schema))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """Return what reads files as they appear."""
        return StreamReader(Settings.read(self._options), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "Writer":
        """Return what sends the rows of a DataFrame."""
        from .data_sink import Writer  # what reads needs no clients

        return Writer(self._options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802
        """Return what sends the rows of a stream. It never overwrites, whatever the mode of the query."""
        from .data_sink import StreamWriter

        del overwrite
        return StreamWriter(self._options, schema)


def column_names(schema: StructType) -> list[str]:
    """Return the columns that are wanted. Raises ReplayError for one that a trace does not have."""
    names = list(schema.fieldNames())
    for name in names:
        if name not in COLUMNS:
            raise ReplayError(f"a trace has no column {name!r}; it has {', '.join(COLUMNS)}.")
    return names


class Reading(InputPartition):
    """The work of one task."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(None)
        self.path = str(piece.path)
        self.first = piece.first
        self.last = piece.last


def batches(
    task: Reading, columns: Sequence[str], filters: Sequence[tuple[str, str, Any]] = ()
) -> Iterator[Any]:
    """Read the rows of a task. ``filters``: see `pushed`. Raises ReplayError when the file is damaged."""
    arrow: Any = import_module("pyarrow")
    dataset: Any = import_module("pyarrow.dataset")
    position = dataset.field("position")
    wanted = (position >= task.first) & (position <= task.last)
    for one in filters:
        wanted &= expression(*one)
    try:
        file = checked_dataset([Path(task.path)])
        for batch in file.to_batches(columns=list(columns), filter=wanted, batch_size=BATCH_ROWS):
            # Spark has no columns without nulls.
            yield arrow.RecordBatch.from_arrays(batch.columns, names=batch.schema.names)
    except (OSError, ValueError) as error:
        raise ReplayError(f"{task.path} cannot be read: {first_line(error)}.") from error


def expression(column: str, kind: str, value: Any) -> Any:
    """Return a filter as pyarrow has it."""
    compute: Any = import_module("pyarrow.compute")
    field = compute.field(column)
    if kind == "in":
        return field.isin(list(value))
    if hasattr(operator, kind):
        return getattr(operator, kind)(field, value)
    return getattr(compute, kind)(field, value)


def pushed(one: Filter) -> tuple[str, str, Any] | None:
    """Return a filter as column, function and value; None if it is left to Spark."""
    inner = one.child if isinstance(one, Not) else one
    path: Any = getattr(inner, "attribute", ())
    value: Any = getattr(inner, "value", None)
    if len(path) != 1 or path[0] not in COLUMNS or isinstance(value, bytes | bytearray):
        return None
    if isinstance(one, Not):
        return (path[0], "ne", value) if isinstance(inner, EqualTo) and value is not None else None
    if isinstance(one, In):
        return (path[0], "in", value) if None not in value else None
    kind = COMPARISONS.get(type(one))
    return None if kind is None or value is None else (path[0], kind, value)


class Reader(DataSourceReader):
    """Reads the files that there are."""

    def __init__(self, settings: Settings, columns: list[str]) -> None:
        self._settings = settings
        self._columns = columns
        self._filters: list[tuple[str, str, Any]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the filters that are evaluated while files are read, and return the others."""
        for one in filters:
            if isinstance(one, IsNotNull):
                continue  # there are no nulls
            found = pushed(one)
            if found is None:
                yield one
            else:
                self._filters.append(found)

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each piece of a file. Raises ReplayError for positions that no file has."""
        places = Places(self._settings)
        files = places.files()
        if not files:
            where = ", ".join(self._settings.paths)
            raise ReplayError(f"there is no trace file of that server in {where}.")
        found = chosen(self._settings, files, removed(places))
        for part in found:
            if part.gaps and not self._settings.passes:
                raise refuse(part, "")
        low, high = self._bounds()
        return [
            Reading(piece)
            for part in found
            for piece in part.pieces
            if piece.last >= low and piece.first <= high and self._has(part)
        ]

    def _bounds(self) -> tuple[int, int]:
        """Return the positions that the filters leave."""
        low, high = 0, 2**63 - 1
        for column, kind, value in self._filters:
            if column == "position" and kind in ("eq", "gt", "ge"):
                low = max(low, value)
            if column == "position" and kind in ("eq", "lt", "le"):
                high = min(high, value)
        return low, high

    def _has(self, part: Part) -> bool:
        """Return whether the filters leave anything of a server."""
        own = {"server": part.server, "server_id": part.server_id}
        return all(
            own[column] in value if kind == "in" else own[column] == value
            for column, kind, value in self._filters
            if column in own and kind in ("eq", "in")
        )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of one task. Spark asks once without a task if there is none."""
        if not isinstance(partition, Reading):
            return iter(())
        return batches(partition, self._columns, self._filters)


class StreamReader(DataSourceStreamReader):
    """Reads files as they appear. The offset is the last position of each server that was read."""

    def __init__(self, settings: Settings, columns: list[str]) -> None:
        self._settings = settings
        self._columns = columns
        self._places = Places(settings)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where a new query begins."""
        if not self._settings.latest:
            return {}
        ends: dict[str, int] = {}
        for each in self._places.files():
            ends[each.key] = max(each.last, ends.get(each.key, 0))
        return ends

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much one batch reads."""
        rows = self._settings.max_rows
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return how far the next batch reads. Raises ReplayError if positions do not come any more."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = self._parts(start, rows)
        for part in found:
            if part.gaps and not self._settings.passes and not part.pieces:
                self._wait(part)
        return {**start, **{part.key: part.last for part in found}}

    def _parts(self, start: Mapping[str, int], rows: int | None) -> list[Part]:
        files = self._places.files()
        return chosen(self._settings, files, {**removed(self._places), **start}, rows)

    def _wait(self, part: Part) -> None:
        """Raise ReplayError if a file behind a gap has been there for long."""
        behind = part.gaps[0].last
        own = [each for each in self._places.files() if each.server_id == part.server_id]
        later = [each.path.stat().st_mtime for each in own if each.last > behind]
        age = time.time() - min(later, default=time.time())
        if age > self._settings.gap_s:
            raise refuse(part, f", and later ones have been there for {age:.0f} s")

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return a task for each piece of a file. Raises ReplayError if files of it are gone."""
        found = self._parts(start, None)
        tasks: list[InputPartition] = []
        for part in found:
            upto = end.get(part.key, 0)
            if part.last < upto:
                raise ReplayError(
                    f"{part.server}: positions up to {upto} were to be read, and files have them only up to "
                    f"{part.last}: were some removed? Begin again with another checkpoint."
                )
            tasks += [
                Reading(attrs.evolve(piece, last=min(piece.last, upto)))
                for piece in part.pieces
                if piece.first <= upto
            ]
        return tasks

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of one task. Spark asks once without a task if there is none."""
        return batches(partition, self._columns) if isinstance(partition, Reading) else iter(())
