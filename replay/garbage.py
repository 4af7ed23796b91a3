"""The audit of what is left over: agents that nobody needs any more, and what was sent to nobody."""

from typing import Any

import attrs
import msgspec

from .discovery import Traces
from .frames import Progress, Trace
from .job import start
from .queries import Session
from .reports import Report
from .rerun_job import run_again

__all__ = ["DeadLetters", "GarbageReport", "IdleAgent", "Keep", "garbage"]

MAX_DEAD = 1000
LAST = """
SELECT server_id, agent, max(now_ns) AS last_ns FROM {rows} WHERE cls <> '' GROUP BY server_id, agent
"""
ENDS = "SELECT server_id, min(now_ns) AS first_ns, max(now_ns) AS end_ns FROM {rows} GROUP BY server_id"
DEAD = """
SELECT server_id, type, error, count(*) AS letters, count(DISTINCT agent) AS agents,
    max(position) AS position
FROM {rows} WHERE kind = 'deadletter' GROUP BY server_id, type, error
ORDER BY letters DESC, server_id, type, error LIMIT {limit}
"""


@attrs.frozen
class IdleAgent:
    """An agent that is still there and has got nothing for some time."""

    server: str
    agent: str
    cls: str
    idle_s: float
    """Seconds from its last notification to the end of the trace of its server."""
    reactions: int
    state_bytes: int
    """Its state, as JSON."""


@attrs.frozen
class DeadLetters:
    """Notifications that reached nobody, of one type and for one reason."""

    server: str
    type: str
    reason: str
    letters: int
    agents: int
    """Addresses to which they were sent."""
    position: int
    """The last one."""


@attrs.frozen
class Keep:
    """How much of the trace of a server there is."""

    server: str
    first_ns: int
    end_ns: int
    removed: int
    """The last position that retention has removed; 0 if it has removed none."""


@attrs.frozen
class GarbageReport:
    """The outcome of `garbage`."""

    idle: tuple[IdleAgent, ...]
    """Those that have been idle longest first."""
    more: int
    """Idle agents that are not listed."""
    live: int
    """Agents that are there at the end."""
    live_bytes: int
    dead: tuple[DeadLetters, ...]
    kept: tuple[Keep, ...]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0


def garbage(
    session: Session,
    traces: Traces | Trace,
    *,
    idle_s: float = 3600.0,
    top: int = 50,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> GarbageReport:
    """Find agents that are still there and got nothing for ``idle_s`` seconds, and dead letters.

    Agents are run again, since only their code knows which of them have deleted themselves. A ``report`` of
    `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"running {job.reactions:,} reactions again")
    results = run_again(job)
    job.step("looking for what is left over")
    last = {(job.names[row["server_id"]], row["agent"]): row["last_ns"] for row in job.ask(LAST)}
    ends = {job.names[row["server_id"]]: row for row in job.ask(ENDS)}
    live = [each for each in results if not each.deleted]
    idle: list[IdleAgent] = []
    for each in live:
        quiet = (ends[each.server]["end_ns"] - last[each.server, each.agent]) / 1e9
        if quiet >= idle_s:
            size = size_of(each.state)
            idle.append(IdleAgent(each.server, each.agent, each.cls, quiet, each.reactions, size))
    idle.sort(key=lambda one: (-one.idle_s, one.server, one.agent))
    skipped = [each for each in results if each.skipped]
    notes = [f"{len(skipped):,} agents were not run again: {each.skipped}" for each in skipped[:1]]
    return GarbageReport(
        tuple(idle[:top]),
        max(0, len(idle) - top),
        len(live),
        sum(size_of(each.state) for each in live),
        tuple(dead_letters(row, job.names) for row in job.ask(DEAD, limit=MAX_DEAD)),
        tuple(
            Keep(
                server_report.server,
                ends[server_report.server]["first_ns"],
                ends[server_report.server]["end_ns"],
                server_report.removed,
            )
            for server_report in job.report.servers
        ),
        tuple(notes),
        tuple(job.report.doubts),
        job.seconds,
    )


def size_of(state: Any) -> int:
    """Return the bytes of a state as JSON; 0 if it is not known."""
    return 0 if state is None else len(msgspec.json.encode(state))


def dead_letters(row: dict[str, Any], names: dict[int, str]) -> DeadLetters:
    """Return one line of dead letters."""
    return DeadLetters(
        names[row["server_id"]], row["type"], row["error"], row["letters"], row["agents"], row["position"]
    )
