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
def cluster():
    cluster = ManualCluster()
    cluster.form()
    return cluster


def test_an_entry_goes_to_every_slave_and_is_committed_once_all_acknowledged(cluster):
    index = cluster.act(0, lambda channel: channel.submit(cluster.now, 77, b"one"))
    assert index == 1
    [data] = cluster.waiting(0, 1, Data)
    assert (data.entry.view, data.entry.index, data.entry.stamp_ns, data.entry.payload) == (N1, 1, 77, b"one")
    assert cluster.waiting(0, 2, Data) == [data]
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Ack) == [Ack(N1, 1)]
    cluster.deliver(1, 0)
    assert cluster.payloads(0) == []
    cluster.deliver(0, 2)
    cluster.deliver(2, 0)
    assert cluster.payloads(0) == [b"one"]
    assert cluster.payloads(1) == []


def test_a_majority_suffices_in_mode_majority():
    cluster = ManualCluster(settings=Settings(mode="MAJORITY"))
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.deliver(0, 2)
    cluster.deliver(2, 0)
    assert cluster.payloads(0) == [b"one"]


def test_the_commit_index_travels_with_the_next_entry(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    acknowledged(cluster)
    cluster.channels[0].submit(cluster.now, 0, b"two")
    cluster.flush(0)
    assert cluster.waiting(0, 1, Commit) == []
    cluster.deliver(0, 1)
    assert cluster.payloads(1) == [b"one"]


def acknowledged(cluster):
    """Both slaves have what was sent to them and the master has heard so, but said nothing yet."""
    for slave in (1, 2):
        cluster.deliver(0, slave)
        for message in cluster.lose(slave, 0):
            cluster.channels[0].receive(cluster.now, slave, message)


def test_the_commit_index_travels_alone_at_once_when_idle(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    acknowledged(cluster)
    cluster.flush(0)
    assert cluster.waiting(0, 1, Commit) == cluster.waiting(0, 2, Commit) == [Commit(N1, 1, 1, 1)]
    cluster.settle()
    assert cluster.payloads(1) == cluster.payloads(2) == [b"one"]


def test_the_commit_index_waits_for_what_the_caller_submits_at_once(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    acknowledged(cluster)
    output = cluster.channels[0].drain(more=True)
    assert [event.payload for event in output.events] == [b"one"]
    assert output.messages == []
    cluster.flush(0)
    assert cluster.waiting(0, 1, Commit) == [Commit(N1, 1, 1, 1)]


def test_the_commit_index_waits_for_entries_in_flight(cluster):
    for payload in (b"one", b"two"):
        cluster.act(0, lambda channel, payload=payload: channel.submit(cluster.now, 0, payload))
    for slave in (1, 2):
        cluster.inject(slave, 0, Ack(N1, 1))
    assert cluster.payloads(0) == [b"one"]
    assert cluster.waiting(0, 1, Commit) == []
    cluster.settle()
    assert cluster.payloads(1) == [b"one", b"two"]


def test_many_entries_in_flight_cost_one_message_about_the_commit_index(cluster):
    for _ in range(50):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    told = 0
    for _ in range(50):
        cluster.deliver(0, 1, 1)
        cluster.deliver(0, 2, 1)
        cluster.deliver(1, 0)
        cluster.deliver(2, 0)
        told += len(cluster.waiting(0, 1, Commit))
    assert told <= 2
    cluster.settle()
    assert len(cluster.payloads(1)) == 50


def test_the_commit_index_told_alone_tells_of_a_lost_tail(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.settle()
    cluster.inject(0, 1, Commit(N1, 1, 2, 1))
    assert cluster.waiting(1, 0, Repair) == [Repair(N1, 1)]
    cluster.inject(2, 1, Commit(N1, 5, 5, 5))
    cluster.inject(0, 1, Commit(ViewNumber(9, 0, 1), 5, 5, 5))
    assert cluster.channels[1].commit == 1


def test_a_commit_index_that_was_lost_comes_with_the_heartbeat(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    acknowledged(cluster)
    cluster.flush(0)
    cluster.lose(0, 1)
    cluster.tick(0.05, 0)
    cluster.settle()
    assert cluster.payloads(1) == [b"one"]


def test_several_entries_are_in_flight_and_one_acknowledgement_covers_them(cluster):
    for payload in (b"one", b"two", b"three"):
        cluster.act(0, lambda channel, payload=payload: channel.submit(cluster.now, 0, payload))
    channel = cluster.channels[1]
    for message in cluster.lose(0, 1):
        channel.receive(cluster.now, 0, message)
    cluster.flush(1)
    assert cluster.waiting(1, 0, Ack) == [Ack(N1, 3)]
    cluster.settle()
    assert cluster.payloads(0) == [b"one", b"two", b"three"]


def test_a_slave_asks_for_what_a_gap_lacks_and_gets_it(cluster):
    for payload in (b"one", b"two", b"three"):
        cluster.act(0, lambda channel, payload=payload: channel.submit(cluster.now, 0, payload))
    wire = cluster.wires[0, 1]
    while isinstance(wire[0], Heartbeat):
        cluster.deliver(0, 1, 1)
    wire.popleft()
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Repair) == [Repair(N1, 0)]
    assert cluster.channels[1].last == 0
    cluster.settle()
    cluster.tick(0.05, 0)
    cluster.settle()
    assert cluster.payloads(0) == cluster.payloads(1) == [b"one", b"two", b"three"]


def test_a_lost_tail_is_noticed_by_the_next_heartbeat(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.lose(0, 1)
    cluster.tick(0.05, 0)
    cluster.deliver(0, 1)
    assert cluster.waiting(1, 0, Repair) == [Repair(N1, 0)]


def test_a_slave_that_asks_again_and_again_pauses_longer_and_longer(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.lose(0, 1)
    asked = []
    for _ in range(60):
        cluster.tick(0.05, 0)
        cluster.deliver(0, 1)
        if cluster.waiting(1, 0, Repair):
            asked.append(cluster.now)
        cluster.lose(1, 0)
        cluster.channels[0].receive(cluster.now, 1, DirectMessage(b"alive"))
        cluster.lose(0, 1)
    pauses = [round(later - earlier, 1) for earlier, later in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 8 * pauses[0] - 0.1


def test_what_a_broken_connection_lost_is_sent_again_when_there_is_another(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.lose(0, 1)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 1))
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0))
    cluster.connect(0, 1)
    cluster.settle()
    assert cluster.payloads(0) == [b"one"]


def test_duplicates_are_acknowledged_and_not_appended(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    [data] = cluster.waiting(0, 1, Data)
    for _ in range(3):
        cluster.inject(0, 1, data)
    assert cluster.channels[1].last == 1
    assert cluster.waiting(1, 0, Ack) == [Ack(N1, 1)] * 3


def test_only_the_master_takes_submissions(cluster):
    with pytest.raises(NotMaster):
        cluster.channels[1].submit(cluster.now, 0, b"one")
    assert not cluster.channels[1].can_submit


def test_a_full_window_and_a_huge_payload_are_refused():
    cluster = ManualCluster(settings=Settings(window=2, max_payload_bytes=10))
    cluster.form()
    master = cluster.channels[0]
    with pytest.raises(PayloadTooLarge):
        master.submit(cluster.now, 0, b"x" * 11)
    master.submit(cluster.now, 0, b"one")
    assert master.can_submit
    master.submit(cluster.now, 0, b"two")
    assert not master.can_submit
    with pytest.raises(WindowFull):
        master.submit(cluster.now, 0, b"three")
    cluster.flush(0)
    cluster.settle()
    assert master.can_submit


def test_the_window_counts_bytes_too():
    cluster = ManualCluster(settings=Settings(window_bytes=100))
    cluster.form()
    cluster.channels[0].submit(cluster.now, 0, b"x" * 100)
    assert not cluster.channels[0].can_submit
    cluster.flush(0)
    cluster.settle()
    assert cluster.channels[0].can_submit


def test_entries_of_another_view_or_sender_are_ignored(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    [data] = cluster.waiting(0, 1, Data)
    cluster.lose(0, 1)
    cluster.inject(2, 1, data)
    for counter in (0, 2):
        of_another = ViewNumber(counter, 0, 1)
        cluster.inject(0, 1, structs.replace(data, entry=structs.replace(data.entry, view=of_another)))
    assert cluster.channels[1].last == 0
    assert cluster.waiting(1, 0, Ack) == []


def test_acknowledgements_of_another_view_or_of_what_was_never_sent_are_ignored(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    for message in (Ack(ViewNumber(9, 0, 1), 1), Ack(N1, 5), Ack(N1, -1)):
        cluster.inject(1, 0, message)
        cluster.inject(2, 0, message)
    assert cluster.channels[0].commit == 0


def test_a_promise_stops_the_acknowledgement_of_what_came_before_it_in_the_same_step(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    [data] = cluster.waiting(0, 1, Data)
    channel = cluster.channels[1]
    channel.receive(cluster.now, 0, data)
    channel.receive(cluster.now, 2, Prepare(ViewNumber(2, 2, 3), "test"))
    cluster.flush(1)
    assert cluster.waiting(1, 0, Ack) == []
    cluster.inject(0, 1, data)
    assert cluster.waiting(1, 0, Ack) == []


def test_nobody_acknowledges_after_a_long_silence_only_a_new_view_does(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.lose(0, 2)
    cluster.deliver(0, 1)
    cluster.deliver(1, 0)
    for _ in range(10):
        cluster.tick(0.05, 0, 1)
        cluster.lose(0, 2)
        cluster.settle(0, 1)
    assert cluster.payloads(0) == []
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    cluster.tick(0.07, 0, 1)
    cluster.settle(0, 1)
    assert cluster.payloads(0) == [b"one"]
    assert cluster.views(0)[-1].members == (0, 1)


def test_the_log_is_trimmed_below_what_every_member_applied():
    cluster = ManualCluster(settings=Settings(keep=0, window=64))
    cluster.form()
    for round_ in range(10):
        for _ in range(60):
            cluster.channels[0].submit(cluster.now, round_, b"x")
        cluster.flush(0)
        cluster.settle()
        cluster.tick(0.05)
        cluster.settle()
    assert all(len(channel.state.log) < 256 for channel in cluster.channels.values())
    assert cluster.channels[1].state.log.base.at <= cluster.channels[2].applied


@pytest.mark.parametrize(("keep_bytes", "least", "most"), [(1000, 100, 100 + TRIM_STEP), (10, 0, TRIM_STEP)])
def test_some_entries_that_all_have_are_kept_for_one_that_is_away_shortly(keep_bytes, least, most):
    cluster = ManualCluster(settings=Settings(keep=100, keep_bytes=keep_bytes))
    cluster.form()
    for _ in range(10):
        for _ in range(60):
            cluster.channels[0].submit(cluster.now, 0, b"x")
        cluster.flush(0)
        cluster.settle()
        cluster.tick(0.05)
        cluster.settle()
    for _ in range(2):
        cluster.tick(0.05)
        cluster.settle()
    for channel in cluster.channels.values():
        assert least <= len(channel.state.log) <= most


@pytest.mark.parametrize("keep_bytes", [0, 1 << 30])
def test_a_few_large_entries_do_not_make_the_log_longer_than_it_may_be(keep_bytes):
    """A step of them would be more than what a transfer may hold: nobody could join any more."""
    cluster = ManualCluster(settings=Settings(max_log_bytes=4000, keep_bytes=keep_bytes))
    cluster.form()
    for _ in range(TRIM_STEP - 1):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, bytes(500)))
        cluster.settle()
        for _ in range(2):
            cluster.tick(0.05)
            cluster.settle()
        assert all(channel.state.log.size_bytes <= 2500 for channel in cluster.channels.values())


def test_a_cluster_of_one_forgets_large_entries_one_by_one():
    cluster = ManualCluster(1, settings=Settings(max_log_bytes=4000))
    cluster.form()
    for _ in range(TRIM_STEP - 1):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, bytes(500)))
        assert cluster.channels[0].state.log.size_bytes <= 2500


def test_application_messages_arrive_once_and_need_a_connection(cluster):
    cluster.act(0, lambda channel: channel.send_direct(1, b"hello"))
    cluster.act(0, lambda channel: channel.send_direct(0, b"self"))
    cluster.act(0, lambda channel: channel.send_direct(9, b"nobody"))
    cluster.settle()
    assert cluster.events[1][-1].data == b"hello"
    assert cluster.events[0][-1].data == b"self"


def test_in_mode_majority_all_are_told_when_all_members_hold_an_entry():
    cluster = ManualCluster(settings=Settings(mode="MAJORITY"))
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.deliver(0, 1)
    cluster.deliver(1, 0)
    cluster.deliver(0, 1)
    assert cluster.payloads(0) == cluster.payloads(1) == [b"one"]
    assert [channel.stable for channel in cluster.channels.values()] == [0, 0, 0]
    cluster.settle()
    assert [channel.stable for channel in cluster.channels.values()] == [1, 1, 1]
    for replica in range(3):
        assert [event for event in cluster.events[replica] if isinstance(event, Stable)] == [Stable(1)]


def test_in_mode_all_what_is_committed_is_held_by_all_without_another_word(cluster):
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.settle()
    assert [channel.stable for channel in cluster.channels.values()] == [1, 1, 1]
    assert not [event for event in cluster.events[1] if isinstance(event, Stable)]


def test_a_view_without_the_member_that_lacks_an_entry_makes_it_held_by_all():
    cluster = ManualCluster(settings=Settings(mode="MAJORITY"))
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"one"))
    cluster.lose(0, 2)
    cluster.settle(0, 1)
    assert (cluster.channels[0].commit, cluster.channels[0].stable) == (1, 0)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    cluster.tick(0.07, 0, 1)
    cluster.settle(0, 1)
    assert cluster.views(0)[-1].members == (0, 1)
    assert cluster.channels[0].stable == cluster.channels[1].stable == 1
    cluster.act(1, lambda channel: channel.forward(cluster.now, b"two"))
    cluster.settle(0, 1)
    assert [event for event in cluster.events[1] if isinstance(event, Stable)] == [Stable(1), Stable(2)]


def test_a_master_knows_what_its_slaves_have_applied_also_in_the_next_view():
    """Views that follow each other faster than heartbeats must not keep the log from being trimmed."""
    cluster = ManualCluster(settings=Settings(keep=0))
    cluster.form()
    master = cluster.channels[0]
    for number in range(100):
        cluster.act(0, lambda channel, number=number: channel.submit(cluster.now, 0, b"%d" % number))
    cluster.settle()
    cluster.tick(0.06, 1, 2)
    cluster.settle()
    assert master.state.log.base.at == 0
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2, ended=True))
    cluster.settle(0, 1)
    assert master.members == (0, 1)
    cluster.tick(0.0, 0)
    assert master.state.log.base.at == 100
