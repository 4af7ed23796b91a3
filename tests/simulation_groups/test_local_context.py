"""Groups whose members have their contexts on the disk of their home: replicas that go, and come back."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.client import QuorateClientError
from quorate.groups import AsyncGroup, MembershipEnded, local_contexts
from quorate.groups.agents.protocol import GROUPS, HomeForgotten, HomeLost
from quorate.groups.home_store import HomeStore
from quorate.groups.local_contexts import LocalContexts, _Group
from quorate.testing import SimulatedCluster, Violation
from quorate.testing.servers.group_checks import GroupClient, GroupScene, GroupViolation

from ..long import amount

PROPERTIES = {"balance": "rotate", "client_silence_s": "2", "expire_s": "20", "hold_s": "600"}


class Scene(GroupScene):
    """What scenarios do with a group whose members stay at their replica."""

    def victim(self) -> tuple[int, GroupClient]:
        """A replica, and the member there: not that of the publisher, who has to go on."""
        publisher = self.publisher.client.connection._session._state.endpoint[0]
        found = [(self.home(each), each) for each in self.members]
        return next(each for each in found if f"s0-{each[0]}" != publisher)

    def cast(self, count: int) -> None:
        for _ in range(count):
            self.checker.cast(self.publisher)
            self.cluster.run(0.01)

    def settle(self) -> Any:
        self.cluster.finish()
        self.cluster.run(8.0)
        return self.checker.settled()


@pytest.fixture
def scene() -> Iterator[Scene]:
    with SimulatedCluster(seed=11, groups="local", properties=PROPERTIES) as cluster:
        yield Scene(cluster)


def test_members_get_everything_in_one_order(scene: Scene) -> None:
    scene.cast(50)
    for member in scene.members:
        scene.checker.cast(member)
    assert scene.settle().casts == 53


def test_members_of_a_replica_that_is_down_wait_for_it_and_others_go_on(scene: Scene) -> None:
    home, member = scene.victim()
    scene.cast(10)
    scene.cluster.kill(home)
    scene.cast(30)
    scene.cluster.run(40.0)
    found = scene.described()
    assert [(each.suspected, each.home == home) for each in found.members if each.id == member.id] == [
        (True, True)
    ]
    assert [(each.home, each.away) for each in found.homes if each.away] == [(home, True)]
    assert found.stored_items >= 30, "they are held for it"
    assert not member.client.is_open
    scene.cluster.restart(home)
    scene.cluster.run(10.0)
    found = scene.settle()
    assert (found.casts, found.view, found.false_suspicions) == (40, 3, 1)
    assert scene.home(member) == home


def test_a_replica_that_comes_back_by_a_transfer_of_the_state_lacks_nothing(scene: Scene) -> None:
    home, member = scene.victim()
    scene.cast(10)
    scene.cluster.kill(home)
    scene.cluster.run(5.0)
    scene.cast(400)
    scene.cluster.run(60.0)
    scene.cluster.restart(home)
    scene.cluster.run(10.0)
    found = scene.settle()
    assert (found.casts, found.view) == (410, 3)
    assert scene.home(member) == home


def test_members_of_a_replica_whose_disk_is_lost_leave_and_miss_nothing_in_silence(scene: Scene) -> None:
    home, member = scene.victim()
    scene.cast(10)
    scene.cluster.run(5.0)
    scene.cluster.kill(home)
    scene.cluster.lose_disk(home)
    scene.cast(10)
    scene.checker.expect_end(member)
    scene.cluster.restart(home)
    scene.cluster.run(30.0)
    found = scene.settle()
    assert member.id not in [each.id for each in found.members]
    assert member.reading is not None
    assert member.reading.done


def test_a_replica_killed_before_it_filed_anything_keeps_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedCluster(seed=14, groups="local", properties=PROPERTIES) as cluster:
        with monkeypatch.context() as patch:
            patch.setattr(LocalContexts, "tick", lambda _: None)
            scene = Scene(cluster)
            home, member = scene.victim()
            scene.cast(5)
            cluster.kill(home)
        scene.cast(5)
        cluster.restart(home)
        cluster.run(10.0)
        found = scene.settle()
        assert (found.casts, found.view) == (10, 3)
        assert scene.home(member) == home


def test_a_replica_that_is_away_for_too_long_is_given_up_in_one_view() -> None:
    with SimulatedCluster(seed=12, groups="local", properties={**PROPERTIES, "hold_s": "30"}) as cluster:
        scene = Scene(cluster)
        home, member = scene.victim()
        cluster.kill(home)
        scene.checker.expect_end(member)
        scene.cast(10)
        cluster.run(40.0)
        found = scene.described()
        assert (len(found.members), found.stored_items) == (2, 0)
        cluster.run(5.0)
        scene.settle()


def test_a_replica_for_which_too_much_is_held_is_given_up() -> None:
    with SimulatedCluster(
        seed=13, groups="local", properties={**PROPERTIES, "hold_bytes": "5000"}
    ) as cluster:
        scene = Scene(cluster)
        home, member = scene.victim()
        cluster.kill(home)
        scene.checker.expect_end(member)
        cluster.run(3.0)
        scene.cast(400)
        cluster.run(10.0)
        assert len(scene.described().members) == 2
        scene.settle()


def test_a_replica_can_be_given_up_by_command_and_its_clients_go_elsewhere(scene: Scene) -> None:
    home, member = scene.victim()
    scene.cluster.kill(home)
    scene.cluster.run(3.0)
    master = scene.cluster._servers["s0"].master()
    assert master is not None
    assert master.master.homes is not None
    context = next(iter(master.master.homes._running.values()))[0]
    answers: list[Any] = []
    context.ask(GROUPS, HomeLost(home, "an administrator has given it up"), reply=HomeForgotten).addBoth(
        answers.append
    )
    scene.checker.expect_end(member)
    scene.cluster.run(20.0)
    assert answers == [HomeForgotten(home)]
    assert member.client.is_open, "it is at another replica now"
    scene.settle()


def test_a_home_that_restarts_serves_what_its_members_had_not_taken(scene: Scene) -> None:
    cluster = scene.cluster
    client = scene.checker.client()
    slow = client.client
    membership = slow.run(client.group.join(label="slow"))
    scene.checker.expect_end(client)
    scene.cast(100)
    cluster.run(5.0)
    home = next(each.home for each in scene.described().members if each.label == "slow")
    cluster.kill(home)
    cluster.run(1.0)
    cluster.restart(home)
    cluster.run(10.0)

    async def take() -> list[int]:
        return [(await membership.receive()).index for _ in range(101)]

    taken = slow.run(take())
    assert taken == list(range(taken[0], taken[0] + 101))
    slow.run(membership.leave())
    scene.settle()


@pytest.mark.parametrize("seed", range(int(amount("QUORATE_GROUP_SEEDS", 2, 100))))
def test_random_kills_of_homes(seed: int) -> None:
    with SimulatedCluster(seed=seed, groups="local", properties=PROPERTIES) as cluster:
        scene = Scene(cluster)
        cluster.inject_faults(30.0, every_s=5.0, kinds=("kill", "kill_master", "pause", "kill_all"))
        end = cluster.now + 30.0
        while cluster.now < end:
            scene.cast(1)
            cluster.run(0.1)
        cluster.finish()
        cluster.run(30.0)
        assert scene.settle().view == 3


def test_expelled_members_are_told(scene: Scene) -> None:
    client = scene.cluster.client()
    membership = client.run(AsyncGroup(client.connection, "two").join())
    client.run(membership.receive())
    home = client.run(AsyncGroup(client.connection, "two").describe()).members[0].home
    master = scene.cluster._servers["s0"].master()
    assert master is not None
    assert master.master.homes is not None
    context = next(iter(master.master.homes._running.values()))[0]
    for member in scene.members:
        scene.checker.expect_end(member)
    context.ask(GROUPS, HomeLost(home, "it is given up"), reply=HomeForgotten).addBoth(lambda _: None)
    with pytest.raises(MembershipEnded, match="it is given up"):
        client.run(membership.receive())
    scene.settle()


def come_back(scene: Scene) -> None:
    home, _ = scene.victim()
    scene.cast(30)
    scene.cluster.kill(home)
    scene.cast(30)
    scene.cluster.run(5.0)
    scene.cluster.restart(home)
    scene.cluster.run(30.0)
    scene.settle()


def test_telling_what_is_not_filed_is_caught(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 12: what is trimmed is on the disk of the home."""
    monkeypatch.setattr(local_contexts, "APPLIED_ITEMS", 1)
    monkeypatch.setattr(_Group, "filed", property(lambda self: self.queued, lambda *_: None), raising=False)
    monkeypatch.setattr(HomeStore, "write", lambda *_: None)
    with pytest.raises((GroupViolation, Violation, QuorateClientError)):
        come_back(scene)


def test_a_home_that_does_not_fetch_what_was_held_is_caught(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 13: a home that comes back files what was held for it."""

    def skip(self: LocalContexts, known: _Group) -> None:
        del self
        known.early.clear()
        known.ready = True
        for call in known.waiting:
            call()

    monkeypatch.setattr(LocalContexts, "_fetch", skip)
    with pytest.raises((GroupViolation, Violation, QuorateClientError)):
        come_back(scene)
