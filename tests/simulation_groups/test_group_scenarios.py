"""One failure at each place where a group can have one. The checker compares what all members see."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.agents import AgentId, connection_manager
from quorate.agents.presence import DrainHome, Homes
from quorate.agents.proxy import ClientInput, ProxyAgent
from quorate.client import QuorateClientError
from quorate.groups import AsyncGroup, CastTooLarge, GroupError, Message, NoAnswer, NoMembers, View
from quorate.groups.agents import topic
from quorate.groups.home_stream import HomeStream
from quorate.testing import SimulatedCluster, Violation
from quorate.testing.servers.group_checks import GroupClient, GroupScene, GroupViolation

PROPERTIES = {"balance": "rotate", "client_silence_s": "2", "expire_s": "20"}


class Group(GroupScene):
    """What scenarios do with a group whose members may move."""

    def at(self, home: int) -> GroupClient:
        """The member of a replica."""
        return next(each for each in self.members if self.home(each) == home)

    def cast(self, client: GroupClient, count: int = 1) -> None:
        for _ in range(count):
            self.checker.cast(client)

    def settle(self):
        """Let everything arrive; check that all saw the same; return the group as it is."""
        self.cluster.heal()
        for client in self.checker.clients:
            self.cluster.resume_client(client.client)
        self.cluster.finish()
        self.cluster.run(5.0)
        return self.checker.settled()


@pytest.fixture
def group() -> Iterator[Group]:
    with SimulatedCluster(seed=7, groups=True, properties=PROPERTIES) as cluster:
        yield Group(cluster)


def slave(group: Group) -> int:
    """A replica that is not the master, and not the one that describes the group."""
    servers = group.cluster._servers["s0"]
    master = servers.master()
    assert master is not None
    return next(each for each in servers.replicas if each != master.id)


def master(group: Group) -> int:
    found = group.cluster._servers["s0"].master()
    assert found is not None
    return found.id


def test_each_replica_is_the_home_of_a_member(group: Group) -> None:
    assert {group.home(each) for each in group.members} == {0, 1, 2}
    group.cast(group.publisher, 5)
    for member in group.members:
        group.cast(member, 5)
    assert group.settle().casts == 20


def test_members_of_a_home_that_dies_go_on_at_another_one(group: Group) -> None:
    victim = slave(group)
    member = group.at(victim)
    group.cast(group.publisher, 20)
    group.cluster.kill(victim)
    group.cast(member, 3)
    group.cluster.run(5.0)
    found = group.settle()
    assert found.casts == 23
    assert found.view == 3, "nobody was expelled"


def test_members_of_a_home_that_is_master_too_go_on(group: Group) -> None:
    group.cast(group.publisher, 20)
    victim = master(group)
    member = group.at(victim)
    group.cluster.kill_master()
    group.cast(member, 3)
    group.cluster.run(5.0)
    found = group.settle()
    assert (found.casts, found.view) == (23, 3)


def test_members_at_other_homes_do_not_notice_that_the_master_dies(group: Group) -> None:
    other = group.at(slave(group))
    group.cluster.kill_master()
    group.cast(other, 3)
    group.cluster.run(5.0)
    assert group.settle().casts == 3
    assert other.client.reconnections == 0


def cast_at_a_home_that_is_cut_off(group: Group) -> int:
    """A message is given to a home that cannot have it ordered, and again to the next one."""
    home = slave(group)
    member = group.at(home)
    rest = [each for each in (0, 1, 2) if each != home]
    group.cluster.partition([home], rest)
    group.cast(member, 3)
    group.cluster.run(12.0)
    assert group.home(member) != home
    group.cast(member, 2)
    group.cluster.run(1.0)
    return group.settle().casts


def test_what_a_home_submits_late_is_dropped(group: Group) -> None:
    assert cast_at_a_home_that_is_cut_off(group) == 5


def test_it_would_be_found_if_that_were_not_dropped(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = ProxyAgent._accept_input

    def accept_all(self: ProxyAgent, ctx: Any, frame: ClientInput) -> None:
        self.last_in = min(self.last_in, frame.first_seq - 1) if frame.notes else self.last_in
        accept(self, ctx, frame)

    monkeypatch.setattr(ProxyAgent, "_accept_input", accept_all)
    with pytest.raises(GroupViolation, match=r"G3|G4"):
        cast_at_a_home_that_is_cut_off(group)


def home_dies_with_what_did_not_come_to_a_client(group: Group) -> Any:
    home = slave(group)
    member = group.at(home)
    group.cluster.partition([home], [member.client])
    group.cast(group.publisher, 30)
    group.cluster.run(1.5)
    group.cluster.kill(home)
    group.cluster.heal()
    group.cluster.run(10.0)
    return group.settle()


def test_what_was_sent_and_not_acknowledged_is_not_lost_with_the_home(group: Group) -> None:
    found = home_dies_with_what_did_not_come_to_a_client(group)
    assert (found.casts, found.view) == (30, 3)


def test_it_would_be_found_if_homes_acknowledged_what_they_have_sent(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8: items are forgotten by acknowledgement only."""

    taken = HomeStream.take_acks

    def take_acks(self: HomeStream) -> list[tuple[AgentId, int]]:
        taken(self)
        return [(member, reader.sent) for member, reader in self.readers.items()]

    monkeypatch.setattr(HomeStream, "take_acks", take_acks)
    with pytest.raises((GroupViolation, Violation, QuorateClientError)):
        home_dies_with_what_did_not_come_to_a_client(group)


def test_a_home_that_stands_still_loses_nothing(group: Group) -> None:
    home = slave(group)
    group.cluster.pause(home)
    group.cast(group.publisher, 10)
    group.cluster.run(10.0)
    group.cluster.resume(home)
    group.cluster.run(5.0)
    found = group.settle()
    assert (found.casts, found.view) == (10, 3)


def test_a_client_that_stands_still_is_suspected_and_trusted_again_in_the_order(group: Group) -> None:
    still = group.members[0]
    group.cluster.pause_client(still.client)
    group.cluster.run(5.0)
    assert [each.suspected for each in group.described().members] == [True, False, False]
    group.cast(group.publisher, 3)
    group.cluster.run(1.0)
    group.cluster.resume_client(still.client)
    group.cluster.run(5.0)
    found = group.settle()
    assert (found.suspicions, found.false_suspicions, found.view) == (1, 1, 3)


def test_a_client_that_dies_is_suspected_and_expires_by_a_view(group: Group) -> None:
    dead = group.members[0]
    group.checker.kill(dead)
    group.cluster.run(1.0)
    assert group.described().suspicions == 1
    group.cluster.run(25.0)
    found = group.settle()
    assert [each.id for each in found.members] == [each.id for each in group.members[1:]]
    assert found.view == 4


def test_a_client_that_dies_with_its_home_expires(group: Group) -> None:
    dead = group.members[0]
    home = group.home(dead)
    group.cluster.kill(home)
    group.checker.kill(dead)
    group.cluster.run(30.0)
    assert dead.id not in [each.id for each in group.settle().members]


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
def test_a_client_that_dies_on_its_way_to_another_home_expires(group: Group, after_s: float) -> None:
    dead = group.at(master(group))
    group.cluster.kill_master()
    group.cluster.run(after_s)
    group.checker.kill(dead)
    group.cluster.run(26.0)
    assert dead.id not in [each.id for each in group.settle().members]


def test_a_client_that_dies_while_all_replicas_are_down_expires(group: Group) -> None:
    group.cluster.kill(0, 1, 2)
    group.checker.kill(group.members[0])
    group.cluster.run(1.0)
    group.cluster.restart()
    group.cluster.run(30.0)
    assert len(group.settle().members) == 2


def test_a_join_a_leave_and_a_death_at_once(group: Group) -> None:
    first, second, third = group.members
    group.checker.leave(first)
    group.checker.kill(second)
    newcomer = group.checker.client()
    group.checker.join(newcomer)
    group.cast(group.publisher, 5)
    group.cluster.run(30.0)
    assert [each.id for each in group.settle().members] == [third.id, newcomer.id]


def test_a_drained_home_sends_its_clients_to_others(group: Group) -> None:
    home = slave(group)
    member = group.at(home)
    order = DrainHome(home, drained=True)
    asked = group.cluster._servers["s0"].master().master.homes._running
    context = next(iter(asked.values()))[0]

    answers: list[Any] = []
    context.ask(connection_manager(0), order, reply=Homes).addBoth(answers.append)
    group.cluster.run(3.0)
    assert answers[0].drained == [home]
    assert group.home(member) != home
    found = group.settle()
    assert (found.suspicions, found.view) == (0, 3)


def test_a_member_that_acknowledges_nothing_is_expelled_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic, "MAX_ITEMS", 100)
    with SimulatedCluster(seed=3, groups=True, properties=PROPERTIES) as cluster:
        slow, publisher = cluster.client(), cluster.client()
        membership = slow.run(AsyncGroup(slow.connection, "orders").join())
        group = AsyncGroup(publisher.connection, "orders")
        for number in range(120):
            publisher.run(group.cast(b"%d" % number))
        assert publisher.run(group.describe()).members == []

        async def drain() -> None:
            while True:
                await membership.receive()

        with pytest.raises(GroupError, match="too slow"):
            slow.run(drain())


def test_a_request_is_answered_by_the_first_member_or_the_oldest(group: Group) -> None:
    cluster = group.cluster
    old, young, asker = cluster.client(), cluster.client(), cluster.client()

    async def serve(client: Any, answer: bytes) -> None:
        membership = await AsyncGroup(client.connection, "stock").join()
        while True:
            event = await membership.receive(timeout=3600)
            if isinstance(event, Message) and event.request:
                await membership.answer(event, answer)

    stock = AsyncGroup(asker.connection, "stock")
    with pytest.raises(NoMembers, match="start one"):
        asker.run(stock.request(b"take 1"))
    old.begin(serve(old, b"old"))
    cluster.run(1.0)
    young.begin(serve(young, b"young"))
    cluster.run(1.0)
    assert asker.run(stock.request(b"take 3")) in (b"old", b"young")
    assert asker.run(stock.request(b"take 3", oldest=True)) == b"old"
    cluster.pause_client(old)
    assert asker.run(stock.request(b"take 4", timeout=1.0)) == b"young"
    with pytest.raises(NoAnswer):
        asker.run(stock.request(b"take 5", oldest=True, timeout=1.0))
    answer = asker.begin(stock.request(b"take 6", oldest=True, timeout=60.0))
    cluster.run(30.0)
    assert answer.result() == b"young", "the oldest has expired"
    cluster.kill_client(old)


def test_a_message_to_some_members_comes_to_these_alone(group: Group) -> None:
    cluster = group.cluster
    clients = [cluster.client() for _ in range(2)]
    memberships = [each.run(AsyncGroup(each.connection, "few").join()) for each in clients]
    group_of_first = AsyncGroup(clients[0].connection, "few")
    second = memberships[1].members[1]
    clients[0].run(group_of_first.cast(b"for one", to=[second]))
    clients[0].run(group_of_first.cast(b"for all"))
    cluster.run(1.0)

    async def messages(membership: Any) -> list[bytes]:
        found = [await membership.receive() for _ in range(membership.waiting)]
        return [each.payload for each in found if isinstance(each, Message)]

    assert [each.run(messages(one)) for each, one in zip(clients, memberships, strict=True)] == [
        [b"for all"],
        [b"for one", b"for all"],
    ]


def test_what_a_group_cannot_take_is_refused(group: Group) -> None:
    client = group.publisher.client
    orders = group.publisher.group
    with pytest.raises(CastTooLarge, match="65537 bytes"):
        client.run(orders.cast(b"x" * 65537))
    with pytest.raises(GroupError, match="is not the name of a group"):
        client.run(AsyncGroup(client.connection, "a@b").cast(b"x"))
    member = group.members[0]
    with pytest.raises(GroupError, match="is a member of orders already"):
        member.client.run(member.group.join())
    with pytest.raises(TypeError, match="bytes"):
        client.run(orders.cast("text"))  # type: ignore[arg-type]


def test_the_first_event_of_a_member_is_the_view_with_it(group: Group) -> None:
    client = group.cluster.client()
    membership = client.run(AsyncGroup(client.connection, "orders").join(label="late"))
    view = client.run(membership.receive())
    assert isinstance(view, View)
    assert (view.number, [each.label for each in view.members]) == (4, ["m0", "m1", "m2", "late"])
    assert [each.label for each in view.joined] == ["late"]
    client.run(membership.leave())


def test_a_server_without_groups_says_what_it_lacks() -> None:
    with SimulatedCluster(seed=3) as cluster:
        client = cluster.client()
        with pytest.raises(GroupError, match='write mode="group" into its <cluster>'):
            client.run(AsyncGroup(client.connection, "orders").join())


def test_a_plain_server_has_groups_too() -> None:
    with SimulatedCluster(replicas=1, seed=3, groups=True) as cluster:
        client = cluster.client()
        membership = client.run(AsyncGroup(client.connection, "orders").join())
        assert client.run(AsyncGroup(client.connection, "orders").cast(b"alone")) == 2
        assert isinstance(client.run(membership.receive()), View)
        assert isinstance(client.run(membership.receive()), Message)
        client.run(membership.leave())
