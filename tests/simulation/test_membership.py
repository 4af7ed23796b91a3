"""Written scenarios: replicas added, removed and replaced while the cluster runs."""

import pytest

from quorate.hachannel import ChangeRefused, NotMaster, NotYet, Settings
from quorate.hachannel.model.messages import Join
from quorate.testing import Add, Remove, Schedule, Shape
from quorate.testing.channel.host import Host
from quorate.testing.schedules.random_schedules import administered, draw
from quorate.testing.schedules.scripted_cluster import ScriptedCluster
from quorate.testing.schedules.simulation import simulate


def add(cluster, replica=None, *, start=True):
    """Add a host to the world, and its replica to the cluster."""
    if replica is None:
        replica = len(cluster.hosts)
        cluster.hosts.append(Host(cluster.world, replica))
    ask(cluster, lambda channel, now: channel.admit(now, replica, b"place %d" % replica))
    host = cluster.hosts[replica]
    if start and not host.running:
        host.start()
    return host


def ask(cluster, request):
    master = cluster.master()
    result = request(master.channel, cluster.world.now)
    master.settle()
    return result


def remove(cluster, replica):
    ask(cluster, lambda channel, now: channel.remove(now, replica))


def join_of(host):
    state = host.state
    return Join(
        "c", True, state.log.tag(state.replicated.commit), 0, 0, b"", False, 0, state.configuration.birth
    )


def seats(cluster):
    return {tuple(seat.replica for seat in host.channel.seats) for host in cluster.running()}


def test_a_replica_is_added_to_a_running_cluster_and_counts():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    first = cluster.submit(master, 5)
    host = add(cluster)
    assert cluster.whole().replica == master.replica
    assert len(host.channel.view.config) == 4
    assert seats(cluster) == {(0, 1, 2, 3)}
    assert cluster.deliveries[3] == first
    cluster.hosts[0].crash()
    cluster.whole(but=[0])
    cluster.everywhere(cluster.submit(cluster.master(), 3))


def test_a_replica_that_started_before_it_was_added_waits():
    cluster = ScriptedCluster(2)
    cluster.form()
    host = Host(cluster.world, 2)
    cluster.hosts.append(host)
    host.start()
    cluster.until(lambda: host.channel.standing.unlisted)
    assert host.channel.role == "joining"
    assert seats(cluster) == {(0, 1), (0, 1, 2)} or seats(cluster) == {(0, 1)}
    add(cluster, 2)
    cluster.whole()
    assert not host.channel.standing.unlisted


def test_a_slave_that_is_removed_stops_and_the_others_go_on():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    remove(cluster, 2)
    cluster.until(lambda: not cluster.hosts[2].running)
    assert cluster.whole(but=[2]) is master
    assert seats(cluster) == {(0, 1)}
    assert len(master.channel.view.config) == 2
    cluster.everywhere(cluster.submit(master, 3))


def test_a_removed_voter_still_answers_prepare_and_records_the_view_without_it():
    """Three of four must agree on the next view, and one of the three is the one that goes."""
    cluster = ScriptedCluster(4)
    cluster.form()
    cluster.hosts[3].crash()
    cluster.whole(but=[3])
    remove(cluster, 2)
    cluster.until(lambda: not cluster.hosts[2].running)
    master = cluster.whole(but=[2, 3])
    assert len(master.channel.view.config) == 3
    cluster.everywhere(cluster.submit(master, 3))


def test_a_change_that_only_the_removed_voter_could_make_active_is_given_up():
    cluster = ScriptedCluster(5)
    master = cluster.form()
    cluster.hosts[4].crash()
    cluster.whole(but=[4])
    master = cluster.master()
    remove(cluster, 2)
    cluster.until(lambda: master.channel.commit == master.channel.last)
    master.crash()
    heir = cluster.whole(but=[master.replica, 4])
    assert set(heir.channel.members) == {1, 2, 3}
    assert len(heir.channel.view.config) == 5
    cluster.everywhere(cluster.submit(heir, 3))


def test_nobody_is_removed_who_would_leave_it_to_one_that_is_leaving():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    master.state.peers.links[2].leaving = True
    with pytest.raises(ChangeRefused, match="replica 2 cannot be reached"):
        remove(cluster, 1)


def test_a_change_is_given_up_when_a_voter_it_needs_leaves():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    remove(cluster, 1)
    cluster.hosts[2].leave()
    cluster.until(lambda: not cluster.hosts[2].running)
    cluster.hosts[2].start()
    assert set(cluster.whole().channel.members) == {0, 1, 2}
    assert master.running


def test_a_witness_that_was_removed_while_it_asked_to_come_is_not_let_in():
    cluster = ScriptedCluster(3, witnesses=1)
    master = cluster.form()
    witness = cluster.hosts[2]
    remove(cluster, 2)
    cluster.until(lambda: not witness.running)
    ask(cluster, lambda channel, now: channel.admit(now, 2, witness=True))
    cluster.net.muted = Join
    witness.start()
    cluster.until(lambda: master.channel.view.lists(2) and master.channel.can_submit)
    cluster.until(lambda: 2 in master.state.peers.links and master.state.peers.links[2].connected)
    remove(cluster, 2)
    master.deliver(2, join_of(witness))
    cluster.net.muted = None
    cluster.run(1.0)
    assert seats(cluster) == {(0, 1)}
    assert len(master.channel.view.config) == 2


def test_a_master_that_is_removed_hands_over_and_stops():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    sent = cluster.submit(master, 4)
    started = cluster.world.now
    remove(cluster, master.replica)
    cluster.until(lambda: not master.running)
    assert cluster.whole(but=[0]).replica == 1
    # What was granted to it is released: nobody waits for a lease to run out.
    assert cluster.world.now - started < master.channel.state.settings.lease_s
    cluster.everywhere(sent)
    assert [event.master for event in cluster.view_events[2]] == [0, 1]


def test_a_removed_replica_is_not_let_in_until_it_is_added_again():
    cluster = ScriptedCluster(3)
    cluster.form()
    remove(cluster, 2)
    cluster.until(lambda: not cluster.hosts[2].running)
    cluster.hosts[2].start()
    cluster.until(lambda: cluster.hosts[2].channel.standing.unlisted)
    cluster.run(2.0)
    assert cluster.whole(but=[2]).channel.members == (0, 1)
    add(cluster, 2)
    cluster.whole()


def test_a_replica_that_was_removed_comes_back_with_its_disk_under_load():
    """What it gets is ahead of the last heartbeat of the master: nobody has lost anything."""
    schedule = Schedule(
        shape=Shape(disk=True, sync_s=0.002, save_entries=200, settings=Settings(keep=5000)),
        faults=[Remove(at=0.6, who=2), Add(at=1.1, who=2)],
        load=300.0,
    )
    simulate(schedule, seed=0, live=False)


def test_a_dead_replica_is_removed_and_majorities_are_smaller():
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    remove(cluster, 2)
    cluster.until(lambda: cluster.hosts[0].channel.can_submit and seats(cluster) == {(0, 1)})
    remove(cluster, 1)
    cluster.until(lambda: cluster.hosts[0].channel.can_submit and seats(cluster) == {(0,)})
    cluster.everywhere(cluster.submit(cluster.hosts[0], 2))


def test_a_removed_voter_that_missed_it_answers_and_then_stops():
    cluster = ScriptedCluster(4)
    master = cluster.form()
    cluster.split([3], [0, 1, 2])
    cluster.whole(but=[3], seconds=20)
    remove(cluster, 3)
    cluster.until(lambda: seats(cluster) == {(0, 1, 2), (0, 1, 2, 3)})
    assert cluster.hosts[3].channel.role == "blocked"
    cluster.mend()
    cluster.until(lambda: not cluster.hosts[3].running)
    assert cluster.master() is master


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_copy_that_is_lost_for_good_is_replaced_where_no_entry_is_taken_without_it(mode, moves):
    """Its machine is gone: another one comes, with its id elsewhere or with a new one."""
    cluster = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2, mode=mode), disk=True)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 3))
    lost = cluster.hosts[1]
    lost.crash()
    lost.lose_disk()
    cluster.until(lambda: master.channel.role == "blocked")
    assert master.channel.standing.may_change
    if moves:
        assert master.channel.admit(cluster.world.now, 1, b"elsewhere")
        master.settle()
        cluster.until(lambda: b"elsewhere" in {seat.data for seat in master.channel.seats})
        lost.start()
    else:
        fresh = Host(cluster.world, 3)
        cluster.hosts.append(fresh)
        assert master.channel.admit(cluster.world.now, 3, b"new")
        master.settle()
        fresh.start()
        cluster.until(lambda: master.channel.role == "master")
        remove(cluster, 1)
        lost.retired = True
        cluster.until(lambda: seats(cluster) == {(0, 2, 3)})
        cluster.hosts.remove(lost)
    cluster.everywhere(cluster.submit(cluster.whole(), 2))


def test_a_change_that_cannot_be_committed_is_refused_with_too_few_copies_too():
    cluster = ScriptedCluster(3, settings=Settings(min_copies=3, suspect_s=1.0))
    master = cluster.form()
    cluster.hosts[2].crash()
    cluster.until(lambda: master.channel.role == "blocked" and len(master.channel.members) == 2)
    cluster.hosts[1].crash()
    cluster.run(0.5)
    assert not master.channel.standing.may_change
    with pytest.raises(NotYet):
        master.channel.admit(cluster.world.now, 3, b"new")


def test_nobody_is_removed_without_whom_there_are_too_few_copies():
    """Then no entry could be committed any more, not even the one that adds a replica."""
    cluster = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2))
    cluster.form()
    with pytest.raises(ChangeRefused, match="would have 1 copy, and min_copies is 2: add another one"):
        remove(cluster, 1)
    remove(cluster, 2)
    cluster.whole(but=[2])
    cluster.everywhere(cluster.submit(cluster.master(), 3))


def test_what_cannot_be_done_is_refused_with_a_reason():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    slave = cluster.hosts[1].channel
    now = cluster.world.now
    with pytest.raises(NotMaster):
        slave.remove(now, 2)
    assert not master.channel.admit(now, 1)
    assert not master.channel.remove(now, 7)
    with pytest.raises(ChangeRefused, match="stop it"):
        master.channel.admit(now, 1, b"elsewhere")
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    with pytest.raises(ChangeRefused, match="too few"):
        master.channel.remove(cluster.world.now, 1)
    assert master.channel.remove(cluster.world.now, 2)
    with pytest.raises(NotYet, match=r"under way \(replica 2 is removed\)"):
        master.channel.remove(cluster.world.now, 1)
    master.settle()
    cluster.until(lambda: master.channel.can_submit and seats(cluster) == {(0, 1)})
    remove(cluster, 1)
    cluster.until(lambda: master.channel.can_submit and seats(cluster) == {(0,)})
    with pytest.raises(ChangeRefused, match="only one"):
        master.channel.remove(cluster.world.now, 0)


def test_scenario_20_a_leader_that_cannot_commit_makes_no_half_of_a_change():
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=1.5))
    master = cluster.form()
    cluster.split([0], [1, 2])
    assert master.channel.admit(cluster.world.now, 3, b"place")
    master.settle()
    cluster.run(0.5)
    assert [seat.replica for seat in master.channel.view.seats] == [0, 1, 2]
    cluster.until(lambda: cluster.hosts[1].channel.role == "master", 20)
    cluster.mend()
    cluster.whole()
    assert seats(cluster) == {(0, 1, 2)}


def test_a_change_that_reached_a_slave_is_made_by_the_next_master():
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=1.5))
    master = cluster.form()
    cluster.cut((1, 0), (2, 0))
    assert master.channel.admit(cluster.world.now, 3, b"place")
    master.settle()
    cluster.until(lambda: cluster.hosts[1].state.log.reconfig(0) is not None)
    master.crash()
    cluster.until(lambda: cluster.hosts[1].channel.role == "master", 20)
    assert seats(cluster) == {(0, 1, 2, 3)}


def test_scenario_18_the_master_leaves_during_the_handover_and_there_is_one_master():
    cluster = ScriptedCluster(4)
    master = cluster.form()
    remove(cluster, 0)
    cluster.until(lambda: master.channel.role == "changing" or not master.running)
    if master.running:
        master.crash()
    cluster.whole(but=[0])
    assert cluster.master().replica == 1


def test_scenario_21_what_a_newcomer_acknowledges_does_not_commit():
    cluster = ScriptedCluster(3, snapshot_s=2.0)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 200))
    add(cluster)
    cluster.until(lambda: cluster.hosts[3].running and cluster.hosts[3].channel.last > 0)
    cluster.cut((1, 0), (2, 0))
    before = master.channel.commit
    cluster.submit(master, 3)
    cluster.run(0.5)
    assert master.channel.commit == before
    cluster.mend()
    cluster.whole(seconds=30)


def test_a_change_whose_new_voter_dies_is_given_up_as_a_whole():
    cluster = ScriptedCluster(1)
    master = cluster.form()
    host = add(cluster)
    cluster.until(lambda: master.state.pending is not None or len(master.channel.members) == 2)
    host.crash()
    cluster.until(lambda: master.channel.role == "master" and master.channel.can_submit)
    if len(master.channel.members) == 1:
        assert len(master.channel.view.config) == 1
    cluster.hosts[1].start()
    cluster.whole()


def test_a_replica_that_is_down_moves():
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    ask(cluster, lambda channel, now: channel.admit(now, 2, b"elsewhere"))
    cluster.hosts[2].start()
    cluster.whole()
    assert cluster.hosts[2].channel.seats[2].data == b"elsewhere"


def test_an_outsider_that_knows_one_replica_only_learns_of_the_others():
    cluster = ScriptedCluster(2)
    cluster.form()
    add(cluster)
    cluster.whole()
    cluster.world.configured = [0, 1]
    cluster.hosts[1].crash()
    cluster.hosts[1].start()
    cluster.whole()
    assert [seat.replica for seat in cluster.hosts[1].channel.seats] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(12))
def test_clusters_that_an_operator_changes_keep_all_invariants(seed):
    assert simulate(administered(seed), seed=seed).views


def test_one_that_is_added_again_before_it_knows_of_its_removal_has_to_be_started_again():
    """It stops when it hears of the view without it, which the one that has it again follows."""
    seed = 349234
    assert simulate(administered(draw(seed, disk=True)), seed=seed).views


def test_the_reason_of_a_view_after_an_orderly_leave_says_so():
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[2].leave()
    cluster.whole(but=[2])
    assert cluster.master().channel.view.reason == "slave 2 leaves"
    first, second = cluster.master(), cluster.hosts[1]
    first.leave()
    cluster.until(lambda: not first.running)
    assert second.channel.view.reason == "master 0 leaves"
