"""Agents run again on their recorded notifications."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import attrs
import msgspec

from .agent_rerun import AgentRerun, Record, watch_of
from .discovery import Traces
from .errors import NoTrace
from .files import SourceId
from .frames import Progress, Trace
from .job import Job, start
from .queries import Queries, Session, queries_of
from .reports import AgentResult, Report, RerunReport
from .schema import IDENTITY, arrow_types

__all__ = ["Selection", "rerun", "run_again", "state_at"]

RESULT = (
    "server string, agent string, cls string, reactions bigint, errors bigint, omitted bigint, first bigint, "
    "last bigint, state string, deleted boolean, diverged bigint, skipped string, difference string, "
    "different bigint, breached bigint, breach string, looked boolean, begins bigint"
)
RESULTS_PER_BATCH = 1000


def rerun(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> RerunReport:
    """Run every agent's reactions again, with the code that can be imported now, and compare what they send.

    The classes are imported in Python processes beside this one; what this process can import, they can. A
    ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"running {job.reactions:,} reactions again")
    return RerunReport(tuple(run_again(job)), job.seconds)


def state_at(
    session: Session,
    traces: Traces | Trace,
    agent: str,
    position: int | None = None,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    at_ns: int | None = None,
) -> AgentResult:
    """Return one agent ("#0.0.1025") as it was after ``position`` of its server (default: the last).

    ``at_ns`` instead is a time in nanoseconds since 1970: it means the last entry up to it.

    Raises NoTrace when the trace does not know the agent at that position, ReplayError when the session
    fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"running agent {agent} again")
    if at_ns is not None:
        position = position_at(job, agent, at_ns)
    results = run_again(job, Selection(agent, position, last_snapshot(job, agent, position)))
    if not results:
        when = "" if position is None else f" up to position {position}"
        raise NoTrace(f"the trace does not know an agent {agent}{when}.")
    return results[0]


SNAPSHOT = """
SELECT max(position) AS position FROM {rows}
WHERE agent = {agent} AND kind = 'react' AND error = '' AND octet_length(state) > 0 AND {condition}
"""


def last_snapshot(job: Job, agent: str, position: int | None) -> int:
    """Return the last position up to another one at which the trace has a snapshot of an agent, or 0."""
    literal = queries_of(job.session).literal(agent)
    condition = "true" if position is None else f"position <= {position}"
    (found,) = job.ask(SNAPSHOT, agent=literal, condition=condition)
    return int(found["position"] or 0)


UP_TO = """
SELECT max(position) AS position FROM {rows} WHERE now_ns <= {at_ns} AND agent = {agent}
"""


def position_at(job: Job, agent: str, at_ns: int) -> int:
    """Return the last position of an agent up to a time. Raises NoTrace if it has none."""
    literal = queries_of(job.session).literal(agent)
    found = job.ask(UP_TO, at_ns=at_ns, agent=literal)[0]["position"]
    if found is None:
        raise NoTrace(f"the trace does not know an agent {agent} at that time.")
    return int(found)


class Servers(msgspec.Struct, frozen=True):
    """The ids of all servers by name, as the files of one source have them."""

    source: SourceId
    ids: dict[str, int]


def configured(trace: Trace) -> list[Servers]:
    """Return the servers that there were, for each source whose files have them."""
    return [
        Servers(source, dict(origin.servers))
        for source, origin in trace.files.origins.items()
        if origin.servers
    ]


@attrs.frozen
class Selection:
    """What is run again, and how."""

    agent: str | None = None
    """Only this agent."""
    position: int | None = None
    """Only up to this position of the server."""
    begin: int = 0
    """Only from this position on, at which the trace has a snapshot of the agent."""
    code: Sequence[str] = ()
    """Directories in which modules are looked for first."""
    condition: str = ""
    """A Python expression over the attributes of agents; see `quorate.replay.agent_rerun.watch_of`."""
    cls: str = ""
    """The name of the class to whose agents the condition applies; "" for all that have the attributes."""


def run_again(job: Job, selection: Selection | None = None) -> list[AgentResult]:
    """Run agents again, in the order of their servers and first positions."""
    selection = selection or Selection()
    names = {name: number for number, name in job.names.items()}
    columns = ", ".join((*IDENTITY, *Record.__struct_fields__))

    def work(queries: Queries, view: str) -> list[AgentResult]:
        query = f"SELECT {columns} FROM {view} WHERE cls <> ''"
        if selection.agent is not None:
            query += f" AND agent = {queries.literal(selection.agent)}"
        if selection.position is not None:
            query += f" AND position <= {selection.position}"
        if selection.begin:
            query += f" AND position >= {selection.begin}"
        code = [os.path.abspath(place) for place in selection.code]
        worker = Worker(import_path(), names, configured(job.trace), code, selection.condition, selection.cls)
        found = queries.each_agent(query, worker, RESULT, apart=bool(code))
        rows: list[dict[str, Any]] = found.to_pylist()
        for row in rows:
            row["state"] = None if row["state"] is None else msgspec.json.decode(row["state"])
        return [AgentResult(**row) for row in rows]

    return sorted(job.run(work), key=lambda result: (result.server, result.first))


def import_path() -> list[str]:
    """Return where this process imports from, for the workers; the current directory is always part of it."""
    here = os.getcwd()
    return [*(os.path.abspath(place) for place in sys.path if place), here]


class Worker(msgspec.Struct):
    """The work of one Python process: the rerun of its share of the agents."""

    path: list[str]
    """Where it imports from, after what it has."""
    names: dict[str, int]
    """The ids of the servers that have traces."""
    servers: list[Servers]
    code: list[str] = []
    """Where it imports from before anything else."""
    condition: str = ""
    cls: str = ""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn record batches, sorted by agent and position, into one row per agent."""
        sys.path[:0] = self.code
        for place in self.path:
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
        configured = {each.source: each.ids for each in self.servers}
        watch = watch_of(self.condition, self.cls) if self.condition else None
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
                    current = AgentRerun(server, record.agent, self.names, watch)
                current.apply(record, configured.get((server_id, replica, incarnation)))
        if current is not None:
            yield current

    def _batch(self, results: list[dict[str, Any]]) -> Any:
        arrow: Any = import_module("pyarrow")
        return arrow.RecordBatch.from_pylist(results, schema=arrow_types(RESULT))
