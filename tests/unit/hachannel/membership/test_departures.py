"""Orderly leaving: a replica's last word counts."""

import pytest

from quorate.hachannel.model.messages import Exit, NewView, Prepare, Promise
from quorate.testing.channel.manual_cluster import ManualCluster, with_disks


@pytest.fixture
def cluster():
    cluster = ManualCluster()
    cluster.form()
    return cluster


def test_a_leaver_stops_only_when_the_others_go_on_without_it(cluster):
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    assert cluster.channels[0].role != "stopped"
    assert not cluster.channels[0].can_submit
    cluster.settle()
    assert cluster.channels[1].role == "master"
    cluster.tick(0.05)
    cluster.settle()
    assert cluster.channels[0].role == "stopped"
    assert type(cluster.events[0][-1]).__name__ == "Stopped"
    assert cluster.channels[0].deadline is None


def test_a_leaver_that_nobody_answers_stops_after_its_time(cluster):
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    for _ in range(50):
        cluster.tick(0.05, 0)
    assert cluster.channels[0].role == "stopped"


def test_a_leaving_replica_that_promises_again_costs_one_view_at_most(cluster):
    view = cluster.channels[0].view.number
    cluster.inject(2, 0, Exit(view, True, "it leaves"))
    cluster.settle()
    for _ in range(5):
        cluster.tick(0.05)
        cluster.settle()
    assert cluster.channels[0].members == (0, 1, 2)
    assert cluster.channels[0].view.number.counter <= view.counter + 1


def test_a_promise_given_before_a_farewell_does_not_take_it_back():
    """It waited for the disk, and arrives after it."""
    cluster = with_disks()
    cluster.act(1, lambda channel: channel.leave(cluster.now))
    cluster.deliver(1, 0)
    cluster.sync(0)
    cluster.deliver(0, 2)
    assert not cluster.waiting(2, 0, Promise)
    cluster.act(2, lambda channel: channel.leave(cluster.now))
    cluster.deliver(2, 0)
    cluster.sync(2)
    assert [promise.leaving for promise in cluster.waiting(2, 0, Promise)] == [False]
    began = cluster.now
    for _ in range(40):
        cluster.settle()
        cluster.sync()
        cluster.tick(0.002)
    assert cluster.now - began < cluster.settings.leave_s
    assert cluster.channels[0].members == (0,)
    assert [cluster.channels[other].role for other in (1, 2)] == ["stopped", "stopped"]


def test_a_proposer_that_leaves_abandons_its_view_to_the_others(cluster):
    """It could be the only one left in it, and take what is committed with it."""
    for other in (1, 2):
        cluster.act(other, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.tick(0.07, 1, 2)
    cluster.deliver(2, 1)
    assert cluster.waiting(1, 2, Prepare)
    cluster.act(1, lambda channel: channel.leave(cluster.now))
    cluster.deliver(1, 2)
    assert cluster.waiting(2, 1, Promise)
    cluster.deliver(2, 1)
    assert not cluster.waiting(1, 2, NewView)
    cluster.settle(1, 2)
    cluster.tick(0.2, 1, 2)
    cluster.settle(1, 2)
    assert cluster.channels[2].members == (2,)
    assert cluster.channels[1].role == "stopped"


def test_a_leaving_replica_waits_for_a_view_that_may_include_it():
    """It has promised that view, and the only member before, once it accepts it, needs both."""
    cluster = ManualCluster(2)
    master = cluster.form()
    cluster.act(1, lambda channel: channel.leave(cluster.now))
    cluster.settle()
    cluster.silence(1)
    cluster.start(1, 2, 9)
    cluster.connect(0, 1)
    joiner = cluster.channels[1]
    cluster.until(lambda: joiner.state.promised > master.state.accepted.number)
    assert joiner.role == "joining"
    assert cluster.waiting(1, 0, Promise)
    cluster.act(1, lambda channel: channel.leave(cluster.now))
    assert joiner.role == "joining", "it stays as long as it may be needed"
    cluster.settle()
    cluster.tick(0.05)
    cluster.settle()
    assert joiner.role == "stopped"
    assert [voter.replica for voter in master.view.config] == [0]
    assert master.standing.may_change
