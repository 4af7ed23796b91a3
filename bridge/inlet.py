"""The agent of a way from the mesh: the cursor, and what the destination has not taken. Pure."""

from itertools import islice
from typing import Final

import attrs

from ..agents import (
    Agent,
    Context,
    ExceptionNotification,
    Pack,
    Rows,
    UnknownAgent,
    reacts,
)
from ..mesh.model import Dot
from ..messaging.agents.protocol import (
    CloseProducer,
    Confirmed,
    OpenProducer,
    ProducerClosed,
    ProducerOpened,
    Publish,
    Reason,
    Refused,
    Rejected,
)
from .notes import (
    BRIDGE_TOPIC,
    RETRY_S,
    Bring,
    InletOpened,
    InletPublishers,
    InletState,
    OpenInlet,
    Resubscribe,
    Retry,
    check_destination,
    check_service,
    unique_name,
)

__all__ = ["MeshInlet", "Seen"]

MAX_PUBLISHERS: Final = 100_000
"""Publishers whose last number is kept; of more, some that have been silent for long are forgotten."""
EXAMINED: Final = 100
"""Publishers that one reaction looks at to find silent ones."""
PAGE: Final = 10_000


@attrs.frozen
class Seen:
    """What is known of a publisher."""

    number: int
    """That of its last message."""
    round: int
    """The round in which it came; in each, the inlet looks at all publishers once."""


@attrs.define
class _Producer:
    """The producer of the inlet at the destination."""

    number: int
    open: bool = False
    sent: int = 0
    sent_bytes: int = 0
    credit_messages: int = 0
    credit_bytes: int = 0
    in_flight: int = 0
    """Messages of the last Publish, which is not confirmed."""
    full_from: int = 0
    """The first message that was rejected because the destination is full; 0: none."""

    @property
    def room(self) -> int:
        """How many messages it may publish."""
        if not self.open or self.sent_bytes >= self.credit_bytes:
            return 0
        return self.credit_messages - self.sent


@attrs.define
class MeshInlet(Agent, name="quorate.mesh-inlet"):
    """Takes messages of the mesh together with the cursor, and publishes them at a destination, in order.

    The messages and the cursor change in one reaction. So a message that was taken is not taken again after
    a failover, and one that was not comes again from the mesh.
    """

    topic: str
    """The topic of the mesh."""
    destination: str
    token: str = ""
    """Of the subscription in the mesh."""
    dots: list[Dot] = attrs.field(factory=list[Dot])
    positions: Rows[str, int] = attrs.field(factory=Rows[str, int])
    publishers: Rows[str, Seen] = attrs.field(factory=Rows[str, Seen])
    packs: Rows[int, Pack] = attrs.field(factory=Rows[int, Pack])
    """By the number of the first message: what the destination has not taken."""
    brought: int = 0
    """Messages that came, in all: their numbers are 1, 2, ..."""
    done: int = 0
    """The destination has taken or refused everything up to this number."""
    lost: int = 0
    """Messages that it has refused, in all."""
    producers: int = 0
    """Producers so far."""
    producer: _Producer | None = None
    problem: str = ""
    waiting_to_retry: bool = False
    round: int = 0
    hand: str = ""
    """The publisher that was looked at last."""

    # The service

    @reacts
    def open(self, ctx: Context, _: OpenInlet) -> None:
        """Emit the cursor to a service that has started."""
        check_service(ctx)
        if not self.token:
            self.token = unique_name(ctx)
        ctx.emit(BRIDGE_TOPIC, InletOpened(self.token, self.dots, list(self.positions.items())))
        page: dict[str, int] = {}
        for publisher, seen in self.publishers.items():
            page[publisher] = seen.number
            if len(page) == PAGE:
                ctx.emit(BRIDGE_TOPIC, InletPublishers(page, last=False))
                page = {}
        ctx.emit(BRIDGE_TOPIC, InletPublishers(page, last=True))
        self._report(ctx)
        self._have_producer(ctx)

    @reacts
    def bring(self, ctx: Context, note: Bring) -> None:
        """Take messages, and the cursor after them."""
        check_service(ctx)
        self.dots = note.dots
        for stream, number in note.positions:
            self.positions[stream] = max(number, self.positions.get(stream, 0))
        for publisher, number in note.publishers.items():
            self.publishers[publisher] = Seen(number, self.round)
        self._examine()
        if len(note.pack):
            self.packs[self.brought + 1] = note.pack
            self.brought += len(note.pack)
            self._publish(ctx)

    def _examine(self) -> None:
        """Forget publishers that were silent for a whole round, while there are too many."""
        if len(self.publishers) <= MAX_PUBLISHERS:
            return
        found = list(islice(self.publishers.items(self.hand), EXAMINED))
        for publisher, seen in found:
            if seen.round < self.round:
                del self.publishers[publisher]
        if len(found) == EXAMINED:
            self.hand = found[-1][0]
        else:
            self.hand = ""
            self.round += 1

    @reacts
    def resubscribe(self, ctx: Context, _: Resubscribe) -> None:
        """Forget the subscription, which was ended in the mesh. Publishers stay known."""
        check_service(ctx)
        self.dots = []
        self.positions.drop()
        self.token = unique_name(ctx)

    # The destination

    def _publish(self, ctx: Context) -> None:
        """Publish what comes next, as far as the destination has given credit; one pack at a time."""
        producer = self._have_producer(ctx)
        if producer is None or not self.packs:
            return
        room = producer.room
        if producer.in_flight or room < 1:
            return
        first = self.packs.floor(self.done + 1)
        assert first is not None
        pack = self.packs[first]
        skipped = self.done + 1 - first
        pack = pack.part(skipped, min(room, len(pack) - skipped))
        ctx.send(self.destination, Publish(producer.number, producer.sent + 1, pack))
        producer.in_flight = len(pack)
        producer.sent += len(pack)
        producer.sent_bytes += len(pack.data)

    def _have_producer(self, ctx: Context) -> _Producer | None:
        """Return the producer; ask for one if there is none, but not sooner than after a while."""
        if self.producer is None and not self.waiting_to_retry:
            self._open(ctx)
        return self.producer

    def _open(self, ctx: Context) -> None:
        self.producers += 1
        self.producer = _Producer(self.producers)
        try:
            ctx.send(self.destination, OpenProducer(self.producers))
        except ValueError as error:
            # The configuration may lack the server.
            self._failed(ctx, str(error))

    @reacts
    def producer_opened(self, ctx: Context, note: ProducerOpened) -> None:
        """Learn that messages may be published."""
        check_destination(ctx)
        producer = self._producer(note.producer)
        if producer is None:
            ctx.send(self.destination, CloseProducer(note.producer))
        else:
            producer.open, self.problem = True, ""
            producer.credit_messages, producer.credit_bytes = note.credit_messages, note.credit_bytes
            self._publish(ctx)
            self._report(ctx)

    def _producer(self, number: int) -> _Producer | None:
        return self.producer if self.producer is not None and self.producer.number == number else None

    @reacts
    def confirmed(self, ctx: Context, note: Confirmed) -> None:
        """Learn that the destination has messages, or how many more it takes."""
        check_destination(ctx)
        producer = self._producer(note.producer)
        if producer is None:
            return
        producer.credit_messages, producer.credit_bytes = note.credit_messages, note.credit_bytes
        if producer.in_flight and note.upto >= producer.sent:
            full = producer.sent + 1 - producer.full_from if producer.full_from else 0
            self._advance(producer.in_flight - full)
            producer.in_flight = 0
            if full:
                ctx.send(self.destination, CloseProducer(producer.number))
                self._failed(ctx, f"{self.destination} is full")
                return
            self._report(ctx)
        self._publish(ctx)

    def _advance(self, count: int) -> None:
        self.done += count
        while (first := self.packs.first()) is not None:
            following = self.packs.ceiling(first + 1) or self.brought + 1
            if following > self.done + 1:
                break
            del self.packs[first]

    @reacts
    def rejected(self, ctx: Context, note: Rejected) -> None:
        """Learn that the destination does not take messages. `Confirmed` follows, if the producer is open."""
        check_destination(ctx)
        producer = self._producer(note.producer)
        if producer is None:
            return
        if note.reason == Reason.NOT_OPEN:
            # It was deleted, and made again.
            self.producer = None
            self._publish(ctx)
        elif note.reason == Reason.FULL:
            producer.full_from = producer.full_from or note.first
        else:
            self.lost += note.count
            ctx.log(f"{self._way}: {note.count} messages of the mesh are lost: {note.text}")

    @property
    def _way(self) -> str:
        return f"bridge mesh:{self.topic}->{self.destination}"

    @reacts
    def refused(self, ctx: Context, note: Refused | UnknownAgent | ExceptionNotification) -> None:
        """Learn that there is no such destination, or that it refuses the producer."""
        check_destination(ctx)
        if isinstance(note, Refused):
            self._failed(ctx, note.text)
        elif isinstance(note, UnknownAgent):
            self._failed(ctx, f"there is no {note.agent.replace(':', ' ', 1)}")
        else:
            self._failed(ctx, f"{note.agent} failed on {note.type}: {note.message}")

    @reacts
    def producer_closed(self, ctx: Context, _: ProducerClosed) -> None:
        """Ignore the end of a producer."""
        check_destination(ctx)

    def _failed(self, ctx: Context, problem: str) -> None:
        """Have no producer for a while. What was not confirmed is published again."""
        self.producer, self.problem = None, problem
        if not self.waiting_to_retry:
            self.waiting_to_retry = True
            ctx.timer(RETRY_S, Retry())
        self._report(ctx)

    @reacts
    def retry(self, ctx: Context, _: Retry) -> None:
        """Look again for the destination."""
        self.waiting_to_retry = False
        self._publish(ctx)

    def _report(self, ctx: Context) -> None:
        waiting = self.brought - self.done
        ctx.emit(BRIDGE_TOPIC, InletState(waiting, self.done - self.lost, self.lost, self.problem))
