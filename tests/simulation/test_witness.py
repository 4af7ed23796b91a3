"""Witnesses, copies and leases, played on simulated clusters and checked after every step."""

import attrs
import pytest

from quorate.hachannel import ChangeRefused, LeaseChanged, Settings
from quorate.testing import Add, Crash, Isolate, Remove, Schedule, Shape, SlowDisk, simulate
from quorate.testing.channel.host import Host
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def serving(cluster):
    return [host.replica for host in cluster.running() if host.channel.holds_lease(host.clock())]


def test_two_replicas_and_a_witness_lose_one_and_go_on():
    cluster = ScriptedCluster(3, witnesses=1)
    master = cluster.form()
    assert master.channel.members == (0, 1)
    assert cluster.hosts[2].channel.role == "witness"
    assert master.channel.view.witnesses == (cluster.hosts[2].state.me,)
    cluster.everywhere(cluster.submit(master, 3))
    master.crash()
    heir = cluster.whole(but=[0])
    assert heir.replica == 1
    assert heir.channel.view.k == 1
    cluster.run(0.2)
    assert serving(cluster) == [1]
    taken = cluster.submit(heir, 3)
    cluster.hosts[0].start()
    cluster.whole()
    cluster.everywhere(taken)
    assert cluster.hosts[0].channel.members == (1, 0)


def test_two_replicas_without_a_witness_stop_on_any_loss():
    cluster = ScriptedCluster(2, settings=QUICK)
    master = cluster.form()
    cluster.hosts[1].crash()
    cluster.run(2.0)
    assert master.channel.role == "blocked"
    assert serving(cluster) == []


def test_a_replica_and_a_witness_wait_for_the_only_one_that_has_what_was_committed():
    """Scenario 30."""
    cluster = ScriptedCluster(3, witnesses=1, settings=QUICK, shared_host=False)
    cluster.form()
    cluster.split([1], [0, 2])
    master = cluster.whole(but=[1])
    assert master.replica == 0
    alone = cluster.submit(master, 3)
    assert cluster.deliveries[0] == alone
    master.pause()
    cluster.mend()
    cluster.split([0], [1, 2])
    cluster.run(5.0)
    assert len(cluster.active) == 2
    assert not cluster.hosts[1].channel.can_submit
    assert cluster.deliveries[1] == []
    assert serving(cluster) == []
    master.resume()
    cluster.mend()
    cluster.whole()
    cluster.everywhere(alone)
    assert cluster.deliveries[1] == alone


def test_the_witness_dies_and_its_next_life_takes_its_place():
    cluster = ScriptedCluster(3, witnesses=1)
    master = cluster.form()
    cluster.hosts[2].crash()
    cluster.run(0.5)
    assert serving(cluster) == [0]
    cluster.hosts[2].start()
    cluster.until(lambda: cluster.hosts[2].channel.role == "witness")
    cluster.until(lambda: len(master.channel.view.config) == 3)
    assert cluster.hosts[2].state.me in master.channel.view.config
    cluster.hosts[1].crash()
    assert cluster.whole(but=[1]) is master


def test_a_witness_never_proposes_however_long_it_waits():
    cluster = ScriptedCluster(3, witnesses=1, settings=QUICK)
    cluster.form()
    cluster.hosts[0].crash()
    cluster.hosts[1].crash()
    cluster.run(5.0)
    assert cluster.hosts[2].state.promised.counter == 1
    assert cluster.hosts[2].channel.role == "witness"


def test_a_master_that_hears_nobody_stops_its_services_before_another_one_has_any():
    cluster = ScriptedCluster(3, settings=QUICK, shared_host=False)
    master = cluster.form()
    cluster.until(lambda: serving(cluster) == [0])
    cluster.split([0], [1, 2])
    cut = cluster.world.now
    cluster.until(lambda: serving(cluster) == [])
    assert cluster.world.now - cut <= QUICK.lease_s
    assert master.channel.role == "master"
    cluster.until(lambda: serving(cluster) == [1])
    cluster.mend()
    cluster.whole()
    assert serving(cluster) == [1]


def test_a_frozen_master_acknowledges_nothing_and_its_services_are_over_when_it_wakes():
    """Scenario 7."""
    cluster = ScriptedCluster(3, settings=QUICK, shared_host=False)
    master = cluster.form()
    cluster.until(lambda: serving(cluster) == [0])
    taken = cluster.submit(master, 3)
    cluster.everywhere(taken)
    master.pause()
    cluster.until(lambda: serving(cluster) == [1])
    heir = cluster.hosts[1]
    fresh = cluster.submit(heir, 2)
    events = []
    delivered = cluster.delivered
    cluster.delivered = lambda host, event: (events.append((host.replica, event)), delivered(host, event))
    assert not master.channel.holds_lease(master.clock())
    master.resume()
    cluster.whole()
    cluster.everywhere(fresh)
    mine = [event for replica, event in events if replica == 0]
    assert mine[0] == LeaseChanged(False)
    assert serving(cluster) == [1]
    assert cluster.deliveries[0] == taken + fresh


def test_a_pause_shorter_than_the_suspicion_costs_the_services_and_no_view():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.until(lambda: serving(cluster) == [0])
    master.pause()
    cluster.run(1.8)
    assert serving(cluster) == []
    master.resume()
    cluster.run(0.2)
    assert serving(cluster) == [0]
    assert len(cluster.active) == 1


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_view_with_too_few_copies_takes_nothing_new_until_there_are_more(mode):
    cluster = ScriptedCluster(3, settings=Settings(min_copies=2, mode=mode))
    master = cluster.form()
    assert master.channel.view.k >= 2
    cluster.hosts[1].crash()
    cluster.whole(but=[1])
    taken = cluster.submit(master, 2)
    assert len(taken) == 2
    cluster.hosts[1].start()
    cluster.whole()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    cluster.everywhere(taken)


def test_with_a_witness_one_copy_is_too_few_where_two_are_wanted():
    cluster = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2))
    master = cluster.form()
    cluster.hosts[1].crash()
    cluster.until(lambda: master.channel.members == (0,))
    cluster.run(0.2)
    assert master.channel.role == "blocked"
    assert cluster.submit(master, 1) == []
    assert "1 of the 2 copies" in master.state.too_few_copies
    cluster.hosts[1].start()
    cluster.whole()
    cluster.everywhere(cluster.submit(master, 1))


def test_a_witness_of_the_view_is_one_also_for_who_was_started_without_it_in_the_file():
    cluster = ScriptedCluster(3, witnesses=1, settings=QUICK, disk=True)
    cluster.form()
    cluster.world.configured = [0, 1]
    for replica in (0, 1):
        cluster.hosts[replica].crash()
        cluster.whole(but=[replica])
        cluster.hosts[replica].start()
        view = cluster.whole().channel.view
        assert view.witnesses == (cluster.hosts[2].state.me,)
    cluster.hosts[2].crash()
    cluster.hosts[2].lose_disk()
    cluster.hosts[2].start()
    cluster.whole()


def add_witness(cluster):
    """An administrator adds a witness, with the next free id, to the file and to the cluster."""
    replica = len(cluster.hosts)
    host = Host(cluster.world, replica)
    cluster.world.witness_ids.add(replica)
    cluster.hosts.append(host)
    cluster.world.configured.append(replica)
    master = cluster.master()
    assert master.channel.admit(cluster.world.now, replica, b"place", witness=True)
    master.settle()
    host.start()
    return host


@pytest.mark.parametrize("disk", [False, True])
def test_a_witness_is_added_to_two_replicas_and_then_either_may_fail(disk):
    cluster = ScriptedCluster(2, settings=QUICK, disk=disk)
    cluster.everywhere(cluster.submit(cluster.form(), 3))
    witness = add_witness(cluster)
    cluster.until(lambda: witness.channel.role == "witness")
    master = cluster.whole()
    assert master.channel.view.witnesses == (witness.state.me,)
    taken = cluster.submit(master, 3)
    cluster.run(0.5)
    master.crash()
    heir = cluster.whole(but=[master.replica])
    assert set(taken) <= set(cluster.deliveries[heir.replica])
    taken = cluster.submit(heir, 3)
    master.start()
    cluster.whole()
    cluster.everywhere(taken)
    witness.crash()
    cluster.run(1.0)
    witness.start()
    cluster.until(lambda: witness.channel.role == "witness")
    assert witness.app.index == 0


def test_a_replica_started_with_the_file_of_before_goes_by_the_witnesses_of_the_cluster():
    cluster = ScriptedCluster(2, settings=QUICK, disk=True)
    cluster.form()
    before = list(cluster.world.configured)
    witness = add_witness(cluster)
    cluster.until(lambda: witness.channel.role == "witness")
    cluster.whole()
    cluster.world.configured = before
    cluster.hosts[0].crash()
    cluster.whole(but=[0])
    cluster.hosts[0].start()
    master = cluster.whole()
    assert cluster.hosts[0].state.seats.witnesses == {2}
    assert master.channel.view.witnesses == (witness.state.me,)


def test_a_witness_that_cannot_answer_stops_the_others_seldom_and_keeps_no_other_one_out():
    cluster = ScriptedCluster(3, disk=True)
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    hangs = add_witness(cluster)
    hangs.machine.sync_later = lambda: None
    cluster.run(20.0)
    assert len(cluster.view_events[0]) < 10
    other = add_witness(cluster)
    cluster.until(lambda: other.channel.role == "witness")
    hangs.crash()
    del hangs.machine.sync_later
    hangs.start()
    cluster.until(lambda: hangs.channel.role == "witness", 3.0)


def test_a_witness_is_removed_and_stops():
    cluster = ScriptedCluster(3, witnesses=1, settings=QUICK)
    master = cluster.form()
    witness = cluster.hosts[2]
    master.channel.remove(cluster.world.now, 2)
    master.settle()
    cluster.until(lambda: not witness.running)
    assert master.channel.view.witnesses == ()
    assert len(master.channel.view.config) == 2


def test_a_witness_that_an_operator_did_not_add_waits():
    cluster = ScriptedCluster(3, settings=QUICK)
    cluster.form()
    host = Host(cluster.world, 3)
    cluster.world.witness_ids.add(3)
    cluster.hosts.append(host)
    host.start()
    cluster.run(2.0)
    assert host.channel.standing.unlisted
    assert host.channel.role == "joining"


def test_a_replica_does_not_become_a_witness_nor_the_other_way_round():
    cluster = ScriptedCluster(3, witnesses=1)
    master = cluster.form()
    now = cluster.world.now
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


def restarted_with(cluster, host, lease_s):
    """Start a replica that has ended with another lease_s than before."""
    shape = cluster.world.shape
    cluster.world.shape = attrs.evolve(shape, settings=attrs.evolve(shape.settings, lease_s=lease_s))
    host.start()
    cluster.world.shape = shape


def test_a_replica_that_is_started_with_a_shorter_lease_is_bound_by_what_it_granted_before():
    cluster = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=6.0, lease_s=3.0))
    master = cluster.form()
    cluster.run(1.0)
    granted = cluster.hosts[1].channel.lease._leased_s
    assert granted == 3.0
    cluster.hosts[1].crash()
    start = cluster.hosts[1].clock()
    restarted_with(cluster, cluster.hosts[1], 0.2)
    lease = cluster.hosts[1].channel.lease
    assert lease.blocks(start + 2.9, cluster.hosts[2].state.me)
    cluster.whole()
    cluster.run(4.0)
    assert cluster.hosts[1].disk.remembered.lease_s == 0.2, "later it may be forgotten"
    assert master.channel.holds_lease(master.clock())
    cluster.hosts[1].crash()
    restarted_with(cluster, cluster.hosts[1], 5.0)
    cluster.whole()
    cluster.run(0.5)
    assert cluster.hosts[1].disk.remembered.lease_s == 5.0


def test_voters_with_different_leases_grant_each_for_its_own_time():
    cluster = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=4.0, lease_s=2.0))
    master = cluster.form()
    cluster.hosts[1].crash()
    restarted_with(cluster, cluster.hosts[1], 0.3)
    cluster.whole()
    cluster.run(3.0)
    grants = {voter.replica: until - master.clock() for voter, until in master.channel.lease.grants.items()}
    assert grants[1] < 0.3 < 1.0 < grants[2]


def test_a_lease_lasts_although_every_sync_takes_as_long_as_it_does():
    """What binds a voter is durable long since; what it grants need not wait for the entries."""
    cluster = ScriptedCluster(3, disk=True, settings=Settings(suspect_s=1.0, lease_s=0.5))
    master = cluster.form()
    cluster.until(lambda: serving(cluster) == [0])
    cluster.fault(SlowDisk(at=0.0, seconds=1.5, for_s=None))
    for _ in range(300):
        cluster.submit(master, 1)
        cluster.run(0.02)
        assert serving(cluster) == [0]
