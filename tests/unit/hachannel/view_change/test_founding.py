"""The first view: enough members know of it before anybody is told, so that no other view says first_time."""

import pytest

from quorate.hachannel import Settings, View, ViewNumber
from quorate.hachannel.model.messages import Found, Founded, NewView, Prepare, Promise, Suffix
from quorate.hachannel.model.view import NO_TAG
from quorate.testing.channel.manual_cluster import ManualCluster, founding, half_founded, slow_proposer


def first_times(cluster, replica):
    return [view.first_time for view in cluster.views(replica)]


def change(cluster, *replicas):
    """Wait until all of these are in another view."""
    before = {replica: len(cluster.views(replica)) for replica in replicas}
    for _ in range(200):
        cluster.settle(*replicas)
        if all(len(cluster.views(replica)) > before[replica] for replica in replicas):
            return
        cluster.tick(0.05, *replicas)
    raise AssertionError("no view")


@pytest.mark.parametrize(("mode", "needed"), [("ALL", 2), ("MAJORITY", 1)])
def test_the_first_view_waits_until_as_many_know_of_it_as_commit_an_entry(mode, needed):
    cluster = founding(mode)
    for other in (1, 2):
        assert cluster.views(0) == []
        cluster.deliver(0, other)
        assert cluster.views(other) == []
        cluster.deliver(other, 0)
        if other == needed:
            break
    assert first_times(cluster, 0) == [True]
    cluster.settle()
    assert [first_times(cluster, replica) for replica in range(3)] == [[True]] * 3


def test_the_proposer_of_the_first_view_accepts_it_last():
    """One that fails leaves nothing behind with its proposer."""
    cluster = ManualCluster()
    for _ in range(1000):
        if cluster.waiting(0, 1, NewView) and cluster.waiting(0, 2, NewView):
            break
        busy = [way for way in cluster.wires if cluster.wires[way] and not cluster.waiting(*way, NewView)]
        if busy:
            cluster.deliver(*busy[0], 1)
        else:
            cluster.tick(0.1)
    cluster.deliver(0, 1)
    cluster.deliver(1, 0)
    assert cluster.channels[0].installing is not None
    assert cluster.channels[0].view is None
    cluster.deliver(0, 2)
    cluster.deliver(2, 0)
    assert cluster.channels[0].view == cluster.channels[1].view


def test_a_founder_repeats_found_to_members_that_do_not_answer():
    cluster = founding()
    cluster.lose(0, 1)
    cluster.settle()
    assert cluster.views(0) == []
    cluster.tick(0.5)
    cluster.settle()
    assert first_times(cluster, 1) == [True]


def test_a_member_that_promised_another_view_does_not_found_this_one():
    cluster = founding()
    cluster.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    cluster.inject(0, 1, cluster.waiting(0, 1, Found)[0])
    assert cluster.waiting(1, 0, Founded) == []
    assert not cluster.channels[1].state.known_active


def test_nobody_else_can_found_a_view():
    cluster = founding()
    cluster.inject(2, 1, cluster.waiting(0, 1, Found)[0])
    assert cluster.waiting(1, 2, Founded) == []


def test_a_view_after_one_that_nobody_knew_of_is_the_first():
    cluster = founding()
    cluster.silence(0)
    change(cluster, 1, 2)
    assert [first_times(cluster, replica) for replica in (1, 2)] == [[True]] * 2


def test_a_view_after_one_that_may_have_been_announced_is_not_the_first():
    """As many knew of it as it takes. Who founded it may have been told, and is gone."""
    cluster = founding("MAJORITY")
    cluster.deliver(0, 1)
    cluster.silence(0)
    change(cluster, 1, 2)
    assert [first_times(cluster, replica) for replica in (1, 2)] == [[False]] * 2
    assert not cluster.channels[1].state.accepted.boot


def test_a_view_after_one_of_which_too_few_knew_is_the_first():
    """One of the two others will never say that it knows."""
    cluster = founding()
    cluster.deliver(0, 1)
    cluster.silence(0)
    change(cluster, 1, 2)
    assert [first_times(cluster, replica) for replica in (1, 2)] == [[True]] * 2


def test_a_cluster_whose_founding_is_broken_off_begins_with_those_who_are_left():
    """Who proposed it has told nobody."""
    cluster = founding()
    cluster.deliver(0, 1)
    cluster.silence(2)
    change(cluster, 0, 1)
    assert [first_times(cluster, replica) for replica in (0, 1)] == [[True]] * 2


def test_what_replaces_one_first_view_meets_what_replaces_another():
    """Three of four found a cluster. Two of them are not enough while nothing is known of their view."""
    cluster = ManualCluster(4, expected=3)
    half_founded(cluster, (1, 2, 3), 2)
    half_founded(cluster, (0, 2, 3), 3)
    cluster.part((1, 2), (0, 3))
    for _ in range(200):
        cluster.settle()
        cluster.tick(0.1)
    served = [replica for replica, channel in cluster.channels.items() if channel.state.serving]
    assert not served, "there are two clusters"
    cluster.part(range(4))
    change(cluster, *range(4))
    assert [channel.members for channel in cluster.channels.values()] == [cluster.channels[0].members] * 4


@pytest.mark.parametrize(("mode", "aware"), [("ALL", (1, 2)), ("MAJORITY", (1,)), ("MAJORITY", ())])
def test_survivors_of_a_first_view_continue_it_if_it_may_be_active_and_else_found_another(mode, aware):
    """Three of five founded it. The first of them is gone for good; the two others that come held nothing."""
    cluster = founding(mode, replicas=5, expected=3)
    for member in aware:
        cluster.deliver(0, member)
    cluster.silence(0)
    cluster.part((1, 2))
    for _ in range(100):
        cluster.settle()
        cluster.tick(0.1)
    assert not cluster.views(1), "two of five are too few as long as neither knows what the other one knows"
    cluster.part((1, 2, 3, 4))
    change(cluster, 1, 2, 3, 4)
    assert first_times(cluster, 1)[0] != bool(aware)
    assert set(cluster.views(1)[0].members) == ({1, 2} if aware else {1, 2, 3, 4})


def test_a_view_after_one_that_nobody_can_judge_is_not_the_first_either():
    """Two of five are gone: one that may have announced it, and one that may know of it."""
    cluster = founding(replicas=5)
    for member in (2, 3, 4):
        cluster.deliver(0, member)
    cluster.silence(0)
    cluster.silence(1)
    change(cluster, 2, 3, 4)
    assert first_times(cluster, 2) == [False]
    assert cluster.channels[2].state.accepted.again


def test_those_who_cannot_judge_a_view_go_on_also_with_others_who_would_found_another():
    """The two that are gone are back without their memory, and one of them comes before all others."""
    cluster = founding(replicas=5)
    for member in (2, 3, 4):
        cluster.deliver(0, member)
    cluster.silence(0)
    cluster.silence(1)
    for replica in (0, 1):
        cluster.start(replica, 5, 20 + replica)
    cluster.part(range(5))
    change(cluster, *range(5))
    assert not any(first_times(cluster, 2))


def test_without_a_disk_the_members_are_told_at_once():
    cluster = ManualCluster()
    half_founded(cluster, (0, 1, 2), 1)
    cluster.deliver(0, 2)
    cluster.deliver(1, 0)
    cluster.deliver(2, 0)
    assert cluster.waiting(0, 1, Found)
    assert cluster.waiting(0, 2, Found)


def test_nobody_is_told_before_the_disk_of_the_proposer_has_it():
    """One member that knows proves that two do."""
    cluster = slow_proposer()
    assert not cluster.waiting(0, 1, Found)
    cluster.sync(0)
    assert cluster.waiting(0, 1, Found)


def test_a_first_view_that_replaces_one_proves_that_nobody_was_told_of_that_one():
    """Replica 1 knows of a view that was founded in vain, and hears of the next one."""
    cluster = founding(view_change_s=0.5)
    cluster.deliver(0, 1)
    cluster.silence(2)
    voters = cluster.channels[1].state.accepted.config
    later = View(ViewNumber(5, 2, 3), voters, (voters[2], voters[1], voters[0]), 3, 0, 1)
    while not cluster.waiting(1, 0, Prepare):
        cluster.tick(0.05, 1)
    prepare = cluster.waiting(1, 0, Prepare)[-1]
    cluster.inject(0, 1, Promise(prepare.number, later, False, NO_TAG, 0, False))
    cluster.inject(0, 1, Suffix(prepare.number, 0, ()))
    assert cluster.waiting(1, 0, NewView)[0].view.boot


@pytest.mark.parametrize("leaves", [False, True])
def test_a_replica_that_leaves_before_the_first_view_is_active_founds_no_other(leaves):
    cluster = ManualCluster(settings=Settings(view_change_s=0.3))
    for _ in range(20):
        if cluster.waiting(0, 1, NewView):
            break
        cluster.settle(0, 2)
        cluster.deliver(1, 0)
        while cluster.waiting(0, 1) and not isinstance(cluster.wires[0, 1][0], NewView):
            cluster.deliver(0, 1, 1)
        cluster.tick(0.05)
    cluster.settle(1, 2)
    cluster.deliver(0, 1)
    assert cluster.channels[1].role == "changing"
    if leaves:
        cluster.act(1, lambda channel: channel.leave(cluster.now))
    cluster.lose(1, 2)
    for _ in range(18):
        cluster.tick(0.05, 1)
        for other in (0, 2):
            cluster.act(1, lambda channel, other=other: channel.partial_received(cluster.now, other))
    assert cluster.channels[1].role != "stopped"
    assert bool(cluster.waiting(1, 2, Prepare)) != leaves
