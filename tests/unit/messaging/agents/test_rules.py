"""Random clients of a queue and of a topic, compared with a ledger of the rules after each step.

A failing seed runs again with ``-k "[SEED]"``. Broken rules are noticed: see the last tests.
"""

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from quorate.messaging.agents import arrivals
from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.groups import Groups
from quorate.messaging.agents.message_log import MessageLog
from quorate.messaging.agents.protocol import (
    Commit,
    Committed,
    Deliver,
    Flow,
    Rollback,
    Settlement,
)
from quorate.messaging.agents.ranges import Ranges
from quorate.messaging.agents.subscription import Consumer as HeldConsumer
from quorate.messaging.agents.subscription import Subscription
from quorate.messaging.agents.transactions import Staged

from ....long import amount
from .clients import Site
from .ledger import Broken, Consumer, Copy, Ledger, Message, Place, State

STEPS = 150
MAX_DELIVERIES = 3


@attrs.define(eq=False)
class Work:
    """A transaction of a client."""

    number: int
    messages: list[Message] = attrs.field(factory=list[Message])
    copies: list[Copy] = attrs.field(factory=list[Copy])
    parts: int = 0


class Play:
    """A destination, random clients, and the ledger of what they see."""

    def __init__(self, seed: int, topic: bool = False) -> None:
        self.rng = random.Random(seed)
        # The guard takes most of the time, and other tests have it.
        self.site = Site()
        self.site.harness.guard = None
        self.dead = self.site.queue("dead")
        settings: dict[str, Any] = {"dead_queue": "dead", "max_deliveries": MAX_DELIVERIES}
        self.topic = topic
        self.address = self.site.topic(**settings) if topic else self.site.queue(**settings)
        self.ledger = Ledger(MAX_DELIVERIES)
        self.clients = [self.site.client() for _ in range(3)]
        self.consumers: list[Consumer] = []
        self.works: dict[int, Work] = {}
        self.bodies = self.numbers = self.arrived = 0
        if not topic:
            self.ledger.places[""] = Place("")
            return
        for name, selects in (("all", None), ("ones", 1), ("twos", 2)):
            place = self.ledger.places[name] = Place(name, selects)
            consumer = self._open(0, place, window=1)
            self._close(consumer)

    @property
    def now_ms(self) -> int:
        return self.site.harness.now_ns // 1_000_000

    def run(self, steps: int = STEPS) -> None:
        actions = [
            (self.publish, 6),
            (self.open, 3),
            (self.close, 2),
            (self.settle, 8),
            (self.settle_in_work, 3),
            (self.end_work, 2),
            (self.pass_time, 3),
            (self.flow, 1),
            (self.end, 1),
        ]
        for _ in range(steps):
            self.rng.choices([each for each, _ in actions], [weight for _, weight in actions])[0]()
            self.look()
        self.finish()

    def look(self) -> None:
        """Compare what the clients have got, and the counts of the destination."""
        # Long work of a destination goes on by timers without delay.
        self.site.advance(0.0)
        self.ledger.expire(self.now_ms)
        got = [
            (each, note)
            for each in self.consumers
            for note in self.clients[each.client].got
            if isinstance(note, Deliver) and note.consumer == each.number
        ]
        for consumer, _ in dict.fromkeys((each, None) for each, _ in got):
            for body, number, deliveries in self.clients[consumer.client].messages(consumer.number):
                self.ledger.delivered(consumer, body, number, deliveries, self.now_ms)
        self.ledger.check(self.now_ms, self.site.depth(self.address), self.site.depth(self.dead))

    def finish(self) -> None:
        """End everything, consume what is left, and see that nothing stays."""
        for client in range(len(self.clients)):
            self._end(client)
            self.look()
        self.clients.append(self.site.client())
        for place in self.ledger.places.values():
            self._open(len(self.clients) - 1, place, window=50)
            self.look()
        for _ in range(400):
            self.site.advance(3.0)
            self.look()
            for consumer in self.consumers:
                self._settle(consumer, list(consumer.held.values()), Settlement.ACCEPTED)
                self.look()
        assert all(copy.state in (State.DONE, State.DEAD) for copy in self.ledger.copies())
        for consumer in list(self.consumers):
            self._close(consumer)
        agent = self.site.agent(self.address)
        rest = [agent.depth, len(agent.packs), len(agent.shares), agent.log.size_bytes, len(agent.staged)]
        places = [
            (each.in_hand, each.returns, each.waiting, len(each.groups.groups), each.delayed.count)
            for each in agent.subscriptions.values()
        ]
        left = (rest, places)
        if left != ([0] * 5, [(0, {}, 0, 0, 0)] * len(places)):
            raise Broken(f"left: {left}")

    # What clients do

    def publish(self) -> None:
        client = self.rng.randrange(3)
        work = self._work(client) if self.rng.random() < 0.25 else None
        messages = [self._message(client) for _ in range(self.rng.randint(1, 6))]
        columns: dict[str, Any] = {
            ".kind": [each.kind for each in messages],
            "priority": [each.priority for each in messages],
        }
        for name, values in (
            ("group", [each.group for each in messages]),
            ("ttl", [each.expires_ms or None for each in messages]),
            ("delay", [each.due_ms or None for each in messages]),
        ):
            if any(values):
                columns[name] = values
        transaction = 0 if work is None else work.number
        bodies = [each.body for each in messages]
        self.clients[client].publish(self.address, *bodies, transaction=transaction, **columns)
        if work is None:
            self.ledger.published(self._arrived(messages))
        else:
            work.messages += messages
            work.parts += 1

    def _message(self, client: int) -> Message:
        """Return a message that has not arrived: its times are spans."""
        self.bodies += 1
        return Message(
            str(self.bodies),
            str(self.clients[client].id),
            0,
            self.rng.choice([4, 4, 4, 8]),
            self.rng.choice([None, None, "g", "h"]),
            self.rng.randint(1, 2),
            self.rng.choice([0] * 7 + [2000]),
            self.rng.choice([0] * 7 + [5000]),
        )

    def open(self) -> None:
        if len(self.consumers) < 6:
            place = self.rng.choice(list(self.ledger.places.values()))
            selects = None if self.topic else self.rng.choice([None, None, 1, 2])
            self._open(self.rng.randrange(3), place, self.rng.choice([1, 3, 20]), selects)

    def _open(self, client: int, place: Place, window: int, selects: int | None = None) -> Consumer:
        self.numbers += 1
        options: dict[str, Any] = {"window": window}
        if self.topic:
            options |= {"subscription": place.name, "durable": True, "shared": True}
            selects, kind = None, place.selects
        else:
            kind = selects
        if kind is not None:
            options["selector"] = f"kind = {kind}"
        consumer = Consumer(client, self.numbers, place, window, selects)
        self.clients[client].consume(self.address, self.numbers, **options)
        self.consumers.append(consumer)
        place.consumers.append(consumer)
        return consumer

    def close(self) -> None:
        if self.consumers:
            self._close(self.rng.choice(self.consumers))

    def _close(self, consumer: Consumer) -> None:
        seen = [copy for copy in consumer.held.values() if self.rng.random() < 0.5]
        self.clients[consumer.client].close(self.address, consumer.number, [copy.number for copy in seen])
        self._left(consumer, seen)

    def _left(self, consumer: Consumer, seen: list[Copy]) -> None:
        for copy in list(consumer.held.values()):
            self.ledger.returned(copy, self.now_ms, seen=copy in seen)
        self.consumers.remove(consumer)
        consumer.place.consumers.remove(consumer)

    def settle(self) -> None:
        if self.consumers:
            consumer = self.rng.choice(self.consumers)
            settlement = self.rng.choice([Settlement.ACCEPTED] * 4 + list(Settlement))
            self._settle(consumer, self._some(consumer), settlement)

    def _some(self, consumer: Consumer) -> list[Copy]:
        return [copy for _, copy in sorted(consumer.held.items()) if self.rng.random() < 0.6]

    def _settle(self, consumer: Consumer, copies: list[Copy], settlement: Settlement) -> None:
        if not copies:
            return
        numbers = [copy.number for copy in copies]
        self.clients[consumer.client].settle(
            self.address, *numbers, consumer=consumer.number, settlement=settlement
        )
        for copy in copies:
            if settlement == Settlement.ACCEPTED:
                self.ledger.accepted(copy)
            elif settlement == Settlement.REJECTED:
                self.ledger.rejected(copy)
            else:
                self.ledger.returned(copy, self.now_ms, seen=settlement == Settlement.RETURNED)

    def _work(self, client: int) -> Work:
        if client not in self.works:
            self.numbers += 1
            self.works[client] = Work(self.numbers)
        return self.works[client]

    def settle_in_work(self) -> None:
        if not self.consumers:
            return
        consumer = self.rng.choice(self.consumers)
        copies = self._some(consumer)
        if copies:
            work = self._work(consumer.client)
            numbers = [copy.number for copy in copies]
            self.clients[consumer.client].settle(
                self.address, *numbers, consumer=consumer.number, transaction=work.number
            )
            work.parts += 1
            work.copies += copies
            for copy in copies:
                self.ledger.locked(copy)

    def end_work(self) -> None:
        if not self.works:
            return
        client = self.rng.choice(list(self.works))
        work = self.works.pop(client)
        if self.rng.random() < 0.6:
            self.site.post(
                self.clients[client].id, self.address, [Commit(work.number, [self.address], [work.parts])]
            )
            assert self.clients[client].take(Committed) == [Committed(work.number)]
            for copy in work.copies:
                self.ledger.accepted(copy)
            self.ledger.published(self._arrived(work.messages))
        else:
            self.site.post(self.clients[client].id, self.address, [Rollback(work.number)])
            self._undo(work)

    def _undo(self, work: Work) -> None:
        for copy in work.copies:
            self.ledger.returned(copy, self.now_ms, seen=True)

    def pass_time(self) -> None:
        self.site.advance(self.rng.choice([0.5, 1.0, 2.0]))

    def flow(self) -> None:
        if self.consumers:
            consumer = self.rng.choice(self.consumers)
            consumer.window = max(len(consumer.held), self.rng.choice([2, 5]))
            client = self.clients[consumer.client]
            self.site.post(client.id, self.address, [Flow(consumer.number, consumer.window)])

    def end(self) -> None:
        self._end(self.rng.randrange(3))

    def _end(self, client: int) -> None:
        if client in self.works:
            self._undo(self.works.pop(client))
        for consumer in [each for each in self.consumers if each.client == client]:
            # Nobody knows what the application has seen.
            self._left(consumer, list(consumer.held.values()))
        self.clients[client].end(self.address)
        self.clients[client] = self.site.client()

    def _arrived(self, messages: list[Message]) -> list[Message]:
        """Return messages that have arrived: with their order, and times in place of spans."""
        now_ms = self.now_ms
        self.arrived += len(messages)
        first = self.arrived - len(messages)
        return [
            attrs.evolve(
                each,
                serial=first + place,
                due_ms=now_ms + each.due_ms if each.due_ms else 0,
                expires_ms=now_ms + each.expires_ms if each.expires_ms else 0,
            )
            for place, each in enumerate(messages, 1)
        ]


@pytest.mark.parametrize("seed", range(int(amount("QUORATE_SEEDS", 12, 1000))))
def test_a_queue_keeps_the_rules(seed: int) -> None:
    Play(seed).run()


@pytest.mark.parametrize("seed", range(int(amount("QUORATE_SEEDS", 6, 1000))))
def test_a_topic_keeps_the_rules(seed: int) -> None:
    Play(seed, topic=True).run()


# Broken rules are noticed


def _counts_unseen(patch: pytest.MonkeyPatch) -> None:
    original = Subscription.give_back

    def give_back(self: Subscription, *given: Any, seen: bool, **options: Any) -> Any:
        del seen
        return original(self, *given, seen=True, **options)

    patch.setattr(Subscription, "give_back", give_back)


def _forgets_counts(patch: pytest.MonkeyPatch) -> None:
    original = Subscription.give_back

    def give_back(self: Subscription, *given: Any, seen: bool, **options: Any) -> Any:
        del seen
        return original(self, *given, seen=False, **options)

    patch.setattr(Subscription, "give_back", give_back)


def _window_is_larger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldConsumer, "room", property(lambda self: max(0, self.window + 1 - self.unsettled.count)))


def _latest_first(patch: pytest.MonkeyPatch) -> None:
    def take(self: Ranges, most: int) -> list[tuple[int, int]]:
        found = []
        while self.ends and most > 0:
            last = self.ends[-1]
            found += self.remove(last - 1, last)
            most -= 1
        return found

    patch.setattr(Ranges, "take", take)


def _groups_have_no_owner(patch: pytest.MonkeyPatch) -> None:
    original = Groups.take

    def take(self: Groups, name: str, *given: Any) -> Any:
        taken = original(self, name, *given)
        group = self.groups.get(name)
        if group is not None and group.owner:
            self._disown(name, group.owner)
            group.owner = ""
            if group.head() is not None:
                self.free[name] = None
        return taken

    patch.setattr(Groups, "take", take)


def _too_early(patch: pytest.MonkeyPatch) -> None:
    original = arrivals._later_ms
    patch.setattr(arrivals, "_later_ms", lambda now_ms, span: original(now_ms, span and span / 2))


def _nothing_becomes_ready(patch: pytest.MonkeyPatch) -> None:
    original = Subscription.wake
    patch.setattr(Subscription, "wake", lambda self, log, now_ms: original(self, log, 0))


def _keeps_what_is_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageLog, "done", lambda self, ranges: None)


def _dead_are_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Destination, "_bury", lambda *given: None)


def _half_of_a_transaction(patch: pytest.MonkeyPatch) -> None:
    original = Staged.stage
    patch.setattr(Staged, "stage", lambda self, pack: original(self, pack) if not self.packs else None)


def _accepted_come_again(patch: pytest.MonkeyPatch) -> None:
    original = Destination._done

    def done(self: Destination, subscription: Subscription, ranges: list[tuple[int, int]]) -> None:
        for first, end in ranges[:1]:
            subscription._make_ready(self.log, first, end, 4)
        original(self, subscription, ranges[1:])

    patch.setattr(Destination, "_done", done)


@pytest.mark.parametrize(
    ("breaks", "rules"),
    [
        (_counts_unseen, {"counted", "accounted"}),
        (_forgets_counts, {"counted", "accounted"}),
        (_window_is_larger, {"window"}),
        (_latest_first, {"order"}),
        (_groups_have_no_owner, {"group"}),
        (_too_early, {"times", "accounted"}),
        (_nothing_becomes_ready, {"live", "accounted"}),
        (_keeps_what_is_done, {"left", "accounted"}),
        (_dead_are_dropped, {"accounted"}),
        (_half_of_a_transaction, {"accounted", "live"}),
        (_accepted_come_again, {"invented", "accounted"}),
    ],
)
def test_a_broken_rule_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    found: set[str] = set()
    for seed in range(10):
        try:
            Play(seed).run()
        except Broken as broken:
            found.add(str(broken).partition(":")[0])
    assert found & rules
