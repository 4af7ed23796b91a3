"""The reactions of a server as one table, and counts over it."""

from typing import Any

from .discovery import Traces
from .frames import Progress, Trace
from .job import merged, start
from .queries import Queries, Session
from .reports import Report, TotalRow, Totals

__all__ = ["reactions", "totals"]

COUNTS = """
SELECT server, cls, kind, type, count(*) AS reactions,
    sum(CASE WHEN error <> '' THEN 1 ELSE 0 END) AS errors, count(DISTINCT agent) AS agents,
    sum(octet_length(payload)) AS payload_bytes
FROM {rows} GROUP BY server, cls, kind, type ORDER BY server, cls, kind, type
"""


def reactions(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
) -> Any:
    """Return one row per server and position, taken from whichever replica has it, with the trace's columns.

    It is a DataFrame of Spark, or a relation of DuckDB for a local session. The rows are in no order; sort by
    ``position``. Columns: server, server_id, replica, incarnation, position, index, step, now_ns, agent
    ("#0.0.1025"), cls, kind, sender, type, payload (msgpack), request, error, sends, outputs, stamp, name,
    state, cause, link, number, local, remote, requests, duration_ns. A ``report`` of `verify` on the same
    files saves a pass. Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report)

    def work(queries: Queries, rows: str) -> Any:
        return queries.frame(merged(rows, job.report))

    return job.trace.run(session, work, keep=True)


def totals(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Totals:
    """Count reactions per server, class, kind and type of notification.

    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step("counting")
    return Totals(tuple(TotalRow(**row) for row in job.ask(COUNTS)), job.seconds)
