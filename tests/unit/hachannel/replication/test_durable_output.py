"""With a durable log, nothing is told before what it rests on is on disk."""

import pytest

from quorate.hachannel import View, ViewNumber
from quorate.hachannel.model.log import Accepted, Appended, Committed, Promised
from quorate.hachannel.model.messages import (
    Accept,
    Ack,
    Data,
    Grant,
    NewView,
    Prepare,
    Promise,
    Record,
    Recorded,
)
from quorate.testing.channel.manual_cluster import ManualCluster, SlowLog, with_disks

N1 = ViewNumber(1, 0, 1)


@pytest.fixture
def cluster():
    cluster = with_disks()
    for records in cluster.records.values():
        records.clear()
    return cluster


def test_of_what_is_repeated_while_a_disk_hangs_the_newest_waits(cluster):
    number = ViewNumber(5, 0, 1)
    for _ in range(100):
        cluster.inject(0, 1, Prepare(number, "test"))
        cluster.tick(0.05, 0)
        cluster.deliver(0, 1)
    assert cluster.channels[1].state.output.waiting <= 2
    assert not cluster.waiting(1, 0, Promise)
    assert not cluster.waiting(1, 0, Grant)
    cluster.sync(1)
    [promise] = cluster.waiting(1, 0, Promise)
    [grant] = cluster.waiting(1, 0, Grant)
    assert promise.number == number
    assert grant.mark == cluster.now


def test_what_is_said_again_after_another_record_does_not_keep_back_what_waits(cluster):
    """Disks are never so slow that a newer answer is there each time before the older one has left."""
    numbers = [ViewNumber(counter, 0, 1) for counter in range(5, 9)]
    tokens = []
    for number in numbers:
        cluster.inject(0, 1, Prepare(number, "test"))
        cluster.inject(0, 1, Prepare(number, "test"))
        tokens.append(cluster.tokens[1])
    for count, token in enumerate(tokens, 1):
        cluster.act(1, lambda channel, token=token: channel.persisted(cluster.now, token))
        assert [promise.number for promise in cluster.waiting(1, 0, Promise)] == numbers[:count]


def test_acknowledgements_of_one_write_leave_as_the_last_of_them(cluster):
    cluster.channels[0].submit(cluster.now, 0, b"one")
    cluster.channels[0].submit(cluster.now, 0, b"two")
    cluster.flush(0)
    [first, second] = cluster.lose(0, 1)
    for data in (first, second):
        cluster.channels[1].receive(cluster.now, 0, data)
        cluster.channels[1]._replication.flush(False)
    cluster.flush(1)
    assert not cluster.waiting(1, 0, Ack)
    cluster.sync(1)
    assert [ack.index for ack in cluster.waiting(1, 0, Ack)] == [2]


def test_the_first_view_is_founded_only_with_the_disks(cluster):
    assert [channel.role for channel in cluster.channels.values()] == ["master", "slave", "slave"]
    idle = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        idle.settle()
        idle.tick(0.01)
    assert [channel.role for channel in idle.channels.values()] == ["joining"] * 3
    assert any(isinstance(record, Promised) for record in idle.records[0])


def test_a_founder_accepts_its_view_once_although_another_one_says_twice_that_it_has():
    cluster = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        for here, there in cluster.wires:
            while cluster.waiting(here, there) and not isinstance(cluster.wires[here, there][0], NewView):
                cluster.deliver(here, there, 1)
        cluster.sync()
        cluster.tick(0.01)
    assert cluster.waiting(0, 1, NewView)
    for replica in (1, 2):
        cluster.deliver(0, replica)
        cluster.sync(replica)
        cluster.deliver(replica, 0)
    cluster.inject(1, 0, Accept(N1))
    assert [record for record in cluster.records[0] if isinstance(record, Accepted)] == [
        Accepted(cluster.channels[0].view)
    ]


def test_how_long_grants_last_is_written_once_and_no_later_grant_waits_for_the_disk(cluster):
    for _ in range(5):
        cluster.tick(0.06, 0)
        cluster.lose(1, 0)
        cluster.deliver(0, 1)
        assert cluster.waiting(1, 0, Grant) == [Grant(cluster.now, cluster.settings.lease_s)]
    assert cluster.records[1] == []


def test_a_slave_acknowledges_what_is_on_its_disk(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    assert len(cluster.waiting(0, 1, Data)) == 1
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Ack) == []
    assert isinstance(cluster.records[1][0], Appended)
    cluster.sync(1)
    assert cluster.waiting(1, 0, Ack) == [Ack(N1, 1)]


def test_what_waits_to_be_acknowledged_is_not_once_a_view_without_the_slave_is_recorded(cluster):
    """It has not been asked to promise that view: the record is all that it hears of it."""
    voters = tuple(channel.state.me for channel in cluster.channels.values())
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.deliver(0, 1)
    cluster.channels[1].lease.release(voters[0])
    number = ViewNumber(9, 2, 3)
    cluster.inject(2, 1, Record(View(number, voters, voters[2:], 1, 0)))
    cluster.sync(1)
    assert cluster.waiting(1, 2, Recorded) == [Recorded(number)]
    assert cluster.waiting(1, 0, Ack) == []


def test_the_master_counts_itself_once_its_disk_has_the_entry(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    for replica in (1, 2):
        cluster.deliver(0, replica)
        cluster.sync(replica)
        cluster.deliver(replica, 0)
    assert cluster.payloads(0) == []
    cluster.sync(0)
    assert cluster.payloads(0) == [b"one"]
    assert Committed(1) in cluster.records[0]


def test_a_promise_and_an_acceptance_wait_for_the_disk(cluster):
    number = ViewNumber(7, 2, 3)
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.inject(2, 1, Prepare(number, "test"))
    assert cluster.waiting(1, 2, Promise) == []
    assert Promised(number) in cluster.records[1]
    cluster.sync(1)
    [promise] = cluster.waiting(1, 2, Promise)
    view = promise.accepted
    new = type(view)(number, view.config, (view.members[2], view.members[1]), 2, 0)
    cluster.inject(2, 1, NewView(new, cluster.channels[1].state.log.base, 0, (), True))
    assert cluster.waiting(1, 2, Accept) == []
    assert Accepted(new) in cluster.records[1]
    cluster.sync(1)
    assert cluster.waiting(1, 2, Accept) == [Accept(number)]


def test_a_proposal_leaves_once_its_number_can_no_longer_be_forgotten(cluster):
    for replica in (1, 2):
        cluster.act(replica, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.tick(0.07, 1, 2)
    cluster.settle(1, 2)
    assert cluster.waiting(1, 2, Prepare) == []
    assert isinstance(cluster.records[1][-1], Promised)
    cluster.sync(1)
    assert len(cluster.waiting(1, 2, Prepare)) == 1


def test_a_late_confirmation_of_an_early_token_lets_go_of_nothing_later(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.deliver(0, 1)
    early = cluster.tokens[1]
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"two"))
    cluster.deliver(0, 1)
    cluster.act(1, lambda channel: channel.persisted(cluster.now, early))
    assert cluster.waiting(1, 0, Ack) == [Ack(N1, 1)]
