"""Grants, message by message: who is granted, what a grant forbids, and when it is over."""

import pytest

from quorate.hachannel import LeaseChanged, Settings, ViewNumber
from quorate.hachannel.model.messages import Exit, Grant, Heartbeat, Prepare, Promise, Release
from quorate.testing.channel.manual_cluster import ManualCluster

LEASE_S = Settings().lease_s
HIGH = ViewNumber(9, 2, 3)


@pytest.fixture
def cluster():
    cluster = ManualCluster()
    cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    return cluster


def leases(cluster, replica):
    return [event.held for event in cluster.events[replica] if isinstance(event, LeaseChanged)]


def test_a_master_holds_the_lease_and_nobody_else(cluster):
    assert [channel.holds_lease(cluster.now) for channel in cluster.channels.values()] == [True, False, False]
    assert leases(cluster, 0) == [True]
    assert leases(cluster, 1) == []


def test_a_heartbeat_of_the_master_is_marked_and_answered_at_once(cluster):
    cluster.tick(0.06, 0)
    [heartbeat] = cluster.waiting(0, 1, Heartbeat)
    assert heartbeat.mark == cluster.now
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Grant) == [Grant(cluster.now, LEASE_S)]


def test_the_lease_ends_by_itself_when_nobody_grants_and_begins_again(cluster):
    sent = cluster.now
    over = sent + LEASE_S * 0.99 / 1.01
    for pair in ((0, 1), (0, 2)):
        cluster.lose(*pair)
    while cluster.now < over - 0.06:
        cluster.tick(0.05, 0)
        cluster.lose(0, 1)
        cluster.lose(0, 2)
    assert cluster.channels[0].holds_lease(over - 0.001)
    assert not cluster.channels[0].holds_lease(over)
    deadline = cluster.channels[0].deadline
    assert deadline is not None
    assert deadline <= over
    cluster.now = over
    cluster.tick(0.0, 0)
    assert leases(cluster, 0) == [True, False]
    assert cluster.channels[0].role == "master"
    cluster.tick(0.05)
    cluster.settle()
    assert leases(cluster, 0) == [True, False, True]


def test_one_grant_is_a_majority_of_three_with_the_master_itself(cluster):
    for _ in range(30):
        cluster.tick(0.05)
        cluster.lose(0, 2)
        cluster.settle(0, 1)
    assert cluster.channels[0].holds_lease(cluster.now)


def test_a_voter_that_granted_promises_once_the_grant_is_over(cluster):
    granted = cluster.now
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert cluster.waiting(1, 2, Promise) == []
    cluster.now = granted + LEASE_S - 0.01
    cluster.tick(0.0, 1)
    assert cluster.waiting(1, 2, Promise) == []
    cluster.tick(0.01, 1)
    assert [promise.number for promise in cluster.waiting(1, 2, Promise)] == [HIGH]


def test_a_grant_never_binds_against_its_holder(cluster):
    cluster.inject(0, 1, Prepare(ViewNumber(9, 0, 1), "test"))
    assert len(cluster.waiting(1, 0, Promise)) == 1


def test_of_the_proposals_that_waited_the_highest_is_promised(cluster):
    for counter in (8, 9, 7):
        cluster.inject(2, 1, Prepare(ViewNumber(counter, 2, 3), "test"))
    cluster.tick(LEASE_S, 1)
    assert [promise.number.counter for promise in cluster.waiting(1, 2, Promise)] == [9]


def test_the_end_of_the_holders_process_ends_the_grant(cluster):
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0))
    assert cluster.waiting(1, 2, Promise) == []
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    assert len(cluster.waiting(1, 2, Promise)) == 1


def test_a_master_that_leaves_gives_the_lease_up_first(cluster):
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    assert leases(cluster, 0) == [True, False]
    assert cluster.waiting(0, 1, Exit)[0].leaving
    cluster.deliver(0, 1)
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert len(cluster.waiting(1, 2, Promise)) == 1


def test_a_master_that_leaves_without_the_lease_frees_those_who_granted(cluster):
    for _ in range(40):
        cluster.tick(0.05, 0)
        cluster.lose(0, 1)
        cluster.lose(0, 2)
    assert leases(cluster, 0) == [True, False]
    cluster.tick(0.06, 0)
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Grant)
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    cluster.deliver(0, 1)
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert len(cluster.waiting(1, 2, Promise)) == 1


def test_nobody_is_free_before_the_services_of_a_master_that_leaves_have_ended(cluster):
    cluster.stops = False
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    assert leases(cluster, 0) == [True, False]
    assert cluster.waiting(0, 1, Release) == []
    cluster.deliver(0, 1)
    for voter in (0, 1):
        cluster.inject(2, voter, Prepare(HIGH, "test"))
        assert cluster.waiting(voter, 2, Promise) == []
    cluster.act(0, lambda channel: channel.lease_ended(cluster.now))
    assert cluster.waiting(0, 1, Release) == [Release(cluster.now)]
    cluster.deliver(0, 1)
    for voter in (0, 1):
        assert len(cluster.waiting(voter, 2, Promise)) == 1


def test_a_master_whose_services_never_end_is_waited_for_no_longer_than_its_lease(cluster):
    cluster.stops = False
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    cluster.deliver(0, 1)
    for voter in (0, 1):
        cluster.inject(2, voter, Prepare(HIGH, "test"))
    cluster.tick(LEASE_S, 0, 1)
    for voter in (0, 1):
        assert len(cluster.waiting(voter, 2, Promise)) == 1


def test_a_release_reaches_a_voter_that_connects_later(cluster):
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 1))
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    assert cluster.waiting(0, 1, Release) == []
    cluster.connect(0, 1)
    assert cluster.waiting(0, 1, Release)
    cluster.deliver(0, 1)
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert len(cluster.waiting(1, 2, Promise)) == 1


def test_a_release_that_comes_late_ends_no_later_grant(cluster):
    early = cluster.now
    cluster.tick(0.06, 0)
    cluster.deliver(0, 1)
    cluster.inject(0, 1, Release(early))
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert cluster.waiting(1, 2, Promise) == []


def test_a_grant_of_an_earlier_reign_does_not_count(cluster):
    lease = cluster.channels[0].lease
    before = cluster.now
    cluster.tick(0.5, 0)
    lease.give_up(cluster.now)
    lease.reign(cluster.now, master=True)
    cluster.inject(1, 0, Grant(before, LEASE_S))
    assert not lease.grants


def test_a_master_that_changes_the_view_by_itself_keeps_the_lease(cluster):
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2, ended=True))
    cluster.settle(0, 1)
    assert cluster.channels[0].members == (0, 1)
    assert leases(cluster, 0) == [True]


def test_a_voter_that_has_promised_another_view_grants_nothing(cluster):
    cluster.tick(LEASE_S, 1)
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    cluster.lose(1, 0)
    cluster.tick(0.06, 0)
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Grant) == []


def test_a_voter_grants_to_the_master_of_its_view_and_to_no_other_one(cluster):
    """Who was master before may ask for it with a proposal, as it knows of no other one than itself.

    Those who promised are no majority of the voters now: the cluster may have become another one.
    """
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.inject(2, 1, Prepare(HIGH, "test"))
    assert len(cluster.waiting(1, 2, Promise)) == 1
    before = ViewNumber(0, 2, 3)
    cluster.inject(
        2, 1, Heartbeat(before, HIGH, False, True, False, True, False, 0, 0, 0, 0, 0, mark=cluster.now)
    )
    assert cluster.waiting(1, 2, Grant) == []


@pytest.mark.parametrize("grant", [Grant(1e9, 1.0), Grant(0.0, -1.0), Grant(float("nan"), 1.0)])
def test_an_impossible_grant_is_ignored(cluster, grant):
    over = cluster.channels[0].lease.expires()
    cluster.inject(1, 0, grant)
    cluster.inject(2, 0, grant)
    assert cluster.channels[0].lease.expires() == over


def test_a_cluster_of_one_holds_the_lease_for_ever():
    cluster = ManualCluster(1)
    assert cluster.channels[0].holds_lease(cluster.now + 1e9)
    assert cluster.channels[0].deadline is None


def test_settings_that_could_not_work_are_refused():
    with pytest.raises(ValueError, match="lease_s"):
        Settings(lease_s=0.06)
    with pytest.raises(ValueError, match="drift"):
        Settings(drift=0.7)
