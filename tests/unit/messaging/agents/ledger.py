"""What clients may observe of a destination: a ledger of all messages, by the rules alone.

It knows nothing of the destination but what clients send and get. Each thing that a client gets is compared
with the rules; the names of the invariants are those of the violations:

============  ====================================================================================
accounted     a confirmed message is in exactly one state for each subscription, or done with
invented      nothing is delivered that was not published, or that is done with
order         messages of one producer, priority and group come in order, but those that came back
one holder    one consumer has a message at a time
counted       a message that comes again says how often it came back seen, and only that
atomic        a transaction is carried out as a whole, or not at all
times         nothing is delivered before its time, or after it has expired
group         one consumer has the messages of a group at a time
window        no consumer has more than its window
live          what is ready, and matches a consumer with room, is delivered
left          what has ended leaves nothing in the destination
============  ====================================================================================
"""

from collections.abc import Iterable
from enum import Enum

import attrs

__all__ = ["Broken", "Consumer", "Copy", "Ledger", "Message", "Place", "State"]


class Broken(AssertionError):
    """A rule does not hold; the text begins with its name."""


class State(Enum):
    """Where a message is, for one subscription."""

    WAITING = "waiting"
    HELD = "held"
    LOCKED = "locked"
    DONE = "done"
    DEAD = "dead"


@attrs.frozen(eq=False)
class Message:
    """A message as its producer knows it."""

    body: str
    producer: str
    serial: int
    """Its place among all messages that have arrived."""
    priority: int
    group: str | None
    kind: int
    """The property that selectors compare."""
    due_ms: int
    expires_ms: int
    """0: never."""


@attrs.define(eq=False)
class Copy:
    """A message for one subscription."""

    message: Message
    state: State = State.WAITING
    holder: "Consumer | None" = None
    number: int = 0
    """The destination's number, from its first delivery on."""
    returns: int = 0
    came_back: bool = False


@attrs.define(eq=False)
class Consumer:
    """A consumer, and what it has."""

    client: int
    number: int
    place: "Place"
    window: int
    selects: int | None = None
    """The value of the property that its selector asks for; None: it has no selector."""
    held: dict[int, Copy] = attrs.field(factory=dict[int, Copy])
    """By the numbers of the destination."""
    last: dict[tuple[str, int, str | None], int] = attrs.field(factory=dict[tuple[str, int, str | None], int])
    """By producer, priority and group: the serial of the last message that had never come back."""

    def takes(self, message: Message) -> bool:
        """Return whether the selector matches."""
        return self.selects is None or self.selects == message.kind


@attrs.define(eq=False)
class Place:
    """A subscription; a queue has one."""

    name: str
    selects: int | None = None
    copies: dict[str, Copy] = attrs.field(factory=dict[str, Copy])
    """By body: all copies so far."""
    consumers: list[Consumer] = attrs.field(factory=list[Consumer])


@attrs.define(eq=False)
class Ledger:
    """All messages of a destination. max_deliveries: as its settings say; 0: no limit."""

    max_deliveries: int = 0
    places: dict[str, Place] = attrs.field(factory=dict[str, Place])
    dead: int = 0

    # What clients do

    def published(self, messages: Iterable[Message]) -> None:
        """Learn of messages that were confirmed, or whose transaction was committed."""
        for message in messages:
            for place in self.places.values():
                if place.selects in (None, message.kind):
                    place.copies[message.body] = Copy(message)

    def accepted(self, copy: Copy) -> None:
        """Learn that a message is done with."""
        self._take_from_holder(copy)
        copy.state = State.DONE

    def locked(self, copy: Copy) -> None:
        """Learn that a message was accepted in a transaction."""
        self._take_from_holder(copy)
        copy.state = State.LOCKED

    def rejected(self, copy: Copy) -> None:
        """Learn that a message was rejected."""
        self._take_from_holder(copy)
        self._die(copy)

    def returned(self, copy: Copy, now_ms: int, *, seen: bool) -> None:
        """Learn that a message comes back. seen: the application has seen it."""
        self._take_from_holder(copy)
        copy.came_back = True
        copy.returns += seen
        expired = 0 < copy.message.expires_ms <= now_ms
        if expired or (seen and 0 < self.max_deliveries <= copy.returns):
            self._die(copy)
        else:
            copy.state = State.WAITING

    @staticmethod
    def _take_from_holder(copy: Copy) -> None:
        if copy.holder is not None:
            del copy.holder.held[copy.number]
            copy.holder = None

    def _die(self, copy: Copy) -> None:
        copy.state = State.DEAD
        self.dead += 1

    def expire(self, now_ms: int) -> None:
        """Let time pass: what waits and has expired is dead."""
        for copy in self.copies():
            if copy.state is State.WAITING and 0 < copy.message.expires_ms <= now_ms:
                self._die(copy)

    def copies(self) -> list[Copy]:
        """Return all messages of all subscriptions."""
        return [copy for place in self.places.values() for copy in place.copies.values()]

    # What clients get

    def delivered(self, consumer: Consumer, body: str, number: int, deliveries: int, now_ms: int) -> None:
        """Compare a delivery with the rules."""
        copy = consumer.place.copies.get(body)
        where = f"{body} at consumer {consumer.number} of client {consumer.client}"
        if copy is None or copy.state in (State.DONE, State.DEAD, State.LOCKED):
            self._broken("invented", f"{where} is {copy.state.value if copy else 'unknown'}")
        assert copy is not None
        message = copy.message
        if not consumer.takes(message):
            self._broken("invented", f"{where} does not match")
        if copy.holder is not None:
            self._broken("one holder", f"{where} is held by consumer {copy.holder.number}")
        if deliveries != copy.returns:
            self._broken("counted", f"{where} says {deliveries}, and came back {copy.returns} times")
        if message.due_ms > now_ms or 0 < message.expires_ms <= now_ms:
            self._broken("times", f"{where} at {now_ms}, due {message.due_ms}, expires {message.expires_ms}")
        self._check_order(consumer, copy, where)
        self._check_group(consumer, message, where)
        if copy.number not in (0, number):
            self._broken("accounted", f"{where} has number {number} now, and had {copy.number}")
        copy.state, copy.holder, copy.number = State.HELD, consumer, number
        consumer.held[number] = copy
        if len(consumer.held) > consumer.window:
            self._broken("window", f"{where} is number {len(consumer.held)} of {consumer.window}")

    def _check_order(self, consumer: Consumer, copy: Copy, where: str) -> None:
        message = copy.message
        if copy.came_back or message.due_ms:
            return
        key = message.producer, message.priority, message.group
        if message.serial <= consumer.last.get(key, 0):
            self._broken("order", f"{where} comes after {consumer.last[key]}")
        consumer.last[key] = message.serial

    def _check_group(self, consumer: Consumer, message: Message, where: str) -> None:
        if message.group is None:
            return
        for other in consumer.place.consumers:
            if other is not consumer and any(
                copy.message.group == message.group for copy in other.held.values()
            ):
                self._broken("group", f"{where} of group {message.group}: consumer {other.number} has some")

    # What holds after each step

    def check(self, now_ms: int, depth: int, dead: int) -> None:
        """Compare the counts of the destination, and find what should have been delivered."""
        self.expire(now_ms)
        alive = sum(copy.state not in (State.DONE, State.DEAD) for copy in self.copies())
        if len(self.places) == 1 and depth != alive:
            self._broken("accounted", f"the destination has {depth} messages, {alive} are not done with")
        if dead != self.dead:
            self._broken("accounted", f"{dead} messages are dead, and {self.dead} should be")
        for place in self.places.values():
            self._check_live(place, now_ms)

    def _check_live(self, place: Place, now_ms: int) -> None:
        hungry = [each for each in place.consumers if len(each.held) < each.window]
        for copy in place.copies.values() if hungry else ():
            message = copy.message
            if copy.state is not State.WAITING or message.due_ms > now_ms:
                continue
            for consumer in hungry:
                if consumer.takes(message) and self._may_have(place, consumer, message, now_ms):
                    self._broken("live", f"{message.body} waits, and consumer {consumer.number} has room")

    @staticmethod
    def _may_have(place: Place, consumer: Consumer, message: Message, now_ms: int) -> bool:
        """Return whether a consumer may have a message now, on account of its group."""
        if message.group is None:
            return True
        for copy in place.copies.values():
            other = copy.message
            ready = copy.state is State.WAITING and other.due_ms <= now_ms and other.group == message.group
            if ready and (-other.priority, other.serial) < (-message.priority, message.serial):
                return False
        owned = [
            copy.holder
            for copy in place.copies.values()
            if copy.message.group == message.group and copy.state in (State.HELD, State.LOCKED)
        ]
        return all(holder is consumer for holder in owned)

    @staticmethod
    def _broken(rule: str, text: str) -> None:
        raise Broken(f"{rule}: {text}")
