"""What all jobs begin with: the trace, its report, and the rows of all replicas as one."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from .discovery import Traces
from .frames import Progress, Trace, ignore, open_trace
from .queries import Queries, as_view
from .reports import Report, ServerReport
from .schema import COLUMNS
from .verification import verify_trace

__all__ = ["Job", "merged", "start"]

T = TypeVar("T")
MAX_PIECES = 200
"""Above this many pieces per server the rows are made unique by a sort instead of a filter."""


@attrs.frozen
class Job:
    """A job that has begun."""

    session: Any
    trace: Trace
    report: Report
    """What `verify` found."""
    step: Progress
    began: float

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began

    @property
    def reactions(self) -> int:
        """The positions of all servers."""
        return sum(server.last for server in self.report.servers)

    @property
    def names(self) -> dict[int, str]:
        """The name of each server."""
        return {server.server_id: server.server for server in self.report.servers}

    def run(self, work: Callable[[Queries, str], T]) -> T:
        """Run a part of the job on a view in which every position of a server comes once.

        Raises NoTrace, ReplayError.
        """

        def on_view(queries: Queries, rows: str) -> T:
            with as_view(queries, merged(rows, self.report)) as view:
                return work(queries, view)

        result = self.trace.run(self.session, on_view)
        self.trace.check_unchanged(self.report)
        return result

    def ask(self, sql: str, **parts: object) -> list[dict[str, Any]]:
        """Return the rows of a query; ``{rows}`` in it is the view, other names are `parts`."""

        def work(queries: Queries, view: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = queries.table(sql.format(rows=view, **parts)).to_pylist()
            return found

        return self.run(work)


def start(
    session: Any,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Job:
    """Begin a job: open the trace, and verify it if there is no report yet. Raises NoTrace, ReplayError."""
    began = time.monotonic()
    trace = open_trace(traces, server, progress)
    found = report or verify_trace(session, trace, progress)
    return Job(session, trace, found, progress or ignore, began)


def merged(rows: str, report: Report) -> str:
    """Return the query of a trace's rows in which every position of a server comes once."""
    kept: list[str] = []
    unique = True
    for server in report.servers:
        here = f"server_id = {server.server_id}"
        if len(server.cover) > MAX_PIECES or any(source.duplicates for source in server.sources):
            unique = False
            kept.append(here)
        else:
            kept.append(f"{here} AND ({' OR '.join(pieces(server))})")
    chosen = f"SELECT * FROM {rows} WHERE ({') OR ('.join(kept)})"
    if unique:
        return chosen
    numbered = (
        "SELECT *, row_number() OVER (PARTITION BY server_id, position ORDER BY replica, incarnation) "
        f"AS copy FROM ({chosen})"
    )
    return f"SELECT {', '.join(COLUMNS)} FROM ({numbered}) WHERE copy = 1"


def pieces(server: ServerReport) -> list[str]:
    """Return the conditions of the rows that each source contributes."""
    return [
        f"(replica = {part.replica} AND incarnation = {part.incarnation} "
        f"AND position BETWEEN {part.span.first} AND {part.span.last})"
        for part in server.cover
    ]
