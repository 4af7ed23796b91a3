"""Witnesses, copies and leases, played on simulated clusters and checked after every step."""

import attrs
import pytest

from quorate.hachannel import ChangeRefused, LeaseChanged, Settings
from quorate.testing import Add, Crash, Isolate, Remove, Schedule, Shape, SlowDisk, simulate
from quorate.testing.channel.host import Host
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def serving(script):
    return [host.replica for host in script.running() if host.channel.holds_lease(host.clock())]


def test_two_replicas_and_a_witness_lose_one_and_go_on():
    script = ScriptedCluster(3, witnesses=1)
    master = script.form()
    assert master.channel.members == (0, 1)
    assert script.hosts[2].channel.role == "witness"
    assert master.channel.view.witnesses == (script.hosts[2].state.me,)
    script.everywhere(script.submit(master, 3))
    master.crash()
    heir = script.whole(but=[0])
    assert heir.replica == 1
    assert heir.channel.view.k == 1
    script.run(0.2)
    assert serving(script) == [1]
    taken = script.submit(heir, 3)
    script.hosts[0].start()
    script.whole()
    script.everywhere(taken)
    assert script.hosts[0].channel.members == (1, 0)


def test_two_replicas_without_a_witness_stop_on_any_loss():
    script = ScriptedCluster(2, settings=QUICK)
    master = script.form()
    script.hosts[1].crash()
    script.run(2.0)
    assert master.channel.role == "blocked"
    assert serving(script) == []


def test_a_replica_and_a_witness_wait_for_the_only_one_that_has_what_was_committed():
    """Scenario 30."""
    script = ScriptedCluster(3, witnesses=1, settings=QUICK, shared_host=False)
    script.form()
    script.split([1], [0, 2])
    master = script.whole(but=[1])
    assert master.replica == 0
    alone = script.submit(master, 3)
    assert script.deliveries[0] == alone
    master.pause()
    script.mend()
    script.split([0], [1, 2])
    script.run(5.0)
    assert len(script.active) == 2
    assert not script.hosts[1].channel.can_submit
    assert script.deliveries[1] == []
    assert serving(script) == []
    master.resume()
    script.mend()
    script.whole()
    script.everywhere(alone)
    assert script.deliveries[1] == alone


def test_the_witness_dies_and_its_next_life_takes_its_place():
    script = ScriptedCluster(3, witnesses=1)
    master = script.form()
    script.hosts[2].crash()
    script.run(0.5)
    assert serving(script) == [0]
    script.hosts[2].start()
    script.until(lambda: script.hosts[2].channel.role == "witness")
    script.until(lambda: len(master.channel.view.config) == 3)
    assert script.hosts[2].state.me in master.channel.view.config
    script.hosts[1].crash()
    assert script.whole(but=[1]) is master


def test_a_witness_never_proposes_however_long_it_waits():
    script = ScriptedCluster(3, witnesses=1, settings=QUICK)
    script.form()
    script.hosts[0].crash()
    script.hosts[1].crash()
    script.run(5.0)
    assert script.hosts[2].state.promised.counter == 1
    assert script.hosts[2].channel.role == "witness"


def test_a_master_that_hears_nobody_stops_its_services_before_another_one_has_any():
    script = ScriptedCluster(3, settings=QUICK, shared_host=False)
    master = script.form()
    script.until(lambda: serving(script) == [0])
    script.split([0], [1, 2])
    cut = script.world.now
    script.until(lambda: serving(script) == [])
    assert script.world.now - cut <= QUICK.lease_s
    assert master.channel.role == "master"
    script.until(lambda: serving(script) == [1])
    script.mend()
    script.whole()
    assert serving(script) == [1]


def test_a_frozen_master_acknowledges_nothing_and_its_services_are_over_when_it_wakes():
    """Scenario 7."""
    script = ScriptedCluster(3, settings=QUICK, shared_host=False)
    master = script.form()
    script.until(lambda: serving(script) == [0])
    taken = script.submit(master, 3)
    script.everywhere(taken)
    master.pause()
    script.until(lambda: serving(script) == [1])
    heir = script.hosts[1]
    fresh = script.submit(heir, 2)
    events = []
    delivered = script.delivered
    script.delivered = lambda host, event: (events.append((host.replica, event)), delivered(host, event))
    assert not master.channel.holds_lease(master.clock())
    master.resume()
    script.whole()
    script.everywhere(fresh)
    mine = [event for replica, event in events if replica == 0]
    assert mine[0] == LeaseChanged(False)
    assert serving(script) == [1]
    assert script.deliveries[0] == taken + fresh


def test_a_pause_shorter_than_the_suspicion_costs_the_services_and_no_view():
    script = ScriptedCluster(3)
    master = script.form()
    script.until(lambda: serving(script) == [0])
    master.pause()
    script.run(1.8)
    assert serving(script) == []
    master.resume()
    script.run(0.2)
    assert serving(script) == [0]
    assert len(script.active) == 1


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_view_with_too_few_copies_takes_nothing_new_until_there_are_more(mode):
    script = ScriptedCluster(3, settings=Settings(min_copies=2, mode=mode))
    master = script.form()
    assert master.channel.view.k >= 2
    script.hosts[1].crash()
    script.whole(but=[1])
    taken = script.submit(master, 2)
    assert len(taken) == 2
    script.hosts[1].start()
    script.whole()
    script.hosts[2].crash()
    script.whole(but=[2])
    script.everywhere(taken)


def test_with_a_witness_one_copy_is_too_few_where_two_are_wanted():
    script = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2))
    master = script.form()
    script.hosts[1].crash()
    script.until(lambda: master.channel.members == (0,))
    script.run(0.2)
    assert master.channel.role == "blocked"
    assert script.submit(master, 1) == []
    assert "1 of the 2 copies" in master.state.too_few_copies
    script.hosts[1].start()
    script.whole()
    script.everywhere(script.submit(master, 1))


def test_a_witness_of_the_view_is_one_also_for_who_was_started_without_it_in_the_file():
    script = ScriptedCluster(3, witnesses=1, settings=QUICK, disk=True)
    script.form()
    script.world.configured = [0, 1]
    for replica in (0, 1):
        script.hosts[replica].crash()
        script.whole(but=[replica])
        script.hosts[replica].start()
        view = script.whole().channel.view
        assert view.witnesses == (script.hosts[2].state.me,)
    script.hosts[2].crash()
    script.hosts[2].lose_disk()
    script.hosts[2].start()
    script.whole()


def add_witness(script):
    """An administrator adds a witness, with the next free id, to the file and to the cluster."""
    replica = len(script.hosts)
    host = Host(script.world, replica)
    script.world.witness_ids.add(replica)
    script.hosts.append(host)
    script.world.configured.append(replica)
    master = script.master()
    assert master.channel.admit(script.world.now, replica, b"place", witness=True)
    master.settle()
    host.start()
    return host


@pytest.mark.parametrize("disk", [False, True])
def test_a_witness_is_added_to_two_replicas_and_then_either_may_fail(disk):
    script = ScriptedCluster(2, settings=QUICK, disk=disk)
    script.everywhere(script.submit(script.form(), 3))
    witness = add_witness(script)
    script.until(lambda: witness.channel.role == "witness")
    master = script.whole()
    assert master.channel.view.witnesses == (witness.state.me,)
    taken = script.submit(master, 3)
    script.run(0.5)
    master.crash()
    heir = script.whole(but=[master.replica])
    assert set(taken) <= set(script.deliveries[heir.replica])
    taken = script.submit(heir, 3)
    master.start()
    script.whole()
    script.everywhere(taken)
    witness.crash()
    script.run(1.0)
    witness.start()
    script.until(lambda: witness.channel.role == "witness")
    assert witness.app.index == 0


def test_a_replica_started_with_the_file_of_before_goes_by_the_witnesses_of_the_cluster():
    script = ScriptedCluster(2, settings=QUICK, disk=True)
    script.form()
    before = list(script.world.configured)
    witness = add_witness(script)
    script.until(lambda: witness.channel.role == "witness")
    script.whole()
    script.world.configured = before
    script.hosts[0].crash()
    script.whole(but=[0])
    script.hosts[0].start()
    master = script.whole()
    assert script.hosts[0].state.seats.witnesses == {2}
    assert master.channel.view.witnesses == (witness.state.me,)


def test_a_witness_that_cannot_answer_stops_the_others_seldom_and_keeps_no_other_one_out():
    script = ScriptedCluster(3, disk=True)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    hangs = add_witness(script)
    hangs.machine.sync_later = lambda: None
    script.run(20.0)
    assert len(script.view_events[0]) < 10
    other = add_witness(script)
    script.until(lambda: other.channel.role == "witness")
    hangs.crash()
    del hangs.machine.sync_later
    hangs.start()
    script.until(lambda: hangs.channel.role == "witness", 3.0)


def test_a_witness_is_removed_and_stops():
    script = ScriptedCluster(3, witnesses=1, settings=QUICK)
    master = script.form()
    witness = script.hosts[2]
    master.channel.remove(script.world.now, 2)
    master.settle()
    script.until(lambda: not witness.running)
    assert master.channel.view.witnesses == ()
    assert len(master.channel.view.config) == 2


def test_a_witness_that_an_operator_did_not_add_waits():
    script = ScriptedCluster(3, settings=QUICK)
    script.form()
    host = Host(script.world, 3)
    script.world.witness_ids.add(3)
    script.hosts.append(host)
    host.start()
    script.run(2.0)
    assert host.channel.standing.unlisted
    assert host.channel.role == "joining"


def test_a_replica_does_not_become_a_witness_nor_the_other_way_round():
    script = ScriptedCluster(3, witnesses=1)
    master = script.form()
    now = script.world.now
    with pytest.raises(ChangeRefused, match="Replica 1 is no witness: remove it before"):
        master.channel.admit(now, 1, b"", witness=True)
    with pytest.raises(ChangeRefused, match="Replica 2 is a witness: remove it before"):
        master.channel.admit(now, 2, b"")
    assert not master.channel.admit(now, 2, b"", witness=True)


def test_witnesses_come_and_go_during_faults():
    faults = [
        Add(witness=True, at=0.8),
        Crash(who="master", at=1.2, back_s=0.5),
        Crash(who=3, at=2.0, back_s=0.4),
        Isolate(who="master", at=2.6, for_s=0.8),
        Remove(who=3, at=4.2),
        Add(who=3, at=5.5),
        Crash(who="any", at=6.0, back_s=0.5),
    ]
    for seed in range(8):
        result = simulate(Schedule(shape=Shape(replicas=3, disk=seed % 2 == 0), faults=faults), seed=seed)
        assert result.healed_s is not None


def restarted_with(script, host, lease_s):
    """Start a replica that has ended with another lease_s than before."""
    shape = script.world.shape
    script.world.shape = attrs.evolve(shape, settings=attrs.evolve(shape.settings, lease_s=lease_s))
    host.start()
    script.world.shape = shape


def test_a_replica_that_is_started_with_a_shorter_lease_is_bound_by_what_it_granted_before():
    script = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=6.0, lease_s=3.0))
    master = script.form()
    script.run(1.0)
    granted = script.hosts[1].channel.lease._leased_s
    assert granted == 3.0
    script.hosts[1].crash()
    start = script.hosts[1].clock()
    restarted_with(script, script.hosts[1], 0.2)
    lease = script.hosts[1].channel.lease
    assert lease.blocks(start + 2.9, script.hosts[2].state.me)
    script.whole()
    script.run(4.0)
    assert script.hosts[1].disk.remembered.lease_s == 0.2, "later it may be forgotten"
    assert master.channel.holds_lease(master.clock())
    script.hosts[1].crash()
    restarted_with(script, script.hosts[1], 5.0)
    script.whole()
    script.run(0.5)
    assert script.hosts[1].disk.remembered.lease_s == 5.0


def test_voters_with_different_leases_grant_each_for_its_own_time():
    script = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=4.0, lease_s=2.0))
    master = script.form()
    script.hosts[1].crash()
    restarted_with(script, script.hosts[1], 0.3)
    script.whole()
    script.run(3.0)
    grants = {voter.replica: until - master.clock() for voter, until in master.channel.lease.grants.items()}
    assert grants[1] < 0.3 < 1.0 < grants[2]


def test_a_lease_lasts_although_every_sync_takes_as_long_as_it_does():
    """What binds a voter is durable long since; what it grants need not wait for the entries."""
    script = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=1.0, lease_s=0.5))
    master = script.form()
    script.until(lambda: serving(script) == [0])
    script.fault(SlowDisk(at=0.0, seconds=1.5, for_s=None))
    for _ in range(300):
        script.submit(master, 1)
        script.run(0.02)
        assert serving(script) == [0]
