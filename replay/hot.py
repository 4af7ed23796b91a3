"""The agents that do most, and how much room their servers have left."""

import attrs

from .discovery import Traces
from .frames import Progress, Trace
from .job import start
from .queries import Session
from .reports import Report

__all__ = ["HotAgent", "HotReport", "Load", "Moment", "hot"]

DEFAULT_TOP = 20
SECOND = 1_000_000_000

AGENTS = """
SELECT server, agent, max(cls) AS cls, count(*) AS reactions,
    sum(CASE WHEN error <> '' THEN 1 ELSE 0 END) AS errors, sum(duration_ns) AS busy_ns,
    max(duration_ns) AS longest_ns, sum(octet_length(payload)) AS payload_bytes, sum(local) AS caused
FROM {rows} WHERE kind = 'react' GROUP BY server, agent
ORDER BY busy_ns DESC, reactions DESC, server, agent LIMIT {top}
"""
# One row for each server: what it did in all, in its busiest second, and in its largest entry.
LOADS = """
SELECT server, count(DISTINCT second) AS seconds, sum(reactions) AS reactions, sum(busy_ns) AS busy_ns,
    max(reactions) AS most_reactions, max(busy_ns) AS most_busy_ns, max(largest) AS largest_entry
FROM (
    SELECT server, second, sum(reactions) AS reactions, sum(busy_ns) AS busy_ns, max(reactions) AS largest
    FROM (
        SELECT server, index, CAST(floor(max(now_ns) / 1000000000) AS BIGINT) AS second,
            count(*) AS reactions, sum(duration_ns) AS busy_ns
        FROM {rows} GROUP BY server, index
    ) GROUP BY server, second
) GROUP BY server ORDER BY server
"""
SPAN = "SELECT min(now_ns) AS first_ns, max(now_ns) AS last_ns FROM {rows}"
# One row for each server and part of the time: how much was done, and how much waited at once at most.
TIMELINE = """
SELECT server, part, sum(reactions) AS reactions, sum(busy_ns) AS busy_ns, max(reactions) AS largest_entry
FROM (
    SELECT server, index, CAST(floor((max(now_ns) - {first_ns}) / {width_ns}) AS BIGINT) AS part,
        count(*) AS reactions, sum(duration_ns) AS busy_ns
    FROM {rows} GROUP BY server, index
) GROUP BY server, part ORDER BY server, part
"""
PARTS = 400
"""Parts into which the time of the trace is divided, unless they were shorter than a second."""


@attrs.frozen
class HotAgent:
    """What one agent did."""

    server: str
    agent: str
    cls: str
    reactions: int
    errors: int
    busy_ns: int
    """How long its reactions took, each on one replica; 0 if that was not measured."""
    longest_ns: int
    payload_bytes: int
    """Bytes of the notifications that it got."""
    caused: int
    """Notifications to agents of its server that it caused."""


@attrs.frozen
class Load:
    """What one server did. Seconds are those of the log's time, in which anything was done."""

    server: str
    seconds: int
    reactions: int
    busy_ns: int
    """How long all reactions took; 0 if that was not measured."""
    most_reactions: int
    """Reactions in the second that had most."""
    most_busy_ns: int
    """How long the reactions of one second took, of the second in which they took longest."""
    largest_entry: int
    """Reactions of the entry that had most: what waited in the queue of the server at once was not more."""

    @property
    def headroom(self) -> float | None:
        """The part of the busiest second in which no reaction ran, 0 if there was none; None if unknown.

        Reactions share the process with the channel, the disk and the clients, which also need time.
        """
        return max(0.0, 1 - self.most_busy_ns / 1e9) if self.most_busy_ns else None


@attrs.frozen
class Moment:
    """What one server did in a part of the time. Parts in which it did nothing have none."""

    server: str
    at_ns: int
    """The beginning of the part."""
    width_ns: int
    reactions: int
    busy_ns: int
    largest_entry: int
    """Reactions of the entry that had most: how much waited for the server at once."""


@attrs.frozen
class HotReport:
    """The outcome of `hot`."""

    agents: tuple[HotAgent, ...]
    """Those whose reactions took longest first."""
    loads: tuple[Load, ...]
    timeline: tuple[Moment, ...] = ()
    """By server, in the order of time."""
    doubts: tuple[str, ...] = ()
    """What makes the rows incomplete."""
    seconds: float = 0.0


def hot(
    session: Session,
    traces: Traces | Trace,
    *,
    top: int = DEFAULT_TOP,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> HotReport:
    """Find the `top` agents whose reactions took longest, and the busiest second of each server.

    A ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step("adding up what agents did")
    agents = tuple(HotAgent(**row) for row in job.ask(AGENTS, top=top))
    loads = tuple(Load(**row) for row in job.ask(LOADS))
    (span,) = job.ask(SPAN)
    first = span["first_ns"] // SECOND * SECOND
    width = max(SECOND, (span["last_ns"] - first) // PARTS)
    timeline = tuple(
        Moment(row.pop("server"), first + row.pop("part") * width, width, **row)
        for row in job.ask(TIMELINE, first_ns=first, width_ns=width)
    )
    return HotReport(agents, loads, timeline, tuple(job.report.doubts), job.seconds)
