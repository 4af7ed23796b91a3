"""Appending, acknowledging, committing and repairing, message by message."""

from itertools import pairwise

import pytest
from msgspec import structs

from quorate.hachannel import NotMaster, PayloadTooLarge, Settings, Stable, ViewNumber, WindowFull
from quorate.hachannel.model.messages import Ack, Commit, Data, DirectMessage, Heartbeat, Prepare, Repair
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.testing.channel.manual_cluster import ManualCluster

N1 = ViewNumber(1, 0, 1)


@pytest.fixture
def hand():
    hand = ManualCluster()
    hand.form()
    return hand


def test_an_entry_goes_to_every_slave_and_is_committed_once_all_acknowledged(hand):
    index = hand.act(0, lambda channel: channel.submit(hand.now, 77, b"one"))
    assert index == 1
    [data] = hand.waiting(0, 1, Data)
    assert (data.entry.view, data.entry.index, data.entry.stamp_ns, data.entry.payload) == (N1, 1, 77, b"one")
    assert hand.waiting(0, 2, Data) == [data]
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Ack) == [Ack(N1, 1)]
    hand.deliver(1, 0)
    assert hand.payloads(0) == []
    hand.deliver(0, 2)
    hand.deliver(2, 0)
    assert hand.payloads(0) == [b"one"]
    assert hand.payloads(1) == []


def test_a_majority_suffices_in_mode_majority():
    hand = ManualCluster(settings=Settings(mode="MAJORITY"))
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.deliver(0, 2)
    hand.deliver(2, 0)
    assert hand.payloads(0) == [b"one"]


def test_the_commit_index_travels_with_the_next_entry(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    acknowledged(hand)
    hand.channels[0].submit(hand.now, 0, b"two")
    hand.flush(0)
    assert hand.waiting(0, 1, Commit) == []
    hand.deliver(0, 1)
    assert hand.payloads(1) == [b"one"]


def acknowledged(hand):
    """Both slaves have what was sent to them and the master has heard so, but said nothing yet."""
    for slave in (1, 2):
        hand.deliver(0, slave)
        for message in hand.lose(slave, 0):
            hand.channels[0].receive(hand.now, slave, message)


def test_the_commit_index_travels_alone_at_once_when_idle(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    acknowledged(hand)
    hand.flush(0)
    assert hand.waiting(0, 1, Commit) == hand.waiting(0, 2, Commit) == [Commit(N1, 1, 1, 1)]
    hand.settle()
    assert hand.payloads(1) == hand.payloads(2) == [b"one"]


def test_the_commit_index_waits_for_what_the_caller_submits_at_once(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    acknowledged(hand)
    output = hand.channels[0].drain(more=True)
    assert [event.payload for event in output.events] == [b"one"]
    assert output.messages == []
    hand.flush(0)
    assert hand.waiting(0, 1, Commit) == [Commit(N1, 1, 1, 1)]


def test_the_commit_index_waits_for_entries_in_flight(hand):
    for payload in (b"one", b"two"):
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))
    for slave in (1, 2):
        hand.inject(slave, 0, Ack(N1, 1))
    assert hand.payloads(0) == [b"one"]
    assert hand.waiting(0, 1, Commit) == []
    hand.settle()
    assert hand.payloads(1) == [b"one", b"two"]


def test_many_entries_in_flight_cost_one_message_about_the_commit_index(hand):
    for _ in range(50):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    told = 0
    for _ in range(50):
        hand.deliver(0, 1, 1)
        hand.deliver(0, 2, 1)
        hand.deliver(1, 0)
        hand.deliver(2, 0)
        told += len(hand.waiting(0, 1, Commit))
    assert told <= 2
    hand.settle()
    assert len(hand.payloads(1)) == 50


def test_the_commit_index_told_alone_tells_of_a_lost_tail(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.settle()
    hand.inject(0, 1, Commit(N1, 1, 2, 1))
    assert hand.waiting(1, 0, Repair) == [Repair(N1, 1)]
    hand.inject(2, 1, Commit(N1, 5, 5, 5))
    hand.inject(0, 1, Commit(ViewNumber(9, 0, 1), 5, 5, 5))
    assert hand.channels[1].commit == 1


def test_a_commit_index_that_was_lost_comes_with_the_heartbeat(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    acknowledged(hand)
    hand.flush(0)
    hand.lose(0, 1)
    hand.tick(0.05, 0)
    hand.settle()
    assert hand.payloads(1) == [b"one"]


def test_several_entries_are_in_flight_and_one_acknowledgement_covers_them(hand):
    for payload in (b"one", b"two", b"three"):
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))
    channel = hand.channels[1]
    for message in hand.lose(0, 1):
        channel.receive(hand.now, 0, message)
    hand.flush(1)
    assert hand.waiting(1, 0, Ack) == [Ack(N1, 3)]
    hand.settle()
    assert hand.payloads(0) == [b"one", b"two", b"three"]


def test_a_slave_asks_for_what_a_gap_lacks_and_gets_it(hand):
    for payload in (b"one", b"two", b"three"):
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))
    wire = hand.wires[0, 1]
    while isinstance(wire[0], Heartbeat):
        hand.deliver(0, 1, 1)
    wire.popleft()
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Repair) == [Repair(N1, 0)]
    assert hand.channels[1].last == 0
    hand.settle()
    hand.tick(0.05, 0)
    hand.settle()
    assert hand.payloads(0) == hand.payloads(1) == [b"one", b"two", b"three"]


def test_a_lost_tail_is_noticed_by_the_next_heartbeat(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.lose(0, 1)
    hand.tick(0.05, 0)
    hand.deliver(0, 1)
    assert hand.waiting(1, 0, Repair) == [Repair(N1, 0)]


def test_a_slave_that_asks_again_and_again_pauses_longer_and_longer(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.lose(0, 1)
    asked = []
    for _ in range(60):
        hand.tick(0.05, 0)
        hand.deliver(0, 1)
        if hand.waiting(1, 0, Repair):
            asked.append(hand.now)
        hand.lose(1, 0)
        hand.channels[0].receive(hand.now, 1, DirectMessage(b"alive"))
        hand.lose(0, 1)
    pauses = [round(later - earlier, 1) for earlier, later in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 8 * pauses[0] - 0.1


def test_what_a_broken_connection_lost_is_sent_again_when_there_is_another(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.lose(0, 1)
    hand.act(0, lambda channel: channel.disconnected(hand.now, 1))
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0))
    hand.connect(0, 1)
    hand.settle()
    assert hand.payloads(0) == [b"one"]


def test_duplicates_are_acknowledged_and_not_appended(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    [data] = hand.waiting(0, 1, Data)
    for _ in range(3):
        hand.inject(0, 1, data)
    assert hand.channels[1].last == 1
    assert hand.waiting(1, 0, Ack) == [Ack(N1, 1)] * 3


def test_only_the_master_takes_submissions(hand):
    with pytest.raises(NotMaster):
        hand.channels[1].submit(hand.now, 0, b"one")
    assert not hand.channels[1].can_submit


def test_a_full_window_and_a_huge_payload_are_refused():
    hand = ManualCluster(settings=Settings(window=2, max_payload_bytes=10))
    hand.form()
    master = hand.channels[0]
    with pytest.raises(PayloadTooLarge):
        master.submit(hand.now, 0, b"x" * 11)
    master.submit(hand.now, 0, b"one")
    assert master.can_submit
    master.submit(hand.now, 0, b"two")
    assert not master.can_submit
    with pytest.raises(WindowFull):
        master.submit(hand.now, 0, b"three")
    hand.flush(0)
    hand.settle()
    assert master.can_submit


def test_the_window_counts_bytes_too():
    hand = ManualCluster(settings=Settings(window_bytes=100))
    hand.form()
    hand.channels[0].submit(hand.now, 0, b"x" * 100)
    assert not hand.channels[0].can_submit
    hand.flush(0)
    hand.settle()
    assert hand.channels[0].can_submit


def test_entries_of_another_view_or_sender_are_ignored(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    [data] = hand.waiting(0, 1, Data)
    hand.lose(0, 1)
    hand.inject(2, 1, data)
    for counter in (0, 2):
        of_another = ViewNumber(counter, 0, 1)
        hand.inject(0, 1, structs.replace(data, entry=structs.replace(data.entry, view=of_another)))
    assert hand.channels[1].last == 0
    assert hand.waiting(1, 0, Ack) == []


def test_acknowledgements_of_another_view_or_of_what_was_never_sent_are_ignored(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    for message in (Ack(ViewNumber(9, 0, 1), 1), Ack(N1, 5), Ack(N1, -1)):
        hand.inject(1, 0, message)
        hand.inject(2, 0, message)
    assert hand.channels[0].commit == 0


def test_a_promise_stops_the_acknowledgement_of_what_came_before_it_in_the_same_step(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    [data] = hand.waiting(0, 1, Data)
    channel = hand.channels[1]
    channel.receive(hand.now, 0, data)
    channel.receive(hand.now, 2, Prepare(ViewNumber(2, 2, 3), "test"))
    hand.flush(1)
    assert hand.waiting(1, 0, Ack) == []
    hand.inject(0, 1, data)
    assert hand.waiting(1, 0, Ack) == []


def test_nobody_acknowledges_after_a_long_silence_only_a_new_view_does(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.lose(0, 2)
    hand.deliver(0, 1)
    hand.deliver(1, 0)
    for _ in range(10):
        hand.tick(0.05, 0, 1)
        hand.lose(0, 2)
        hand.settle(0, 1)
    assert hand.payloads(0) == []
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    hand.tick(0.07, 0, 1)
    hand.settle(0, 1)
    assert hand.payloads(0) == [b"one"]
    assert hand.views(0)[-1].members == (0, 1)


def test_the_log_is_trimmed_below_what_every_member_applied():
    hand = ManualCluster(settings=Settings(keep=0, window=64))
    hand.form()
    for round_ in range(10):
        for _ in range(60):
            hand.channels[0].submit(hand.now, round_, b"x")
        hand.flush(0)
        hand.settle()
        hand.tick(0.05)
        hand.settle()
    assert all(len(channel.state.log) < 256 for channel in hand.channels.values())
    assert hand.channels[1].state.log.base.at <= hand.channels[2].applied


@pytest.mark.parametrize(("keep_bytes", "least", "most"), [(1000, 100, 100 + TRIM_STEP), (10, 0, TRIM_STEP)])
def test_some_entries_that_all_have_are_kept_for_one_that_is_away_shortly(keep_bytes, least, most):
    hand = ManualCluster(settings=Settings(keep=100, keep_bytes=keep_bytes))
    hand.form()
    for _ in range(10):
        for _ in range(60):
            hand.channels[0].submit(hand.now, 0, b"x")
        hand.flush(0)
        hand.settle()
        hand.tick(0.05)
        hand.settle()
    for _ in range(2):
        hand.tick(0.05)
        hand.settle()
    for channel in hand.channels.values():
        assert least <= len(channel.state.log) <= most


@pytest.mark.parametrize("keep_bytes", [0, 1 << 30])
def test_a_few_large_entries_do_not_make_the_log_longer_than_it_may_be(keep_bytes):
    """A step of them would be more than what a transfer may hold: nobody could join any more."""
    hand = ManualCluster(settings=Settings(max_log_bytes=4000, keep_bytes=keep_bytes))
    hand.form()
    for _ in range(TRIM_STEP - 1):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, bytes(500)))
        hand.settle()
        for _ in range(2):
            hand.tick(0.05)
            hand.settle()
        assert all(channel.state.log.size_bytes <= 2500 for channel in hand.channels.values())


def test_a_cluster_of_one_forgets_large_entries_one_by_one():
    hand = ManualCluster(1, settings=Settings(max_log_bytes=4000))
    hand.form()
    for _ in range(TRIM_STEP - 1):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, bytes(500)))
        assert hand.channels[0].state.log.size_bytes <= 2500


def test_application_messages_arrive_once_and_need_a_connection(hand):
    hand.act(0, lambda channel: channel.send_direct(1, b"hello"))
    hand.act(0, lambda channel: channel.send_direct(0, b"self"))
    hand.act(0, lambda channel: channel.send_direct(9, b"nobody"))
    hand.settle()
    assert hand.events[1][-1].data == b"hello"
    assert hand.events[0][-1].data == b"self"


def test_in_mode_majority_all_are_told_when_all_members_hold_an_entry():
    hand = ManualCluster(settings=Settings(mode="MAJORITY"))
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.deliver(0, 1)
    hand.deliver(1, 0)
    hand.deliver(0, 1)
    assert hand.payloads(0) == hand.payloads(1) == [b"one"]
    assert [channel.stable for channel in hand.channels.values()] == [0, 0, 0]
    hand.settle()
    assert [channel.stable for channel in hand.channels.values()] == [1, 1, 1]
    for replica in range(3):
        assert [event for event in hand.events[replica] if isinstance(event, Stable)] == [Stable(1)]


def test_in_mode_all_what_is_committed_is_held_by_all_without_another_word(hand):
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.settle()
    assert [channel.stable for channel in hand.channels.values()] == [1, 1, 1]
    assert not [event for event in hand.events[1] if isinstance(event, Stable)]


def test_a_view_without_the_member_that_lacks_an_entry_makes_it_held_by_all():
    hand = ManualCluster(settings=Settings(mode="MAJORITY"))
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"one"))
    hand.lose(0, 2)
    hand.settle(0, 1)
    assert (hand.channels[0].commit, hand.channels[0].stable) == (1, 0)
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    hand.tick(0.07, 0, 1)
    hand.settle(0, 1)
    assert hand.views(0)[-1].members == (0, 1)
    assert hand.channels[0].stable == hand.channels[1].stable == 1
    hand.act(1, lambda channel: channel.forward(hand.now, b"two"))
    hand.settle(0, 1)
    assert [event for event in hand.events[1] if isinstance(event, Stable)] == [Stable(1), Stable(2)]


def test_a_master_knows_what_its_slaves_have_applied_also_in_the_next_view():
    """Views that follow each other faster than heartbeats must not keep the log from being trimmed."""
    hand = ManualCluster(settings=Settings(keep=0))
    hand.form()
    master = hand.channels[0]
    for number in range(100):
        hand.act(0, lambda channel, number=number: channel.submit(hand.now, 0, b"%d" % number))
    hand.settle()
    hand.tick(0.06, 1, 2)
    hand.settle()
    assert master.state.log.base.at == 0
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2, ended=True))
    hand.settle(0, 1)
    assert master.members == (0, 1)
    hand.tick(0.0, 0)
    assert master.state.log.base.at == 100
