"""A publisher: numbers messages, and sends again what is not acknowledged, to whichever daemon. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import attrs

from ..frames import Publish, Published, Refused
from ..model import Position

__all__ = ["Confirmation", "Publisher"]

BATCH_BYTES: Final = 128 * 1024
"""Messages are sent in frames of about this size."""
BATCH: Final = 512
"""Most messages of a frame."""


@attrs.frozen
class Confirmation:
    """The outcome of messages of a publisher."""

    numbers: tuple[int, ...]
    refusal: Refused | None = None
    """Why they were refused; None: they were taken."""


@attrs.define
class Publisher:
    """The messages of one publisher to one topic.

    They are numbered 1, 2, ... as the program publishes them. A number is never used for another message:
    the outcome of what was sent to a daemon that then failed is not known.
    """

    topic: str
    identifier: str
    epoch: int = 1
    """Grows when the order with earlier messages is lost: the mesh sees another publisher then."""
    orders_lost: int = 0
    position: Position | None = None
    """That of the last acknowledged message."""
    acknowledged: int = 0
    """The number of the last acknowledged message."""
    count: int = 0
    """Messages of the program so far."""
    waiting: deque[tuple[int, bytes]] = attrs.field(factory=lambda: deque[tuple[int, bytes]]())
    """(number, body) of the messages that are not acknowledged."""
    sent: int = 0
    """How many of `waiting` were sent over the present connection."""
    held: bool = False
    """Nothing is sent until the program has noted the new epoch."""
    again_at: float | None = None
    """Nothing is sent before: the daemon may not have heard of the topic yet."""
    requests: dict[int, tuple[int, int]] = attrs.field(factory=dict[int, tuple[int, int]])
    """By request: the first and last number."""

    @property
    def name(self) -> str:
        """The identifier that the mesh gets."""
        return f"{self.identifier}#{self.epoch}"

    @property
    def unacknowledged(self) -> int:
        """Messages that are not acknowledged."""
        return len(self.waiting)

    def add(self, bodies: Sequence[bytes]) -> tuple[int, int]:
        """Publish messages. Return the numbers of the first and the last one."""
        first = self.count + 1
        self.waiting.extend(enumerate(bodies, first))
        self.count += len(bodies)
        return first, self.count

    def add_numbered(self, number: int, body: bytes) -> None:
        """Publish a message with a number that the program gives, greater than those before."""
        self.waiting.append((number, body))
        self.count = number

    def frames(self, numbers: Iterator[int]) -> Iterator[Publish]:
        """Yield the frames of messages that were not sent yet. numbers: those of the next requests."""
        if self.held or self.again_at is not None:
            return
        while self.sent < len(self.waiting):
            bodies: list[bytes] = []
            previous = self.waiting[self.sent - 1][0] if self.sent else self.acknowledged
            first = self.waiting[self.sent][0]
            size = 0
            for number, body in islice(self.waiting, self.sent, self.sent + BATCH):
                if number != first + len(bodies) or (bodies and size >= BATCH_BYTES):
                    break
                bodies.append(body)
                size += len(body)
            self.sent += len(bodies)
            request = next(numbers)
            self.requests[request] = (first, first + len(bodies) - 1)
            yield Publish(
                request, self.topic, self.name, first, previous, bodies, self.acknowledged, self.position
            )

    def connected(self) -> None:
        """Begin with a new connection: everything that is not acknowledged is sent again."""
        self.requests.clear()
        self.sent = 0
        self.again_at = None

    def later(self, at: float) -> None:
        """Send everything that is not acknowledged again, but not before a time."""
        self.connected()
        self.again_at = at

    def published(self, frame: Published) -> Confirmation | None:
        """Take an acknowledgement; None if it belongs to another publisher or connection."""
        span = self.requests.pop(frame.request, None)
        if span is None:
            return None
        self.position = frame.position
        self.acknowledged = span[1]
        numbers: list[int] = []
        while self.waiting and self.waiting[0][0] <= span[1]:
            numbers.append(self.waiting.popleft()[0])
        self.sent = max(0, self.sent - len(numbers))
        return Confirmation(tuple(numbers))

    def refused(self, frame: Refused) -> Confirmation | None:
        """Take a refusal; None if it belongs to another publisher or connection, or concerns no message.

        The refused messages are not published, and later ones are sent again. If the order is lost,
        everything is sent again, as another publisher.
        """
        span = self.requests.pop(frame.request, None)
        if span is None:
            return None
        if frame.code == "order lost":
            self.epoch += 1
            self.orders_lost += 1
            self.position = None
            self.acknowledged = 0
            self.connected()
            return None
        numbers: tuple[int, ...] = ()
        if frame.code != "gap":
            numbers = tuple(number for number, _ in self.waiting if span[0] <= number <= span[1])
            self.waiting = deque(each for each in self.waiting if not span[0] <= each[0] <= span[1])
        self.sent = sum(number < span[0] for number, _ in self.waiting)
        self.requests = {each: span_ for each, span_ in self.requests.items() if span_[0] < span[0]}
        return Confirmation(numbers, frame) if numbers else None
