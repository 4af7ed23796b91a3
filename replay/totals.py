"""The reactions of a server as one table, and counts over it."""

import time
from typing import TYPE_CHECKING, Any

from .discovery import Traces
from .frames import Trace, any_of, spark_functions
from .reports import Report, ServerReport, TotalRow, Totals
from .verification import verify_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["merged", "reactions", "totals"]

MAX_PIECES = 200
"""Above this many pieces per server the rows are made unique by a shuffle instead of a filter."""


def reactions(
    spark: "SparkSession",
    traces: Traces,
    *,
    server: str | int | None = None,
    report: Report | None = None,
) -> "DataFrame":
    """Return one row per server and position, taken from whichever replica has it, with the trace's columns.

    The rows are in no order; sort by ``position``. Columns: server, server_id, replica, incarnation,
    position, index, step, now_ns, agent ("#0.0.1025"), cls, kind, sender, type, payload (msgpack), request,
    error, sends, outputs, stamp, name, state. A ``report`` of `verify` on the same files saves a pass.
    Raises NoTrace when nothing can be read, ReplayError when Spark fails.
    """
    trace = Trace(spark, traces, server)
    frame: DataFrame = merged(trace.frame(), report or verify_trace(trace))
    return frame


def merged(frame: Any, report: Report) -> Any:
    """Return a frame of the trace's rows in which every position of a server comes once."""
    column: Any = spark_functions().col
    kept: list[Any] = []
    unique = True
    for server in report.servers:
        here = column("server_id") == server.server_id
        if len(server.cover) > MAX_PIECES or any(source.duplicates for source in server.sources):
            unique = False
            kept.append(here)
        else:
            kept.append(here & any_of([piece(column, server, at) for at in range(len(server.cover))]))
    frame = frame.where(any_of(kept))
    return frame if unique else frame.dropDuplicates(["server_id", "position"])


def piece(column: Any, server: ServerReport, at: int) -> Any:
    """Return the condition of the rows that one source contributes."""
    part = server.cover[at]
    return (
        (column("replica") == part.replica)
        & (column("incarnation") == part.incarnation)
        & column("position").between(part.span.first, part.span.last)
    )


def totals(
    spark: "SparkSession",
    traces: Traces,
    *,
    server: str | int | None = None,
    report: Report | None = None,
) -> Totals:
    """Count reactions per server, class, kind and type of notification.

    Raises NoTrace when nothing can be read, ReplayError when Spark fails.
    """
    began = time.monotonic()
    trace = Trace(spark, traces, server)
    found = report or verify_trace(trace)
    rows = trace.run(lambda frame: count(merged(frame, found)))
    trace.check_unchanged(found)
    return Totals(tuple(rows), time.monotonic() - began)


def count(frame: Any) -> list[TotalRow]:
    """Run the count."""
    functions = spark_functions()
    failed = functions.when(functions.col("error") != "", 1).otherwise(0)
    counted = frame.groupBy("server", "cls", "kind", "type").agg(
        functions.count("*").alias("reactions"),
        functions.sum(failed).alias("errors"),
        functions.countDistinct("agent").alias("agents"),
        functions.sum(functions.length("payload")).alias("payload_bytes"),
    )
    rows: list[dict[str, Any]] = counted.toArrow().to_pylist()
    return sorted(
        (TotalRow(**row) for row in rows), key=lambda row: (row.server, row.cls, row.kind, row.type)
    )
