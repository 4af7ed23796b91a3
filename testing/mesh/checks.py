"""The checks of a simulated mesh, M1 to M10 and the order of each publisher.

::

    M1  one content for each number of a stream
    M2  no daemon has a gap in a stream
    M3  no subscriber gets a position twice, or before the start of its subscription
    M4  a body is dropped once every subscription it is due to has acknowledged it, or has ended
    M5  a record is collected once every daemon of the mesh has it
    M6  in the end every acknowledged message was delivered to every subscription it is due to
    M7  in the end directories are equal, and only what was deleted is missing
    M8  in the end logs are empty
    M9  a stream has one start for a subscription, before the messages of a daemon that knows it
    M10 in the end all daemons of a region know the same region
    copies: what is acknowledged to a publisher is on as many disks as is configured
    order: a stream has, and a subscriber gets, the messages of a publisher in their order, each once
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

import attrs

from ...mesh.client.subscriber import MeshMessage
from ...mesh.model import (
    DIRECTORY,
    Create,
    Data,
    Delete,
    Dot,
    Moved,
    Position,
    Start,
    Stream,
    Uid,
    Unsubscribe,
    decode_record,
)

__all__ = ["MeshChecker", "MeshViolation"]


class MeshViolation(AssertionError):
    """A daemon or a client has broken a rule. The text says which."""


@attrs.define
class _Truth:
    """Everything that was ever appended, whether it is still on a disk or not."""

    records: dict[Stream, dict[int, bytes]] = attrs.field(factory=lambda: defaultdict(dict))
    durable: dict[Stream, set[int]] = attrs.field(factory=lambda: defaultdict(set))
    """The numbers of records that were on a disk at some time."""
    starts: dict[Stream, dict[Dot, int]] = attrs.field(factory=lambda: defaultdict(dict))
    created: dict[Uid, str] = attrs.field(factory=dict[Uid, str])
    deleted: set[Uid] = attrs.field(factory=set[Uid])
    ended: set[Dot] = attrs.field(factory=set[Dot])


class MeshChecker:
    """Watches the disks of daemons and what clients get. Every method raises MeshViolation."""

    def __init__(self, members: frozenset[int]) -> None:
        self.members = set(members)
        """Daemons that count for collection."""
        self.truth = _Truth()
        self.acknowledged: defaultdict[Dot, dict[Stream, int]] = defaultdict(dict)
        """What subscribers have acknowledged, as they know it."""
        self.lost_disks = False
        """Whether a disk was lost or set back: what only it had may be missing."""
        self.known_dots: Callable[[int, Uid], Collection[Dot]] = lambda daemon, topic: ()  # noqa: ARG005
        """Returns the subscriptions to a topic that a daemon knows."""
        self._published: defaultdict[Stream, dict[str, int]] = defaultdict(dict)
        self._have: defaultdict[int, dict[Stream, int]] = defaultdict(dict)
        self._ever: defaultdict[int, dict[Stream, int]] = defaultdict(dict)

    # Disks

    def appended(self, daemon: int, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Check M1, M2 and M9 of records that a daemon appends."""
        for number, data, _ in records:
            first = number not in self.truth.records[stream]
            known = self.truth.records[stream].setdefault(number, data)
            if known != data:
                raise MeshViolation(f"M1: {stream} has two records {number}, the second at {daemon}")
            if number <= self._have[daemon].get(stream, 0):
                raise MeshViolation(f"M2: {daemon} appends record {number} of {stream} again")
            self._have[daemon][stream] = number
            self._learn(stream, number, data)
            if first and daemon == stream.daemon:
                self._check_own(daemon, stream, number, data)

    def _check_own(self, daemon: int, stream: Stream, number: int, data: bytes) -> None:
        """Check M9 and the order of a message that a daemon appends to a stream of its own."""
        record = decode_record(data)
        if not isinstance(record, Data | Moved):
            return
        for dot in self.known_dots(daemon, stream.topic):
            if self.truth.starts[stream].get(dot, number) >= number:
                raise MeshViolation(f"M9: {stream} has message {number} before a start for {dot}")
        last = self._published[stream]
        if record.number <= last.get(record.publisher, 0):
            raise MeshViolation(f"order: {stream} has {record.publisher} {record.number} at {number} again")
        last[record.publisher] = record.number

    def has(self, daemon: int, stream: Stream, number: int) -> None:
        """Learn how far a daemon says that it has a stream."""
        self._ever[daemon][stream] = max(self._ever[daemon].get(stream, 0), number)

    def restarted(self, daemon: int, have: dict[Stream, int]) -> None:
        """Learn what a daemon has after a start."""
        self._have[daemon] = dict(have)

    def _learn(self, stream: Stream, number: int, data: bytes) -> None:
        record = decode_record(data)
        match record:
            case Start():
                for dot in record.dots:
                    if self.truth.starts[stream].setdefault(dot, number) != number:
                        raise MeshViolation(f"M9: {stream} has two starts for {dot}")
            case Delete():
                self.truth.ended.update(record.dots)
            case Unsubscribe():
                self.truth.ended.update(record.dots)
            case _:
                pass

    def synced(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Learn of records that no loss of power takes away."""
        self.truth.durable[stream].update(number for number, _, _ in records)
        if stream.topic != DIRECTORY:
            return
        for number, data, _ in records:
            record = decode_record(data)
            if isinstance(record, Create):
                self.truth.created[Uid(record.stamp, stream.daemon, stream.life, number)] = record.name
            elif isinstance(record, Delete):
                self.truth.deleted.update(record.uids)

    def stripped(self, daemon: int, stream: Stream, upto: int) -> None:
        """Check M4."""
        for dot, start in self.truth.starts[stream].items():
            if dot in self.truth.ended or start >= upto:
                continue
            done = max(start, self.acknowledged[dot].get(stream, 0))
            for number in range(done + 1, upto + 1):
                data = self.truth.records[stream].get(number)
                if data is not None and isinstance(decode_record(data), Data | Moved):
                    raise MeshViolation(
                        f"M4: {daemon} drops body {number} of {stream}, due to {dot}, which has {done}"
                    )

    def acknowledged_by(self, daemon: int, position: Position, copies: int) -> None:
        """Check that as many disks as is configured have a message that is acknowledged to its publisher."""
        stream, number = position
        held = 1 + sum(
            known.get(stream, 0) >= number for other, known in self._ever.items() if other != daemon
        )
        if held < copies and position.stream.topic not in self.truth.deleted:
            raise MeshViolation(f"copies: {daemon} acknowledges {position}, which {held} disks have")

    def trimmed(self, daemon: int, stream: Stream, upto: int) -> None:
        """Check M5."""
        for other in self.members - {daemon}:
            if self._ever[other].get(stream, 0) < upto:
                raise MeshViolation(f"M5: {daemon} collects {stream} up to {upto}, which {other} never had")

    # Subscribers

    def delivered(
        self, who: str, dots: Sequence[Dot], before: dict[str, int], messages: Sequence[MeshMessage]
    ) -> None:
        """Check M3 and the order. before: the last number of each publisher that the subscriber had."""
        for message in messages:
            data = self.record(message.stream, message.position)
            if before.get(data.publisher, 0) >= data.number:
                raise MeshViolation(
                    f"order: {who} gets {data.publisher} {data.number} after {before[data.publisher]}"
                )
            before[data.publisher] = data.number
            starts = self.truth.starts[message.stream]
            if dots and not any(starts.get(dot, message.position) < message.position for dot in dots):
                raise MeshViolation(f"M3: {who} gets {message.position} of {message.stream} before its start")

    def record(self, stream: Stream, number: int) -> Data | Moved:
        """Return a message."""
        record = decode_record(self.truth.records[stream][number])
        assert isinstance(record, Data | Moved)
        return record

    def due(self, dots: Sequence[Dot], topic: str) -> dict[tuple[str, int], Position]:
        """Return the messages that are due to a subscription: (publisher, number) and a position.

        A message that a moving publisher has sent twice is due if both places come after the start.
        """
        found: dict[tuple[str, int], Position] = {}
        early: set[tuple[str, int]] = set()
        for stream in list(self.truth.durable):
            if self.truth.created.get(stream.topic) != topic:
                continue
            starts = [n for dot, n in self.truth.starts[stream].items() if dot in dots]
            for number in self.truth.durable[stream]:
                record = decode_record(self.truth.records[stream][number])
                if isinstance(record, Data | Moved):
                    key = record.publisher, record.number
                    if starts and number > min(starts) and stream.topic not in self.truth.deleted:
                        found[key] = Position(stream, number)
                    else:
                        early.add(key)
        for key in early:
            found.pop(key, None)
        return found

    # The end

    def expected_topics(self) -> dict[Uid, str]:
        """Return the creations that are not deleted."""
        return {uid: name for uid, name in self.truth.created.items() if uid not in self.truth.deleted}

    def check_directories(self, directories: dict[int, tuple[object, ...]], topics: dict[Uid, str]) -> None:
        """Check M7: `directories` of all daemons, and the topics of one of them."""
        if len(set(directories.values())) > 1:
            raise MeshViolation(f"M7: directories differ: {directories}")
        if not self.lost_disks and topics != self.expected_topics():
            raise MeshViolation(f"M7: the topics are {topics}, not {self.expected_topics()}")

    def check_regions(self, regions: dict[int, tuple[int, ...]]) -> None:
        """Check M10."""
        for daemon, region in regions.items():
            for other in region:
                if regions.get(other, region) != region:
                    raise MeshViolation(f"M10: {daemon} knows the region {region}, {other} {regions[other]}")

    def check_empty(self, daemon: int, streams: dict[Stream, int]) -> None:
        """Check M8: streams and the records of them that a daemon keeps."""
        kept = {stream: n for stream, n in streams.items() if n and stream.topic != DIRECTORY}
        if kept:
            raise MeshViolation(f"M8: {daemon} keeps {kept}")
