"""Submitting from any member: concurrent senders, failovers, members that come and go."""

import pytest

from quorate.hachannel import Settings, Stable
from quorate.hachannel.model.messages import Commit, Data, Forward
from quorate.testing.channel.network import Weather
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

SLOW_SUSPICION = Settings(suspect_s=1.0)


def orders(cluster):
    """What the running replicas delivered."""
    return [cluster.deliveries[host.replica] for host in cluster.running()]


def mine(order, payloads):
    """Those of one sender, as they were delivered."""
    own = set(payloads)
    return [payload for payload in order if payload in own]


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_senders_get_one_order_and_each_its_own(seed):
    """Scenario 1."""
    cluster = ScriptedCluster(4, seed=seed, weather=Weather(slow_chance=0.2))
    cluster.form()
    sent = {host.replica: [] for host in cluster.hosts}
    for _ in range(20):
        for host in cluster.hosts:
            sent[host.replica] += cluster.forward(host, cluster.world.load_random.choice([0, 1, 5]))
        cluster.run(cluster.world.load_random.uniform(0, 0.02))
    cluster.everywhere([payload for payloads in sent.values() for payload in payloads])
    first = orders(cluster)[0]
    assert all(order == first for order in orders(cluster))
    assert all(mine(first, payloads) == payloads for payloads in sent.values())


def test_a_sender_and_who_submits_at_the_master_share_one_order():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    payloads = []
    for _ in range(10):
        payloads += (
            cluster.submit(master, 2) + cluster.forward(master, 2) + cluster.forward(cluster.hosts[2], 2)
        )
        cluster.run(0.003)
    cluster.everywhere(payloads)
    first = orders(cluster)[0]
    assert all(order == first for order in orders(cluster))
    assert sorted(first) == sorted(payloads)


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
@pytest.mark.parametrize("seed", range(4))
def test_the_sequencer_dies_mid_stream_and_nothing_is_lost_repeated_or_reordered(seed, mode):
    """Scenario 2."""
    cluster = ScriptedCluster(4, seed=seed, settings=Settings(suspect_s=1.0, mode=mode))
    cluster.form()
    sent = {1: [], 2: [], 3: []}
    for step in range(30):
        for replica, payloads in sent.items():
            payloads += cluster.forward(cluster.hosts[replica], 3)
        cluster.run(0.004)
        if step == 12:
            cluster.hosts[0].crash()
    cluster.whole(but=[0])
    cluster.everywhere([payload for payloads in sent.values() for payload in payloads])
    first = orders(cluster)[0]
    assert all(order == first for order in orders(cluster))
    assert all(mine(first, payloads) == payloads for payloads in sent.values())


def test_what_is_sent_again_after_a_failover_comes_before_anything_new():
    """Scenario 3."""
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    cluster.form()
    # The master orders the old ones and cannot tell anybody.
    cluster.cut((0, 1), (0, 2))
    old = cluster.forward(cluster.hosts[2], 3)
    cluster.run(0.05)
    assert cluster.hosts[0].channel.last == 3
    cluster.hosts[0].crash()
    cluster.mend()
    new = cluster.forward(cluster.hosts[2], 2)
    heir = cluster.whole(but=[0])
    new += cluster.forward(cluster.hosts[2], 2)
    others = cluster.forward(heir, 2)
    cluster.everywhere(old + new + others)
    assert mine(cluster.deliveries[heir.replica], old + new) == old + new


def test_what_the_old_master_had_ordered_is_not_ordered_again():
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    cluster.form()
    # One slave has the entry; the origin does not know that, and it survives.
    cluster.cut((0, 2))
    payloads = cluster.forward(cluster.hosts[2], 2)
    cluster.run(0.05)
    assert cluster.hosts[1].channel.last == 2
    cluster.hosts[0].crash()
    cluster.mend()
    cluster.whole(but=[0])
    payloads += cluster.forward(cluster.hosts[2], 1)
    cluster.everywhere(payloads)
    assert cluster.deliveries[1] == cluster.deliveries[2] == payloads
    assert cluster.hosts[1].channel.last == 3


def test_duplicates_and_broken_connections_deliver_what_was_forwarded_once():
    """Scenario 9."""
    weather = Weather(duplicate_chance=0.5, slow_chance=0.2, notice_s=0.01)
    cluster = ScriptedCluster(3, seed=5, settings=SLOW_SUSPICION, weather=weather)
    cluster.form()
    sent = {host.replica: [] for host in cluster.hosts}
    for step in range(60):
        for host in cluster.hosts:
            sent[host.replica] += cluster.forward(host, 2)
        cluster.run(0.01)
        if step % 6 == 0:
            cluster.net.break_one()
    payloads = [payload for payloads in sent.values() for payload in payloads]
    cluster.everywhere(payloads, seconds=30)
    assert sorted(cluster.deliveries[0]) == sorted(payloads)
    assert all(mine(cluster.deliveries[1], payloads) == payloads for payloads in sent.values())


def test_a_partition_comes_back_and_what_it_sent_meanwhile_is_delivered_once():
    cluster = ScriptedCluster(5, settings=SLOW_SUSPICION)
    cluster.form()
    cluster.split([3, 4], [0, 1, 2])
    apart = {replica: cluster.forward(cluster.hosts[replica], 5) for replica in (3, 4)}
    cluster.whole(but=[3, 4])
    together = cluster.forward(cluster.hosts[1], 5)
    cluster.run(0.5)
    assert cluster.deliveries[3] == cluster.deliveries[4] == []
    cluster.mend()
    cluster.whole()
    cluster.everywhere([*together, *apart[3], *apart[4]])
    first = cluster.deliveries[0]
    assert mine(first, apart[3]) == apart[3]
    assert mine(first, apart[4]) == apart[4]
    assert sorted(first) == sorted([*together, *apart[3], *apart[4]])


def test_a_member_that_restarts_without_memory_counts_from_one_again():
    cluster = ScriptedCluster(3, settings=SLOW_SUSPICION)
    cluster.form()
    first = cluster.forward(cluster.hosts[1], 3)
    cluster.everywhere(first)
    cluster.hosts[1].crash()
    cluster.whole(but=[1])
    cluster.hosts[1].start()
    cluster.whole()
    second = cluster.forward(cluster.hosts[1], 3)
    cluster.everywhere(second)
    assert cluster.deliveries[0] == first + second


def stables(cluster):
    """What each replica was told to be held by all, in order."""
    told = {host.replica: [] for host in cluster.hosts}
    delivered = cluster.delivered

    def watch(host, event):
        delivered(host, event)
        if isinstance(event, Stable):
            told[host.replica].append(event.index)

    cluster.delivered = watch
    return told


def test_waiting_for_all_ends_when_the_member_that_lacks_it_leaves():
    """Scenarios 10 and 27."""
    cluster = ScriptedCluster(3, settings=Settings(mode="MAJORITY", suspect_s=1.0))
    told = stables(cluster)
    master = cluster.form()
    cluster.cut((0, 2))
    cluster.submit(master, 3)
    cluster.until(lambda: cluster.hosts[1].channel.commit == 3)
    cluster.run(0.2)
    assert master.channel.stable == 0
    cluster.hosts[2].leave()
    cluster.whole(but=[2])
    assert master.channel.stable == cluster.hosts[1].channel.stable == 4, "the last one takes its vote"
    assert told[0] == told[1] == [4]


def test_waiting_for_all_includes_a_member_that_joined_meanwhile():
    """Scenario 10."""
    cluster = ScriptedCluster(3, settings=Settings(mode="MAJORITY", suspect_s=1.0), expected=2)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.whole(but=[2])
    cluster.hosts[2].start()
    master = cluster.whole()
    slow = [host for host in cluster.hosts if host is not master][-1]
    cluster.cut((master.replica, slow.replica))
    before = master.channel.stable
    cluster.submit(master, 1)
    cluster.run(0.2)
    assert master.channel.commit > before == master.channel.stable
    cluster.mend()
    cluster.until(lambda: all(host.channel.stable == master.channel.commit for host in cluster.hosts))


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_full_windows_to_a_frozen_slave_do_not_stop_the_view_without_it(mode):
    """Scenario 14."""
    settings = Settings(
        suspect_s=0.5, window=4, window_bytes=64, forward_window=2, forward_queue=8, mode=mode, stall_s=60.0
    )
    cluster = ScriptedCluster(3, settings=settings)
    master = cluster.form()
    cluster.hosts[2].pause()
    for _ in range(20):
        cluster.submit(master, 20)
        cluster.forward(cluster.hosts[1], 20)
        cluster.run(0.02)
    if mode == "ALL":
        assert not master.channel.can_submit
        assert not cluster.hosts[1].channel.can_forward
    cluster.whole(but=[2], seconds=1.0)
    cluster.everywhere(cluster.submit(master, 2))
    cluster.until(lambda: not cluster.hosts[1].channel.forwarding)
    cluster.hosts[2].resume()
    cluster.whole()


def test_a_full_window_to_a_frozen_master_does_not_stop_the_view_without_it():
    """Scenario 14."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5, forward_window=2, forward_queue=8))
    cluster.form()
    cluster.hosts[0].pause()
    sent = {replica: cluster.forward(cluster.hosts[replica], 20) for replica in (1, 2)}
    assert len(sent[1]) == len(sent[2]) == 8
    cluster.whole(but=[0], seconds=3.0)
    cluster.everywhere(sent[1] + sent[2])
    assert mine(cluster.deliveries[1], sent[2]) == sent[2]


def test_what_waits_for_a_frozen_peer_is_bounded():
    """Scenario 25: everything that is sent to it before the view without it, also under load."""
    settings = Settings(suspect_s=1.0, mode="MAJORITY", window=16, forward_window=8, forward_queue=50)
    cluster = ScriptedCluster(3, settings=settings)
    master = cluster.form()
    cluster.hosts[2].pause()
    waiting = cluster.hosts[2].driver.backlog
    for _ in range(45):
        cluster.submit(master, 16)
        cluster.forward(cluster.hosts[1], 10)
        cluster.run(0.02)
    # A window of entries, and the heartbeats of two replicas.
    assert len(waiting) < 16 + 2 * 25 + 16
    cluster.whole(but=[2])


def test_slaves_deliver_at_once_and_a_stream_costs_no_messages_for_that():
    cluster = ScriptedCluster(3, weather=Weather(delay_s=0.001, slow_chance=0.0))
    master = cluster.form()
    cluster.run(0.02)
    cluster.submit(master, 1)
    delivered = cluster.until(lambda: all(cluster.deliveries[host.replica] for host in cluster.hosts))
    assert delivered < 0.01
    sent = {Data: 0, Commit: 0}
    deliver = cluster.hosts[1].deliver

    def count(peer, message):
        if type(message) in sent:
            sent[type(message)] += 1
        deliver(peer, message)

    cluster.hosts[1].deliver = count
    for _ in range(100):
        cluster.submit(master, 1)
        cluster.run(0.0002)
    cluster.run(0.02)
    assert sent[Data] == 100
    assert sent[Commit] < 20


def test_a_forwarded_payload_travels_once_when_nothing_is_lost():
    cluster = ScriptedCluster(3, weather=Weather(slow_chance=0.0))
    master = cluster.form()
    forwards = []
    deliver = master.deliver

    def count(peer, message):
        if isinstance(message, Forward):
            forwards.append(message.oseq)
        deliver(peer, message)

    master.deliver = count
    payloads = []
    for _ in range(50):
        payloads += cluster.forward(cluster.hosts[1], 4)
        cluster.run(0.02)
    cluster.everywhere(payloads)
    assert forwards == list(range(1, 201))
