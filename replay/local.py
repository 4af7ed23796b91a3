"""The jobs without Spark: DuckDB in this process, and agents in Python processes beside it."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import Full, Queue
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from .errors import ReplayError, require
from .files import checked_dataset
from .local_worker import pack

__all__ = ["Apart", "LocalSession", "available_cores", "local_session"]

ROWS_PER_PROCESS = 50_000
"""A process more is started for each of so many rows, as long as there are processors."""
BATCH_ROWS = 16_384
SHARE = "share_of_agents"
"""The column with the number of the process that gets a row."""
MAX_WAITING = 4
"""Batches that wait for a process."""
POLL_S = 0.1
MAX_TEXT_SHOWN = 300
SIZES = {"m": "MiB", "g": "GiB"}


def available_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def local_session(*, cores: int | None = None, memory: str = "1g") -> "LocalSession":
    """Return a session that needs no Java and starts at once. It reads what fits on this machine.

    It is a context manager, and takes the place of a Spark session in all functions of this package.
    ``cores`` is how many processors it uses (default: all); more than ``memory`` (as 512m or 2g) goes to a
    temporary directory. Raises SparkMissing, with a sentence that says what to install.
    """
    require("duckdb", "pyarrow.dataset")
    duckdb: Any = import_module("duckdb")
    return LocalSession(duckdb, cores or available_cores(), memory)


class LocalSession:
    """Runs SQL in DuckDB, which reads the files through pyarrow so that the checksums of pages are checked.

    See `quorate.replay.queries.Queries` for the methods.
    """

    hash_function = "hash"

    def __init__(self, duckdb: Any, cores: int, memory: str) -> None:
        """`duckdb` is the module. Made by `local_session`."""
        self._cores = cores
        self._version = str(duckdb.__version__)
        self._place = TemporaryDirectory(prefix="quorate-replay-", ignore_cleanup_errors=True)
        self._connection: Any = duckdb.connect(
            config={
                "threads": cores,
                "memory_limit": memory[:-1] + SIZES[memory[-1].lower()],
                "temp_directory": self._place.name,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )

    def __enter__(self) -> "LocalSession":
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the session, and remove its files."""
        self._connection.close()
        self._place.cleanup()

    @property
    def name(self) -> str:
        """The name of the program, with its version."""
        return f"DuckDB {self._version}"

    def scan(self, paths: Sequence[Path], name: str) -> None:
        """Make a view of all rows of some files."""
        self._connection.register(name, checked_dataset(paths))

    def drop(self, name: str) -> None:
        """Remove a view."""
        self._connection.execute(f"DROP VIEW IF EXISTS {name}")

    def store(self, sql: str, name: str) -> None:
        """Run a query and keep its result as a table; what does not fit into memory goes to the disk."""
        self._connection.execute(f"CREATE TEMPORARY TABLE {name} AS {sql}")

    def drop_table(self, name: str) -> None:
        """Remove a table."""
        self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    def execute(self, sql: str) -> None:
        """Run a statement that has no result."""
        self._connection.execute(sql)

    def table(self, sql: str) -> Any:
        """Return the result of a query as a pyarrow table; sums of integers are 64-bit integers."""
        return narrowed(self._connection.sql(sql).to_arrow_table())

    def frame(self, sql: str) -> Any:
        """Return the query as a relation of DuckDB."""
        return self._connection.sql(sql)

    def literal(self, text: str) -> str:
        """Return a text as a constant."""
        escaped = text.replace("'", "''")
        return f"'{escaped}'"

    def words(self, column: str) -> str:
        """Return the expression that makes a row of each word of a text."""
        return f"unnest(string_split({column}, ' '))"

    def numbers(self, first: str, last: str) -> str:
        """Return the expression that makes a row of each number from one column to another."""
        return f"unnest(generate_series({first}, {last}))"

    def each_agent(self, sql: str, worker: Any, result: str, *, apart: bool = False) -> Any:
        """Return what `worker` makes of a query's rows; Python processes run it, each its share of agents.

        They are new for each call, so `apart` changes nothing.
        """
        del apart
        arrow: Any = import_module("pyarrow")
        rows = self.table(f"SELECT count(*) AS found FROM ({sql})")["found"][0].as_py()
        shares = max(1, min(self._cores, rows // ROWS_PER_PROCESS))
        ordered = self._connection.sql(
            f"SELECT *, CAST(hash(server_id, agent) % {shares} AS INT) AS {SHARE} FROM ({sql}) "
            "ORDER BY server_id, agent, position"
        )
        helpers = [Helper() for _ in range(shares)]
        try:
            with ordered.to_arrow_reader(BATCH_ROWS) as reader:
                send(reader, helpers, pack(worker, result))
            return arrow.concat_tables([helper.result() for helper in helpers])
        finally:
            for helper in helpers:
                helper.stop()


class Apart:
    """A worker that has its work done by a process that it starts."""

    def __init__(self, work: bytes) -> None:
        """`work`: as `quorate.replay.local_worker.pack` gives it."""
        self._work = work

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn record batches into those of the result."""
        helper: Helper | None = None
        try:
            for batch in batches:
                if helper is None:
                    helper = Helper()
                    helper.begin(self._work, batch.schema)
                helper.put(batch)
            if helper is not None:
                yield from helper.result().to_batches()
        finally:
            if helper is not None:
                helper.stop()


class Helper:
    """A Python process that runs agents, and two threads that read what it writes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from quorate.replay.local_worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)},
        )
        self._threads = ThreadPoolExecutor(3)
        self._input: Queue[Any] = Queue(MAX_WAITING)
        self._written = self._threads.submit(self._write)
        self._answer = self._threads.submit(self._read, self._process.stdout)
        self._words = self._threads.submit(self._read, self._process.stderr)

    def begin(self, work: bytes, schema: Any) -> None:
        """Send what is to be done, as `pack` gives it, and the schema of the rows."""
        self._input.put((work, schema))

    def put(self, batch: Any) -> None:
        """Send some rows; it waits while the process is behind."""
        self._input.put(batch)

    def result(self) -> Any:
        """End the rows, and return the results as a table. Raises ReplayError when the process failed."""
        self._input.put(None)
        answer, words = self._answer.result(), self._words.result().decode("utf-8", "replace")
        if self._process.wait():
            lines = [line for line in words.splitlines() if line.strip()]
            why = lines[-1][:MAX_TEXT_SHOWN] if lines else f"exit status {self._process.returncode}"
            raise ReplayError(f"a process that runs agents again has ended: {why}")
        sys.stderr.write(words)
        arrow: Any = import_module("pyarrow")
        with arrow.ipc.open_stream(answer) as stream:
            return stream.read_all()

    def stop(self) -> None:
        """End the process, which has perhaps ended."""
        self._process.kill()
        while not self._written.done():
            try:
                self._input.put(None, timeout=POLL_S)
            except Full:
                self._input.get_nowait()
        self._threads.shutdown()
        self._process.wait()

    def _read(self, pipe: Any) -> bytes:
        with pipe:
            answer: bytes = pipe.read()
            return answer

    def _write(self) -> None:
        """Write what is put into the queue, until None comes."""
        arrow: Any = import_module("pyarrow")
        pipe: Any = self._process.stdin
        try:
            with pipe:
                first = self._input.get()
                if first is None:
                    return
                work, schema = first
                pipe.write(work)
                with arrow.ipc.new_stream(pipe, schema) as stream:
                    while (batch := self._input.get()) is not None:
                        stream.write_batch(batch)
        except OSError:  # the process has ended, which `result` tells
            while self._input.get() is not None:
                pass


def send(reader: Any, helpers: Sequence[Helper], work: bytes) -> None:
    """Send every row to the helper of its share."""
    compute: Any = import_module("pyarrow.compute")
    kept = [name for name in reader.schema.names if name != SHARE]
    for helper in helpers:
        helper.begin(work, reader.schema.remove(reader.schema.get_field_index(SHARE)))
    for batch in reader:
        rows = batch.select(kept)
        if len(helpers) == 1:
            helpers[0].put(rows)
            continue
        for number, helper in enumerate(helpers):
            helper.put(rows.filter(compute.equal(batch.column(SHARE), number)))


def narrowed(table: Any) -> Any:
    """Return a table whose 128-bit integers, which DuckDB makes of sums, are 64-bit ones."""
    arrow: Any = import_module("pyarrow")
    fields = [
        field.with_type(arrow.int64()) if arrow.types.is_decimal128(field.type) else field
        for field in table.schema
    ]
    return table.cast(arrow.schema(fields))
