"""Activities in a cluster whose masters are killed while they run."""

from collections import Counter

import attrs
import pytest
from twisted.internet.defer import Deferred

from quorate import ActivityCompleted, ActivityFailed, Agent, Context, Notification, ReplyTo, reacts
from quorate.services import ActivityCall, ActivityService, ServiceContext, activity
from quorate.testing import SimulatedCluster


@attrs.frozen
class Buy(Notification):
    order: str


@attrs.frozen
class Charge(Notification):
    order: str


@attrs.frozen
class Charged(Notification):
    receipt: str


@attrs.define
class Shop(Agent):
    waiting: dict[str, ReplyTo] = attrs.field(factory=dict[str, ReplyTo])
    outcomes: list[str] = attrs.field(factory=list[str])

    @reacts
    def buy(self, ctx: Context, note: Buy) -> None:
        self.waiting[note.order] = ctx.reply_to
        ctx.activity("charge", Charge(note.order), key=note.order)

    @reacts
    def charged(self, ctx: Context, note: ActivityCompleted) -> None:
        self.outcomes.append(note.key)
        ctx.send(self.waiting.pop(note.key), note.result(Charged))

    @reacts
    def refused(self, ctx: Context, note: ActivityFailed) -> None:
        self.outcomes.append(note.key)
        ctx.send(self.waiting.pop(note.key), Charged(note.outcome))


calls: list[tuple[str, str, int]] = []
"""What the outside was asked for: order, idempotency key, attempt."""


class Payments(ActivityService):
    def open(self, ctx: ServiceContext, args: str) -> None:
        self.ctx = ctx

    @activity("charge", attempts=50, first_pause_s=0.1, timeout_s=5, concurrency=4)
    async def charge(self, call: ActivityCall, note: Charge) -> Charged:
        calls.append((note.order, call.idempotency_key, call.attempt))
        answered: Deferred[None] = Deferred()
        self.ctx.reactor.callLater(0.3, answered.callback, None)
        await answered
        if call.attempt % 3 == 0:
            raise ConnectionError("the line is bad")
        return Charged(f"receipt for {note.order}")


@pytest.mark.parametrize("seed", range(3))
def test_each_result_comes_once_though_masters_are_killed_while_activities_run(seed: int) -> None:
    calls.clear()
    orders = [f"order {number}" for number in range(40)]
    with SimulatedCluster(replicas=3, seed=seed, services=[Payments]) as cluster:
        cluster.create(Shop, name="shop")
        client = cluster.client()
        for order in orders:
            client.send("shop", Buy(order))
        for _ in range(3):
            cluster.run(0.7)
            killed = cluster.kill_master()
            cluster.run(4)
            cluster.restart(killed)

        def shop() -> Shop:
            state = cluster.state("shop")
            assert isinstance(state, Shop)
            return state

        cluster.run_until(lambda: len(shop().outcomes) == len(orders), 120)
        cluster.run(20)
        assert sorted(shop().outcomes) == sorted(orders)
        assert shop().waiting == {}
    attempts = Counter(order for order, _, _ in calls)
    assert sorted(attempts) == sorted(orders)
    assert max(attempts.values()) > 1, "no attempt was interrupted"
    assert len({(order, key) for order, key, _ in calls}) == len({key for _, key, _ in calls}) == len(orders)
