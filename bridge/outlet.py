"""The agent of a way to the mesh: what the mesh does not have yet, with its numbers. Pure."""

from typing import Final

import attrs

from ..agents import Agent, Context, ExceptionNotification, Pack, Rows, UnknownAgent, reacts
from ..mesh.model import Position
from ..messaging.agents.protocol import (
    DEFAULT_WINDOW,
    CloseConsumer,
    ConsumerClosed,
    ConsumerOpened,
    Deliver,
    Flow,
    OpenConsumer,
    Refused,
    Settle,
    Settlement,
)
from ..messaging.agents.ranges import Range, Ranges, flat
from .notes import (
    BRIDGE_TOPIC,
    RETRY_S,
    Carried,
    OpenOutlet,
    OrderLost,
    OutletBatch,
    OutletOpened,
    OutletState,
    Refuse,
    Retry,
    check_destination,
    check_service,
    unique_name,
)

__all__ = ["MeshOutlet"]

PROBE_S: Final = 30.0
"""How often the outlet asks whether the destination still knows its consumer."""
SUBSCRIPTION: Final = "mesh"
"""The name of the durable subscription of a topic; the client id is the name of the agent."""


@attrs.define
class MeshOutlet(Agent, name="quorate.mesh-outlet"):
    """Consumes from a destination, and numbers the messages, for the mesh to drop what comes twice.

    A message is kept here, and unsettled at the destination, until the mesh has it. So the next service of
    a failover publishes the same messages with the same numbers.
    """

    topic: str
    """The topic of the mesh."""
    destination: str
    client_id: str
    """Of the durable subscription, if the destination is a topic."""
    identifier: str = ""
    """The publisher in the mesh."""
    epoch: int = 1
    position: Position | None = None
    """Where the last message that the mesh has is there."""
    acknowledged: int = 0
    """The number of that message."""
    count: int = 0
    """Messages so far: their numbers are 1, 2, ..."""
    packs: Rows[int, Pack] = attrs.field(factory=Rows[int, Pack])
    """By the number of the first message: what the mesh does not have, as it was delivered."""
    refused_numbers: list[int] = attrs.field(factory=list[int])
    """Numbers above `acknowledged` that the mesh does not take."""
    refused: int = 0
    """Messages that the mesh did not take, in all."""
    consumers: int = 0
    """Consumers so far."""
    consumer: int = 0
    """The number of the consumer at the destination; 0: there is none."""
    since: int = 0
    """Messages up to this number came from earlier consumers: there is nothing to settle."""
    open: bool = False
    both_ways: bool = False
    problem: str = ""
    timed: bool = False
    """A timer is set."""

    # The service

    @reacts
    def begin(self, ctx: Context, note: OpenOutlet) -> None:
        """Emit what is not carried to a service that has started."""
        check_service(ctx)
        self.both_ways = note.both_ways
        if not self.identifier:
            # Another life of the server begins with number 1 again, and must be another publisher.
            self.identifier = f"bridge-{unique_name(ctx)}"
        opened = OutletOpened(self.identifier, self.epoch, self.acknowledged, self.position)
        ctx.emit(BRIDGE_TOPIC, opened)
        for first, pack in self.packs.items():
            ctx.emit(BRIDGE_TOPIC, OutletBatch(first, pack, self.refused_numbers))
        ctx.emit(BRIDGE_TOPIC, OutletState(self.problem))
        if not self.consumer:
            self._consume(ctx)

    @reacts
    def carried(self, ctx: Context, note: Carried) -> None:
        """Settle what the mesh has."""
        check_service(ctx)
        if note.upto > self.acknowledged:
            self._settle(ctx, self._delivered_as(self.acknowledged + 1, note.upto + 1))
            self.acknowledged, self.position = note.upto, note.position
            self._forget()

    @reacts
    def refuse(self, ctx: Context, note: Refuse) -> None:
        """Reject a message that the mesh does not take: it goes to the dead message queue."""
        check_service(ctx)
        if note.number > self.acknowledged and note.number not in self.refused_numbers:
            ctx.log(f"{self._way}: the mesh does not take message {note.number}: {note.text}")
            self._settle(ctx, self._delivered_as(note.number, note.number + 1), Settlement.REJECTED)
            self.refused_numbers.append(note.number)
            self.refused += 1
            self._forget()

    @reacts
    def order_lost(self, ctx: Context, note: OrderLost) -> None:
        """Go on as another publisher."""
        check_service(ctx)
        self.epoch, self.position = note.epoch, None
        ctx.log(
            f"{self._way}: the order with earlier messages is lost, since the daemon that took those is away "
            "for good, or its disk is"
        )

    def _delivered_as(self, first: int, end: int) -> list[Range]:
        """Return the numbers of the destination for messages that were not refused, as ranges."""
        found = Ranges()
        first = max(first, self.since + 1)
        start = self.packs.floor(first)
        for number, pack in self.packs.items(start, end):
            for own, there in enumerate(pack.column("number"), number):
                if first <= own < end and own not in self.refused_numbers and isinstance(there, int):
                    found.add(there, there + 1)
        return list(found)

    def _settle(
        self, ctx: Context, ranges: list[Range], settlement: Settlement = Settlement.ACCEPTED
    ) -> None:
        if ranges:
            ctx.send(self.destination, Settle(self.consumer, settlement, flat(ranges)))

    def _forget(self) -> None:
        """Drop packs of which nothing is left to carry."""
        while (first := self.packs.first()) is not None:
            following = self.packs.ceiling(first + 1) or self.count + 1
            last = following - 1
            while last in self.refused_numbers:
                last -= 1
            if last > max(self.acknowledged, first - 1):
                break
            del self.packs[first]
        least = self.packs.first() or self.count + 1
        self.refused_numbers = [each for each in self.refused_numbers if each >= least]

    # The destination

    def _consume(self, ctx: Context) -> None:
        self.consumers += 1
        self.consumer, self.open, self.since = self.consumers, False, self.count
        topic = self.destination.startswith("topic:")
        request = OpenConsumer(
            self.consumer,
            subscription=SUBSCRIPTION if topic else "",
            client_id=self.client_id if topic else "",
            durable=topic,
        )
        try:
            ctx.send(self.destination, request)
        except ValueError as error:
            # The configuration may lack the server.
            self._failed(ctx, str(error))

    @reacts
    def consumer_opened(self, ctx: Context, note: ConsumerOpened) -> None:
        """Learn that messages will come."""
        check_destination(ctx)
        if note.consumer != self.consumer:
            ctx.send(self.destination, CloseConsumer(note.consumer))
        else:
            self.open, self.problem = True, ""
            ctx.emit(BRIDGE_TOPIC, OutletState(""))
            self._wait(ctx, PROBE_S)

    @reacts
    def deliver(self, ctx: Context, note: Deliver) -> None:
        """Number messages, and give them to the service."""
        check_destination(ctx)
        if note.consumer != self.consumer:
            return
        pack = note.pack
        if self.both_ways and ".mesh_topic" in pack.columns:
            foreign = [each == self.topic for each in pack.column(".mesh_topic")]
            back = Ranges()
            for number, is_foreign in zip(pack.column("number"), foreign, strict=True):
                if is_foreign and isinstance(number, int):
                    back.add(number, number + 1)
            self._settle(ctx, list(back))
            pack = pack.take([index for index, each in enumerate(foreign) if not each])
        if len(pack):
            first = self.count + 1
            self.packs[first] = pack
            self.count += len(pack)
            ctx.emit(BRIDGE_TOPIC, OutletBatch(first, pack))

    @reacts
    def closed(self, ctx: Context, note: ConsumerClosed) -> None:
        """Learn that the destination does not know the consumer: it was deleted, and made again."""
        check_destination(ctx)
        if note.consumer == self.consumer:
            self._failed(ctx, note.text or f"{self.destination} has ended the consumer")

    @reacts
    def lacking(self, ctx: Context, note: Refused | UnknownAgent | ExceptionNotification) -> None:
        """Learn that there is no such destination, or that it refuses the consumer."""
        check_destination(ctx)
        if isinstance(note, Refused):
            self._failed(ctx, note.text)
        elif isinstance(note, UnknownAgent):
            self._failed(ctx, f"there is no {note.agent.replace(':', ' ', 1)}")
        elif self.open:
            ctx.log(f"{self._way}: {note.agent} failed on {note.type}: {note.message}")
        else:
            self._failed(ctx, f"{note.agent} failed on {note.type}: {note.message}")

    def _failed(self, ctx: Context, problem: str) -> None:
        """Have no consumer for a while. What is here is carried all the same."""
        if problem != self.problem:
            ctx.log(f"{self._way}: {problem}")
        self.consumer, self.open, self.problem = 0, False, problem
        ctx.emit(BRIDGE_TOPIC, OutletState(problem))
        self._wait(ctx, RETRY_S)

    def _wait(self, ctx: Context, delay_s: float) -> None:
        if not self.timed:
            self.timed = True
            ctx.timer(delay_s, Retry())

    @reacts
    def retry(self, ctx: Context, _: Retry) -> None:
        """Look again for the destination, or ask whether it still knows the consumer."""
        self.timed = False
        if not self.consumer:
            self._consume(ctx)
        elif self.open:
            ctx.send(self.destination, Flow(self.consumer, DEFAULT_WINDOW))
            self._wait(ctx, PROBE_S)

    @property
    def _way(self) -> str:
        return f"bridge {self.destination}->mesh:{self.topic}"
