"""A subscriber: drops what it had before, and keeps the cursor of what it has acknowledged. Pure."""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

import attrs
import msgspec

from ..frames import Acknowledge, Attach, Cursor, Deliver
from ..model import Data, Dot, Moved, Stream, decode_record

__all__ = ["MeshMessage", "Subscriber", "decode_cursor", "encode_cursor"]

MAX_PUBLISHERS: Final = 100_000
"""Publishers whose last number a cursor keeps; that of the one longest silent is dropped first."""


@attrs.frozen
class MeshMessage:
    """A message, as a subscriber receives it."""

    topic: str
    publisher: str
    """The identifier of the publisher."""
    number: int
    """Its number among the publisher's messages to the topic. Another publisher with the same identifier,
    or the same one after its order was lost, begins with 1 again."""
    body: bytes
    at_ms: int
    """When a daemon took it, in milliseconds since 1970."""
    redelivered: bool
    """It may have been delivered before, to an earlier process with this subscription."""
    stream: Stream = attrs.field(repr=False)
    """Where it stands in the mesh."""
    position: int = attrs.field(repr=False)


@attrs.define
class Subscriber:
    """One subscription of a client, persistent if it has a name."""

    topic: str
    name: str = ""
    token: str = ""
    """Chosen once for a subscription, different from all others."""
    dots: list[Dot] = attrs.field(factory=list[Dot])
    cursor: Cursor | None = None
    """What was acknowledged; None for a persistent subscription that has not been attached."""
    delivered: dict[Stream, int] = attrs.field(factory=dict[Stream, int])
    """By stream: the last message that the program got."""
    last: OrderedDict[str, int] = attrs.field(factory=lambda: OrderedDict[str, int]())
    """By publisher: the number of its last message that the program got."""
    unacknowledged: deque[tuple[Stream, int, str, int]] = attrs.field(
        factory=lambda: deque[tuple[Stream, int, str, int]]()
    )
    missed: int = 0
    """Messages that a temporary subscription has missed, as far as its daemon knows."""

    def __attrs_post_init__(self) -> None:
        if self.cursor is not None:
            self.token = self.cursor.token
            self.dots = list(self.cursor.dots)
            self.delivered = dict(self.cursor.positions)
            self.last = OrderedDict(self.cursor.publishers)

    def attach(
        self, request: int, consumer: int, window_bytes: int, changed_from: Iterable[Dot] = ()
    ) -> Attach:
        """Return the frame with which it attaches to a daemon."""
        return Attach(
            request,
            consumer,
            self.topic,
            self.name,
            self.token,
            self.cursor,
            window_bytes,
            list(changed_from),
        )

    def attached(self, dots: list[Dot]) -> None:
        """Take the daemon's answer."""
        if not self.name:
            return
        if self.cursor is None:
            self.cursor = Cursor(self.topic, self.name, self.token, [])
        self.cursor.dots = self.dots = sorted({*self.dots, *dots})

    def receive(self, frame: Deliver) -> list[MeshMessage]:
        """Return the messages of a delivery that the program has not had."""
        stream = frame.stream
        self.missed += frame.missed
        known = self.delivered.get(stream, 0)
        found: list[MeshMessage] = []
        for position, data in frame.records:
            record = decode_record(data)
            if not isinstance(record, Data | Moved):
                continue
            if position <= known:
                # Only the daemon has not heard that it came before.
                self.unacknowledged.append((stream, position, "", 0))
                continue
            known = position
            if self.last.get(record.publisher, 0) >= record.number:
                # The publisher has sent it twice, to two daemons.
                self.unacknowledged.append((stream, position, "", 0))
                continue
            self.last[record.publisher] = record.number
            self.last.move_to_end(record.publisher)
            self.unacknowledged.append((stream, position, record.publisher, record.number))
            name = record.publisher.rpartition("#")[0]
            found.append(
                MeshMessage(
                    self.topic,
                    name,
                    record.number,
                    record.body,
                    record.at_ms,
                    position <= frame.seen,
                    stream,
                    position,
                )
            )
        self.delivered[stream] = known
        if len(self.last) > MAX_PUBLISHERS:
            self.last.popitem(last=False)
        return found

    def until(self, message: MeshMessage) -> tuple[dict[Stream, int], dict[str, int]]:
        """Return what acknowledging up to a message adds to the cursor: positions and publishers."""
        positions: dict[Stream, int] = {}
        publishers: dict[str, int] = {}
        for stream, number, publisher, last in self.unacknowledged:
            positions[stream] = max(number, positions.get(stream, 0))
            if publisher:
                publishers[publisher] = last
            if stream == message.stream and number == message.position:
                break
        return positions, publishers

    def acknowledge_repeated(self, consumer: int) -> Acknowledge | None:
        """Acknowledge what was dropped before anything that the program has to acknowledge."""
        positions: dict[Stream, int] = {}
        while self.unacknowledged and not self.unacknowledged[0][2]:
            stream, number, _, _ = self.unacknowledged.popleft()
            positions[stream] = max(number, positions.get(stream, 0))
        return self._acknowledged(consumer, positions)

    def acknowledge(self, consumer: int, message: MeshMessage | None = None) -> Acknowledge | None:
        """Acknowledge what was received up to a message, or all of it; None if there is nothing."""
        if message is not None and not any(
            stream == message.stream and number == message.position
            for stream, number, _, _ in self.unacknowledged
        ):
            return None
        positions: dict[Stream, int] = {}
        while self.unacknowledged:
            stream, number, publisher, last = self.unacknowledged.popleft()
            positions[stream] = max(number, positions.get(stream, 0))
            if self.cursor is not None and publisher:
                self.cursor.publishers[publisher] = last
            if message is not None and stream == message.stream and number == message.position:
                break
        return self._acknowledged(consumer, positions)

    def _acknowledged(self, consumer: int, positions: dict[Stream, int]) -> Acknowledge | None:
        if not positions:
            return None
        if self.cursor is not None:
            known = self.cursor.positions
            known.update((stream, max(n, known.get(stream, 0))) for stream, n in positions.items())
            while len(self.cursor.publishers) > MAX_PUBLISHERS:
                del self.cursor.publishers[next(iter(self.cursor.publishers))]
        return Acknowledge(consumer, list(positions.items()))


_decoder: Final[msgspec.msgpack.Decoder[Cursor]] = msgspec.msgpack.Decoder(Cursor)


def encode_cursor(cursor: Cursor) -> bytes:
    """Encode a cursor, for a file."""
    return b"quorate mesh cursor 1\n" + msgspec.msgpack.encode(cursor)


def decode_cursor(data: bytes) -> Cursor:
    """Decode a cursor. Raises ValueError with a sentence."""
    head, _, body = data.partition(b"\n")
    if head != b"quorate mesh cursor 1":
        raise ValueError("it is not a cursor of this version of Quorate")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the cursor is damaged: {error}") from None
