"""The first view: enough members know of it before anybody is told, so that no other view says first_time."""

import pytest

from quorate.hachannel import Settings, View, ViewNumber
from quorate.hachannel.model.messages import Found, Founded, NewView, Prepare, Promise, Suffix
from quorate.hachannel.model.view import NO_TAG
from quorate.testing.channel.manual_cluster import ManualCluster, founding, half_founded, slow_proposer


def first_times(hand, replica):
    return [view.first_time for view in hand.views(replica)]


def change(hand, *replicas):
    """Wait until all of these are in another view."""
    before = {replica: len(hand.views(replica)) for replica in replicas}
    for _ in range(200):
        hand.settle(*replicas)
        if all(len(hand.views(replica)) > before[replica] for replica in replicas):
            return
        hand.tick(0.05, *replicas)
    raise AssertionError("no view")


@pytest.mark.parametrize(("mode", "needed"), [("ALL", 2), ("MAJORITY", 1)])
def test_the_first_view_waits_until_as_many_know_of_it_as_commit_an_entry(mode, needed):
    hand = founding(mode)
    for other in (1, 2):
        assert hand.views(0) == []
        hand.deliver(0, other)
        assert hand.views(other) == []
        hand.deliver(other, 0)
        if other == needed:
            break
    assert first_times(hand, 0) == [True]
    hand.settle()
    assert [first_times(hand, replica) for replica in range(3)] == [[True]] * 3


def test_who_proposes_the_first_view_accepts_it_after_all_others():
    """One that fails leaves nothing behind with its proposer."""
    hand = ManualCluster()
    for _ in range(1000):
        if hand.waiting(0, 1, NewView) and hand.waiting(0, 2, NewView):
            break
        busy = [way for way in hand.wires if hand.wires[way] and not hand.waiting(*way, NewView)]
        if busy:
            hand.deliver(*busy[0], 1)
        else:
            hand.tick(0.1)
    hand.deliver(0, 1)
    hand.deliver(1, 0)
    assert hand.channels[0].installing is not None
    assert hand.channels[0].view is None
    hand.deliver(0, 2)
    hand.deliver(2, 0)
    assert hand.channels[0].view == hand.channels[1].view


def test_who_founds_says_so_again_to_those_who_do_not_answer():
    hand = founding()
    hand.lose(0, 1)
    hand.settle()
    assert hand.views(0) == []
    hand.tick(0.5)
    hand.settle()
    assert first_times(hand, 1) == [True]


def test_who_has_promised_another_view_does_not_found_this_one():
    hand = founding()
    hand.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    hand.inject(0, 1, hand.waiting(0, 1, Found)[0])
    assert hand.waiting(1, 0, Founded) == []
    assert not hand.channels[1].state.known_active


def test_nobody_else_can_found_a_view():
    hand = founding()
    hand.inject(2, 1, hand.waiting(0, 1, Found)[0])
    assert hand.waiting(1, 2, Founded) == []


def test_a_view_after_one_that_nobody_knew_of_is_the_first():
    hand = founding()
    hand.silence(0)
    change(hand, 1, 2)
    assert [first_times(hand, replica) for replica in (1, 2)] == [[True]] * 2


def test_a_view_after_one_that_may_have_been_announced_is_not_the_first():
    """As many knew of it as it takes. Who founded it may have been told, and is gone."""
    hand = founding("MAJORITY")
    hand.deliver(0, 1)
    hand.silence(0)
    change(hand, 1, 2)
    assert [first_times(hand, replica) for replica in (1, 2)] == [[False]] * 2
    assert not hand.channels[1].state.accepted.boot


def test_a_view_after_one_of_which_too_few_knew_is_the_first():
    """One of the two others will never say that it knows."""
    hand = founding()
    hand.deliver(0, 1)
    hand.silence(0)
    change(hand, 1, 2)
    assert [first_times(hand, replica) for replica in (1, 2)] == [[True]] * 2


def test_a_cluster_whose_founding_is_broken_off_begins_with_those_who_are_left():
    """Who proposed it has told nobody."""
    hand = founding()
    hand.deliver(0, 1)
    hand.silence(2)
    change(hand, 0, 1)
    assert [first_times(hand, replica) for replica in (0, 1)] == [[True]] * 2


def test_what_replaces_one_first_view_meets_what_replaces_another():
    """Three of four found a cluster. Two of them are not enough while nothing is known of their view."""
    hand = ManualCluster(4, expected=3)
    half_founded(hand, (1, 2, 3), 2)
    half_founded(hand, (0, 2, 3), 3)
    hand.part((1, 2), (0, 3))
    for _ in range(200):
        hand.settle()
        hand.tick(0.1)
    served = [replica for replica, channel in hand.channels.items() if channel.state.serving]
    assert not served, "there are two clusters"
    hand.part(range(4))
    change(hand, *range(4))
    assert [channel.members for channel in hand.channels.values()] == [hand.channels[0].members] * 4


@pytest.mark.parametrize(("mode", "aware"), [("ALL", (1, 2)), ("MAJORITY", (1,)), ("MAJORITY", ())])
def test_who_is_left_of_a_first_view_goes_on_if_it_may_have_been_active_and_else_founds_another(mode, aware):
    """Three of five founded it. The first of them is gone for good; the two others that come held nothing."""
    hand = founding(mode, replicas=5, expected=3)
    for member in aware:
        hand.deliver(0, member)
    hand.silence(0)
    hand.part((1, 2))
    for _ in range(100):
        hand.settle()
        hand.tick(0.1)
    assert not hand.views(1), "two of five are too few as long as neither knows what the other one knows"
    hand.part((1, 2, 3, 4))
    change(hand, 1, 2, 3, 4)
    assert first_times(hand, 1)[0] != bool(aware)
    assert set(hand.views(1)[0].members) == ({1, 2} if aware else {1, 2, 3, 4})


def test_a_view_after_one_that_nobody_can_judge_is_not_the_first_either():
    """Two of five are gone: one that may have announced it, and one that may know of it."""
    hand = founding(replicas=5)
    for member in (2, 3, 4):
        hand.deliver(0, member)
    hand.silence(0)
    hand.silence(1)
    change(hand, 2, 3, 4)
    assert first_times(hand, 2) == [False]
    assert hand.channels[2].state.accepted.again


def test_those_who_cannot_judge_a_view_go_on_also_with_others_who_would_found_another():
    """The two that are gone are back without their memory, and one of them comes before all others."""
    hand = founding(replicas=5)
    for member in (2, 3, 4):
        hand.deliver(0, member)
    hand.silence(0)
    hand.silence(1)
    for replica in (0, 1):
        hand.start(replica, 5, 20 + replica)
    hand.part(range(5))
    change(hand, *range(5))
    assert not any(first_times(hand, 2))


def test_without_a_disk_the_members_are_told_at_once():
    hand = ManualCluster()
    half_founded(hand, (0, 1, 2), 1)
    hand.deliver(0, 2)
    hand.deliver(1, 0)
    hand.deliver(2, 0)
    assert hand.waiting(0, 1, Found)
    assert hand.waiting(0, 2, Found)


def test_nobody_is_told_before_the_disk_of_the_proposer_has_it():
    """One member that knows proves that two do."""
    hand = slow_proposer()
    assert not hand.waiting(0, 1, Found)
    hand.sync(0)
    assert hand.waiting(0, 1, Found)


def test_a_first_view_that_replaces_one_proves_that_nobody_was_told_of_that_one():
    """Replica 1 knows of a view that was founded in vain, and hears of the next one."""
    hand = founding(view_change_s=0.5)
    hand.deliver(0, 1)
    hand.silence(2)
    voters = hand.channels[1].state.accepted.config
    later = View(ViewNumber(5, 2, 3), voters, (voters[2], voters[1], voters[0]), 3, 0, 1)
    while not hand.waiting(1, 0, Prepare):
        hand.tick(0.05, 1)
    prepare = hand.waiting(1, 0, Prepare)[-1]
    hand.inject(0, 1, Promise(prepare.number, later, False, NO_TAG, 0, False))
    hand.inject(0, 1, Suffix(prepare.number, 0, ()))
    assert hand.waiting(1, 0, NewView)[0].view.boot


@pytest.mark.parametrize("leaves", [False, True])
def test_who_leaves_before_the_first_view_is_active_founds_no_other_one(leaves):
    hand = ManualCluster(settings=Settings(view_change_s=0.3))
    for _ in range(20):
        if hand.waiting(0, 1, NewView):
            break
        hand.settle(0, 2)
        hand.deliver(1, 0)
        while hand.waiting(0, 1) and not isinstance(hand.wires[0, 1][0], NewView):
            hand.deliver(0, 1, 1)
        hand.tick(0.05)
    hand.settle(1, 2)
    hand.deliver(0, 1)
    assert hand.channels[1].role == "changing"
    if leaves:
        hand.act(1, lambda channel: channel.leave(hand.now))
    hand.lose(1, 2)
    for _ in range(18):
        hand.tick(0.05, 1)
        for other in (0, 2):
            hand.act(1, lambda channel, other=other: channel.partial_received(hand.now, other))
    assert hand.channels[1].role != "stopped"
    assert bool(hand.waiting(1, 2, Prepare)) != leaves
