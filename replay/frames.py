"""The readable part of some trace files, as a table for the SQL of the jobs."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from .discovery import Traces, find_files
from .errors import NoTrace, ReplayError
from .files import SourceId, TraceFiles, first_line, inspect_files, unreadable
from .queries import Queries, queries_of, view_name
from .replicas import Absences, find_absences
from .reports import Report
from .schema import Origin

__all__ = ["Progress", "Trace", "ignore", "open_trace"]

T = TypeVar("T")
Progress = Callable[[str], None]
"""Called with a few words when a step begins."""


def ignore(_: str) -> None:
    """Ignore progress: the caller gave no function for it."""


def open_trace(
    traces: "Traces | Trace",
    server: str | int | None = None,
    progress: Progress | None = None,
    *,
    mesh: bool = False,
) -> "Trace":
    """Find the files of a trace and check their footers; one that is open is returned as it is.

    mesh: the traces are those of daemons of a mesh.

    Raises NoTrace.
    """
    if isinstance(traces, Trace):
        return traces
    report_step = progress or ignore
    report_step("searching for trace files")
    found = find_files(traces)
    report_step(f"checking {len(found.paths):,} trace files")
    return Trace(inspect_files(found, mesh=mesh), server)


class Trace:
    """The readable part of some trace files, of one server if one was chosen. Made by `open_trace`."""

    def __init__(self, files: TraceFiles, server: str | int | None) -> None:
        self.files = files
        self._server = server

    @property
    def rows(self) -> int:
        """The rows that the files have by their footers."""
        return sum(self.expected_rows().values())

    def expected_rows(self) -> dict[SourceId, int]:
        """Return the rows that each source has by the footers."""
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

    def check_unchanged(self, report: Report) -> None:
        """Raise ReplayError if a file cannot be read that could be read when `report` was made."""
        changed = sorted(set(self.files.bad) - set(report.bad_files))
        if changed:
            raise ReplayError(f"a file has changed since the traces were verified: {changed[0]}.")

    def run(self, session: Any, job: Callable[[Queries, str], T], *, keep: bool = False) -> T:
        """Run a job on a view of the rows.

        The view is removed afterwards, unless `keep` is set.
        When the session stumbles over a damaged file, that file is set aside and the job is run again.
        Raises ReplayError when there is another reason, NoTrace when no file is left.
        """
        queries = queries_of(session)
        try:
            return self._on_view(queries, job, keep)
        except ReplayError:
            raise
        except Exception as error:  # errors of Spark, of py4j and of DuckDB have no common base
            damaged = unreadable(self.files.paths)
            if not damaged:
                raise could_not(queries, error) from error
        self.files = self.files.without(damaged)
        try:
            return self._on_view(queries, job, keep)
        except ReplayError:
            raise
        except Exception as error:  # as above
            raise could_not(queries, error) from error

    def _on_view(self, queries: Queries, job: Callable[[Queries, str], T], keep: bool) -> T:
        paths = [path for path, footer in self.files.footers.items() if self._wants(footer.origin)]
        if not paths:
            raise NoTrace("the trace files hold no reaction of that server.")
        name = view_name()
        queries.scan(paths, name)
        try:
            return job(queries, name)
        finally:
            if not keep:
                queries.drop(name)


def could_not(queries: Queries, error: Exception) -> ReplayError:
    """Return what is said of an error that no damaged file explains."""
    return ReplayError(f"{queries.name} could not run the job: {short(error)}")


def short(error: Exception) -> str:
    """Return what is worth reading of an error of Spark: the innermost exception in it, or its first line."""
    lines = [line for line in str(error).splitlines() if line and not line[0].isspace()]
    blamed = [
        line for line in lines if re.match(r"(Caused by: |: )?[\w.$]+(Error|Exception|Interrupt): ", line)
    ]
    return blamed[-1].removeprefix("Caused by: ").removeprefix(": ") if blamed else first_line(error)
