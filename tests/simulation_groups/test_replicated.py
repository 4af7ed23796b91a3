"""An application that the members of a group replicate: state transfer, failures of both levels."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.groups import AsyncGroup, Message, Replicated, StateLost, View, replicate
from quorate.testing import SimulatedCluster
from quorate.testing.servers.simulated_client import SimulatedClient

PROPERTIES = {"balance": "rotate", "client_silence_s": "2", "expire_s": "10"}


class Stock:
    """Takes from a stock, and remembers every order. The state has a part for each 50 orders."""

    def __init__(self, pad: int = 0) -> None:
        self.left = 1_000_000
        self.orders: list[bytes] = []
        self.views = 0
        self.pad = pad

    def delivered(self, message: Message) -> bytes:
        self.left -= int(message.payload)
        self.orders.append(message.payload)
        return b"%d" % self.left

    def view_changed(self, _: View) -> None:
        self.views += 1

    def provide_state(self) -> Iterator[bytes]:
        yield b"%d" % self.left + b" " * self.pad
        for start in range(0, len(self.orders), 50):
            yield b",".join(self.orders[start : start + 50])

    def receive_state(self, parts: list[bytes]) -> None:
        self.left = int(parts[0])
        self.orders = [order for part in parts[1:] for order in part.split(b",")]


class Member:
    """A replica of the stock on a client of its own."""

    def __init__(self, cluster: SimulatedCluster, **options: Any) -> None:
        self.stock = Stock(options.pop("pad", 0))
        self.client: SimulatedClient = cluster.client()
        self.made = self.client.begin(replicate(self.client.connection, "stock", self.stock, **options))
        self.running: Any = None

    def start(self) -> "Member":
        replica: Replicated = self.made.result()
        self.running = self.client.begin(replica.run())
        return self


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=5, groups=True, properties=PROPERTIES) as made:
        yield made


def take(cluster: SimulatedCluster, count: int, *, asker: SimulatedClient | None = None) -> SimulatedClient:
    client = asker or cluster.client()
    group = AsyncGroup(client.connection, "stock")
    for _ in range(count):
        client.run(group.request(b"1", timeout=50.0))
    return client


def assert_same(*members: Member, taken: int) -> None:
    members[0].client._cluster.run_until(lambda: all(len(each.stock.orders) == taken for each in members))
    assert {each.stock.left for each in members} == {1_000_000 - taken}


def test_a_joiner_gets_the_state_and_what_follows(cluster: SimulatedCluster) -> None:
    first = Member(cluster).start()
    asker = take(cluster, 120)
    second = Member(cluster).start()
    take(cluster, 30, asker=asker)
    assert_same(first, second, taken=150)
    assert second.stock.views


def test_members_that_begin_together_agree_on_one_state(cluster: SimulatedCluster) -> None:
    members = [Member(cluster) for _ in range(4)]
    for each in members:
        each.start()
    take(cluster, 10)
    assert_same(*members, taken=10)


def test_messages_during_the_transfer_of_a_large_state_are_executed_once(cluster: SimulatedCluster) -> None:
    first = Member(cluster, pad=8_000_000).start()
    asker = take(cluster, 20)
    second = Member(cluster, pad=8_000_000)
    group = AsyncGroup(asker.connection, "stock")
    during = 0
    while not second.made.done:
        asker.run(group.cast(b"1"))
        during += 1
        cluster.run(0.01)
    second.start()
    assert during > 3
    assert_same(first, second, taken=20 + during)


def test_a_provider_that_dies_amid_the_transfer_is_replaced(cluster: SimulatedCluster) -> None:
    first = Member(cluster, pad=8_000_000).start()
    second = Member(cluster, pad=8_000_000).start()
    asker = take(cluster, 20)
    third = Member(cluster, pad=8_000_000)
    cluster.run(0.05)
    assert not third.made.done
    cluster.kill_client(first.client)
    take(cluster, 5, asker=asker)
    third.start()
    assert_same(second, third, taken=25)


def test_a_provider_that_stands_still_is_replaced(cluster: SimulatedCluster) -> None:
    first = Member(cluster, pad=8_000_000).start()
    second = Member(cluster, pad=8_000_000).start()
    take(cluster, 20)
    third = Member(cluster, pad=8_000_000)
    cluster.run(0.05)
    cluster.pause_client(first.client)
    third.start()
    assert_same(second, third, taken=20)
    cluster.resume_client(first.client)


def test_a_state_that_is_lost_is_never_silently_empty(cluster: SimulatedCluster) -> None:
    first = Member(cluster).start()
    take(cluster, 20)
    cluster.kill_client(first.client)
    cluster.run(30.0)
    late = Member(cluster)
    with pytest.raises(StateLost, match="begin_anew=True"):
        late.made.result()
    anew = Member(cluster, begin_anew=True).start()
    take(cluster, 3)
    assert_same(anew, taken=3)


def test_a_joiner_learns_that_the_last_member_with_the_state_dies(cluster: SimulatedCluster) -> None:
    first = Member(cluster, pad=8_000_000).start()
    take(cluster, 20)
    joiner = Member(cluster)
    cluster.run(0.05)
    assert not joiner.made.done
    cluster.kill_client(first.client)
    with pytest.raises(StateLost):
        joiner.made.result()


def test_servers_and_members_fail_independently(cluster: SimulatedCluster) -> None:
    members = [Member(cluster).start() for _ in range(3)]
    asker = take(cluster, 10)
    cluster.kill_master()
    cluster.kill_client(members[0].client)
    take(cluster, 10, asker=asker)
    cluster.restart()
    late = Member(cluster).start()
    take(cluster, 5, asker=asker)
    assert_same(*members[1:], late, taken=25)


def test_a_replica_that_cannot_execute_a_message_ends(cluster: SimulatedCluster) -> None:
    first = Member(cluster).start()
    second = Member(cluster).start()
    second.stock.delivered = lambda _: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    take(cluster, 1)
    with pytest.raises(ZeroDivisionError):
        second.running.result()
    assert_same(first, taken=1)
