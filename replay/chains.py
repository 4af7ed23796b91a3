"""What a notification has caused, and how long it took: the tree of one, and the slowest ones of all."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from .discovery import Traces
from .errors import NoTrace
from .frames import Progress, Trace
from .job import Job, start
from .queries import Queries, Session, view_name
from .reports import Report

__all__ = ["Chain", "Hop", "SlowChain", "SlowestReport", "TypeLatency", "chain", "slowest"]

MAX_HOPS = 2000
"""Reactions of one chain that are listed."""
MAX_ABOVE = 1000
"""Causes of causes that are followed."""
MAX_DOUBLINGS = 24
"""Chains longer than 2 to the power of this are cut."""
HOP = """
server_id, position, agent, cls, kind, type, sender, error, now_ns, duration_ns, cause,
CAST(split_part(sender, '.', 2) AS INT) AS source
"""


@attrs.frozen
class Hop:
    """One reaction of a chain."""

    server: str
    position: int
    agent: str
    cls: str
    kind: str
    type: str
    depth: int
    """0 for the notification that was asked for, negative for what caused it."""
    at_ns: int
    latency_ns: int | None
    """From the entry of its cause to its own; between servers by their two clocks. None for the first one."""
    duration_ns: int
    timer: bool = False
    """Whether its cause set a timer."""
    error: str = ""


@attrs.frozen
class Chain:
    """The outcome of `chain`."""

    hops: tuple[Hop, ...]
    """Causes first, then what was caused, each before what it caused itself."""
    more: bool
    """Whether there are more than are listed."""
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def span_ns(self) -> int:
        """From the first to the last entry."""
        times = [hop.at_ns for hop in self.hops]
        return max(times) - min(times)


def chain(
    session: Session,
    traces: Traces | Trace,
    at: tuple[str | int, int],
    *,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Chain:
    """Return what led to the notification at a position, and all that it has caused.

    ``at`` is the server (its name or id) and the position. Give the traces of all servers that took part. A
    ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read or there is no such position, ReplayError when the session fails.
    """
    job = start(session, traces, report=report, progress=progress)
    server, position = at
    chosen = [number for number, name in job.names.items() if str(server) in (name, str(number))]
    found = rows_of(job, chosen[0], [position]) if chosen else []
    if not found:
        raise NoTrace(f"the traces have no position {position} of a server {server}.")
    job.step("following causes")
    above = causes_of(job, found[0])
    job.step("following effects")
    below, more = effects_of(job, found[0])
    hops = [hop(job, row, depth, cause) for row, depth, cause in [*above, *in_order(below)]]
    return Chain(tuple(hops), more, tuple(job.report.doubts), job.seconds)


Found = tuple[dict[str, Any], int, dict[str, Any] | None]
"""A row, its depth, and the row of its cause."""


def rows_of(job: Job, server: int, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows at some positions of a server."""
    wanted = ", ".join(map(str, positions))
    return job.ask(f"SELECT {HOP} FROM {{rows}} WHERE server_id = {server} AND position IN ({wanted})")


def causes_of(job: Job, row: dict[str, Any]) -> list[Found]:
    """Return what led to a row, the first one first."""
    found: list[dict[str, Any]] = []
    while row["cause"] and len(found) < MAX_ABOVE:
        above = rows_of(job, row["source"], [abs(row["cause"])])
        if not above:
            break
        row = above[0]
        found.append(row)
    found.reverse()
    causes = [None, *found]
    return [(each, at - len(found), causes[at]) for at, each in enumerate(found)]


def effects_of(job: Job, row: dict[str, Any]) -> tuple[list[Found], bool]:
    """Return what a row has caused, the row itself first, one level after the other."""
    above = rows_of(job, row["source"], [abs(row["cause"])]) if row["cause"] else []
    found: list[Found] = [(row, 0, above[0] if above else None)]
    level = {(row["server_id"], row["position"]): row}
    depth = 0
    while level:
        depth += 1
        causes: dict[int, list[int]] = {}
        for server, position in level:
            causes.setdefault(server, []).append(position)
        conditions = " OR ".join(
            f"(split_part(sender, '.', 2) = '{server}' AND abs(cause) IN ({', '.join(map(str, positions))}))"
            for server, positions in causes.items()
        )
        query = (
            f"SELECT {HOP} FROM {{rows}} WHERE cause <> 0 AND ({conditions}) ORDER BY now_ns LIMIT {MAX_HOPS}"
        )
        rows = job.ask(query)
        found += [(each, depth, level[each["source"], abs(each["cause"])]) for each in rows]
        if len(found) > MAX_HOPS:
            return found[:MAX_HOPS], True
        level = {(each["server_id"], each["position"]): each for each in rows}
    return found, False


def in_order(found: Sequence[Found]) -> list[Found]:
    """Return rows so that each comes right before what it has caused."""
    below: dict[tuple[int, int], list[Found]] = {}
    for each in found[1:]:
        cause = each[2]
        if cause is not None:
            below.setdefault((cause["server_id"], cause["position"]), []).append(each)
    ordered: list[Found] = []
    waiting = [found[0]]
    while waiting:
        each = waiting.pop()
        ordered.append(each)
        after = below.get((each[0]["server_id"], each[0]["position"]), [])
        waiting += sorted(after, key=lambda one: (-one[0]["now_ns"], -one[0]["position"]))
    return ordered


def hop(job: Job, row: dict[str, Any], depth: int, cause: dict[str, Any] | None) -> Hop:
    """Return a row as a part of a chain."""
    return Hop(
        job.names[row["server_id"]],
        row["position"],
        row["agent"],
        row["cls"],
        row["kind"],
        row["type"],
        depth,
        row["now_ns"],
        None if cause is None else row["now_ns"] - cause["now_ns"],
        row["duration_ns"],
        row["cause"] < 0,
        row["error"],
    )


# Every reaction points to its cause; what came from outside, from a timer, or from a server without a trace
# points to itself. Each round lets it point to where its cause points, so that a chain of n is done after
# log2(n) rounds.
LINKED = """
SELECT r.server_id, r.position, r.now_ns,
    coalesce(c.server_id, r.server_id) AS root_server, coalesce(c.position, r.position) AS root,
    CASE WHEN c.position IS NULL THEN 0 ELSE 1 END AS hops
FROM (SELECT server_id, position, now_ns, cause, CAST(split_part(sender, '.', 2) AS INT) AS source
      FROM {rows}) r
LEFT JOIN {rows} c ON r.cause > 0 AND c.server_id = r.source AND c.position = r.cause
"""
DOUBLED = """
SELECT r.server_id, r.position, r.now_ns, c.root_server, c.root, r.hops + c.hops AS hops
FROM {linked} r JOIN {linked} c ON c.server_id = r.root_server AND c.position = r.root
"""
LENGTH = "SELECT sum(hops) AS hops FROM {linked}"
PATHS = """
WITH paths AS (
    SELECT root_server, root, max(now_ns) AS end_ns, max(hops) AS hops, count(*) AS reactions
    FROM {linked} GROUP BY root_server, root
)
"""
SLOWEST = """
SELECT p.root_server AS server_id, p.root AS position, r.type, r.agent, r.cls, r.now_ns AS at_ns,
    p.end_ns - r.now_ns AS span_ns, p.hops, p.reactions
FROM paths p JOIN {rows} r ON r.server_id = p.root_server AND r.position = p.root
ORDER BY span_ns DESC, server_id, position LIMIT {top}
"""
BY_TYPE = """
SELECT r.type, count(*) AS chains, max(p.hops) AS hops,
    CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY p.end_ns - r.now_ns) AS BIGINT) AS median_ns,
    CAST(percentile_cont(0.99) WITHIN GROUP (ORDER BY p.end_ns - r.now_ns) AS BIGINT) AS p99_ns,
    max(p.end_ns - r.now_ns) AS longest_ns
FROM paths p JOIN {rows} r ON r.server_id = p.root_server AND r.position = p.root
GROUP BY r.type ORDER BY longest_ns DESC, type LIMIT {top}
"""


@attrs.frozen
class SlowChain:
    """A notification from outside or of a timer, and the time until the last reaction that it caused."""

    server: str
    position: int
    agent: str
    cls: str
    type: str
    at_ns: int
    span_ns: int
    hops: int
    """The longest way from it to a reaction, counted in notifications."""
    reactions: int


@attrs.frozen
class TypeLatency:
    """The chains that begin with notifications of one type."""

    type: str
    chains: int
    hops: int
    median_ns: int
    p99_ns: int
    longest_ns: int


@attrs.frozen
class SlowestReport:
    """The outcome of `slowest`."""

    paths: tuple[SlowChain, ...]
    types: tuple[TypeLatency, ...]
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0


def slowest(
    session: Session,
    traces: Traces | Trace,
    *,
    top: int = 20,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> SlowestReport:
    """Return the ``top`` chains that took longest from their first to their last entry.

    A chain begins with what came from outside, from a timer, or from a server whose trace was not given.
    Times are those of the entries of the log; between servers they are those of two clocks. A ``report`` of
    `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"following {job.reactions:,} reactions to the first of their causes")

    def work(queries: Queries, rows: str) -> list[list[dict[str, Any]]]:
        with followed(queries, rows) as linked:
            parts = {"rows": rows, "linked": linked, "top": top}
            return [
                queries.table((PATHS + query).format(**parts)).to_pylist() for query in (SLOWEST, BY_TYPE)
            ]

    paths, types = job.run(work)
    names = job.names
    return SlowestReport(
        tuple(SlowChain(names[row.pop("server_id")], **row) for row in paths),
        tuple(TypeLatency(**row) for row in types),
        tuple(job.report.doubts),
        job.seconds,
    )


@contextmanager
def followed(queries: Queries, rows: str) -> Generator[str]:
    """Follow all chains to their beginnings; the block has the table of rows that point there."""
    linked = view_name()
    queries.store(LINKED.format(rows=rows), linked)
    try:
        length = queries.table(LENGTH.format(linked=linked)).to_pylist()
        for _ in range(MAX_DOUBLINGS):
            doubled = view_name()
            queries.store(DOUBLED.format(linked=linked), doubled)
            queries.drop_table(linked)
            linked, before = doubled, length
            length = queries.table(LENGTH.format(linked=linked)).to_pylist()
            if length == before:
                break
        yield linked
    finally:
        queries.drop_table(linked)
