"""Trace files as Spark data frames."""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from .errors import NoTrace, ReplayError, SparkMissing
from .files import TraceFiles, Traces, find_files, first_line, inspect_files, unreadable
from .schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Trace", "any_of", "spark_functions"]

T = TypeVar("T")


class Trace:
    """The readable part of some trace files, as Spark sees it."""

    def __init__(self, spark: "SparkSession", traces: Traces, server: str | int | None = None) -> None:
        """Find the files and check their footers. Raises NoTrace."""
        self._spark: Any = spark
        self._server = server
        self.files: TraceFiles = inspect_files(find_files(traces))

    @property
    def spark(self) -> Any:
        """The session."""
        return self._spark

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
        good = tuple(path for path in self.files.paths if path not in damaged)
        bad = (*self.files.bad, *(f"{path}: {why}" for path, why in damaged.items()))
        if not good:
            raise NoTrace(f"none of the {len(bad)} trace files can be read; the first is {bad[0]}")
        self.files = attrs.evolve(self.files, paths=good, bad=bad)
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


def any_of(conditions: Sequence[Any]) -> Any:
    """Return the disjunction of column conditions, as a balanced tree: Spark's planner recurses into it."""
    level: list[Any] = list(conditions)
    while len(level) > 1:
        odd: list[Any] = level[-1:] if len(level) % 2 else []
        level = [left | right for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]
