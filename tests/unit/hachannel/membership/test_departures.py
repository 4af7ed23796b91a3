"""Orderly leaving: a replica's last word counts."""

import pytest

from quorate.hachannel.model.messages import Exit, NewView, Prepare, Promise
from quorate.testing.channel.manual_cluster import ManualCluster, with_disks


@pytest.fixture
def hand():
    hand = ManualCluster()
    hand.form()
    return hand


def test_a_leaver_stops_only_when_the_others_go_on_without_it(hand):
    hand.act(0, lambda channel: channel.leave(hand.now))
    assert hand.channels[0].role != "stopped"
    assert not hand.channels[0].can_submit
    hand.settle()
    assert hand.channels[1].role == "master"
    hand.tick(0.05)
    hand.settle()
    assert hand.channels[0].role == "stopped"
    assert type(hand.events[0][-1]).__name__ == "Stopped"
    assert hand.channels[0].deadline is None


def test_a_leaver_that_nobody_answers_stops_after_its_time(hand):
    hand.act(0, lambda channel: channel.leave(hand.now))
    for _ in range(50):
        hand.tick(0.05, 0)
    assert hand.channels[0].role == "stopped"


def test_who_says_that_it_leaves_and_then_promises_to_stay_costs_one_view_at_most(hand):
    view = hand.channels[0].view.number
    hand.inject(2, 0, Exit(view, True, "it leaves"))
    hand.settle()
    for _ in range(5):
        hand.tick(0.05)
        hand.settle()
    assert hand.channels[0].members == (0, 1, 2)
    assert hand.channels[0].view.number.counter <= view.counter + 1


def test_a_promise_given_before_a_farewell_does_not_take_it_back():
    """It waited for the disk, and arrives after it."""
    hand = with_disks()
    hand.act(1, lambda channel: channel.leave(hand.now))
    hand.deliver(1, 0)
    hand.sync(0)
    hand.deliver(0, 2)
    assert not hand.waiting(2, 0, Promise)
    hand.act(2, lambda channel: channel.leave(hand.now))
    hand.deliver(2, 0)
    hand.sync(2)
    assert [promise.leaving for promise in hand.waiting(2, 0, Promise)] == [False]
    began = hand.now
    for _ in range(40):
        hand.settle()
        hand.sync()
        hand.tick(0.002)
    assert hand.now - began < hand.settings.leave_s
    assert hand.channels[0].members == (0,)
    assert [hand.channels[other].role for other in (1, 2)] == ["stopped", "stopped"]


def test_who_leaves_while_it_proposes_leaves_the_view_to_the_others(hand):
    """It could be the only one left in it, and take what is committed with it."""
    for other in (1, 2):
        hand.act(other, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.tick(0.07, 1, 2)
    hand.deliver(2, 1)
    assert hand.waiting(1, 2, Prepare)
    hand.act(1, lambda channel: channel.leave(hand.now))
    hand.deliver(1, 2)
    assert hand.waiting(2, 1, Promise)
    hand.deliver(2, 1)
    assert not hand.waiting(1, 2, NewView)
    hand.settle(1, 2)
    hand.tick(0.2, 1, 2)
    hand.settle(1, 2)
    assert hand.channels[2].members == (2,)
    assert hand.channels[1].role == "stopped"


def test_who_leaves_while_a_view_may_take_it_in_waits_for_that_view():
    """It has promised that view, and the only member before, once it accepts it, needs both."""
    hand = ManualCluster(2)
    master = hand.form()
    hand.act(1, lambda channel: channel.leave(hand.now))
    hand.settle()
    hand.silence(1)
    hand.start(1, 2, 9)
    hand.connect(0, 1)
    joiner = hand.channels[1]
    hand.until(lambda: joiner.state.promised > master.state.accepted.number)
    assert joiner.role == "joining"
    assert hand.waiting(1, 0, Promise)
    hand.act(1, lambda channel: channel.leave(hand.now))
    assert joiner.role == "joining", "it stays as long as it may be needed"
    hand.settle()
    hand.tick(0.05)
    hand.settle()
    assert joiner.role == "stopped"
    assert [voter.replica for voter in master.view.config] == [0]
    assert master.standing.may_change
