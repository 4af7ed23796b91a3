"""The first view: enough members know of it before anybody is told, so that no other view says first_time."""

import pytest

from quorate.hachannel import Settings, View, ViewNumber
from quorate.hachannel.messages import Found, Founded, NewView, Prepare, Promise, Suffix
from quorate.hachannel.view import NO_TAG
from quorate.testing.channel_hand import Hand, founding


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
    hand = Hand()
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
    hand.give(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    hand.give(0, 1, hand.waiting(0, 1, Found)[0])
    assert hand.waiting(1, 0, Founded) == []
    assert not hand.channels[1].state.known_active


def test_nobody_else_can_found_a_view():
    hand = founding()
    hand.give(2, 1, hand.waiting(0, 1, Found)[0])
    assert hand.waiting(1, 2, Founded) == []


def test_a_view_after_one_that_nobody_knew_of_is_the_first():
    hand = founding()
    hand.silence(0)
    change(hand, 1, 2)
    assert [first_times(hand, replica) for replica in (1, 2)] == [[True]] * 2


def test_a_view_after_one_that_somebody_knew_of_is_not_the_first():
    """Who founded it may have been told, and is gone."""
    hand = founding()
    hand.deliver(0, 1)
    hand.silence(0)
    change(hand, 1, 2)
    assert [first_times(hand, replica) for replica in (1, 2)] == [[False]] * 2


def test_a_cluster_whose_founding_is_broken_off_goes_on_with_those_who_are_left():
    """It takes a majority, as after any active view, and no more as many as found a cluster."""
    hand = founding()
    hand.deliver(0, 1)
    hand.silence(2)
    change(hand, 0, 1)
    assert [first_times(hand, replica) for replica in (0, 1)] == [[False]] * 2
    assert not hand.channels[0].state.accepted.boot


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
    hand.give(0, 1, Promise(prepare.number, later, False, NO_TAG, 0, False))
    hand.give(0, 1, Suffix(prepare.number, 0, ()))
    assert hand.waiting(1, 0, NewView)[0].view.boot


@pytest.mark.parametrize("leaves", [False, True])
def test_who_leaves_before_the_first_view_is_active_founds_no_other_one(leaves):
    hand = Hand(settings=Settings(view_change_s=0.3))
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
            hand.act(1, lambda channel, other=other: channel.hears(hand.now, other))
    assert hand.channels[1].role != "stopped"
    assert bool(hand.waiting(1, 2, Prepare)) != leaves
