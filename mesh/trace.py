"""The trace of a daemon: what it stored, delivered, confirmed and removed, as events. Pure.

An event covers records with consecutive numbers of one stream. The audit (`quorate replay mesh`) reads them.
"""

import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from ..services.daemon_base import DaemonEvent
from .consumers import Consumer
from .frames import Acknowledge, Attach, ClientFrame, Deliver, Published
from .log import Log
from .model import (
    DIRECTORY,
    Claim,
    Create,
    Data,
    Delete,
    Dot,
    MemberChange,
    Moved,
    Start,
    Stream,
    Subscribe,
    Uid,
    Unsubscribe,
    decode_record,
)

__all__ = ["MeshTrace", "TracedLog"]

R = TypeVar("R", bound=tuple[Any, ...])


class MeshTrace:
    """Collects the events of one life of a daemon, in their order."""

    def __init__(self, daemon: int, life: int) -> None:
        self._daemon = daemon
        self._life = life
        self._events: list[DaemonEvent] = []

    def take(self) -> list[DaemonEvent]:
        """Return, and forget, the events so far."""
        events, self._events = self._events, []
        return events

    def add(
        self,
        kind: str,
        stream: Stream | None = None,
        first: int = 0,
        last: int = 0,
        *,
        who: str = "",
        consumer: str = "",
        serial: int = 0,
        check: int = 0,
    ) -> None:
        """Add an event. See `DaemonEvent`."""
        text = "" if stream is None else stream_text(stream)
        self._events.append(DaemonEvent(kind, text, first, last, who, consumer, serial, check))

    # The disk

    def stored(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Note records that were stored, and what they are if they are its own or the directory's."""
        for run in _runs(records):
            check = zlib.crc32(b"".join([data for _, data, _ in run]))
            self.add("have", stream, run[0][0], run[-1][0], check=check)
        own = (stream.daemon, stream.life) == (self._daemon, self._life)
        if own or stream.topic == DIRECTORY:
            # Those of the directory are few, and a life whose trace is lost may have made them.
            self._made(stream, records)

    def _made(self, stream: Stream, records: Iterable[tuple[int, bytes, bool]]) -> None:
        first = last = serial = 0
        publisher = ""
        for number, data, _ in records:
            record = decode_record(data)
            if isinstance(record, Data | Moved):
                goes_on = number == last + 1 and record.number == serial + number - first
                if not (last and goes_on and record.publisher == publisher):
                    self._append(stream, first, last, publisher, serial)
                    first, publisher, serial = number, record.publisher, record.number
                last = number
                continue
            match record:
                case Start():
                    for dot in record.dots:
                        self.add("start", stream, number, number, who=dot_text(dot))
                case Subscribe():
                    dot = Dot(stream.daemon, stream.life, number)
                    self.add("subscribe", stream, number, number, who=dot_text(dot), consumer=record.name)
                case Claim():
                    self.add("claim", stream, number, number, who=dot_text(record.dot))
                case Unsubscribe():
                    for dot in record.dots:
                        self.add("unsubscribe", stream, number, number, who=dot_text(dot))
                case Create():
                    uid = Uid(record.stamp, stream.daemon, stream.life, number)
                    self.add("create", stream, number, number, who=uid_text(uid), consumer=record.name)
                case Delete():
                    for uid in record.uids:
                        self.add("delete", stream, number, number, who=uid_text(uid))
                    for dot in record.dots:
                        self.add("unsubscribe", stream, number, number, who=dot_text(dot))
                case MemberChange():
                    present = int(record.present)
                    self.add("member", stream, number, number, who=str(record.daemon), serial=present)
                case _:
                    pass
        self._append(stream, first, last, publisher, serial)

    def _append(self, stream: Stream, first: int, last: int, publisher: str, serial: int) -> None:
        if last:
            self.add("append", stream, first, last, who=publisher, serial=serial)

    # Clients

    def asked(self, frame: ClientFrame, client: int, consumer: Consumer | None) -> None:
        """Note what a subscriber has acknowledged, now or elsewhere before."""
        if isinstance(frame, Acknowledge) and consumer is not None:
            for stream, number in frame.positions:
                for dot in consumer.dots:
                    self.add(
                        "ack",
                        stream,
                        number,
                        number,
                        who=dot_text(dot),
                        consumer=f"{client}/{frame.consumer}",
                    )
        elif isinstance(frame, Attach) and frame.cursor is not None:
            for stream, number in frame.cursor.positions.items():
                for dot in frame.cursor.dots:
                    self.add("cursor", stream, number, number, who=dot_text(dot))

    def answered(self, client: int, frame: object, consumer: Consumer | None) -> None:
        """Note that messages are delivered to a subscriber, or confirmed to a publisher."""
        if isinstance(frame, Published):
            stream, number = frame.position
            self.add("confirm", stream, number, number)
        elif isinstance(frame, Deliver) and consumer is not None:
            names = [dot_text(dot) for dot in consumer.dots] or [""]
            for run in _runs(frame.records):
                for who in names:
                    self.add(
                        "deliver",
                        frame.stream,
                        run[0][0],
                        run[-1][0],
                        who=who,
                        consumer=f"{client}/{frame.consumer}",
                    )


class TracedLog:
    """A log whose changes are traced."""

    def __init__(self, log: Log, trace: MeshTrace) -> None:
        self._log = log
        self._trace = trace
        self.read = log.read
        self.message_bytes = log.message_bytes
        self.put = log.put
        self.delete = log.delete
        self.facts = log.facts

    def append(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Add records."""
        self._log.append(stream, records)
        self._trace.stored(stream, records)

    def strip(self, stream: Stream, upto: int) -> None:
        """Remove the messages up to a number."""
        self._log.strip(stream, upto)
        self._trace.add("strip", stream, 1, upto)

    def trim(self, stream: Stream, upto: int) -> None:
        """Remove all records up to a number."""
        self._log.trim(stream, upto)
        self._trace.add("trim", stream, 1, upto)

    def drop(self, stream: Stream) -> None:
        """Remove all records of a stream."""
        self._log.drop(stream)
        self._trace.add("drop", stream)


def _runs(records: Sequence[R]) -> Iterable[Sequence[R]]:
    """Yield the parts of records that have consecutive numbers."""
    begin = 0
    for place, (one, other) in enumerate(pairwise(records), 1):
        if other[0] != one[0] + 1:
            yield records[begin:place]
            begin = place
    if records:
        yield records[begin:]


def uid_text(uid: Uid) -> str:
    """Return the text of a creation of a topic."""
    return ".".join(map(str, uid))


def stream_text(stream: Stream) -> str:
    """Return the text of a stream: the creation of the topic, the daemon and its life."""
    return f"{uid_text(stream.topic)}/{stream.daemon}/{stream.life}"


def dot_text(dot: Dot) -> str:
    """Return the text of a subscription."""
    return ".".join(map(str, dot))
