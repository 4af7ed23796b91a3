"""What runs the SQL of the jobs: Spark, or DuckDB in this process. Both give the same results."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .local import Apart, LocalSession
from .local_worker import pack
from .schema import ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Queries", "Session", "SparkQueries", "as_view", "queries_of", "values", "view_name"]

Session: TypeAlias = "SparkSession | LocalSession"
"""Where jobs run: a session of Spark, or one of `local_session`."""

PARTITIONS_PER_CORE = 2

_views = count(1)


class Queries(Protocol):
    """Runs SQL over trace files.

    The jobs use what both dialects have in common, and the methods here for the rest.
    """

    @property
    def name(self) -> str:
        """The name of the program, with its version."""
        ...

    @property
    def hash_function(self) -> str:
        """The function that gives a 64-bit hash of any number of values."""
        ...

    def scan(self, paths: Sequence[Path], name: str) -> None:
        """Make a view of all rows of some files."""
        ...

    def drop(self, name: str) -> None:
        """Remove a view."""
        ...

    def store(self, sql: str, name: str) -> None:
        """Run a query and keep its result as a table."""
        ...

    def drop_table(self, name: str) -> None:
        """Remove a table."""
        ...

    def execute(self, sql: str) -> None:
        """Run a statement that has no result."""
        ...

    def table(self, sql: str) -> Any:
        """Return the result of a query as a pyarrow table; sums of integers are 64-bit integers."""
        ...

    def frame(self, sql: str) -> Any:
        """Return the query as the lazy table of the program: a DataFrame, or a relation of DuckDB."""
        ...

    def literal(self, text: str) -> str:
        """Return a text as a constant."""
        ...

    def words(self, column: str) -> str:
        """Return the expression that makes a row of each word of a text; words are parted by one space."""
        ...

    def numbers(self, first: str, last: str) -> str:
        """Return the expression that makes a row of each number from one column to another."""
        ...

    def each_agent(self, sql: str, worker: Any, result: str, *, apart: bool = False) -> Any:
        """Return what `worker` makes of a query's rows, with all rows of an agent in the same call of it.

        The query has the columns server_id, agent and position; `result` is the schema as Spark SQL text. The
        worker is a msgspec.Struct that turns record batches into those of the result. `apart` has each work
        in a process that has imported no agent yet.
        """
        ...


class SparkQueries:
    """Runs SQL on Spark."""

    hash_function = "xxhash64"

    def __init__(self, spark: "SparkSession") -> None:
        self._spark: Any = spark

    @property
    def name(self) -> str:
        """The name of the program, with its version."""
        return f"Spark {self._spark.version}"

    def scan(self, paths: Sequence[Path], name: str) -> None:
        """Make a view of all rows of some files."""
        files = [escape(str(path)) for path in paths]
        self._spark.read.schema(ddl()).parquet(*files).createOrReplaceTempView(name)

    def drop(self, name: str) -> None:
        """Remove a view."""
        self._spark.catalog.dropTempView(name)

    def store(self, sql: str, name: str) -> None:
        """Run a query and keep its result as a table, on the local disks of the workers."""
        self._spark.sql(sql).localCheckpoint().createOrReplaceTempView(name)

    def drop_table(self, name: str) -> None:
        """Remove a table."""
        self._spark.catalog.dropTempView(name)

    def execute(self, sql: str) -> None:
        """Run a statement that has no result."""
        self._spark.sql(sql)

    def table(self, sql: str) -> Any:
        """Return the result of a query as a pyarrow table."""
        return self._spark.sql(sql).toArrow()

    def frame(self, sql: str) -> Any:
        """Return the query as a DataFrame."""
        return self._spark.sql(sql)

    def literal(self, text: str) -> str:
        """Return a text as a constant."""
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    def words(self, column: str) -> str:
        """Return the expression that makes a row of each word of a text."""
        return f"explode(split({column}, ' '))"

    def numbers(self, first: str, last: str) -> str:
        """Return the expression that makes a row of each number from one column to another."""
        return f"explode(sequence({first}, {last}))"

    def each_agent(self, sql: str, worker: Any, result: str, *, apart: bool = False) -> Any:
        """Return what `worker` makes of a query's rows; Spark's Python workers run it, or start who does."""
        partitions = max(1, PARTITIONS_PER_CORE * int(self._spark.sparkContext.defaultParallelism))
        rows = self._spark.sql(sql).repartition(partitions, "server_id", "agent")
        ordered = rows.sortWithinPartitions("server_id", "agent", "position")
        return ordered.mapInArrow(Apart(pack(worker, result)) if apart else worker, result).toArrow()


def queries_of(session: Any) -> Queries:
    """Return what runs the SQL of a session."""
    return session if isinstance(session, LocalSession) else SparkQueries(session)


@contextmanager
def as_view(queries: Queries, sql: str) -> Generator[str]:
    """Give a query a name, under which other queries find it until the block ends."""
    name = view_name()
    queries.execute(f"CREATE TEMPORARY VIEW {name} AS {sql}")
    try:
        yield name
    finally:
        queries.drop(name)


def view_name() -> str:
    """Return a name for a view that no other one has."""
    return f"quorate_rows_{next(_views)}"


def values(rows: Sequence[Sequence[int]], columns: str) -> str:
    """Return a table of numbers, at least one row, as it stands behind FROM."""
    listed = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
    return f"(VALUES {listed}) AS {columns}"


def escape(path: str) -> str:
    """Return a path in which Spark finds no wildcard."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
