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
def hand():
    hand = with_disks()
    for records in hand.records.values():
        records.clear()
    return hand


def test_of_what_is_repeated_while_a_disk_hangs_the_newest_waits(hand):
    number = ViewNumber(5, 0, 1)
    for _ in range(100):
        hand.inject(0, 1, Prepare(number, "test"))
        hand.tick(0.05, 0)
        hand.deliver(0, 1)
    assert hand.channels[1].state.output.waiting <= 2
    assert not hand.waiting(1, 0, Promise)
    assert not hand.waiting(1, 0, Grant)
    hand.sync(1)
    [promise] = hand.waiting(1, 0, Promise)
    [grant] = hand.waiting(1, 0, Grant)
    assert promise.number == number
    assert grant.mark == hand.now


def test_what_is_said_again_after_another_record_does_not_keep_back_what_waits(hand):
    """Disks are never so slow that a newer answer is there each time before the older one has left."""
    numbers = [ViewNumber(counter, 0, 1) for counter in range(5, 9)]
    tokens = []
    for number in numbers:
        hand.inject(0, 1, Prepare(number, "test"))
        hand.inject(0, 1, Prepare(number, "test"))
        tokens.append(hand.tokens[1])
    for count, token in enumerate(tokens, 1):
        hand.act(1, lambda channel, token=token: channel.persisted(hand.now, token))
        assert [promise.number for promise in hand.waiting(1, 0, Promise)] == numbers[:count]


def test_acknowledgements_of_one_write_leave_as_the_last_of_them(hand):
    hand.channels[0].submit(hand.now, 0, b"one")
    hand.channels[0].submit(hand.now, 0, b"two")
    hand.flush(0)
    [first, second] = hand.lose(0, 1)
    for data in (first, second):
        hand.channels[1].receive(hand.now, 0, data)
        hand.channels[1]._replication.flush(False)
    hand.flush(1)
    assert not hand.waiting(1, 0, Ack)
    hand.sync(1)
    assert [ack.index for ack in hand.waiting(1, 0, Ack)] == [2]


def test_the_first_view_is_founded_only_with_the_disks(hand):
    assert [channel.role for channel in hand.channels.values()] == ["master", "slave", "slave"]
    idle = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        idle.settle()
        idle.tick(0.01)
    assert [channel.role for channel in idle.channels.values()] == ["joining"] * 3
    assert any(isinstance(record, Promised) for record in idle.records[0])


def test_a_founder_accepts_its_view_once_although_another_one_says_twice_that_it_has():
    hand = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        for here, there in hand.wires:
            while hand.waiting(here, there) and not isinstance(hand.wires[here, there][0], NewView):
                hand.deliver(here, there, 1)
        hand.sync()
        hand.tick(0.01)
    assert hand.waiting(0, 1, NewView)
    for replica in (1, 2):
        hand.deliver(0, replica)
        hand.sync(replica)
        hand.deliver(replica, 0)
    hand.inject(1, 0, Accept(N1))
    assert [record for record in hand.records[0] if isinstance(record, Accepted)] == [
        Accepted(hand.channels[0].view)
    ]


def test_how_long_grants_last_is_written_once_and_no_later_grant_waits_for_the_disk(hand):
    for _ in range(5):
        hand.tick(0.06, 0)
        hand.lose(1, 0)
        hand.deliver(0, 1)
        assert hand.waiting(1, 0, Grant) == [Grant(hand.now, hand.settings.lease_s)]
    assert hand.records[1] == []


def test_a_slave_acknowledges_what_is_on_its_disk(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    assert len(hand.waiting(0, 1, Data)) == 1
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Ack) == []
    assert isinstance(hand.records[1][0], Appended)
    hand.sync(1)
    assert hand.waiting(1, 0, Ack) == [Ack(N1, 1)]


def test_what_waits_to_be_acknowledged_is_not_once_a_view_without_the_slave_is_recorded(hand):
    """It has not been asked to promise that view: the record is all that it hears of it."""
    voters = tuple(channel.state.me for channel in hand.channels.values())
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.deliver(0, 1)
    hand.channels[1].lease.release(voters[0])
    number = ViewNumber(9, 2, 3)
    hand.inject(2, 1, Record(View(number, voters, voters[2:], 1, 0)))
    hand.sync(1)
    assert hand.waiting(1, 2, Recorded) == [Recorded(number)]
    assert hand.waiting(1, 0, Ack) == []


def test_the_master_counts_itself_once_its_disk_has_the_entry(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    for replica in (1, 2):
        hand.deliver(0, replica)
        hand.sync(replica)
        hand.deliver(replica, 0)
    assert hand.payloads(0) == []
    hand.sync(0)
    assert hand.payloads(0) == [b"one"]
    assert Committed(1) in hand.records[0]


def test_a_promise_and_an_acceptance_wait_for_the_disk(hand):
    number = ViewNumber(7, 2, 3)
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.inject(2, 1, Prepare(number, "test"))
    assert hand.waiting(1, 2, Promise) == []
    assert Promised(number) in hand.records[1]
    hand.sync(1)
    [promise] = hand.waiting(1, 2, Promise)
    view = promise.accepted
    new = type(view)(number, view.config, (view.members[2], view.members[1]), 2, 0)
    hand.inject(2, 1, NewView(new, hand.channels[1].state.log.base, 0, (), True))
    assert hand.waiting(1, 2, Accept) == []
    assert Accepted(new) in hand.records[1]
    hand.sync(1)
    assert hand.waiting(1, 2, Accept) == [Accept(number)]


def test_a_proposal_leaves_once_its_number_can_no_longer_be_forgotten(hand):
    for replica in (1, 2):
        hand.act(replica, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.tick(0.07, 1, 2)
    hand.settle(1, 2)
    assert hand.waiting(1, 2, Prepare) == []
    assert isinstance(hand.records[1][-1], Promised)
    hand.sync(1)
    assert len(hand.waiting(1, 2, Prepare)) == 1


def test_a_late_confirmation_of_an_early_token_lets_go_of_nothing_later(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.deliver(0, 1)
    early = hand.tokens[1]
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"two"))
    hand.deliver(0, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, early))
    assert hand.waiting(1, 0, Ack) == [Ack(N1, 1)]
