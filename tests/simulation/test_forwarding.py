"""Submitting from any member: concurrent senders, failovers, members that come and go."""

import pytest

from quorate.hachannel import Settings, Stable
from quorate.hachannel.model.messages import Commit, Data, Forward
from quorate.testing.channel.network import Weather
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

SLOW_SUSPICION = Settings(suspect_s=1.0)


def orders(script):
    """What the running replicas delivered."""
    return [script.deliveries[host.replica] for host in script.running()]


def mine(order, payloads):
    """Those of one sender, as they were delivered."""
    own = set(payloads)
    return [payload for payload in order if payload in own]


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_senders_get_one_order_and_each_its_own(seed):
    """Scenario 1."""
    script = ScriptedCluster(4, seed=seed, weather=Weather(slow_chance=0.2))
    script.form()
    sent = {host.replica: [] for host in script.hosts}
    for _ in range(20):
        for host in script.hosts:
            sent[host.replica] += script.forward(host, script.world.load_random.choice([0, 1, 5]))
        script.run(script.world.load_random.uniform(0, 0.02))
    script.everywhere([payload for payloads in sent.values() for payload in payloads])
    first = orders(script)[0]
    assert all(order == first for order in orders(script))
    assert all(mine(first, payloads) == payloads for payloads in sent.values())


def test_a_sender_and_who_submits_at_the_master_share_one_order():
    script = ScriptedCluster(3)
    master = script.form()
    payloads = []
    for _ in range(10):
        payloads += script.submit(master, 2) + script.forward(master, 2) + script.forward(script.hosts[2], 2)
        script.run(0.003)
    script.everywhere(payloads)
    first = orders(script)[0]
    assert all(order == first for order in orders(script))
    assert sorted(first) == sorted(payloads)


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
@pytest.mark.parametrize("seed", range(4))
def test_the_sequencer_dies_mid_stream_and_nothing_is_lost_repeated_or_reordered(seed, mode):
    """Scenario 2."""
    script = ScriptedCluster(4, seed=seed, settings=Settings(suspect_s=1.0, mode=mode))
    script.form()
    sent = {1: [], 2: [], 3: []}
    for step in range(30):
        for replica, payloads in sent.items():
            payloads += script.forward(script.hosts[replica], 3)
        script.run(0.004)
        if step == 12:
            script.hosts[0].crash()
    script.whole(but=[0])
    script.everywhere([payload for payloads in sent.values() for payload in payloads])
    first = orders(script)[0]
    assert all(order == first for order in orders(script))
    assert all(mine(first, payloads) == payloads for payloads in sent.values())


def test_what_is_sent_again_after_a_failover_comes_before_anything_new():
    """Scenario 3."""
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    script.form()
    # The master orders the old ones and cannot tell anybody.
    script.cut((0, 1), (0, 2))
    old = script.forward(script.hosts[2], 3)
    script.run(0.05)
    assert script.hosts[0].channel.last == 3
    script.hosts[0].crash()
    script.mend()
    new = script.forward(script.hosts[2], 2)
    heir = script.whole(but=[0])
    new += script.forward(script.hosts[2], 2)
    others = script.forward(heir, 2)
    script.everywhere(old + new + others)
    assert mine(script.deliveries[heir.replica], old + new) == old + new


def test_what_the_old_master_had_ordered_is_not_ordered_again():
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    script.form()
    # One slave has the entry; the origin does not know that, and it survives.
    script.cut((0, 2))
    payloads = script.forward(script.hosts[2], 2)
    script.run(0.05)
    assert script.hosts[1].channel.last == 2
    script.hosts[0].crash()
    script.mend()
    script.whole(but=[0])
    payloads += script.forward(script.hosts[2], 1)
    script.everywhere(payloads)
    assert script.deliveries[1] == script.deliveries[2] == payloads
    assert script.hosts[1].channel.last == 3


def test_duplicates_and_broken_connections_deliver_what_was_forwarded_once():
    """Scenario 9."""
    weather = Weather(duplicate_chance=0.5, slow_chance=0.2, notice_s=0.01)
    script = ScriptedCluster(3, seed=5, settings=SLOW_SUSPICION, weather=weather)
    script.form()
    sent = {host.replica: [] for host in script.hosts}
    for step in range(60):
        for host in script.hosts:
            sent[host.replica] += script.forward(host, 2)
        script.run(0.01)
        if step % 6 == 0:
            script.net.break_one()
    payloads = [payload for payloads in sent.values() for payload in payloads]
    script.everywhere(payloads, seconds=30)
    assert sorted(script.deliveries[0]) == sorted(payloads)
    assert all(mine(script.deliveries[1], payloads) == payloads for payloads in sent.values())


def test_a_partition_comes_back_and_what_it_sent_meanwhile_is_delivered_once():
    script = ScriptedCluster(5, settings=SLOW_SUSPICION)
    script.form()
    script.split([3, 4], [0, 1, 2])
    apart = {replica: script.forward(script.hosts[replica], 5) for replica in (3, 4)}
    script.whole(but=[3, 4])
    together = script.forward(script.hosts[1], 5)
    script.run(0.5)
    assert script.deliveries[3] == script.deliveries[4] == []
    script.mend()
    script.whole()
    script.everywhere([*together, *apart[3], *apart[4]])
    first = script.deliveries[0]
    assert mine(first, apart[3]) == apart[3]
    assert mine(first, apart[4]) == apart[4]
    assert sorted(first) == sorted([*together, *apart[3], *apart[4]])


def test_a_member_that_restarts_without_memory_counts_from_one_again():
    script = ScriptedCluster(3, settings=SLOW_SUSPICION)
    script.form()
    first = script.forward(script.hosts[1], 3)
    script.everywhere(first)
    script.hosts[1].crash()
    script.whole(but=[1])
    script.hosts[1].start()
    script.whole()
    second = script.forward(script.hosts[1], 3)
    script.everywhere(second)
    assert script.deliveries[0] == first + second


def stables(script):
    """What each replica was told to be held by all, in order."""
    told = {host.replica: [] for host in script.hosts}
    delivered = script.delivered

    def watch(host, event):
        delivered(host, event)
        if isinstance(event, Stable):
            told[host.replica].append(event.index)

    script.delivered = watch
    return told


def test_waiting_for_all_ends_when_the_member_that_lacks_it_leaves():
    """Scenarios 10 and 27."""
    script = ScriptedCluster(3, settings=Settings(mode="MAJORITY", suspect_s=1.0))
    told = stables(script)
    master = script.form()
    script.cut((0, 2))
    script.submit(master, 3)
    script.until(lambda: script.hosts[1].channel.commit == 3)
    script.run(0.2)
    assert master.channel.stable == 0
    script.hosts[2].leave()
    script.whole(but=[2])
    assert master.channel.stable == script.hosts[1].channel.stable == 4, "the last one takes its vote"
    assert told[0] == told[1] == [4]


def test_waiting_for_all_includes_a_member_that_joined_meanwhile():
    """Scenario 10."""
    script = ScriptedCluster(3, settings=Settings(mode="MAJORITY", suspect_s=1.0), expected=2)
    script.hosts[0].start()
    script.hosts[1].start()
    script.whole(but=[2])
    script.hosts[2].start()
    master = script.whole()
    slow = [host for host in script.hosts if host is not master][-1]
    script.cut((master.replica, slow.replica))
    before = master.channel.stable
    script.submit(master, 1)
    script.run(0.2)
    assert master.channel.commit > before == master.channel.stable
    script.mend()
    script.until(lambda: all(host.channel.stable == master.channel.commit for host in script.hosts))


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_full_windows_to_a_frozen_slave_do_not_stop_the_view_without_it(mode):
    """Scenario 14."""
    settings = Settings(
        suspect_s=0.5, window=4, window_bytes=64, forward_window=2, forward_queue=8, mode=mode, stall_s=60.0
    )
    script = ScriptedCluster(3, settings=settings)
    master = script.form()
    script.hosts[2].pause()
    for _ in range(20):
        script.submit(master, 20)
        script.forward(script.hosts[1], 20)
        script.run(0.02)
    if mode == "ALL":
        assert not master.channel.can_submit
        assert not script.hosts[1].channel.can_forward
    script.whole(but=[2], seconds=1.0)
    script.everywhere(script.submit(master, 2))
    script.until(lambda: not script.hosts[1].channel.forwarding)
    script.hosts[2].resume()
    script.whole()


def test_a_full_window_to_a_frozen_master_does_not_stop_the_view_without_it():
    """Scenario 14."""
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5, forward_window=2, forward_queue=8))
    script.form()
    script.hosts[0].pause()
    sent = {replica: script.forward(script.hosts[replica], 20) for replica in (1, 2)}
    assert len(sent[1]) == len(sent[2]) == 8
    script.whole(but=[0], seconds=3.0)
    script.everywhere(sent[1] + sent[2])
    assert mine(script.deliveries[1], sent[2]) == sent[2]


def test_what_waits_for_a_frozen_peer_is_bounded():
    """Scenario 25: everything that is sent to it before the view without it, also under load."""
    settings = Settings(suspect_s=1.0, mode="MAJORITY", window=16, forward_window=8, forward_queue=50)
    script = ScriptedCluster(3, settings=settings)
    master = script.form()
    script.hosts[2].pause()
    waiting = script.hosts[2].driver.backlog
    for _ in range(45):
        script.submit(master, 16)
        script.forward(script.hosts[1], 10)
        script.run(0.02)
    # A window of entries, and the heartbeats of two replicas.
    assert len(waiting) < 16 + 2 * 25 + 16
    script.whole(but=[2])


def test_slaves_deliver_at_once_and_a_stream_costs_no_messages_for_that():
    script = ScriptedCluster(3, weather=Weather(delay_s=0.001, slow_chance=0.0))
    master = script.form()
    script.run(0.02)
    script.submit(master, 1)
    delivered = script.until(lambda: all(script.deliveries[host.replica] for host in script.hosts))
    assert delivered < 0.01
    sent = {Data: 0, Commit: 0}
    deliver = script.hosts[1].deliver

    def count(peer, message):
        if type(message) in sent:
            sent[type(message)] += 1
        deliver(peer, message)

    script.hosts[1].deliver = count
    for _ in range(100):
        script.submit(master, 1)
        script.run(0.0002)
    script.run(0.02)
    assert sent[Data] == 100
    assert sent[Commit] < 20


def test_a_forwarded_payload_travels_once_when_nothing_is_lost():
    script = ScriptedCluster(3, weather=Weather(slow_chance=0.0))
    master = script.form()
    forwards = []
    deliver = master.deliver

    def count(peer, message):
        if isinstance(message, Forward):
            forwards.append(message.oseq)
        deliver(peer, message)

    master.deliver = count
    payloads = []
    for _ in range(50):
        payloads += script.forward(script.hosts[1], 4)
        script.run(0.02)
    script.everywhere(payloads)
    assert forwards == list(range(1, 201))
