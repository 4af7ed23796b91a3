"""Consumers: the subscribers that are attached to this daemon, and what is delivered to them. Pure.

A consumer has a position in each stream of its topic. Records after the position are delivered in order,
within a window, streams one after the other. A message that is marked `after` another one waits until that
was delivered, or was not due. Rules 9 to 11 of the design page.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import TypeVar

import attrs

from .frames import Cursor, Deliver, Ended
from .model import Data, Dot, Moved, Position, Start, Stream, decode_record, is_plain
from .state import ClientId, DaemonState

__all__ = ["Consumer", "Consumers"]

K = TypeVar("K", Dot, tuple[str, str, str])

READ_BYTES = 128 * 1024
"""Records are delivered in frames of about this size."""
RECORD_BYTES = 64
"""What a record counts in the window besides its bytes."""


@attrs.define(eq=False)
class Consumer:
    """One attached subscriber."""

    client: ClientId
    number: int
    topic: str
    name: str
    user: str
    token: str
    dots: list[Dot]
    """Its persistent subscriptions; none for a temporary one."""
    window_bytes: int
    positions: dict[Stream, int] = attrs.field(factory=dict[Stream, int])
    """By stream: everything up to here was delivered, or is not due."""
    seen: dict[Stream, int] = attrs.field(factory=dict[Stream, int])
    """By stream: up to here, messages may have been delivered before this subscriber was attached."""
    unsure_ms: int = 0
    """If not 0: it was attached then, without a cursor, to a subscription that was there. What was taken
    before may have been delivered before, also if it comes to this daemon later."""
    cursor: dict[Stream, int] = attrs.field(factory=dict[Stream, int])
    """By stream: what the cursor had that it was attached with."""
    ready: dict[Stream, None] = attrs.field(factory=dict[Stream, None])
    """Streams that may have records to deliver."""
    held: dict[Stream, Position] = attrs.field(factory=dict[Stream, Position])
    """Streams whose next message waits for a message of another stream."""
    stopped: set[Stream] = attrs.field(factory=set[Stream])
    """Streams whose next message has no body any more, though it was not acknowledged here."""
    under_way: dict[Stream, deque[tuple[int, int]]] = attrs.field(
        factory=dict[Stream, deque[tuple[int, int]]]
    )
    """By stream: (number, bytes) of deliveries that are not acknowledged."""
    bytes_under_way: int = 0

    @property
    def room(self) -> bool:
        """Whether more may be delivered before something is acknowledged."""
        return self.bytes_under_way < self.window_bytes


class Consumers:
    """All consumers of a daemon."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._all: dict[tuple[ClientId, int], Consumer] = {}
        self._of_topic: defaultdict[str, dict[Consumer, None]] = defaultdict(dict)
        self._of_dot: defaultdict[Dot, list[Consumer]] = defaultdict(list)
        self._of_name: defaultdict[tuple[str, str, str], list[Consumer]] = defaultdict(list)
        """By topic, name of the subscription and user."""
        self._busy: dict[Consumer, None] = {}
        """Consumers that may get more."""

    def __len__(self) -> int:
        return len(self._all)

    def with_number(self, client: ClientId, number: int) -> Consumer | None:
        """Return a consumer."""
        return self._all.get((client, number))

    def of_dot(self, dot: Dot) -> list[Consumer]:
        """Return the consumers that are attached with a subscription."""
        return list(self._of_dot.get(dot, ()))

    def attach(self, consumer: Consumer, cursor: Cursor | None, *, fresh: bool) -> None:
        """Begin to deliver. fresh: its subscription has just begun, so nothing was delivered before."""
        if consumer.dots and cursor is None and not fresh:
            consumer.unsure_ms = self._state.wall_ms
        self._all[consumer.client, consumer.number] = consumer
        self._of_topic[consumer.topic][consumer] = None
        for dot in consumer.dots:
            self._of_dot[dot].append(consumer)
        if consumer.name:
            self._of_name[consumer.topic, consumer.name, consumer.user].append(consumer)
        if cursor is not None:
            consumer.cursor = dict(cursor.positions)
        for uid in self._state.directory.uids_of.get(consumer.topic, ()):
            for stream in self._state.streams.of_topic.get(uid, ()):
                have = self._state.streams.have(stream)
                if not consumer.dots:
                    consumer.positions[stream] = have
                elif cursor is None and not fresh:
                    consumer.seen[stream] = have
                self._wake(consumer, stream)

    def detach(self, consumer: Consumer) -> None:
        """Deliver nothing more."""
        if self._all.pop((consumer.client, consumer.number), None) is None:
            return
        consumers = self._of_topic[consumer.topic]
        del consumers[consumer]
        if not consumers:
            del self._of_topic[consumer.topic]
        for dot in consumer.dots:
            _remove(self._of_dot, dot, consumer)
        if consumer.name:
            _remove(self._of_name, (consumer.topic, consumer.name, consumer.user), consumer)
        self._busy.pop(consumer, None)

    def end(self, consumer: Consumer, code: str, text: str) -> None:
        """Deliver nothing more, and tell the client why."""
        self.detach(consumer)
        self._state.answer(consumer.client, Ended(consumer.number, code, text))

    def topic_lost(self, topic: str) -> None:
        """Learn that a topic was deleted."""
        for consumer in list(self._of_topic.get(topic, ())):
            self.end(consumer, "no topic", f"the topic {topic!r} was deleted")

    def dot_lost(self, dot: Dot) -> None:
        """Learn that a subscription has ended."""
        for consumer in self._of_dot.pop(dot, []):
            consumer.dots.remove(dot)
            if not consumer.dots:
                self.end(consumer, "ended", f"the subscription {consumer.name!r} was ended")

    def drop_client(self, client: ClientId) -> None:
        """Forget the consumers of a client whose connection has ended."""
        for consumer in [each for key, each in self._all.items() if key[0] == client]:
            self.detach(consumer)

    def acknowledge(self, consumer: Consumer, positions: Iterable[tuple[Stream, int]]) -> None:
        """Note what the subscriber is done with."""
        marks, directory = self._state.marks, self._state.directory
        for stream, number in positions:
            if consumer.dots and number > consumer.positions.get(stream, 0):
                # It has had these from another daemon, or over an earlier connection.
                consumer.positions[stream] = number
            for dot in consumer.dots if self._state.may_be_of(stream, consumer.topic) else ():
                # What was acknowledged was due, also if the record of its start has not come here.
                if dot in directory.subscriptions and marks.raise_to(stream, dot, number):
                    self._state.touched.add(stream)
            waiting = consumer.under_way.get(stream)
            while waiting and waiting[0][0] <= number:
                consumer.bytes_under_way -= waiting.popleft()[1]
            if waiting is not None and not waiting:
                del consumer.under_way[stream]
        if consumer.room and (consumer.ready or consumer.held):
            self._busy[consumer] = None

    def marked(self, stream: Stream, dot: Dot) -> None:
        """Learn that a subscription has a new mark in a stream."""
        for consumer in self.of_dot(dot):
            consumer.stopped.discard(stream)
            self._wake(consumer, stream)

    def grown(self, streams: Iterable[Stream]) -> None:
        """Learn that streams have more records."""
        topics = self._state.directory.topics
        for stream in streams:
            topic = topics.get(stream.topic)
            if topic is not None:
                for consumer in self._of_topic.get(topic.name, ()):
                    self._wake(consumer, stream)

    def named(self, dot: Dot) -> bool:
        """Learn of a subscription. Return whether a consumer here has made it, and has not heard of it.

        The answer to its first attempt was lost, and it has another one.
        """
        made = self._state.directory.subscriptions[dot]
        return any(
            each.dots and dot not in each.dots and each.token == made.token
            for each in self._of_name.get((made.topic, made.name, made.user), ())
        )

    def _wake(self, consumer: Consumer, stream: Stream) -> None:
        consumer.ready[stream] = None
        self._busy[consumer] = None

    # Delivery

    def deliver(self) -> None:
        """Deliver what can be delivered."""
        busy, self._busy = self._busy, {}
        for consumer in busy:
            self._serve(consumer)

    def _serve(self, consumer: Consumer) -> None:
        while consumer.room and consumer.ready:
            stream = next(iter(consumer.ready))
            del consumer.ready[stream]
            if stream in consumer.stopped or stream not in self._state.streams.states:
                continue
            if self._deliver_some(consumer, stream):
                consumer.ready[stream] = None
            if consumer.held:
                self._release_held(consumer)

    def _release_held(self, consumer: Consumer) -> None:
        for stream, after in list(consumer.held.items()):
            if self._is_passed(consumer, after):
                del consumer.held[stream]
                consumer.ready[stream] = None

    def _start(self, consumer: Consumer, stream: Stream) -> int | None:
        """Return the number after which a stream is due; None if nothing of it is due as far as is known."""
        if not consumer.dots:
            return consumer.positions.get(stream, 0)
        marks = [mark for dot in consumer.dots if (mark := self._state.marks.get(stream, dot)) is not None]
        if not marks:
            return None
        delivered = max(consumer.positions.get(stream, 0), consumer.cursor.get(stream, 0))
        return max(delivered, min(marks))

    def _is_passed(self, consumer: Consumer, after: Position) -> bool:
        """Return whether nothing up to a position is still to be delivered before what comes after it."""
        stream, number = after
        state = self._state
        if stream not in state.streams.states or not state.known_topic(stream):
            return True
        topic = state.directory.topics[stream.topic]
        if topic.name != consumer.topic:
            return True
        start = self._start(consumer, stream)
        return start is None or start >= number

    def _deliver_some(self, consumer: Consumer, stream: Stream) -> bool:
        """Deliver the next records of a stream. Return whether there may be more."""
        streams = self._state.streams
        start = self._start(consumer, stream)
        held = streams.states[stream]
        if start is None or start >= held.have:
            return False
        chosen: list[tuple[int, bytes]] = []
        upto, size, missed = start, 0, 0
        records = self._state.log.read(stream, start + 1, held.have, READ_BYTES)
        for number, record in records:
            if number != upto + 1:
                if self._is_gap(consumer, stream, number - 1):
                    break
                missed += number - upto - 1
                upto = number - 1
            if not is_plain(record):
                decoded = decode_record(record)
                if isinstance(decoded, Start):
                    upto = number
                    continue
                if isinstance(decoded, Moved) and not self._is_passed(consumer, decoded.after):
                    consumer.held[stream] = decoded.after
                    break
            chosen.append((number, record))
            size += len(record) + RECORD_BYTES
            upto = number
        else:
            more = upto < held.have and bool(self._state.log.read(stream, upto + 1, held.have, 1))
            if upto < held.have and not more and not self._is_gap(consumer, stream, held.have):
                missed += held.have - upto
                upto = held.have
            self._give(consumer, stream, chosen, size, upto, missed)
            return more
        self._give(consumer, stream, chosen, size, upto, missed)
        return False

    def _give(
        self,
        consumer: Consumer,
        stream: Stream,
        records: list[tuple[int, bytes]],
        size: int,
        upto: int,
        missed: int,
    ) -> None:
        consumer.positions[stream] = max(upto, consumer.positions.get(stream, 0))
        if consumer.dots:
            missed = 0
        elif missed:
            self._state.count("missed", missed)
        if records:
            if consumer.unsure_ms:
                self._mark_seen(consumer, stream, records)
            seen = consumer.seen.get(stream, 0)
            self._state.answer(consumer.client, Deliver(consumer.number, stream, records, seen, missed))
            self._state.count("delivered", len(records))
            consumer.bytes_under_way += size
            consumer.under_way.setdefault(stream, deque()).append((records[-1][0], size))

    def _mark_seen(self, consumer: Consumer, stream: Stream, records: list[tuple[int, bytes]]) -> None:
        """Note which records were taken before the subscriber was attached, by their daemons' clocks."""
        for number, data in reversed(records):
            record = decode_record(data)
            if isinstance(record, Data | Moved) and record.at_ms < consumer.unsure_ms:
                consumer.seen[stream] = max(number, consumer.seen.get(stream, 0))
                return

    def _is_gap(self, consumer: Consumer, stream: Stream, number: int) -> bool:
        """Return whether messages up to a number are gone here that the subscriber has not acknowledged.

        Its subscription was ended elsewhere, or it has acknowledged them elsewhere: this daemon will hear.
        """
        if not consumer.dots or self._acknowledged(consumer, stream, number):
            return False
        consumer.stopped.add(stream)
        return True

    def _acknowledged(self, consumer: Consumer, stream: Stream, number: int) -> bool:
        """Return whether a stub need not be delivered, since the subscriber has acknowledged the message."""
        marks = self._state.marks
        known = [mark for dot in consumer.dots if (mark := marks.get(stream, dot)) is not None]
        return bool(known) and min(known) >= number


def _remove(index: defaultdict[K, list[Consumer]], key: K, consumer: Consumer) -> None:
    found = index[key]
    found.remove(consumer)
    if not found:
        del index[key]
