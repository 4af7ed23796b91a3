"""Grants, message by message: who is granted, what a grant forbids, and when it is over."""

import pytest

from quorate.hachannel import LeaseChanged, Settings, ViewNumber
from quorate.hachannel.model.messages import Exit, Grant, Heartbeat, Prepare, Promise, Release
from quorate.testing.channel.manual_cluster import ManualCluster

LEASE_S = Settings().lease_s
HIGH = ViewNumber(9, 2, 3)


@pytest.fixture
def hand():
    hand = ManualCluster()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    return hand


def leases(hand, replica):
    return [event.held for event in hand.events[replica] if isinstance(event, LeaseChanged)]


def test_a_master_holds_the_lease_and_nobody_else(hand):
    assert [channel.holds_lease(hand.now) for channel in hand.channels.values()] == [True, False, False]
    assert leases(hand, 0) == [True]
    assert leases(hand, 1) == []


def test_a_heartbeat_of_the_master_is_marked_and_answered_at_once(hand):
    hand.tick(0.06, 0)
    [heartbeat] = hand.waiting(0, 1, Heartbeat)
    assert heartbeat.mark == hand.now
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Grant) == [Grant(hand.now, LEASE_S)]


def test_the_lease_ends_by_itself_when_nobody_grants_and_begins_again(hand):
    sent = hand.now
    over = sent + LEASE_S * 0.99 / 1.01
    for pair in ((0, 1), (0, 2)):
        hand.lose(*pair)
    while hand.now < over - 0.06:
        hand.tick(0.05, 0)
        hand.lose(0, 1)
        hand.lose(0, 2)
    assert hand.channels[0].holds_lease(over - 0.001)
    assert not hand.channels[0].holds_lease(over)
    deadline = hand.channels[0].deadline
    assert deadline is not None
    assert deadline <= over
    hand.now = over
    hand.tick(0.0, 0)
    assert leases(hand, 0) == [True, False]
    assert hand.channels[0].role == "master"
    hand.tick(0.05)
    hand.settle()
    assert leases(hand, 0) == [True, False, True]


def test_one_grant_is_a_majority_of_three_with_the_master_itself(hand):
    for _ in range(30):
        hand.tick(0.05)
        hand.lose(0, 2)
        hand.settle(0, 1)
    assert hand.channels[0].holds_lease(hand.now)


def test_a_voter_that_granted_promises_once_the_grant_is_over(hand):
    granted = hand.now
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert hand.waiting(1, 2, Promise) == []
    hand.now = granted + LEASE_S - 0.01
    hand.tick(0.0, 1)
    assert hand.waiting(1, 2, Promise) == []
    hand.tick(0.01, 1)
    assert [promise.number for promise in hand.waiting(1, 2, Promise)] == [HIGH]


def test_a_grant_never_binds_against_its_holder(hand):
    hand.inject(0, 1, Prepare(ViewNumber(9, 0, 1), "test"))
    assert len(hand.waiting(1, 0, Promise)) == 1


def test_of_the_proposals_that_waited_the_highest_is_promised(hand):
    for counter in (8, 9, 7):
        hand.inject(2, 1, Prepare(ViewNumber(counter, 2, 3), "test"))
    hand.tick(LEASE_S, 1)
    assert [promise.number.counter for promise in hand.waiting(1, 2, Promise)] == [9]


def test_the_end_of_the_holders_process_ends_the_grant(hand):
    hand.inject(2, 1, Prepare(HIGH, "test"))
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0))
    assert hand.waiting(1, 2, Promise) == []
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    assert len(hand.waiting(1, 2, Promise)) == 1


def test_a_master_that_leaves_gives_the_lease_up_first(hand):
    hand.act(0, lambda channel: channel.leave(hand.now))
    assert leases(hand, 0) == [True, False]
    assert hand.waiting(0, 1, Exit)[0].leaving
    hand.deliver(0, 1)
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert len(hand.waiting(1, 2, Promise)) == 1


def test_a_master_that_leaves_without_the_lease_frees_those_who_granted(hand):
    for _ in range(40):
        hand.tick(0.05, 0)
        hand.lose(0, 1)
        hand.lose(0, 2)
    assert leases(hand, 0) == [True, False]
    hand.tick(0.06, 0)
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Grant)
    hand.act(0, lambda channel: channel.leave(hand.now))
    hand.deliver(0, 1)
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert len(hand.waiting(1, 2, Promise)) == 1


def test_nobody_is_free_before_the_services_of_a_master_that_leaves_have_ended(hand):
    hand.stops = False
    hand.act(0, lambda channel: channel.leave(hand.now))
    assert leases(hand, 0) == [True, False]
    assert hand.waiting(0, 1, Release) == []
    hand.deliver(0, 1)
    for voter in (0, 1):
        hand.inject(2, voter, Prepare(HIGH, "test"))
        assert hand.waiting(voter, 2, Promise) == []
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    assert hand.waiting(0, 1, Release) == [Release(hand.now)]
    hand.deliver(0, 1)
    for voter in (0, 1):
        assert len(hand.waiting(voter, 2, Promise)) == 1


def test_a_master_whose_services_never_end_is_waited_for_no_longer_than_its_lease(hand):
    hand.stops = False
    hand.act(0, lambda channel: channel.leave(hand.now))
    hand.deliver(0, 1)
    for voter in (0, 1):
        hand.inject(2, voter, Prepare(HIGH, "test"))
    hand.tick(LEASE_S, 0, 1)
    for voter in (0, 1):
        assert len(hand.waiting(voter, 2, Promise)) == 1


def test_who_was_not_connected_when_a_master_gave_up_hears_of_it_when_it_is(hand):
    hand.act(0, lambda channel: channel.disconnected(hand.now, 1))
    hand.act(0, lambda channel: channel.leave(hand.now))
    assert hand.waiting(0, 1, Release) == []
    hand.connect(0, 1)
    assert hand.waiting(0, 1, Release)
    hand.deliver(0, 1)
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert len(hand.waiting(1, 2, Promise)) == 1


def test_a_release_that_comes_late_ends_no_later_grant(hand):
    early = hand.now
    hand.tick(0.06, 0)
    hand.deliver(0, 1)
    hand.inject(0, 1, Release(early))
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert hand.waiting(1, 2, Promise) == []


def test_a_grant_of_an_earlier_reign_does_not_count(hand):
    lease = hand.channels[0].lease
    before = hand.now
    hand.tick(0.5, 0)
    lease.give_up(hand.now)
    lease.reign(hand.now, master=True)
    hand.inject(1, 0, Grant(before, LEASE_S))
    assert not lease.grants


def test_a_master_that_changes_the_view_by_itself_keeps_the_lease(hand):
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2, ended=True))
    hand.settle(0, 1)
    assert hand.channels[0].members == (0, 1)
    assert leases(hand, 0) == [True]


def test_a_voter_that_has_promised_another_view_grants_nothing(hand):
    hand.tick(LEASE_S, 1)
    hand.inject(2, 1, Prepare(HIGH, "test"))
    hand.lose(1, 0)
    hand.tick(0.06, 0)
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Grant) == []


def test_a_voter_grants_to_the_master_of_its_view_and_to_no_other_one(hand):
    """Who was master before may ask for it with a proposal, as it knows of no other one than itself.

    Those who promised are no majority of the voters now: the cluster may have become another one.
    """
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.inject(2, 1, Prepare(HIGH, "test"))
    assert len(hand.waiting(1, 2, Promise)) == 1
    before = ViewNumber(0, 2, 3)
    hand.inject(2, 1, Heartbeat(before, HIGH, False, True, False, True, False, 0, 0, 0, 0, 0, mark=hand.now))
    assert hand.waiting(1, 2, Grant) == []


@pytest.mark.parametrize("grant", [Grant(1e9, 1.0), Grant(0.0, -1.0), Grant(float("nan"), 1.0)])
def test_an_impossible_grant_is_ignored(hand, grant):
    over = hand.channels[0].lease.expires()
    hand.inject(1, 0, grant)
    hand.inject(2, 0, grant)
    assert hand.channels[0].lease.expires() == over


def test_a_cluster_of_one_holds_the_lease_for_ever():
    hand = ManualCluster(1)
    assert hand.channels[0].holds_lease(hand.now + 1e9)
    assert hand.channels[0].deadline is None


def test_settings_that_could_not_work_are_refused():
    with pytest.raises(ValueError, match="lease_s"):
        Settings(lease_s=0.06)
    with pytest.raises(ValueError, match="drift"):
        Settings(drift=0.7)
