"""The part of the audit of exactly once that is between clients and agents.

A client numbers what it sends, and sends it again when it has reconnected. Its proxy agent accepts each
number once, and forwards what it has accepted. The inputs of each proxy are folded here without its code, and
counted against what agents got from it.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import attrs
import msgspec

from ..agents.proxy import CLIENT_INPUT, decode_input
from .queries import Queries
from .schema import arrow_types

__all__ = ["ClientFlaw", "Clients", "follow_clients"]

FOLDED = "server_id int, agent string, type string, accepted bigint, again bigint, missing bigint"
INPUTS = """
SELECT server_id, agent, position, payload FROM {rows}
WHERE type = '{input}' AND error = '' AND kind = 'react' AND cause = 0
"""
ARRIVED = """
SELECT r.sender AS agent, r.type, count(*) AS arrived FROM {rows} r
JOIN (SELECT server_id, min(position) AS first FROM {rows} GROUP BY server_id) f
    ON f.server_id = CAST(split_part(r.sender, '.', 2) AS INT) AND r.cause >= f.first
JOIN (SELECT DISTINCT agent FROM {rows} WHERE type = '{input}') p ON p.agent = r.sender
WHERE r.cause > 0 GROUP BY r.sender, r.type
"""
OWN = "quorate."
"""The beginning of the names of what proxies send on their own account."""


@attrs.frozen
class Clients:
    """What the clients of one server sent."""

    server: str
    connections: int
    accepted: int
    """Notifications that proxies accepted."""
    arrived: int
    """Those that agents got, in the traces that were given."""
    again: int
    """Notifications that came again after a reconnect, and were not accepted again."""
    early: int
    """Inputs that came before one that was lost on the way; clients send them again."""


@attrs.frozen
class ClientFlaw:
    """Notifications of a client of which agents got more than it sent."""

    server: str
    agent: str
    """Its proxy agent."""
    type: str
    accepted: int
    arrived: int

    def __str__(self) -> str:
        return (
            f"{self.server}: the client of {self.agent} sent {self.accepted:,} notifications {self.type}, "
            f"and {self.arrived:,} arrived"
        )


class Inputs(msgspec.Struct):
    """The work of one process: the inputs of its share of the proxies."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn record batches, sorted by agent and position, into a row for each agent and type."""
        arrow: Any = import_module("pyarrow")
        current: Fold | None = None
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("server_id", "agent", "payload"))
            for server_id, agent, payload in zip(*columns, strict=True):
                if current is None or current.key != (server_id, agent):
                    if current is not None:
                        yield arrow.RecordBatch.from_pylist(current.rows(), schema=arrow_types(FOLDED))
                    current = Fold((server_id, agent))
                current.add(payload)
        if current is not None:
            yield arrow.RecordBatch.from_pylist(current.rows(), schema=arrow_types(FOLDED))


@attrs.define
class Fold:
    """The inputs of one client, in the order in which its proxy got them."""

    key: tuple[int, str]
    last: int | None = None
    """The number of the last notification that was accepted; None before the first input."""
    accepted: dict[str, int] = attrs.field(factory=dict[str, int])
    again: int = 0
    missing: int = 0

    def add(self, payload: bytes) -> None:
        """Take in one input."""
        frame = decode_input(payload)
        if self.last is None:
            # A trace that begins in the middle does not tell what was accepted before.
            self.last = frame.first_seq - 1
        known = self.last + 1 - frame.first_seq
        if known < 0:
            self.missing += 1
            return
        self.again += min(known, len(frame.notes))
        for note in frame.notes[known:]:
            self.last += 1
            self.accepted[note.type] = self.accepted.get(note.type, 0) + 1

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each type; one without a type has the counts of the connection."""
        common = {"server_id": self.key[0], "agent": self.key[1]}
        found = [
            {**common, "type": name, "accepted": count, "again": 0, "missing": 0}
            for name, count in self.accepted.items()
        ]
        return [*found, {**common, "type": "", "accepted": 0, "again": self.again, "missing": self.missing}]


def follow_clients(
    queries: Queries, rows: str, names: Mapping[int, str]
) -> tuple[list[Clients], list[ClientFlaw]]:
    """Count what the clients of each server sent against what agents got of it."""
    inputs = INPUTS.format(rows=rows, input=CLIENT_INPUT)
    folded: list[dict[str, Any]] = queries.each_agent(inputs, Inputs(), FOLDED).to_pylist()
    if not folded:
        return [], []
    arrived = {
        (row["agent"], row["type"]): row["arrived"]
        for row in queries.table(ARRIVED.format(rows=rows, input=CLIENT_INPUT)).to_pylist()
    }
    servers = {row["agent"]: names[row["server_id"]] for row in folded}
    sent = {(row["agent"], row["type"]): row["accepted"] for row in folded if row["type"]}
    flaws = [
        ClientFlaw(servers[agent], agent, name, sent.get((agent, name), 0), count)
        for (agent, name), count in sorted(arrived.items())
        if agent in servers and not name.startswith(OWN) and count > sent.get((agent, name), 0)
    ]
    return [one_server(server, folded, servers, arrived) for server in sorted(set(servers.values()))], flaws


def one_server(
    server: str,
    folded: list[dict[str, Any]],
    servers: Mapping[str, str],
    arrived: Mapping[tuple[str, str], int],
) -> Clients:
    """Return the counts of one server."""
    own = [row for row in folded if servers[row["agent"]] == server]
    return Clients(
        server,
        len({row["agent"] for row in own}),
        sum(row["accepted"] for row in own),
        sum(arrived.get((row["agent"], row["type"]), 0) for row in own),
        sum(row["again"] for row in own),
        sum(row["missing"] for row in own),
    )
