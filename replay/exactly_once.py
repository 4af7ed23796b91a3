"""The audit of exactly once between agents: what one sent, another one got, and none got it twice.

Every row tells how many notifications its reaction caused, here (`local`) and on other servers (`remote`),
and every row names its cause. The two sides are counted against each other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..agents import Pause
from .clients import ClientFlaw, Clients, follow_clients
from .discovery import Traces
from .frames import Progress, Trace
from .job import start
from .queries import Queries, Session
from .reports import Report

__all__ = ["Account", "ExactlyOnceReport", "Flaw", "exactly_once"]

MAX_FLAWS = 1000
"""Flaws of each kind that are listed."""
MAX_UNEQUAL = 100_000
"""Reactions of unequal counts that are looked at, the first ones of each server."""
_MANY = f"of more than {MAX_UNEQUAL:,} reactions the counts are unequal; only the first ones were looked at"
_RUNAWAY = re.compile(r"runaway turn: (\d+) notifications")

# One row for each reaction, and each server, for which the two sides are not equal. `arrived` are rows of the
# server `target` that name the reaction `position` of the server `server_id` as their cause.
ACCOUNTS = """
WITH sent AS (
    SELECT server_id, position, index, server_id AS target, local AS sent
    FROM {rows} WHERE local > 0
    UNION ALL
    SELECT server_id, position, index,
        CAST(split_part(part, '*', 1) AS INT) AS target,
        CASE WHEN part LIKE '%*%' THEN CAST(split_part(part, '*', 2) AS INT) ELSE 1 END AS sent
    FROM (SELECT server_id, position, index, {words} AS part
          FROM {rows} WHERE remote <> '')
), arrived AS (
    SELECT CAST(split_part(sender, '.', 2) AS INT) AS server_id, cause AS position, server_id AS target,
        count(*) AS arrived, max(position) AS last
    FROM {rows} WHERE cause > 0 GROUP BY 1, 2, 3
)
"""
TOTALS = """
SELECT server_id, target, sum(sent) AS sent, sum(arrived) AS arrived, max(latest) AS latest FROM (
    SELECT server_id, target, sent, 0 AS arrived, 0 AS latest FROM sent
    UNION ALL
    SELECT server_id, target, 0 AS sent, arrived, position AS latest FROM arrived
) GROUP BY server_id, target ORDER BY server_id, target
"""
FLAWS = """
SELECT coalesce(s.server_id, a.server_id) AS server_id, coalesce(s.position, a.position) AS position,
    coalesce(s.target, a.target) AS target, coalesce(s.index, r.index) AS index,
    coalesce(s.sent, 0) AS sent, coalesce(a.arrived, 0) AS arrived, coalesce(a.last, 0) AS last
FROM sent s FULL OUTER JOIN arrived a
    ON s.server_id = a.server_id AND s.position = a.position AND s.target = a.target
LEFT JOIN {rows} r ON r.server_id = a.server_id AND r.position = a.position
WHERE coalesce(s.sent, 0) <> coalesce(a.arrived, 0) AND (s.position IS NOT NULL OR r.position IS NOT NULL)
ORDER BY server_id, position, target
"""
# Numbers of a link that come again, or go back to another number than the first one of a new life.
TWICE = """
SELECT server_id, position, link, number, former FROM (
    SELECT server_id, position, link, number,
        lag(number) OVER (PARTITION BY server_id, link ORDER BY position) AS former
    FROM {rows} WHERE link >= 0
) WHERE number <= former AND (number <> 1 OR former = 1) ORDER BY server_id, position
"""
ENDS = """
SELECT server_id, max(server) AS server, max(index) AS last,
    min(CASE WHEN type = '{pause}' THEN index END) AS paused
FROM {rows} GROUP BY server_id
"""
RUNAWAYS = (
    "SELECT server_id, index, error FROM {rows} WHERE kind = 'deadletter' AND error LIKE 'runaway turn: %'"
)


@attrs.frozen
class Account:
    """The notifications that agents of one server sent to agents of one server."""

    server: str
    target: str
    sent: int
    arrived: int
    under_way: int = 0
    """Sent notifications that had perhaps not arrived when the trace of the target ended."""
    waiting: int = 0
    """Sent notifications that perhaps wait for an agent of the target that was paused."""


@attrs.frozen
class Flaw:
    """A reaction of which more or fewer notifications arrived than it sent."""

    server: str
    position: int
    target: str
    sent: int
    arrived: int
    last: int
    """The position, on the target, of the last one that arrived; 0 if none did."""

    def __str__(self) -> str:
        head = f"{self.server}: the reaction at position {self.position} sent {self.sent} notifications to"
        if self.arrived > self.sent:
            return f"{head} agents of {self.target}, and {self.arrived} arrived, the last one at {self.last}"
        return f"{head} agents of {self.target}, and only {self.arrived} arrived"


@attrs.frozen
class ExactlyOnceReport:
    """The outcome of `exactly_once`."""

    accounts: tuple[Account, ...]
    flaws: tuple[Flaw, ...]
    """The first ones, those of all servers together."""
    more: int
    """Flaws that are not listed."""
    twice: tuple[str, ...]
    """One sentence for each notification that came twice over a link between servers."""
    doubts: tuple[str, ...] = ()
    """What makes the result incomplete: unreadable files, missing positions, replicas that differ."""
    remarks: tuple[str, ...] = ()
    clients: tuple[Clients, ...] = ()
    """What the clients of each server sent, of servers that have clients."""
    client_flaws: tuple[ClientFlaw, ...] = ()
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """One sentence per fault."""
        found = [*self.doubts, *(str(flaw) for flaw in self.flaws), *self.twice]
        found += [str(flaw) for flaw in self.client_flaws]
        if self.more:
            found.append(f"{self.more:,} more reactions sent another number of notifications than arrived")
        return found

    @property
    def notes(self) -> list[str]:
        """One sentence for each thing that is no fault and limits what the audit tells."""
        found = [*self.remarks]
        for each in self.accounts:
            way = f"from {each.server} to {each.target}"
            if each.under_way:
                found.append(f"{each.under_way:,} notifications {way} had not arrived when the traces ended")
            if each.waiting:
                found.append(
                    f"{each.waiting:,} notifications {way} did not arrive: an agent had been paused there"
                )
        for client in self.clients:
            if client.arrived < client.accepted:
                found.append(
                    f"{client.accepted - client.arrived:,} notifications of clients of {client.server} were "
                    "refused, or went to a server whose trace was not given, or had not arrived at the end"
                )
        return found

    @property
    def ok(self) -> bool:
        """Whether all that was sent arrived once."""
        return not self.problems


def exactly_once(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> ExactlyOnceReport:
    """Check that each notification between agents arrived, and none arrived twice.

    It follows notifications within a server, and between the servers whose traces are given. A ``report`` of
    `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"following {job.reactions:,} reactions to their causes")
    result = job.run(lambda queries, view: _compare(queries, view, job.report))
    job.step("following what clients sent")
    clients, flaws = job.run(lambda queries, view: follow_clients(queries, view, job.names))
    return attrs.evolve(
        result, clients=tuple(clients), client_flaws=tuple(flaws[:MAX_FLAWS]), seconds=job.seconds
    )


def _compare(queries: Queries, view: str, report: Report) -> ExactlyOnceReport:
    def ask(*query: str, limit: int = 0) -> list[dict[str, Any]]:
        parts = {"rows": view, "pause": Pause.type_name, "words": queries.words("remote")}
        text = "".join(query).format(**parts) + (f" LIMIT {limit}" if limit else "")
        rows: list[dict[str, Any]] = queries.table(text).to_pylist()
        return rows

    ends = {row["server_id"]: row for row in ask(ENDS)}
    names = {number: str(row["server"]) for number, row in ends.items()}
    totals = {(row["server_id"], row["target"]): row for row in ask(ACCOUNTS, TOTALS)}
    dropped = {(row["server_id"], row["index"]): _dropped(row["error"]) for row in ask(RUNAWAYS)}
    under_way: dict[tuple[int, int], int] = {}
    waiting: dict[tuple[int, int], int] = {}
    flaws: list[Flaw] = []
    unequal = ask(ACCOUNTS, FLAWS, limit=MAX_UNEQUAL)
    more = 0
    for row in _unexplained(unequal, dropped):
        source, target = way = row["server_id"], row["target"]
        if source not in ends or target not in ends:
            continue  # the trace of that server was not given
        missing = row["sent"] - row["arrived"]
        paused = ends[target]["paused"]
        if missing > 0 and _ended(row, ends[source]["last"], totals[way]["latest"]):
            under_way[way] = under_way.get(way, 0) + missing
        elif missing > 0 and paused is not None and (source != target or row["index"] >= paused):
            waiting[way] = waiting.get(way, 0) + missing
        elif len(flaws) < MAX_FLAWS:
            flaws.append(
                Flaw(names[source], row["position"], names[target], row["sent"], row["arrived"], row["last"])
            )
        else:
            more += 1
    known = {way: row for way, row in totals.items() if way[0] in ends and way[1] in ends}
    accounts = tuple(
        Account(
            names[way[0]],
            names[way[1]],
            int(row["sent"]),
            int(row["arrived"]),
            under_way.get(way, 0),
            waiting.get(way, 0),
        )
        for way, row in known.items()
    )
    return ExactlyOnceReport(
        accounts,
        tuple(flaws),
        more,
        tuple(_came_twice(row, names) for row in ask(TWICE, limit=MAX_FLAWS)),
        (*report.doubts, *([_MANY] if len(unequal) == MAX_UNEQUAL else ())),
        tuple(_apart(totals, ends, names)),
    )


def _ended(row: Mapping[str, Any], last: int, latest: int) -> bool:
    """Return whether notifications may be missing only because a trace ends."""
    if row["server_id"] == row["target"]:
        return bool(row["index"] == last)  # a trace may end within its last entry
    return bool(row["position"] > latest)  # what a server sends to another one arrives in order


def _unexplained(
    rows: Sequence[dict[str, Any]], dropped: dict[tuple[int, int], int]
) -> Iterator[dict[str, Any]]:
    """Leave out what a runaway turn has dropped: one dead letter of an entry stands for all of them."""
    for row in rows:
        key = (row["server_id"], row["index"])
        missing = row["sent"] - row["arrived"]
        if row["server_id"] == row["target"] and 0 < missing <= dropped.get(key, 0):
            dropped[key] -= missing
        else:
            yield row


def _dropped(error: str) -> int:
    found = _RUNAWAY.match(error)
    return int(found[1]) - 1 if found else 0


def _came_twice(row: Mapping[str, Any], names: Mapping[int, str]) -> str:
    peer = names.get(row["link"], f"server {row['link']}")
    return (
        f"{names[row['server_id']]}: notification {row['number']} of {peer} was delivered at position "
        f"{row['position']}, after number {row['former']}"
    )


def _apart(
    totals: Mapping[tuple[int, int], Any], ends: Mapping[int, Any], names: Mapping[int, str]
) -> Iterator[str]:
    """Say of which servers nothing is known."""
    for (source, target), row in totals.items():
        if source not in ends:
            yield (
                f"{int(row['arrived']):,} notifications came to {names[target]} from server {source}, whose "
                "trace was not given"
            )
        elif target not in ends:
            yield (
                f"{int(row['sent']):,} notifications went from {names[source]} to server {target}, whose "
                "trace was not given"
            )
