"""What has gone wrong in other systems, with members of groups in namespaces and a network that is cut.

The numbers are those of docs/scenarios.md. Skipped where namespaces are not allowed: not root,
or no iproute2. Times are shorter than by default, so that a suspicion takes a second.
"""

import threading

import pytest

from .conftest import MakeMembers, MakeNet
from .members import Member, check_members, in_one_view

pytestmark = pytest.mark.processes

PAUSE_S = 3.0
"""Long enough for a suspicion and the views that follow it."""
BLOCKED = ("blocked", "changing")


def let_time_pass() -> None:
    """Nothing can be waited for when what is tested is that nothing happens."""
    threading.Event().wait(PAUSE_S)


def feed(members: list[Member]) -> None:
    for member in members:
        member.say("feed 5")
    for member in members:
        member.until_confirmed(20)


def recover(members: list[Member]) -> None:
    """All are in one view again, everything goes through, and all recorded the same."""
    in_one_view(members)
    for member in members:
        member.until_confirmed(len(member.confirmed()) + 20)
        member.say("enough")
    check_members(members)


def test_three_to_one_the_minority_refuses(make_net: MakeNet, make_members: MakeMembers) -> None:
    """Scenario 15: the master alone on one side confirms nothing; the other side goes on; then all agree."""
    net = make_net(4)
    members = make_members(4, "--suspect", 1, net=net)
    master = members[in_one_view(members)]
    others = [member for member in members if member is not master]
    master.say("send 5")
    master.until_confirmed(5)
    net.split([master.me], [member.me for member in others])
    master.say("send 5")
    assert in_one_view(others) == others[0].me
    for member in others:
        member.say("send 5")
        member.until_confirmed(5)
    master.until_report(lambda report: report["role"] in BLOCKED, "blocks")
    assert master.report()["confirmed"] == 5
    net.mend()
    assert in_one_view(members) == others[0].me
    assert len(check_members(members)) == 25


def test_two_to_two_nobody_goes_on_until_they_meet_again(
    make_net: MakeNet, make_members: MakeMembers
) -> None:
    """Scenario 15, the even split: neither half has a majority, so neither confirms anything."""
    net = make_net(4)
    members = make_members(4, "--suspect", 1, net=net)
    in_one_view(members)
    net.split([0, 1], [2, 3])
    for member in members:
        member.say("send 5")
    for member in (members[0], members[2]):
        member.until_report(lambda report: report["role"] in BLOCKED, "blocks")
    let_time_pass()
    assert [member.report()["confirmed"] for member in members] == [0] * 4
    net.mend()
    in_one_view(members)
    assert len(check_members(members)) == 20


def test_partial_connections_lose_the_quorum_and_recover_it(
    make_net: MakeNet, make_members: MakeMembers
) -> None:
    """Scenario 16, PartialConnectivity: everybody is connected to one slave only; then to all again."""
    net = make_net(5)
    members = make_members(5, "--suspect", 1, net=net)
    in_one_view(members)
    feed(members)
    leaves = [0, 1, 3, 4]
    net.cut(*((one, other) for one in leaves for other in leaves if one != other))
    let_time_pass()
    net.mend()
    recover(members)


def test_a_star_around_the_master_serves_until_the_master_dies_and_again_when_mended(
    make_net: MakeNet, make_members: MakeMembers
) -> None:
    """Scenario 16: slaves that hear the master only need no more; without it none of them has a majority."""
    net = make_net(5)
    members = make_members(5, "--suspect", 1, net=net)
    middle = in_one_view(members)
    leaves = [member for member in members if member.me != middle]
    net.cut(*((one.me, other.me) for one in leaves for other in leaves if one is not other))
    feed(members)
    let_time_pass()
    for member in members:
        member.until_confirmed(len(member.confirmed()) + 50)
    assert [len(member.report()["views"]) for member in members] == [1] * 5
    members[middle].kill()
    for member in leaves:
        member.until_report(lambda report: report["role"] in BLOCKED, "blocks")
    let_time_pass()
    net.mend()
    in_one_view(leaves)
    for member in leaves:
        member.until_confirmed(len(member.confirmed()) + 20)
        member.say("enough")
    check_members(leaves, gone=[members[middle]])


def test_a_ring_in_which_everybody_sees_another_majority_recovers(
    make_net: MakeNet, make_members: MakeMembers
) -> None:
    """Scenario 16, the majority ring of Jepsen: five, each connected to its two neighbours."""
    net = make_net(5)
    members = make_members(5, "--suspect", 1, net=net)
    in_one_view(members)
    feed(members)
    net.cut(*((one, (one + step) % 5) for one in range(5) for step in (2, 3)))
    let_time_pass()
    net.mend()
    recover(members)


@pytest.mark.parametrize("deaf", ["slave", "master"])
def test_a_one_way_partition_is_harmless(make_net: MakeNet, make_members: MakeMembers, deaf: str) -> None:
    """Scenario 24: one hears the other, the other does not hear it. Nothing is lost, and all meet again."""
    net = make_net(3)
    members = make_members(3, "--suspect", 1, net=net)
    master = in_one_view(members)
    slave = next(member.me for member in members if member.me != master)
    feed(members)
    net.cut((master, slave) if deaf == "slave" else (slave, master))
    third = next(member for member in members if member.me not in (master, slave))
    third.until_confirmed(len(third.confirmed()) + 50)
    let_time_pass()
    net.mend()
    recover(members)


def test_a_pulled_cable_costs_nothing_that_was_confirmed(
    make_net: MakeNet, make_members: MakeMembers
) -> None:
    """Scenario 15, by the cable: the master can see that it is alone, the others only that it is silent."""
    net = make_net(3)
    members = make_members(3, "--suspect", 1, net=net)
    master = members[in_one_view(members)]
    others = [member for member in members if member is not master]
    feed(members)
    net.unplug(master.me)
    in_one_view(others)
    for member in others:
        member.until_confirmed(len(member.confirmed()) + 50)
    net.plug(master.me)
    recover(members)
