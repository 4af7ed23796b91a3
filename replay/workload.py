"""The load that was on some servers, without names and contents: who sent how much to whom, and when."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from .chains import followed
from .discovery import Traces
from .errors import NoTrace, ReplayError
from .files import first_line
from .frames import Progress, Trace
from .job import start
from .queries import Queries, Session, as_view
from .reports import Report
from .stand_in import Step

__all__ = ["Chain", "Workload", "WorkloadReport", "workload"]

MAX_ROWS: Final = 1_000_000
FORMAT: Final = b"quorate.workload"
VERSION: Final = b"1"

# The reactions of agents of applications and of messaging, and what clients got from them. Stamps from 10**12
# on are those of clients.
OWN = """
SELECT * FROM (
    SELECT server_id, position, now_ns, agent, sender, type, cause, octet_length(payload) AS bytes,
        CAST(split_part(agent, '.', 3) AS BIGINT) AS stamp,
        CAST(split_part(sender, '.', 3) AS BIGINT) AS sender_stamp
    FROM {rows} WHERE kind = 'react'
) WHERE stamp BETWEEN 1025 AND 99999999999999999 AND (stamp < 1000000000000 OR cause > 0)
"""
COUNT = "SELECT count(*) AS rows, min(now_ns) AS first_ns FROM {own} WHERE stamp < 1000000000000"
CUT = """
SELECT max(now_ns) AS cut_ns FROM (
    SELECT now_ns FROM {own} WHERE stamp < 1000000000000 ORDER BY now_ns LIMIT {limit}
)
"""
STEPS = """
WITH agents AS (
    SELECT agent, row_number() OVER (ORDER BY first_ns, agent) AS number FROM (
        SELECT agent, min(now_ns) AS first_ns FROM {own} WHERE stamp < 1000000000000 GROUP BY agent
    )
), types AS (
    SELECT type, row_number() OVER (ORDER BY first_ns, type) AS number FROM (
        SELECT type, min(now_ns) AS first_ns FROM {own} GROUP BY type
    )
), connections AS (
    SELECT sender, row_number() OVER (ORDER BY first_ns, sender) AS number FROM (
        SELECT sender, min(now_ns) AS first_ns FROM {own}
        WHERE sender_stamp >= 1000000000000 AND stamp < 1000000000000 GROUP BY sender
    )
)
SELECT CAST(r.now_ns - {first_ns} AS BIGINT) AS at_ns, l.root_server, l.root,
    CAST(coalesce(c.number, 0) AS INT) AS connection, o.server_id AS server, o.position,
    CAST(split_part(o.sender, '.', 2) AS INT) AS source, o.cause,
    CAST(coalesce(a.number, 0) AS INT) AS agent, CAST(t.number AS INT) AS type,
    CAST(o.bytes AS BIGINT) AS bytes
FROM {linked} l
JOIN {own} o ON o.server_id = l.server_id AND o.position = l.position
JOIN {own} r ON r.server_id = l.root_server AND r.position = l.root
JOIN types t ON t.type = o.type
LEFT JOIN agents a ON a.agent = o.agent
LEFT JOIN connections c ON c.sender = r.sender
WHERE r.stamp < 1000000000000 AND r.now_ns <= {cut_ns}
ORDER BY at_ns, root_server, root, server, position
"""


@attrs.frozen
class WorkloadReport:
    """What a workload has."""

    chains: int
    """Notifications that come from clients, from timers, or from where no trace is."""
    reactions: int
    agents: int
    connections: int
    types: int
    servers: int
    bytes: int
    """Of the payloads of all notifications."""
    span_s: float
    """From the first notification to the last."""
    largest: int
    """Reactions of the largest chain."""
    left_out: int
    """Reactions later than those that the file has room for."""
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0


@attrs.frozen
class Chain:
    """A notification from a client or a timer, with all that it causes."""

    at_ns: int
    """When it came, from the beginning."""
    connection: int
    """The number of the client that has sent it, 0 if it was none."""
    server: int
    agent: int
    type: int
    bytes: int
    steps: list[Step]
    """What it causes."""


def workload(
    session: Session,
    traces: Traces | Trace,
    target: Path,
    *,
    rows: int = MAX_ROWS,
    report: Report | None = None,
    progress: Progress | None = None,
) -> WorkloadReport:
    """Write the load that traces have to a file, without names and contents, for `quorate bench`.

    The file (Parquet) has a row for each notification to an agent, in chains of what caused what: times,
    sizes, and numbers for servers, agents, types and connections. ``rows`` is how many reactions of agents
    it has at most, about: chains that begin later are left out.

    A ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails or the file cannot be written.
    """
    job = start(session, traces, report=report, progress=progress)
    job.step(f"following {job.reactions:,} reactions to the first of their causes")

    def work(queries: Queries, view: str) -> tuple[Any, int]:
        with as_view(queries, OWN.format(rows=view)) as own:
            (count,) = queries.table(COUNT.format(own=own)).to_pylist()
            if not count["rows"]:
                raise NoTrace("the traces have no notification to an agent of an application.")
            (cut,) = queries.table(CUT.format(own=own, limit=rows)).to_pylist()
            with followed(queries, own) as linked:
                return queries.table(STEPS.format(own=own, linked=linked, **count, **cut)), count["rows"]

    table, reactions = job.run(work)
    job.step("writing the workload")
    write(table, target)
    return described(table, reactions, tuple(job.report.doubts), job.seconds)


def write(table: Any, target: Path) -> None:
    """Write the rows of a workload. Raises ReplayError."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        marked = table.replace_schema_metadata({FORMAT: VERSION})
        parquet.write_table(marked, target, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise ReplayError(f"{target} cannot be written: {first_line(error)}.") from error


def described(table: Any, reactions: int, doubts: tuple[str, ...], seconds: float) -> WorkloadReport:
    """Return what the rows of a workload have."""
    compute: Any = import_module("pyarrow.compute")
    sizes = table.group_by(["root_server", "root"]).aggregate([("position", "count")])
    own = int(compute.sum(compute.greater(table["agent"], 0)).as_py() or 0)

    def distinct(column: str) -> int:
        return len(set(compute.unique(table[column]).to_pylist()) - {0})

    return WorkloadReport(
        chains=sizes.num_rows,
        reactions=own,
        agents=distinct("agent"),
        connections=distinct("connection"),
        types=distinct("type"),
        servers=len(compute.unique(table["server"])),
        bytes=int(compute.sum(table["bytes"]).as_py() or 0),
        span_s=(compute.max(table["at_ns"]).as_py() or 0) / 1e9,
        largest=int(compute.max(sizes["position_count"]).as_py() or 0),
        left_out=reactions - own,
        doubts=doubts,
        seconds=seconds,
    )


class Workload:
    """A file that `workload` has written."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises ReplayError if it is none of these."""
        parquet: Any = import_module("pyarrow.parquet")
        self.path = path
        try:
            self._file = parquet.ParquetFile(path, page_checksum_verification=True)
        except (OSError, ValueError) as error:
            raise ReplayError(f"{path} cannot be read: {first_line(error)}.") from error
        metadata: dict[bytes, bytes] = self._file.schema_arrow.metadata or {}
        if metadata.get(FORMAT) != VERSION:
            raise ReplayError(f"{path} is no workload; `quorate replay workload` writes one.")
        found = self._file.read(["server", "agent", "connection"])
        self.servers: list[int] = sorted(set(found["server"].to_pylist()))
        """The numbers of the servers."""
        pairs = zip(found["agent"].to_pylist(), found["server"].to_pylist(), strict=True)
        self.agents: dict[int, int] = {agent: server for agent, server in pairs if agent}
        """For each agent, its server."""
        self.connections: int = max(found["connection"].to_pylist(), default=0)
        """How many connections there are."""

    def chains(self) -> Iterator[Chain]:
        """Yield the chains in the order of time. Raises ReplayError if the file is damaged."""
        rows: list[dict[str, Any]] = []
        key: tuple[int, int] | None = None
        try:
            for batch in self._file.iter_batches():
                for row in batch.to_pylist():
                    own = (row["root_server"], row["root"])
                    if own != key and rows:
                        yield assembled(rows)
                        rows = []
                    key = own
                    rows.append(row)
        except (OSError, ValueError, KeyError) as error:
            raise ReplayError(f"{self.path} cannot be read: {first_line(error)}.") from error
        if rows:
            yield assembled(rows)


def assembled(rows: list[dict[str, Any]]) -> Chain:
    """Return the chain of some rows, each with the place of its cause."""
    first = (rows[0]["root_server"], rows[0]["root"])
    by_place = {(row["server"], row["position"]): row for row in rows}
    below: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for place, row in by_place.items():
        if place != first:
            below.setdefault((row["source"], abs(row["cause"])), []).append(place)
    steps: list[Step] = []
    opened: list[int] = []
    waiting: list[tuple[int, int] | None] = [*reversed(below.get(first, []))]
    while waiting:
        next_one = waiting.pop()
        if next_one is None:  # all that the last opened step causes is there
            at = opened.pop()
            server, agent, size, _ = steps[at]
            steps[at] = (server, agent, size, len(steps) - at)
            continue
        row = by_place[next_one]
        opened.append(len(steps))
        steps.append((row["server"], row["agent"], row["bytes"], 0))
        waiting += [None, *reversed(below.get(next_one, []))]
    root = by_place[first]
    return Chain(
        root["at_ns"], root["connection"], root["server"], root["agent"], root["type"], root["bytes"], steps
    )
