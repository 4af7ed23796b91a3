"""The orders of examples/orders.py, with simulated servers whose masters are killed at every step."""

import pytest

from examples.orders import (
    AskOrder,
    Billing,
    Order,
    OrderEnded,
    OrderPhase,
    Paid,
    PayOrder,
    Phase,
    Placed,
    PlaceOrder,
    Refused,
    Shop,
    Stock,
)
from quorate import ReactionError
from quorate.testing import ReplicaView, SimulatedCluster
from quorate.testing.servers.simulated_client import SimulatedClient

APPLES = 20
MONEY = 300
PRICE = 30
PAY_S = 60.0
KEEP_S = 600.0


def make_site(seed: int = 0, replicas: int = 1, *, agents: str = "shop stock billing") -> SimulatedCluster:
    """The three servers with their agents, and the invariants: no item and no money is lost or made."""
    cluster = SimulatedCluster(replicas, seed=seed, others={"stock": replicas, "billing": replicas})
    if "shop" in agents:
        cluster.create(
            *(Shop, "shop"), prices={"apples": PRICE}, pay_within_s=PAY_S, keep_s=KEEP_S, max_orders=30
        )
    if "stock" in agents:
        cluster.create(Stock, "stock", server="stock", free={"apples": APPLES})
    if "billing" in agents:
        cluster.create(Billing, "billing", server="billing", accounts={"ann": MONEY})

    @cluster.invariant
    def items_add_up(view: ReplicaView) -> None:
        for stock in view.agents(Stock):
            assert isinstance(stock, Stock)
            reserved = sum(each.quantity for each in stock.reserved.values())
            assert stock.free["apples"] + reserved + stock.shipped.get("apples", 0) == APPLES
            assert min(stock.free["apples"], reserved) >= 0

    @cluster.invariant
    def money_adds_up(view: ReplicaView) -> None:
        for billing in view.agents(Billing):
            assert isinstance(billing, Billing)
            assert billing.accounts["ann"] + billing.taken == MONEY
            assert billing.accounts["ann"] >= 0

    return cluster


def shop(cluster: SimulatedCluster) -> Shop:
    state = cluster.state("shop")
    assert isinstance(state, Shop)
    return state


def order(cluster: SimulatedCluster, number: int = 1) -> Order | None:
    return shop(cluster).orders.get(number)


def until(cluster: SimulatedCluster, *phases: Phase) -> None:
    """Let time pass until a replica of the shop has the first order in one of the phases."""
    cluster.run_until(lambda: getattr(order(cluster), "phase", None) in phases)


def listen(client: SimulatedClient) -> list[object]:
    news: list[object] = []
    client.listen(lambda received: news.append(received.notification))
    return news


def check_totals(cluster: SimulatedCluster, shipped: int) -> None:
    """What was shipped was paid, and nothing else is missing."""
    stock, billing = cluster.state("stock", server="stock"), cluster.state("billing", server="billing")
    assert isinstance(stock, Stock)
    assert isinstance(billing, Billing)
    assert (stock.shipped.get("apples", 0), stock.reserved) == (shipped, {})
    assert billing.taken == shipped * PRICE


@pytest.mark.parametrize("server", ["s0", "stock", "billing"])
def test_an_order_is_charged_and_shipped_once_with_a_master_killed_at_each_step(server: str) -> None:
    with make_site(seed=1, replicas=3) as cluster:
        client = cluster.client()
        news = listen(client)

        def kill() -> None:
            cluster.kill_master(server)
            cluster.restart(server=server)

        placing = client.begin_request("shop", PlaceOrder("apples", 2))
        for phase in (Phase.RESERVING, Phase.UNPAID):
            until(cluster, phase)
            kill()
        assert placing.result() == Placed(1, 2 * PRICE, PAY_S)
        paying = client.begin_request("shop", PayOrder(1, "ann"))
        for phases in ((Phase.CHARGING,), (Phase.SHIPPING, Phase.SHIPPED), (Phase.SHIPPED,)):
            until(cluster, *phases)
            kill()
        assert paying.result() == Paid(1)
        cluster.run_until(lambda: bool(news))
        assert news == [OrderEnded(1, Phase.SHIPPED)]
        cluster.finish()
        check_totals(cluster, shipped=2)


@pytest.mark.parametrize("server", ["s0", "stock"])
def test_an_order_that_is_not_paid_expires_once_with_a_master_killed_at_each_step(server: str) -> None:
    with make_site(seed=2, replicas=3) as cluster:
        client = cluster.client()
        news = listen(client)
        placing = client.begin_request("shop", PlaceOrder("apples", 2))
        for phase in (Phase.RESERVING, Phase.UNPAID, Phase.EXPIRED):
            until(cluster, phase)
            cluster.kill_master(server)
            cluster.restart(server=server)
        assert placing.result() == Placed(1, 2 * PRICE, PAY_S)
        cluster.run_until(lambda: bool(news))
        assert news == [OrderEnded(1, Phase.EXPIRED)]
        refused = client.request("shop", PayOrder(1, "ann"), reply=Refused)
        assert refused.reason == "order 1 is expired"
        cluster.finish()
        check_totals(cluster, shipped=0)


@pytest.mark.parametrize("seed", range(2))
def test_stock_and_money_add_up_under_random_faults(seed: int) -> None:
    with make_site(seed=seed, replicas=3) as cluster:
        client = cluster.client()
        news = listen(client)
        cluster.inject_faults(60, every_s=2.0)
        paid: set[int] = set()
        for number in range(1, 15):
            answer = client.request("shop", PlaceOrder("apples", 1), reply=(Placed, Refused), timeout=200)
            if isinstance(answer, Placed) and number % 3:
                pay = PayOrder(answer.order, "ann")
                if isinstance(client.request("shop", pay, reply=(Paid, Refused), timeout=200), Paid):
                    paid.add(answer.order)
            cluster.run(1.0)
        cluster.run(PAY_S)
        cluster.finish()
        ended = {note.order: note.phase for note in news if isinstance(note, OrderEnded)}
        assert len(ended) == len(news)
        assert {number for number, phase in ended.items() if phase is Phase.SHIPPED} == paid
        check_totals(cluster, shipped=len(paid))


def test_a_late_reservation_of_an_order_that_has_expired_is_released() -> None:
    with make_site() as cluster:
        client = cluster.client()
        cluster.kill(0, server="stock")
        placing = client.begin_request("shop", PlaceOrder("apples", 2), timeout=200)
        until(cluster, Phase.RESERVING)
        cluster.run(PAY_S)
        answer = placing.result()
        assert isinstance(answer, Refused)
        assert "stock has not answered" in answer.reason
        cluster.restart(server="stock")
        cluster.run(10)
        check_totals(cluster, shipped=0)


def test_an_account_that_cannot_pay_gets_its_order_declined_and_released() -> None:
    with make_site() as cluster:
        client = cluster.client()
        assert client.request("shop", PlaceOrder("apples", 11), reply=Placed).price == 330
        assert "cannot pay 330" in client.request("shop", PayOrder(1, "ann"), reply=Refused).reason
        assert client.request("shop", AskOrder(1)) == OrderPhase(1, Phase.DECLINED)
        cluster.run(1)
        check_totals(cluster, shipped=0)


def test_what_cannot_be_bought_is_refused_with_a_reason() -> None:
    with make_site() as cluster:
        client = cluster.client()
        for note, reason in (
            (PlaceOrder("pears", 1), "cannot be bought"),
            (PlaceOrder("apples", 0), "cannot be bought"),
            (PlaceOrder("apples", APPLES + 1), "not so much in stock"),
        ):
            assert reason in client.request("shop", note, reply=Refused).reason
        with pytest.raises(ReactionError, match="there is no order 7"):
            client.request("shop", PayOrder(7, "ann"))


def test_without_the_other_servers_orders_are_refused_and_nothing_waits_for_ever() -> None:
    with make_site(agents="shop stock") as cluster:
        client = cluster.client()
        client.request("shop", PlaceOrder("apples", 2), reply=Placed)
        assert "no billing" in client.request("shop", PayOrder(1, "ann"), reply=Refused).reason
    with make_site(agents="shop") as cluster:
        client = cluster.client()
        answer = client.request("shop", PlaceOrder("apples", 2), reply=Refused, timeout=2 * PAY_S)
        assert "stock has not answered" in answer.reason
        assert any("deploy it" in line for line in cluster.log)


def test_orders_are_bounded_and_forgotten_after_their_ends() -> None:
    with make_site() as cluster:
        client = cluster.client()
        for _ in range(30):
            client.request("shop", PlaceOrder("apples", 1))
        assert "too many" in client.request("shop", PlaceOrder("apples", 1), reply=Refused).reason
        cluster.advance(PAY_S)
        assert client.request("shop", AskOrder(1)) == OrderPhase(1, Phase.EXPIRED)
        cluster.advance(KEEP_S)
        assert shop(cluster).orders == {}
        with pytest.raises(ReactionError, match="there is no order 1, or it has ended"):
            client.request("shop", AskOrder(1))
        check_totals(cluster, shipped=0)
