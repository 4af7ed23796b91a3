"""The check of order: what one agent sends another one arrives in that order, and effects follow causes."""

from typing import Any

import attrs

from .discovery import Traces
from .frames import Progress, Trace
from .job import start
from .queries import Session
from .reports import Report

__all__ = ["Disorder", "OrderReport", "order"]

MAX_DISORDERS = 1000
"""Places of each kind that are listed."""

# Each query names a place that breaks a rule: the server, the position, and what is told of it.
LOG = """
SELECT server_id, position, agent, former, own FROM (
    SELECT server_id, position, agent, index AS own, step, now_ns,
        lag(index) OVER (PARTITION BY server_id ORDER BY position) AS former,
        lag(step) OVER (PARTITION BY server_id ORDER BY position) AS former_step,
        lag(now_ns) OVER (PARTITION BY server_id ORDER BY position) AS former_ns
    FROM {rows}
) WHERE own < former OR (own = former AND step <= former_step) OR now_ns < former_ns
"""
EFFECTS = """
SELECT server_id, position, agent, cause AS former, position AS own FROM {rows}
WHERE cause >= position AND CAST(split_part(sender, '.', 2) AS INT) = server_id
"""
PAIRS = """
SELECT server_id, position, agent, sender, former, own FROM (
    SELECT server_id, position, agent, sender, cause AS own,
        lag(cause) OVER (PARTITION BY server_id, agent, sender ORDER BY position) AS former
    FROM {rows} WHERE cause > 0
) WHERE own < former
"""
LINKS = """
SELECT server_id, position, agent, link, former, own FROM (
    SELECT server_id, position, agent, link, number AS own,
        lag(number) OVER (PARTITION BY server_id, link ORDER BY position) AS former
    FROM {rows} WHERE link >= 0
) WHERE own < former AND own <> 1
"""
RULES = {
    "log": (LOG, "the log goes back: entry {own} comes after entry {former}, or its time or step does"),
    "effect": (EFFECTS, "the notification comes before position {former}, the reaction that sent it"),
    "sender": (
        PAIRS,
        "agent {agent} gets what {sender} sent at position {own} after what it sent at position {former}",
    ),
    "link": (LINKS, "notification {own} of server {link} comes after notification {former}"),
}
COUNT = """
SELECT count(*) AS reactions, count(DISTINCT concat(server_id, ' ', agent, ' ', sender)) AS pairs
FROM {rows} WHERE cause > 0
"""


@attrs.frozen
class Disorder:
    """A place that breaks a rule of order."""

    server: str
    position: int
    rule: str
    """``log``, ``effect``, ``sender`` or ``link``."""
    text: str

    def __str__(self) -> str:
        return f"{self.server}: at position {self.position}, {self.text}"


@attrs.frozen
class OrderReport:
    """The outcome of `order`."""

    notifications: int
    """Notifications between agents that were looked at."""
    pairs: int
    """Pairs of a sender and a receiver."""
    disorders: tuple[Disorder, ...]
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """One sentence per fault."""
        return [*self.doubts, *(str(each) for each in self.disorders)]

    @property
    def ok(self) -> bool:
        """Whether all came in order."""
        return not self.problems


def order(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> OrderReport:
    """Check that each agent got what another one sent it in the order in which it was sent.

    It also checks that entries, steps and times of the log never go back, that no notification comes before
    the reaction that sent it, and that the numbers of each link between servers rise. That all replicas have
    the same order is what `verify` checks. A ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"checking the order of {job.reactions:,} reactions")
    found: list[Disorder] = []
    for rule, (query, text) in RULES.items():
        ordered = f"{query} ORDER BY server_id, position LIMIT {MAX_DISORDERS}"
        found += [disorder(row, rule, text, job.names) for row in job.ask(ordered)]
    counts = job.ask(COUNT)[0]
    return OrderReport(
        counts["reactions"], counts["pairs"], tuple(found), tuple(job.report.doubts), job.seconds
    )


def disorder(row: dict[str, Any], rule: str, text: str, names: dict[int, str]) -> Disorder:
    """Return one place, in words."""
    return Disorder(names[row["server_id"]], row["position"], rule, text.format(**row))
