"""Submitting from any member, message by message."""

from itertools import pairwise

import pytest

from quorate.hachannel import ChannelError, Deliver, PayloadTooLarge, Settings, Source, ViewNumber, WindowFull
from quorate.hachannel.model.messages import Forward, Forwarded
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.testing.channel.manual_cluster import ManualCluster

N1 = ViewNumber(1, 0, 1)


@pytest.fixture
def cluster():
    cluster = ManualCluster()
    cluster.form()
    return cluster


def forward(cluster, replica, *payloads):
    return [
        cluster.act(replica, lambda channel, payload=payload: channel.forward(cluster.now, payload))
        for payload in payloads
    ]


def sources(cluster, replica):
    return [(event.payload, event.source) for event in cluster.events[replica] if isinstance(event, Deliver)]


def test_what_a_slave_forwards_is_delivered_everywhere_with_its_source(cluster):
    assert forward(cluster, 1, b"one", b"two") == [1, 2]
    cluster.settle()
    expected = [(b"one", Source(1, 2, 1, 1)), (b"two", Source(1, 2, 1, 2))]
    assert sources(cluster, 0) == sources(cluster, 1) == sources(cluster, 2) == expected
    assert cluster.channels[1].forwarding == 0


def test_the_master_forwards_too_and_what_it_submits_has_no_source(cluster):
    assert forward(cluster, 0, b"one") == [1]
    cluster.act(0, lambda channel: channel.submit(cluster.now, 5, b"two"))
    cluster.settle()
    assert sources(cluster, 2) == [(b"one", Source(0, 1, 1, 1)), (b"two", None)]


def test_what_arrives_twice_counts_once(cluster):
    forward(cluster, 1, b"one")
    [message] = cluster.waiting(1, 0, Forward)
    for _ in range(3):
        cluster.inject(1, 0, message)
    cluster.settle()
    assert cluster.payloads(2) == [b"one"]


def test_what_arrives_out_of_order_is_held_and_what_is_missing_is_asked_for(cluster):
    forward(cluster, 1, b"one", b"two", b"three")
    one, two, three = cluster.waiting(1, 0, Forward)
    cluster.lose(1, 0)
    cluster.inject(1, 0, two)
    cluster.inject(1, 0, three)
    assert cluster.channels[0].last == 0
    assert cluster.waiting(0, 1, Forwarded) == [Forwarded(N1, 1, 0)]
    cluster.inject(1, 0, one)
    cluster.settle()
    assert cluster.payloads(1) == [b"one", b"two", b"three"]


def test_an_origin_sends_again_what_the_master_lacks(cluster):
    forward(cluster, 1, b"one", b"two", b"three")
    cluster.lose(1, 0)
    cluster.inject(0, 1, Forwarded(N1, 1, 1))
    assert [message.oseq for message in cluster.waiting(1, 0, Forward)] == [2, 3]


def test_a_lost_tail_is_sent_again_with_growing_pauses_until_the_master_answers(cluster):
    forward(cluster, 1, b"one", b"two")
    cluster.lose(1, 0)
    sent = []
    for step in range(200):
        cluster.tick(0.05, 1)
        if cluster.waiting(1, 0, Forward):
            sent.append(step * 0.05)
        cluster.lose(1, 0)
        cluster.inject(0, 1, cluster.channels[0]._heartbeats.heartbeat())
    pauses = [later - earlier for earlier, later in pairwise(sent)]
    assert 3 < len(sent) < 8
    assert pauses == sorted(pauses)
    cluster.inject(0, 1, Forwarded(N1, 1, 2))
    for _ in range(200):
        cluster.tick(0.05, 1)
        cluster.inject(0, 1, cluster.channels[0]._heartbeats.heartbeat())
    assert cluster.waiting(1, 0, Forward) == []


@pytest.mark.parametrize(
    ("teller", "view", "boot"),
    [(2, N1, 1), (0, ViewNumber(0, 0, 1), 1), (0, ViewNumber(2, 0, 1), 1), (0, N1, 0), (0, N1, 2)],
    ids=["another one", "the view before", "the next view", "the process before", "no process so far"],
)
def test_a_forwarded_answer_of_another_sender_view_or_process_is_ignored(cluster, teller, view, boot):
    forward(cluster, 1, b"one", b"two")
    sent = cluster.lose(1, 0)
    cluster.inject(teller, 1, Forwarded(view, boot, 0, True))
    cluster.inject(teller, 1, Forwarded(view, boot, 2, False))
    assert cluster.waiting(1, 0, Forward) == []
    cluster.tick(0.6, 1)
    assert cluster.waiting(1, 0, Forward) == [sent[-1]]


@pytest.mark.parametrize("lost", [False, True])
def test_what_came_twice_makes_nothing_else_come_twice(cluster, lost):
    """Each message takes a step, and something is always on its way."""
    sent = 0
    for step in range(300):
        cluster.now += 0.01
        if step < 250:
            forward(cluster, 1, b"x", b"y")
        if step % 5 == 0:
            cluster.tick(0.0)
        if step == 20:
            again = cluster.lose(1, 0)
            if not lost:
                cluster.wires[1, 0].extend(again * 2)
        sent += len(cluster.waiting(1, 0, Forward))
        for (here, there), count in [(pair, len(wire)) for pair, wire in cluster.wires.items()]:
            cluster.deliver(here, there, count)
    assert len(cluster.payloads(0)) == 500
    assert 500 < sent < 520


def test_a_slow_connection_carries_each_payload_about_once():
    cluster = ManualCluster(settings=Settings(forward_window=3))
    cluster.form()
    carried = 0
    forward(cluster, 1, *[b"%d" % number for number in range(30)])
    for step in range(1200):
        cluster.tick(0.05)
        wire = cluster.wires[1, 0]
        # One payload in more than a second, and everything in its order.
        while wire and (step % 24 == 0 or not isinstance(wire[0], Forward)):
            payload = isinstance(wire[0], Forward)
            carried += payload
            cluster.deliver(1, 0, 1)
            if payload:
                break
        cluster.settle(0, 2)
        cluster.deliver(0, 1)
        cluster.deliver(2, 1)
        cluster.deliver(1, 2)
        assert len(cluster.waiting(1, 0, Forward)) <= 6
    assert len(cluster.payloads(0)) == 30
    assert carried < 45


@pytest.mark.parametrize("forwarded", [False, True])
def test_a_cluster_of_one_forgets_what_it_delivered(forwarded):
    """It has no heartbeats, at which a master otherwise trims its log."""
    cluster = ManualCluster(1, settings=Settings(keep_bytes=100))
    cluster.form()
    for _ in range(1000):
        if forwarded:
            forward(cluster, 0, b"x")
        else:
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    assert len(cluster.payloads(0)) == 1000
    assert len(cluster.channels[0].state.log) <= 2 * TRIM_STEP + 1


@pytest.mark.parametrize(("incarnation", "said"), [(9, False), (2, True)])
def test_all_say_so_when_what_a_life_forwards_is_never_ordered(cluster, incarnation, said):
    """Its clock was set back: it has a lower incarnation than the life before, which forwarded, too."""
    forward(cluster, 2, b"one")
    cluster.settle()
    cluster.silence(2)
    cluster.tick(0.1)
    cluster.settle()
    cluster.start(2, 3, incarnation)
    for other in (0, 1):
        cluster.connect(other, 2)
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.1)
    assert cluster.channels[0].members == (0, 1, 2)
    forward(cluster, 2, b"two")
    cluster.settle()
    assert (cluster.payloads(0) == [b"one"]) == said
    sentence = "replica 2 has incarnation 2, below its earlier 3: nothing that it forwards is ever ordered"
    for replica in range(3):
        assert any(note.startswith(sentence) for note in cluster.notes[replica]) == said


def test_a_master_without_room_says_what_it_has_and_admits_it_later():
    cluster = ManualCluster(settings=Settings(window=1))
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"first"))
    forward(cluster, 1, b"one", b"two")
    messages = cluster.waiting(1, 0, Forward)
    cluster.deliver(1, 0)
    assert cluster.channels[0].last == 1
    cluster.inject(1, 0, messages[0])
    assert cluster.waiting(0, 1, Forwarded) == [Forwarded(N1, 1, 2, False)]
    cluster.settle()
    assert cluster.payloads(2) == [b"first", b"one", b"two"]


def test_what_a_broken_connection_lost_is_sent_again(cluster):
    forward(cluster, 1, b"one")
    cluster.lose(1, 0)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 1))
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0))
    cluster.connect(0, 1)
    forward(cluster, 1, b"two")
    cluster.settle()
    assert cluster.payloads(0) == [b"one", b"two"]


def test_origins_take_turns_when_the_window_is_short():
    cluster = ManualCluster(settings=Settings(window=1))
    cluster.form()
    for replica in range(3):
        forward(cluster, replica, *[b"%d%d" % (replica, number) for number in range(4)])
    cluster.settle()
    order = [payload[:1] for payload in cluster.payloads(0)]
    assert sorted(order) == [b"0"] * 4 + [b"1"] * 4 + [b"2"] * 4
    # The master's first one went before it heard of the others.
    assert all(len(set(order[start : start + 3])) == 3 for start in range(1, 10, 3))


def test_the_queue_of_an_origin_is_bounded_and_says_so():
    cluster = ManualCluster(settings=Settings(forward_queue=2, forward_queue_bytes=100, max_payload_bytes=60))
    cluster.form()
    channel = cluster.channels[1]
    with pytest.raises(PayloadTooLarge):
        channel.forward(cluster.now, b"x" * 61)
    channel.forward(cluster.now, b"x")
    assert channel.can_forward
    channel.forward(cluster.now, b"y")
    assert not channel.can_forward
    with pytest.raises(WindowFull, match="can_forward"):
        channel.forward(cluster.now, b"z")
    cluster.flush(1)
    cluster.settle()
    channel.forward(cluster.now, b"x" * 60)
    channel.forward(cluster.now, b"x" * 60)
    assert not channel.can_forward


def test_no_more_is_on_its_way_than_the_window_of_an_origin_holds():
    cluster = ManualCluster(settings=Settings(forward_window=3, forward_window_bytes=10))
    cluster.form()
    forward(cluster, 1, b"a", b"b", b"c", b"d")
    assert [message.oseq for message in cluster.waiting(1, 0, Forward)] == [1, 2, 3]
    cluster.settle()
    forward(cluster, 1, b"x" * 50, b"y" * 8, b"z")
    assert [message.oseq for message in cluster.waiting(1, 0, Forward)] == [5]
    cluster.settle()
    assert len(cluster.payloads(2)) == 7


def test_a_master_holds_no_more_than_the_window_of_an_origin():
    cluster = ManualCluster(settings=Settings(forward_window=3, forward_window_bytes=10))
    cluster.form()
    for number in range(2, 12):
        cluster.inject(1, 0, Forward(1, number, b"12345"))
    held = cluster.channels[0]._forwarding._held[1]
    assert sorted(held.payloads) == [2, 3]
    cluster.inject(1, 0, Forward(1, 1, b"x" * 50))
    cluster.settle()
    assert [source.oseq for _, source in sources(cluster, 2)] == [1, 2, 3]


def test_it_may_be_called_before_there_is_a_view_and_not_after_leaving():
    cluster = ManualCluster()
    forward(cluster, 2, b"early")
    cluster.form()
    cluster.settle()
    assert cluster.payloads(0) == [b"early"]
    cluster.act(2, lambda channel: channel.leave(cluster.now))
    with pytest.raises(ChannelError, match="leaves"):
        cluster.channels[2].forward(cluster.now, b"late")


def test_a_replica_outside_the_view_cannot_forward_to_its_master(cluster):
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    cluster.lose(0, 2)
    cluster.tick(0.07, 0, 1)
    cluster.settle(0, 1)
    assert cluster.channels[0].members == (0, 1)
    cluster.channels[0].connected(cluster.now, 2, 3)
    cluster.inject(2, 0, Forward(1, 1, b"x"))
    assert cluster.channels[0].last == 0


def test_what_a_master_before_had_is_not_what_the_next_one_has(cluster):
    forward(cluster, 2, b"one", b"two")
    cluster.lose(2, 0)
    cluster.inject(0, 2, Forwarded(N1, 1, 2, False))
    cluster.silence(0)
    cluster.until(lambda: cluster.waiting(2, 1, Forward), 1, 2)
    _one, two = cluster.waiting(2, 1, Forward)
    cluster.lose(2, 1)
    cluster.inject(2, 1, two)
    cluster.settle(1, 2)
    assert cluster.payloads(1) == cluster.payloads(2) == [b"one", b"two"]


def test_after_a_failover_what_was_not_seen_delivered_goes_to_the_new_master_first(cluster):
    forward(cluster, 2, b"one", b"two", b"three")
    one, two, _three = cluster.waiting(2, 0, Forward)
    cluster.lose(2, 0)
    # The old master orders two of them; only replica 1 gets those.
    cluster.inject(2, 0, one)
    cluster.inject(2, 0, two)
    cluster.deliver(0, 1)
    cluster.lose(0, 2)
    cluster.lose(1, 0)
    for replica in (1, 2):
        cluster.act(replica, lambda channel: channel.disconnected(cluster.now, 0))
    cluster.tick(0.07, 1, 2)
    cluster.settle(1, 2)
    cluster.tick(0.15, 1, 2)
    forward(cluster, 2, b"four")
    cluster.settle(1, 2)
    assert cluster.channels[1].role == "master"
    assert cluster.payloads(1) == cluster.payloads(2) == [b"one", b"two", b"three", b"four"]


@pytest.mark.parametrize("small", [{"forward_window": 4}, {"forward_window_bytes": 8}])
def test_a_master_with_a_smaller_window_asks_for_what_did_not_fit(small):
    """Each replica has settings of its own: what is beyond the master's window is not lost for the view."""
    cluster = ManualCluster(settings=Settings(window=2))
    cluster.settings = Settings(window=2, **small)
    cluster.start(0, 3, 1)
    for other in (1, 2):
        cluster.connect(0, other)
    cluster.form()
    for _ in range(30):
        cluster.channels[1].forward(cluster.now, b"xx")
    cluster.flush(1)
    for _ in range(400):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.payloads(0) == [b"xx"] * 30
