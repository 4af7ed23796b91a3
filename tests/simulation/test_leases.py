"""Leases: which grants count, how long a grant binds its voter, and what a restart remembers."""

import msgspec

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Leased
from quorate.hachannel.model.messages import (
    Exit,
    Grant,
    Heartbeat,
    Prepare,
    Promise,
    Record,
    Recorded,
    Release,
)
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.testing.channel.host import Host
from quorate.testing.channel.manual_cluster import ManualCluster
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def longest_wait(cluster: ScriptedCluster, late: Host, *away: Host) -> float:
    """Start `late` again under load, and return the longest time that an entry waits for its delivery."""
    master = cluster.whole(but=[host.replica for host in (late, *away)])
    late.start()
    longest, end = 0.0, cluster.world.now + 10.0
    while cluster.world.now < end:
        start = cluster.world.now
        payloads = set(cluster.submit(master))
        cluster.until(lambda sent=payloads: sent <= cluster.delivered_once.keys())
        longest = max(longest, cluster.world.now - start)
        cluster.run(0.01)
    assert late.channel.role in ("slave", "witness"), f"{late} is not taken in"
    return longest


def granted_on_a_slow_disk(now):
    """Return a voter whose disk does not have the recorded view yet, when the master asks it for a grant."""
    voters = tuple(Voter(replica, replica + 7) for replica in range(4))
    old = View(ViewNumber(3, 0, 7), voters, voters, 4, 0)
    new = View(ViewNumber(4, 1, 8), voters, voters[1:3], 2, 0)
    log = DurableLog(Remembered(old.number, old, True))
    channel = Channel(3, range(4), incarnation=10, cluster="c", expected=4, log=log)
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    channel.drain()
    channel.receive(now, 1, Record(new))
    beat = Heartbeat(new.number, new.number, True, True, True, True, False, 0, 0, 0, 0, 0, now)
    channel.receive(now, 1, beat)
    out = channel.drain()
    said = [message for _, message in out.messages if isinstance(message, Grant)]
    assert not said
    return channel, out.token


def granted(channel):
    return [peer for peer, message in channel.drain().messages if isinstance(message, Grant)]


def asked_at_once(replicas, expected):
    """Return a replica without memory that has just started when another one proposes a view."""
    channel = Channel(0, range(replicas), incarnation=9, cluster="c", expected=expected)
    channel.start(100.0)
    channel.connected(100.0, 1, 8)
    channel.receive(100.0, 1, Prepare(ViewNumber(1, 1, 8), "start-up"))
    return channel


def promises_now(channel):
    return any(isinstance(message, Promise) for _, message in channel.drain().messages)


def test_a_voter_that_granted_before_waits_for_the_disk_after_a_new_record():
    """The length of its grants is on its disk already; the view that it has just recorded is not."""
    voters = tuple(Voter(replica, replica + 7) for replica in range(4))
    old = View(ViewNumber(3, 0, 7), voters, voters, 4, 0)
    new = View(ViewNumber(4, 1, 8), voters, voters[1:3], 2, 0)
    settings = Settings()
    log = DurableLog(Remembered(old.number, old, True, lease_s=settings.lease_s))
    channel = Channel(3, range(4), incarnation=10, cluster="c", expected=4, log=log, settings=settings)
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    channel.drain()
    channel.receive(5.0, 1, Record(new))
    beat = Heartbeat(new.number, new.number, True, True, True, True, False, 0, 0, 0, 0, 0, 5.0)
    channel.receive(5.0, 1, beat)
    out = channel.drain()
    said = [message for _, message in out.messages if isinstance(message, Grant)]
    assert not said
    channel.persisted(5.0, out.token)
    assert [peer for peer, message in channel.drain().messages if isinstance(message, Grant)] == [1]


def test_grants_of_a_removed_voter_do_not_count():
    """It has not heard that it was removed. The voters of the view are cut off."""
    cluster = ManualCluster(4)
    master = cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    assert master.holds_lease(cluster.now)
    cluster.act(0, lambda channel: channel.remove(cluster.now, 3))
    while master.members != (0, 1, 2):
        here, there = next(pair for pair, wire in cluster.wires.items() if wire)
        cluster.deliver(here, there, 1)
    for pair in list(cluster.wires):
        cluster.lose(*pair)
    granted = 0
    for _ in range(40):
        cluster.tick(0.05, 0)
        for other in (1, 2):
            cluster.lose(0, other)
        for message in cluster.lose(0, 3):
            if isinstance(message, Heartbeat):
                cluster.inject(0, 3, message)
        for message in cluster.lose(3, 0):
            if isinstance(message, Grant):
                granted += 1
                cluster.inject(3, 0, message)
    assert granted > 30
    assert not master.holds_lease(cluster.now)


def test_a_learner_bound_by_a_grant_is_taken_in_after_the_grant_has_ended():
    """It comes back with its disk, and may have granted to the earlier master."""
    cluster = ScriptedCluster(5, disk=True, seed=8)
    first = cluster.form()
    late = cluster.hosts[4]
    late.crash()
    cluster.whole(but=[4])
    first.crash()
    assert longest_wait(cluster, late, first) < 0.5


def test_a_witness_that_may_have_granted_is_taken_in_after_the_grant_has_ended():
    """It comes back without memory where fewer than all replicas found a cluster."""
    cluster = ScriptedCluster(3, expected=2, witnesses=1)
    cluster.form()
    late = cluster.hosts[2]
    late.crash()
    assert longest_wait(cluster, late) < 0.5


def test_a_restarted_voter_is_bound_by_a_grant_that_it_may_have_given():
    """Its disk does not say whether it granted. Another proposer asks it for a promise at once."""
    cluster = ManualCluster()
    master = cluster.form()
    view = cluster.channels[1].view
    assert view is not None
    cluster.tick(0.05)
    cluster.settle()
    assert master.holds_lease(cluster.now)
    log = DurableLog(Remembered(promised=view.number, accepted=view, active=True))
    cluster.start(1, 3, 2, log)
    cluster.connect(1, 2)
    cluster.settle(1, 2)
    cluster.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    for seconds in (0.5, Settings().lease_s - 0.51):
        cluster.tick(seconds, 1)
        cluster.act(1, lambda channel: channel.persisted(cluster.now, cluster.tokens[1]))
        assert not cluster.waiting(1, 2, Promise)
    cluster.tick(0.02, 1)
    cluster.act(1, lambda channel: channel.persisted(cluster.now, cluster.tokens[1]))
    assert cluster.waiting(1, 2, Promise)


def test_a_voter_records_a_view_of_another_proposer_only_after_its_grant():
    """It has not promised the view. The proposer sends the Record again after the grant has ended."""
    cluster = ManualCluster()
    cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    old = cluster.channels[1].view
    assert old is not None
    alone = old.members[2]
    view = msgspec.structs.replace(old, number=ViewNumber(9, *alone), members=(alone,), k=1)
    cluster.inject(2, 1, Record(view))
    assert not cluster.waiting(1, 2, Recorded)
    cluster.tick(Settings().lease_s, 1)
    cluster.inject(2, 1, Record(view))
    assert cluster.waiting(1, 2, Recorded)


def test_a_voter_that_knows_of_a_later_view_grants_nothing_to_the_old_master():
    """The old master and the last slave of five hear each other; three hear all but the old master."""
    cluster = ScriptedCluster(5, settings=Settings(suspect_s=0.5, view_change_s=0.4))
    cluster.form()
    cluster.cut(*(pair for other in (1, 2, 3) for pair in ((0, other), (other, 0))))
    cluster.whole(but=[0])


def test_a_voter_restarted_with_a_shorter_lease_is_bound_by_the_longer_one():
    """What its earlier process granted lasts 3 s, longer than what this process grants."""
    cluster = ManualCluster()
    view = cluster.form().view
    assert view is not None
    cluster.start(1, 3, 2, DurableLog(Remembered(view.number, view, True, lease_s=3.0)))
    cluster.connect(0, 1)
    cluster.connect(1, 2)
    cluster.tick(0.1)
    cluster.settle(0, 1)
    assert cluster.channels[1].lease.holder == Voter(0, 1)
    assert Leased(Settings().lease_s) not in cluster.records[1]
    cluster.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    cluster.tick(2.5, 1)
    cluster.act(1, lambda channel: channel.persisted(cluster.now, cluster.tokens[1]))
    assert not cluster.waiting(1, 2, Promise)
    cluster.tick(0.5, 1)
    cluster.act(1, lambda channel: channel.persisted(cluster.now, cluster.tokens[1]))
    assert cluster.waiting(1, 2, Promise)


def test_a_master_that_lost_the_lease_twice_waits_for_both_answers_of_its_application():
    """The application has answered once: services of the second lease may still run."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    cluster.stops = False
    cluster.tick(2.0, 0)
    assert not master.holds_lease(cluster.now)
    cluster.settle()
    assert master.holds_lease(cluster.now)
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    cluster.act(0, lambda channel: channel.lease_ended(cluster.now))
    cluster.inject(2, 0, Prepare(ViewNumber(9, 2, 3), "test"))
    assert not cluster.waiting(0, 1, Release)
    assert not cluster.waiting(0, 2, Promise)
    cluster.act(0, lambda channel: channel.lease_ended(cluster.now))
    assert cluster.waiting(0, 1, Release)
    assert cluster.waiting(0, 2, Promise)


def test_a_master_that_has_promised_another_view_counts_no_late_grant():
    """It has lost the lease. The voter that grants does not know of the promised view."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    cluster.tick(0.06, 0)
    cluster.deliver(0, 2)
    cluster.lose(0, 1)
    cluster.tick(1.42, 0)
    assert not master.holds_lease(cluster.now)
    cluster.inject(1, 0, Prepare(ViewNumber(9, 1, 2), "test"))
    assert cluster.waiting(0, 1, Promise)
    cluster.deliver(2, 0)
    assert not master.holds_lease(cluster.now)


def test_a_grant_waits_until_the_disk_has_the_recorded_view():
    channel, token = granted_on_a_slow_disk(5.0)
    channel.persisted(5.0, token)
    assert granted(channel) == [1]


def test_a_grant_that_waits_for_the_disk_is_dropped_after_a_higher_promise():
    channel, token = granted_on_a_slow_disk(5.0)
    channel.connected(9.0, 2, 9)
    channel.receive(9.0, 2, Prepare(ViewNumber(5, 2, 9), "test"))
    assert channel.state.promised.replica == 2
    channel.persisted(9.5, token)
    assert granted(channel) == []


def test_a_replica_without_memory_waits_where_fewer_than_all_found_a_cluster():
    """Its earlier process may have granted."""
    for replicas, expected in ((5, 3), (3, 2), (4, 3)):
        channel = asked_at_once(replicas, expected)
        waits = channel.lease.until - 0.01
        assert waits > 100.5, f"it is bound to nobody, of {replicas} with {expected} expected"
        channel.tick(waits)
        assert not promises_now(channel)
        channel.tick(waits + 0.02)
        assert promises_now(channel)


def test_a_replica_without_memory_promises_at_once_where_all_found_a_cluster():
    """Nobody else can hold a lease without it."""
    assert promises_now(asked_at_once(3, 3))
    alone = Channel(0, range(1), incarnation=9, cluster="c", expected=1)
    alone.start(100.0)
    assert not alone.lease.blocks(100.0, Voter(0, 9))


def test_a_voter_grants_nothing_to_a_master_that_leaves():
    """The mark of the master was on its way when the master said EXIT, and arrives after that."""
    cluster = ManualCluster()
    cluster.form()
    cluster.tick(0.06)
    cluster.settle()
    cluster.tick(0.06, 0)
    (heartbeat,) = cluster.waiting(0, 1, Heartbeat)
    cluster.lose(0, 1)
    cluster.inject(0, 1, Exit(heartbeat.view, True, "test"))
    cluster.lose(1, 0)
    cluster.inject(0, 1, heartbeat)
    assert not cluster.waiting(1, 0, Grant)


def test_a_master_that_reigns_again_does_not_repeat_its_release():
    """A replica connects with it in the new reign."""
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.lease.give_up(cluster.now))
    assert cluster.waiting(0, 1, Release)
    cluster.act(0, lambda channel: channel.lease.reign(cluster.now, master=True))
    cluster.connect(0, 1)
    assert not cluster.waiting(0, 1, Release)


def test_a_master_whose_services_still_end_says_how_long_it_is_bound():
    """A proposer asks for its promise no sooner than that."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.tick(0.05)
    cluster.settle()
    cluster.stops = False
    cluster.act(0, lambda channel: channel.lease.give_up(cluster.now))
    assert master.lease.blocks(cluster.now, Voter(1, 2))
    assert 0 < master.lease.bound_s(cluster.now, Voter(1, 2)) <= master.lease.bound_until - cluster.now
    cluster.now = master.lease.bound_until
    assert not master.lease.blocks(cluster.now, Voter(1, 2))
