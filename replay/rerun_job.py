"""Agents run again on their recorded notifications."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from .agent_rerun import AgentRerun, Record
from .discovery import Traces
from .errors import NoTrace
from .files import SourceId
from .frames import Progress, Trace, ignore, spark_functions
from .reports import AgentResult, Report, RerunReport
from .schema import IDENTITY
from .totals import merged
from .verification import verify_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["rerun", "state_at"]

RESULT = (
    "server string, agent string, cls string, reactions bigint, errors bigint, omitted bigint, first bigint, "
    "last bigint, state string, deleted boolean, diverged bigint, skipped string, difference string"
)
RESULTS_PER_BATCH = 1000
PARTITIONS_PER_CORE = 2


def rerun(
    spark: "SparkSession",
    traces: Traces,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> RerunReport:
    """Run every agent's reactions again, with the code that can be imported now, and compare what they send.

    The classes are imported in Spark's Python workers; what this process can import, they can. A ``report``
    of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when Spark fails.
    """
    began = time.monotonic()
    trace = Trace(spark, traces, server, progress)
    found = report or verify_trace(trace, progress)
    (progress or ignore)(f"running {sum(one.last for one in found.servers):,} reactions again")
    agents = trace.run(lambda frame: run_again(merged(frame, found), found, configured(trace)))
    trace.check_unchanged(found)
    return RerunReport(tuple(agents), time.monotonic() - began)


def state_at(
    spark: "SparkSession",
    traces: Traces,
    agent: str,
    position: int | None = None,
    *,
    server: str | int | None = None,
    report: Report | None = None,
) -> AgentResult:
    """Return one agent ("#0.0.1025") as it was after ``position`` of its server (default: the last).

    Raises NoTrace when the trace does not know the agent at that position, ReplayError when Spark fails.
    """
    trace = Trace(spark, traces, server)
    found = report or verify_trace(trace)

    def job(frame: Any) -> list[AgentResult]:
        column: Any = spark_functions().col
        rows = merged(frame, found).where(column("agent") == agent)
        if position is not None:
            rows = rows.where(column("position") <= position)
        return run_again(rows, found, configured(trace))

    results = trace.run(job)
    trace.check_unchanged(found)
    if not results:
        when = "" if position is None else f" up to position {position}"
        raise NoTrace(f"the trace does not know an agent {agent}{when}.")
    return results[0]


def configured(trace: Trace) -> dict[SourceId, Mapping[str, int]]:
    """Return the ids of all servers by name, for each source whose files have them."""
    return {source: origin.servers for source, origin in trace.files.origins.items() if origin.servers}


def run_again(frame: Any, report: Report, servers: Mapping[SourceId, Mapping[str, int]]) -> list[AgentResult]:
    """Run all agents in a frame whose positions are unique. ``servers``: see `configured`."""
    column: Any = spark_functions().col
    spark: Any = frame.sparkSession
    partitions = max(1, PARTITIONS_PER_CORE * int(spark.sparkContext.defaultParallelism))
    sorted_rows = (
        frame.where(column("cls") != "")
        .select(*IDENTITY, *Record.__struct_fields__)
        .repartition(partitions, "server_id", "agent")
        .sortWithinPartitions("server_id", "agent", "position")
    )
    names = {server.server: server.server_id for server in report.servers}
    table = sorted_rows.mapInArrow(Worker(import_path(), names, servers), RESULT).toArrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        row["state"] = None if row["state"] is None else msgspec.json.decode(row["state"])
    results = [AgentResult(**row) for row in rows]
    return sorted(results, key=lambda result: (result.server, result.first))


def import_path() -> list[str]:
    """Return where this process imports from, for the workers; the current directory is always part of it."""
    here = os.getcwd()
    return [*(os.path.abspath(place) for place in sys.path if place), here]


class Worker:
    """The work of one Python worker of Spark: the rerun of its share of the agents."""

    def __init__(
        self, path: list[str], names: dict[str, int], servers: Mapping[SourceId, Mapping[str, int]]
    ) -> None:
        """`names`: the servers that have traces. `servers`: see `configured`."""
        self._path = path
        self._names = names
        self._servers = servers

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn record batches, sorted by agent and position, into one row per agent."""
        for place in self._path:
            if place not in sys.path:
                sys.path.append(place)
        results: list[dict[str, Any]] = []
        for agent in self._agents(batches):
            results.append(agent.result())
            if len(results) >= RESULTS_PER_BATCH:
                yield self._batch(results)
                results = []
        if results:
            yield self._batch(results)

    def _agents(self, batches: Iterable[Any]) -> Iterator[AgentRerun]:
        current: AgentRerun | None = None
        key: tuple[int, str] | None = None
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            identities = zip(*(columns.pop(name) for name in IDENTITY), strict=True)
            records = map(Record, *(columns[name] for name in Record.__struct_fields__))
            for (server, server_id, replica, incarnation), record in zip(identities, records, strict=True):
                if current is None or key != (server_id, record.agent):
                    if current is not None:
                        yield current
                    key = (server_id, record.agent)
                    current = AgentRerun(server, record.agent, self._names)
                current.apply(record, self._servers.get((server_id, replica, incarnation)))
        if current is not None:
            yield current

    def _batch(self, results: list[dict[str, Any]]) -> Any:
        arrow: Any = import_module("pyarrow")
        kinds = {"string": arrow.string(), "bigint": arrow.int64(), "boolean": arrow.bool_()}
        fields = [entry.strip().split(" ") for entry in RESULT.split(",")]
        schema = arrow.schema([(name, kinds[kind]) for name, kind in fields])
        return arrow.RecordBatch.from_pylist(results, schema=schema)
