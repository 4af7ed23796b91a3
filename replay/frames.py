"""Trace files as Spark data frames."""

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from .discovery import Traces, find_files
from .errors import ReplayError, SparkMissing
from .files import SourceId, TraceFiles, first_line, inspect_files, unreadable
from .replicas import Absences, find_absences
from .reports import Report
from .schema import Origin, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "Trace", "any_of", "as_view", "ignore", "spark_functions"]

_views = count(1)

T = TypeVar("T")
Progress = Callable[[str], None]
"""Called with a few words when a step begins."""


def ignore(_: str) -> None:
    """Ignore progress: the caller gave no function for it."""


class Trace:
    """The readable part of some trace files, as Spark sees it."""

    def __init__(
        self,
        spark: "SparkSession",
        traces: Traces,
        server: str | int | None = None,
        progress: "Progress | None" = None,
    ) -> None:
        """Find the files and check their footers. Raises NoTrace."""
        self._spark: Any = spark
        self._server = server
        report_step = progress or ignore
        report_step("searching for trace files")
        found = find_files(traces)
        report_step(f"checking {len(found.paths):,} trace files")
        self.files: TraceFiles = inspect_files(found)

    @property
    def spark(self) -> Any:
        """The session."""
        return self._spark

    def expected_rows(self) -> dict[SourceId, int]:
        """Return the rows that each source has by the footers, of the chosen server if one was chosen."""
        origins = self.files.origins
        return {source: rows for source, rows in self.files.rows.items() if self._wants(origins[source])}

    def names(self, server_id: int) -> tuple[str, ...]:
        """Return the names that the files have for a server."""
        return tuple(
            sorted({one.server for one in self.files.origins.values() if one.server_id == server_id})
        )

    def accepted(self, source: SourceId) -> str:
        """Return which entry of a source ended otherwise when it was applied again; "" if none did."""
        return self.files.origins[source].accepted

    def absences(self) -> Absences:
        """Return the replicas that ought to have a trace, of the chosen server if one was chosen."""
        origins = list(self.files.origins.values())
        chosen = next((one.server for one in origins if self._wants(one)), None)
        return find_absences(origins, self.files.bare, None if self._server is None else chosen)

    def _wants(self, origin: Origin) -> bool:
        return self._server is None or str(self._server) in (origin.server, str(origin.server_id))

    def frame(self) -> Any:
        """Return a data frame of all rows, of the chosen server if one was chosen."""
        paths = [escape(str(path)) for path in self.files.paths]
        frame: Any = self._spark.read.schema(ddl()).parquet(*paths)
        if self._server is None:
            return frame
        column: Any = spark_functions().col
        chosen = str(self._server)
        condition = column("server") == chosen
        if chosen.isdecimal():
            condition = condition | (column("server_id") == int(chosen))
        return frame.where(condition)

    def check_unchanged(self, report: Report) -> None:
        """Raise ReplayError if a file cannot be read that could be read when `report` was made."""
        changed = sorted(set(self.files.bad) - set(report.bad_files))
        if changed:
            raise ReplayError(f"a file has changed since the traces were verified: {changed[0]}.")

    def run(self, job: Callable[[Any], T]) -> T:
        """Run a job on the data frame.

        When Spark stumbles over a damaged file, that file is set aside and the job is run again.
        Raises ReplayError when there is another reason, NoTrace when no file is left.
        """
        try:
            return job(self.frame())
        except ReplayError:
            raise
        except Exception as error:  # errors of Spark, of py4j and of the Java side have no common base
            damaged = unreadable(self.files.paths)
            if not damaged:
                raise ReplayError(f"Spark could not run the job: {short(error)}") from error
        self.files = self.files.without(damaged)
        try:
            return job(self.frame())
        except ReplayError:
            raise
        except Exception as error:  # as above
            raise ReplayError(f"Spark could not run the job: {short(error)}") from error


def escape(path: str) -> str:
    """Return a path in which Spark finds no wildcard."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def short(error: Exception) -> str:
    """Return what is worth reading of an error of Spark: the Python exception in it, or its first line."""
    lines = [line for line in str(error).splitlines() if line and not line[0].isspace()]
    blamed = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt): ", line)]
    return blamed[-1] if blamed else first_line(error)


def spark_functions() -> Any:
    """Return the module pyspark.sql.functions. Raises SparkMissing."""
    try:
        return import_module("pyspark.sql.functions")
    except ImportError as error:
        raise SparkMissing(
            "the replay needs pyspark, which is not installed: run `pip install 'quorate[replay]'`."
        ) from error


@contextmanager
def as_view(frame: Any) -> Generator[str]:
    """Give a frame a name for SQL, which is gone after the block."""
    name = f"quorate_rows_{next(_views)}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def any_of(conditions: Sequence[Any]) -> Any:
    """Return the disjunction of column conditions, as a balanced tree: Spark's planner recurses into it."""
    level: list[Any] = list(conditions)
    while len(level) > 1:
        odd: list[Any] = level[-1:] if len(level) % 2 else []
        level = [left | right for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]
