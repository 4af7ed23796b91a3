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


def longest_wait(script: ScriptedCluster, late: Host, *away: Host) -> float:
    """Start `late` again under load, and return the longest time that an entry waits for its delivery."""
    master = script.whole(but=[host.replica for host in (late, *away)])
    late.start()
    longest, end = 0.0, script.world.now + 10.0
    while script.world.now < end:
        start = script.world.now
        payloads = set(script.submit(master))
        script.until(lambda sent=payloads: sent <= script.delivered_once.keys())
        longest = max(longest, script.world.now - start)
        script.run(0.01)
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
    hand = ManualCluster(4)
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.act(0, lambda channel: channel.remove(hand.now, 3))
    while master.members != (0, 1, 2):
        here, there = next(pair for pair, wire in hand.wires.items() if wire)
        hand.deliver(here, there, 1)
    for pair in list(hand.wires):
        hand.lose(*pair)
    granted = 0
    for _ in range(40):
        hand.tick(0.05, 0)
        for other in (1, 2):
            hand.lose(0, other)
        for message in hand.lose(0, 3):
            if isinstance(message, Heartbeat):
                hand.inject(0, 3, message)
        for message in hand.lose(3, 0):
            if isinstance(message, Grant):
                granted += 1
                hand.inject(3, 0, message)
    assert granted > 30
    assert not master.holds_lease(hand.now)


def test_a_learner_bound_by_a_grant_is_taken_in_after_the_grant_has_ended():
    """It comes back with its disk, and may have granted to the earlier master."""
    script = ScriptedCluster(5, disk=True, seed=8)
    first = script.form()
    late = script.hosts[4]
    late.crash()
    script.whole(but=[4])
    first.crash()
    assert longest_wait(script, late, first) < 0.5


def test_a_witness_that_may_have_granted_is_taken_in_after_the_grant_has_ended():
    """It comes back without memory where fewer than all replicas found a cluster."""
    script = ScriptedCluster(3, expected=2, witnesses=1)
    script.form()
    late = script.hosts[2]
    late.crash()
    assert longest_wait(script, late) < 0.5


def test_a_restarted_voter_is_bound_by_a_grant_that_it_may_have_given():
    """Its disk does not say whether it granted. Another proposer asks it for a promise at once."""
    hand = ManualCluster()
    master = hand.form()
    view = hand.channels[1].view
    assert view is not None
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    log = DurableLog(Remembered(promised=view.number, accepted=view, active=True))
    hand.start(1, 3, 2, log)
    hand.connect(1, 2)
    hand.settle(1, 2)
    hand.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    for seconds in (0.5, Settings().lease_s - 0.51):
        hand.tick(seconds, 1)
        hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
        assert not hand.waiting(1, 2, Promise)
    hand.tick(0.02, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert hand.waiting(1, 2, Promise)


def test_a_voter_records_a_view_of_another_proposer_only_after_its_grant():
    """It has not promised the view. The proposer sends the Record again after the grant has ended."""
    hand = ManualCluster()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    old = hand.channels[1].view
    assert old is not None
    alone = old.members[2]
    view = msgspec.structs.replace(old, number=ViewNumber(9, *alone), members=(alone,), k=1)
    hand.inject(2, 1, Record(view))
    assert not hand.waiting(1, 2, Recorded)
    hand.tick(Settings().lease_s, 1)
    hand.inject(2, 1, Record(view))
    assert hand.waiting(1, 2, Recorded)


def test_a_voter_that_knows_of_a_later_view_grants_nothing_to_the_old_master():
    """The old master and the last slave of five hear each other; three hear all but the old master."""
    script = ScriptedCluster(5, settings=Settings(suspect_s=0.5, view_change_s=0.4))
    script.form()
    script.cut(*(pair for other in (1, 2, 3) for pair in ((0, other), (other, 0))))
    script.whole(but=[0])


def test_a_voter_restarted_with_a_shorter_lease_is_bound_by_the_longer_one():
    """What its earlier process granted lasts 3 s, longer than what this process grants."""
    hand = ManualCluster()
    view = hand.form().view
    assert view is not None
    hand.start(1, 3, 2, DurableLog(Remembered(view.number, view, True, lease_s=3.0)))
    hand.connect(0, 1)
    hand.connect(1, 2)
    hand.tick(0.1)
    hand.settle(0, 1)
    assert hand.channels[1].lease.holder == Voter(0, 1)
    assert Leased(Settings().lease_s) not in hand.records[1]
    hand.inject(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    hand.tick(2.5, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert not hand.waiting(1, 2, Promise)
    hand.tick(0.5, 1)
    hand.act(1, lambda channel: channel.persisted(hand.now, hand.tokens[1]))
    assert hand.waiting(1, 2, Promise)


def test_a_master_that_lost_the_lease_twice_waits_for_both_answers_of_its_application():
    """The application has answered once: services of the second lease may still run."""
    hand = ManualCluster()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.stops = False
    hand.tick(2.0, 0)
    assert not master.holds_lease(hand.now)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.act(0, lambda channel: channel.leave(hand.now))
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    hand.inject(2, 0, Prepare(ViewNumber(9, 2, 3), "test"))
    assert not hand.waiting(0, 1, Release)
    assert not hand.waiting(0, 2, Promise)
    hand.act(0, lambda channel: channel.lease_ended(hand.now))
    assert hand.waiting(0, 1, Release)
    assert hand.waiting(0, 2, Promise)


def test_a_master_that_has_promised_another_view_counts_no_late_grant():
    """It has lost the lease. The voter that grants does not know of the promised view."""
    hand = ManualCluster()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.tick(0.06, 0)
    hand.deliver(0, 2)
    hand.lose(0, 1)
    hand.tick(1.42, 0)
    assert not master.holds_lease(hand.now)
    hand.inject(1, 0, Prepare(ViewNumber(9, 1, 2), "test"))
    assert hand.waiting(0, 1, Promise)
    hand.deliver(2, 0)
    assert not master.holds_lease(hand.now)


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
    hand = ManualCluster()
    hand.form()
    hand.tick(0.06)
    hand.settle()
    hand.tick(0.06, 0)
    (heartbeat,) = hand.waiting(0, 1, Heartbeat)
    hand.lose(0, 1)
    hand.inject(0, 1, Exit(heartbeat.view, True, "test"))
    hand.lose(1, 0)
    hand.inject(0, 1, heartbeat)
    assert not hand.waiting(1, 0, Grant)


def test_a_master_that_reigns_again_does_not_repeat_its_release():
    """A replica connects with it in the new reign."""
    hand = ManualCluster()
    hand.form()
    hand.act(0, lambda channel: channel.lease.give_up(hand.now))
    assert hand.waiting(0, 1, Release)
    hand.act(0, lambda channel: channel.lease.reign(hand.now, master=True))
    hand.connect(0, 1)
    assert not hand.waiting(0, 1, Release)


def test_a_master_whose_services_still_end_says_how_long_it_is_bound():
    """A proposer asks for its promise no sooner than that."""
    hand = ManualCluster()
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.stops = False
    hand.act(0, lambda channel: channel.lease.give_up(hand.now))
    assert master.lease.blocks(hand.now, Voter(1, 2))
    assert 0 < master.lease.bound_s(hand.now, Voter(1, 2)) <= master.lease.bound_until - hand.now
    hand.now = master.lease.bound_until
    assert not master.lease.blocks(hand.now, Voter(1, 2))
