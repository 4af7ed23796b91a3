"""The audit of a mesh over the traces of all its daemons: order, exactly once, and what was removed when.

A daemon writes its events in the columns of reactions; `EVENTS` gives them the names they are meant by. An
event covers records with consecutive numbers of one stream:

===============  ==============================================================================
``open``         a life of a daemon begins; ``close``: it ends in order
``have``         records were stored, its own or those of another daemon, with their checksum
``append``       messages of a publisher (`who`) that this daemon took, from its number `serial`
``start``        what follows in this stream is due to a subscription (`who`)
``subscribe``    a subscription begins, ``unsubscribe``: it ends
``create``       a topic (`consumer`) is created, ``delete``: it is deleted; `who` is the creation
``member``       a daemon (`who`) is added (`serial` 1) or forgotten (0)
``deliver``      messages were sent to a subscription (`who`, empty: a temporary one)
``ack``          a subscription has acknowledged everything up to here, ``cursor``: elsewhere before
``confirm``      a message and those before it were confirmed to their publishers
``strip``        the bodies up to here were removed, ``trim``: the records, ``drop``: the stream
===============  ==============================================================================
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import attrs

from .discovery import Traces
from .frames import Progress, Trace, ignore, open_trace
from .queries import Queries, Session, view_name

__all__ = ["DaemonAccount", "MeshAudit", "TopicAccount", "audit_mesh"]

MAX_FLAWS = 100
"""Places of each kind that are listed."""

EVENTS = """
SELECT server, replica AS daemon, incarnation AS life, position AS event, kind, agent AS stream,
    cause AS first, number AS last, sender AS who, type AS consumer, request AS serial, stamp AS checked
FROM {rows}
"""
MESSAGES = """
SELECT stream, number, who AS publisher, serial + number - first AS serial, daemon FROM (
    SELECT stream, {numbers} AS number, first, who, serial, daemon FROM {events} WHERE kind = 'append'
)
"""
DELIVERIES = """
SELECT d.daemon, d.life, d.event, d.consumer, d.who, d.stream, d.number, m.publisher, m.serial FROM (
    SELECT daemon, life, event, consumer, who, stream, {numbers} AS number
    FROM {events} WHERE kind = 'deliver'
) d JOIN {messages} m ON d.stream = m.stream AND d.number = m.number
"""
ACKNOWLEDGED = """
SELECT who, stream, max(last) AS upto FROM {events} WHERE kind IN ('ack', 'cursor') GROUP BY who, stream
"""
# Subscriptions that have a start in a stream and did not end, nor their topic.
DUE = """
SELECT s.who, s.stream, max(s.first) AS start FROM {events} s
ANTI JOIN (SELECT who FROM {events} WHERE kind = 'unsubscribe') e ON s.who = e.who
ANTI JOIN (SELECT who FROM {events} WHERE kind = 'delete') t ON split_part(s.stream, '/', 1) = t.who
WHERE s.kind = 'start' GROUP BY s.who, s.stream
"""

CONTENT = """
SELECT stream, first, last, count(DISTINCT checked) AS contents FROM {events} WHERE kind = 'have'
GROUP BY stream, first, last HAVING count(DISTINCT checked) > 1 ORDER BY stream, first
"""
TWICE = """
SELECT stream, publisher, serial, count(*) AS times FROM {messages}
GROUP BY stream, publisher, serial HAVING count(*) > 1 ORDER BY stream, publisher, serial
"""
# A message that comes after a later one of its publisher, and did not come before to the subscription.
ORDER = """
SELECT late.*, coalesce(d.times, 1) AS times FROM (
    SELECT daemon, life, event, consumer, who, stream, number, publisher, serial,
        max(serial) OVER (PARTITION BY daemon, life, consumer, who, publisher
            ORDER BY event, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS former
    FROM {deliveries}
) late LEFT JOIN (
    SELECT who, publisher, serial, count(*) AS times FROM {deliveries} WHERE who <> '' GROUP BY 1, 2, 3
) d ON late.who = d.who AND late.publisher = d.publisher AND late.serial = d.serial
WHERE late.serial < late.former AND coalesce(d.times, 1) = 1 ORDER BY late.daemon, late.life, late.event
"""
AGAIN = """
SELECT daemon, life, consumer, who, stream, number, count(*) AS times FROM {deliveries}
GROUP BY daemon, life, consumer, who, stream, number HAVING count(*) > 1 ORDER BY daemon, life, stream, number
"""
# Acknowledged by an attached subscriber, after its first message of the stream, and never delivered to it.
SKIPPED = """
SELECT r.daemon, r.life, r.consumer, r.who, m.stream, m.number, m.publisher, m.serial FROM (
    SELECT a.daemon, a.life, a.consumer, a.who, a.stream, d.first, a.upto FROM (
        SELECT daemon, life, consumer, who, stream, max(last) AS upto
        FROM {events} WHERE kind = 'ack' GROUP BY daemon, life, consumer, who, stream
    ) a JOIN (
        SELECT daemon, life, consumer, who, stream, min(number) AS first
        FROM {deliveries} GROUP BY daemon, life, consumer, who, stream
    ) d ON a.daemon = d.daemon AND a.life = d.life AND a.consumer = d.consumer AND a.who = d.who
        AND a.stream = d.stream
) r JOIN {messages} m ON m.stream = r.stream AND m.number >= r.first AND m.number <= r.upto
JOIN {due} s ON s.who = r.who AND s.stream = m.stream AND m.number > s.start
ANTI JOIN {deliveries} d ON d.who = r.who AND d.publisher = m.publisher AND d.serial = m.serial
ORDER BY r.daemon, r.life, m.stream, m.number
"""
# Bodies that were removed before a subscription that they are due to had acknowledged them.
BODIES = """
SELECT s.daemon, u.who, m.stream, m.number, m.publisher, m.serial FROM (
    SELECT daemon, stream, max(last) AS upto FROM {events} WHERE kind = 'strip' GROUP BY daemon, stream
) s JOIN {messages} m ON m.stream = s.stream AND m.number <= s.upto
JOIN {due} u ON u.stream = m.stream AND m.number > u.start
LEFT JOIN {acknowledged} a ON a.who = u.who AND a.stream = m.stream
WHERE m.number > coalesce(a.upto, 0) ORDER BY s.daemon, m.stream, m.number
"""
# Records that were removed before a daemon of the mesh had them, or their removal.
RECORDS = """
SELECT t.daemon, t.stream, t.upto, o.daemon AS other, coalesce(h.upto, 0) AS has FROM (
    SELECT daemon, stream, max(last) AS upto FROM {events} WHERE kind = 'trim' GROUP BY daemon, stream
) t CROSS JOIN (
    SELECT DISTINCT daemon FROM {events} e
    ANTI JOIN (SELECT who FROM {events} WHERE kind = 'member') f ON f.who = CAST(e.daemon AS STRING)
) o LEFT JOIN (
    SELECT daemon, stream, max(last) AS upto
    FROM {events} WHERE kind IN ('have', 'trim') GROUP BY daemon, stream
) h ON h.daemon = o.daemon AND h.stream = t.stream
ANTI JOIN (SELECT stream FROM {events} WHERE kind = 'drop') d ON d.stream = t.stream
WHERE coalesce(h.upto, 0) < t.upto ORDER BY t.daemon, t.stream, other
"""
NAMES = """
SELECT who AS uid, max(consumer) AS name FROM {events} WHERE kind = 'create' GROUP BY who
"""
TOPICS = """
SELECT coalesce(c.name, m.uid) AS topic, count(*) AS messages, count(DISTINCT m.publisher) AS publishers
FROM (SELECT split_part(stream, '/', 1) AS uid, publisher FROM {messages}) m
LEFT JOIN {names} c
ON c.uid = m.uid GROUP BY 1 ORDER BY 1
"""
DELIVERED = """
SELECT coalesce(c.name, d.uid) AS topic, count(*) AS deliveries,
    count(*) - count(DISTINCT concat(d.who, ' ', d.place)) AS again
FROM (
    SELECT split_part(stream, '/', 1) AS uid, who, concat(stream, ' ', CAST(number AS STRING)) AS place
    FROM {deliveries} WHERE who <> ''
) d
LEFT JOIN {names} c
ON c.uid = d.uid GROUP BY 1
"""
WAITING = """
SELECT coalesce(c.name, m.uid) AS topic, count(*) AS waiting FROM (
    SELECT split_part(m.stream, '/', 1) AS uid FROM {messages} m
    JOIN {due} u ON u.stream = m.stream AND m.number > u.start
    LEFT JOIN {acknowledged} a ON a.who = u.who AND a.stream = m.stream
    WHERE m.number > coalesce(a.upto, 0)
) m
LEFT JOIN {names} c
ON c.uid = m.uid GROUP BY 1
"""
DAEMONS = """
SELECT server, daemon, count(DISTINCT life) AS lives,
    count(DISTINCT CASE WHEN kind = 'close' THEN life END) AS closed,
    sum(CASE WHEN kind = 'append' THEN last - first + 1 ELSE 0 END) AS taken,
    sum(CASE WHEN kind = 'deliver' THEN last - first + 1 ELSE 0 END) AS delivered, count(*) AS events
FROM {events} GROUP BY server, daemon ORDER BY server, daemon
"""
UNKNOWN = """
SELECT h.origin, h.records FROM (
    SELECT concat(split_part(stream, '/', 2), '/', split_part(stream, '/', 3)) AS origin,
        max(last) AS records
    FROM {events} WHERE kind = 'have' GROUP BY 1
) h ANTI JOIN (
    SELECT DISTINCT concat(CAST(daemon AS STRING), '/', CAST(life AS STRING)) AS origin FROM {events}
) k ON k.origin = h.origin ORDER BY h.origin
"""
GAPS = """
SELECT daemon, life, event, former FROM (
    SELECT daemon, life, event, lag(event) OVER (PARTITION BY daemon, life ORDER BY event) AS former
    FROM {events}
) WHERE event <> former + 1 ORDER BY daemon, life, event
"""

# What each query names, as a sentence. The second group depends on acknowledgements of other daemons.
RULES = {
    "content": (CONTENT, "records {first} to {last} of stream {stream} have {contents} contents"),
    "stored twice": (TWICE, "message {serial} of {publisher} is {times} times in stream {stream}"),
    "order": (
        ORDER,
        "daemon {daemon} delivers message {serial} of {publisher} to subscription {who} after {former}",
    ),
    "delivered twice": (
        AGAIN,
        "daemon {daemon} delivers message {number} of stream {stream} {times} times to subscriber {consumer}",
    ),
    "skipped": (
        SKIPPED,
        "subscription {who} acknowledges at daemon {daemon} message {serial} of {publisher}; it never got it",
    ),
}
RETENTION = {
    "bodies": (
        BODIES,
        "daemon {daemon} removed the body of message {serial} of {publisher}, which subscription {who} has "
        "not acknowledged",
    ),
    "records": (
        RECORDS,
        "daemon {daemon} removed records up to {upto} of stream {stream}, and daemon {other} has only {has}",
    ),
}


@attrs.frozen
class TopicAccount:
    """The messages of a topic."""

    topic: str
    messages: int
    publishers: int
    deliveries: int
    """To persistent subscriptions."""
    again: int
    """Deliveries of messages that the subscription had got before, at another daemon or connection."""
    waiting: int
    """Messages that are due to subscriptions and not acknowledged."""


@attrs.frozen
class DaemonAccount:
    """What a daemon did."""

    server: str
    daemon: int
    lives: int
    killed: int
    """Lives that did not end in order, or have not ended: the end of their trace may be missing."""
    taken: int
    """Messages of publishers."""
    delivered: int


@attrs.frozen
class MeshAudit:
    """The outcome of `audit_mesh`."""

    topics: tuple[TopicAccount, ...]
    daemons: tuple[DaemonAccount, ...]
    problems: tuple[str, ...]
    """One sentence for each fault, the first ones of each kind."""
    doubts: tuple[str, ...]
    """What makes the result incomplete."""
    notes: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there is no fault, and nothing makes the result incomplete."""
        return not self.problems and not self.doubts


def audit_mesh(session: Session, traces: Traces | Trace, progress: Progress | None = None) -> MeshAudit:
    """Audit a mesh over the traces of all its daemons. Raises NoTrace, ReplayError."""
    began = time.monotonic()
    step = progress or ignore
    trace = open_trace(traces, None, progress, mesh=True)
    step("reading the events")
    parts = trace.run(session, lambda queries, rows: _audit(queries, rows, step))
    doubts = [*trace.files.bad, *parts.doubts]
    doubts += [
        f"the writer of daemon {source[1]} lost {rows:,} events"
        for source, rows in trace.files.dropped.items()
        if rows
    ]
    if any(trace.files.removed.values()):
        doubts.append("the oldest files of the trace were removed by retention")
    return attrs.evolve(parts, doubts=tuple(doubts), seconds=time.monotonic() - began)


def _audit(queries: Queries, rows: str, step: Progress) -> MeshAudit:
    with _tables(queries, rows) as tables:

        def ask(sql: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = queries.table(sql.format(**tables)).to_pylist()
            return found

        daemons = [
            DaemonAccount(
                each["server"],
                each["daemon"],
                each["lives"],
                each["lives"] - each["closed"],
                each["taken"],
                each["delivered"],
            )
            for each in ask(DAEMONS)
        ]
        doubts = [
            f"daemon {each['daemon']} lacks events {each['former'] + 1} to {each['event'] - 1} of its trace"
            for each in ask(GAPS)[:MAX_FLAWS]
        ]
        notes = [
            f"there is no trace of the life {each['origin']}: its messages are known from others only"
            for each in ask(UNKNOWN)
        ]
        step("checking content, order and deliveries")
        problems = _flaws(ask, RULES)
        step("checking what was removed")
        found = _flaws(ask, RETENTION)
        if found and (notes or any(each.killed for each in daemons)):
            notes.append(
                "some lives of daemons did not end in order, so the end of their traces may be missing: "
                "these may be no faults"
            )
            notes += found
        else:
            problems += found
        return MeshAudit(_topics(ask), tuple(daemons), tuple(problems), tuple(doubts), tuple(notes), 0.0)


def _flaws(ask: Any, rules: dict[str, tuple[str, str]]) -> list[str]:
    found: list[str] = []
    for name, (sql, sentence) in rules.items():
        rows = ask(f"SELECT * FROM ({sql}) LIMIT {MAX_FLAWS}")
        found += [f"{name}: {sentence.format(**row)}" for row in rows]
    return found


def _topics(ask: Any) -> tuple[TopicAccount, ...]:
    delivered = {each["topic"]: each for each in ask(DELIVERED)}
    waiting = {each["topic"]: each["waiting"] for each in ask(WAITING)}
    return tuple(
        TopicAccount(
            each["topic"],
            each["messages"],
            each["publishers"],
            delivered.get(each["topic"], {}).get("deliveries", 0),
            delivered.get(each["topic"], {}).get("again", 0),
            waiting.get(each["topic"], 0),
        )
        for each in ask(TOPICS)
    )


@contextmanager
def _tables(queries: Queries, rows: str) -> Generator[dict[str, str]]:
    """Give the tables that the queries name."""
    numbers = queries.numbers("first", "last")
    tables = {"rows": rows}
    made: list[str] = []
    try:
        for key, sql in (
            ("events", EVENTS),
            ("messages", MESSAGES),
            ("deliveries", DELIVERIES),
            ("acknowledged", ACKNOWLEDGED),
            ("due", DUE),
            ("names", NAMES),
        ):
            name = view_name()
            queries.store(sql.format(numbers=numbers, **tables), name)
            made.append(name)
            tables[key] = name
        yield tables
    finally:
        for name in made:
            queries.drop_table(name)
