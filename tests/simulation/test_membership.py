"""Written scenarios: replicas added, removed and replaced while the cluster runs."""

import pytest

from quorate.hachannel import ChangeRefused, NotMaster, NotYet, Settings
from quorate.hachannel.model.messages import Join
from quorate.testing import Add, Remove, Schedule, Shape
from quorate.testing.channel.host import Host
from quorate.testing.schedules.random_schedules import administered, draw
from quorate.testing.schedules.scripted_cluster import ScriptedCluster
from quorate.testing.schedules.simulation import simulate


def add(script, replica=None, *, start=True):
    """Add a host to the world, and its replica to the cluster."""
    if replica is None:
        replica = len(script.hosts)
        script.hosts.append(Host(script.world, replica))
    ask(script, lambda channel, now: channel.admit(now, replica, b"place %d" % replica))
    host = script.hosts[replica]
    if start and not host.running:
        host.start()
    return host


def ask(script, request):
    master = script.master()
    result = request(master.channel, script.world.now)
    master.settle()
    return result


def remove(script, replica):
    ask(script, lambda channel, now: channel.remove(now, replica))


def join_of(host):
    state = host.state
    return Join("c", True, state.log.tag(state.commit), 0, 0, b"", False, 0, state.configuration.birth)


def seats(script):
    return {tuple(seat.replica for seat in host.channel.seats) for host in script.running()}


def test_a_replica_is_added_to_a_running_cluster_and_counts():
    script = ScriptedCluster(3)
    master = script.form()
    first = script.submit(master, 5)
    host = add(script)
    assert script.whole().replica == master.replica
    assert len(host.channel.view.config) == 4
    assert seats(script) == {(0, 1, 2, 3)}
    assert script.deliveries[3] == first
    script.hosts[0].crash()
    script.whole(but=[0])
    script.everywhere(script.submit(script.master(), 3))


def test_a_replica_that_started_before_it_was_added_waits():
    script = ScriptedCluster(2)
    script.form()
    host = Host(script.world, 2)
    script.hosts.append(host)
    host.start()
    script.until(lambda: host.channel.standing.unlisted)
    assert host.channel.role == "joining"
    assert seats(script) == {(0, 1), (0, 1, 2)} or seats(script) == {(0, 1)}
    add(script, 2)
    script.whole()
    assert not host.channel.standing.unlisted


def test_a_slave_that_is_removed_stops_and_the_others_go_on():
    script = ScriptedCluster(3)
    master = script.form()
    remove(script, 2)
    script.until(lambda: not script.hosts[2].running)
    assert script.whole(but=[2]) is master
    assert seats(script) == {(0, 1)}
    assert len(master.channel.view.config) == 2
    script.everywhere(script.submit(master, 3))


def test_a_removed_voter_still_answers_prepare_and_records_the_view_without_it():
    """Three of four must agree on the next view, and one of the three is the one that goes."""
    script = ScriptedCluster(4)
    script.form()
    script.hosts[3].crash()
    script.whole(but=[3])
    remove(script, 2)
    script.until(lambda: not script.hosts[2].running)
    master = script.whole(but=[2, 3])
    assert len(master.channel.view.config) == 3
    script.everywhere(script.submit(master, 3))


def test_a_change_that_only_the_removed_voter_could_make_active_is_given_up():
    script = ScriptedCluster(5)
    master = script.form()
    script.hosts[4].crash()
    script.whole(but=[4])
    master = script.master()
    remove(script, 2)
    script.until(lambda: master.channel.commit == master.channel.last)
    master.crash()
    heir = script.whole(but=[master.replica, 4])
    assert set(heir.channel.members) == {1, 2, 3}
    assert len(heir.channel.view.config) == 5
    script.everywhere(script.submit(heir, 3))


def test_nobody_is_removed_who_would_leave_it_to_one_that_is_leaving():
    script = ScriptedCluster(3)
    master = script.form()
    master.state.peers.links[2].leaving = True
    with pytest.raises(ChangeRefused, match="replica 2 cannot be reached"):
        remove(script, 1)


def test_a_change_is_given_up_when_a_voter_it_needs_leaves():
    script = ScriptedCluster(3)
    master = script.form()
    remove(script, 1)
    script.hosts[2].leave()
    script.until(lambda: not script.hosts[2].running)
    script.hosts[2].start()
    assert set(script.whole().channel.members) == {0, 1, 2}
    assert master.running


def test_a_witness_that_was_removed_while_it_asked_to_come_is_not_let_in():
    script = ScriptedCluster(3, witnesses=1)
    master = script.form()
    witness = script.hosts[2]
    remove(script, 2)
    script.until(lambda: not witness.running)
    ask(script, lambda channel, now: channel.admit(now, 2, witness=True))
    script.net.muted = Join
    witness.start()
    script.until(lambda: master.channel.view.lists(2) and master.channel.can_submit)
    script.until(lambda: 2 in master.state.peers.links and master.state.peers.links[2].connected)
    remove(script, 2)
    master.deliver(2, join_of(witness))
    script.net.muted = None
    script.run(1.0)
    assert seats(script) == {(0, 1)}
    assert len(master.channel.view.config) == 2


def test_a_master_that_is_removed_hands_over_and_stops():
    script = ScriptedCluster(3)
    master = script.form()
    sent = script.submit(master, 4)
    started = script.world.now
    remove(script, master.replica)
    script.until(lambda: not master.running)
    assert script.whole(but=[0]).replica == 1
    # What was granted to it is released: nobody waits for a lease to run out.
    assert script.world.now - started < master.channel.state.settings.lease_s
    script.everywhere(sent)
    assert [event.master for event in script.view_events[2]] == [0, 1]


def test_a_removed_replica_is_not_let_in_until_it_is_added_again():
    script = ScriptedCluster(3)
    script.form()
    remove(script, 2)
    script.until(lambda: not script.hosts[2].running)
    script.hosts[2].start()
    script.until(lambda: script.hosts[2].channel.standing.unlisted)
    script.run(2.0)
    assert script.whole(but=[2]).channel.members == (0, 1)
    add(script, 2)
    script.whole()


def test_a_replica_that_was_removed_comes_back_with_its_disk_under_load():
    """What it gets is ahead of the last heartbeat of the master: nobody has lost anything."""
    schedule = Schedule(
        shape=Shape(disk=True, sync_s=0.002, save_entries=200, settings=Settings(keep=5000)),
        faults=[Remove(at=0.6, who=2), Add(at=1.1, who=2)],
        load=300.0,
    )
    simulate(schedule, seed=0, live=False)


def test_a_dead_replica_is_removed_and_majorities_are_smaller():
    script = ScriptedCluster(3)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    remove(script, 2)
    script.until(lambda: script.hosts[0].channel.can_submit and seats(script) == {(0, 1)})
    remove(script, 1)
    script.until(lambda: script.hosts[0].channel.can_submit and seats(script) == {(0,)})
    script.everywhere(script.submit(script.hosts[0], 2))


def test_a_removed_voter_that_missed_it_answers_and_then_stops():
    script = ScriptedCluster(4)
    master = script.form()
    script.split([3], [0, 1, 2])
    script.whole(but=[3], seconds=20)
    remove(script, 3)
    script.until(lambda: seats(script) == {(0, 1, 2), (0, 1, 2, 3)})
    assert script.hosts[3].channel.role == "blocked"
    script.mend()
    script.until(lambda: not script.hosts[3].running)
    assert script.master() is master


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_copy_that_is_lost_for_good_is_replaced_where_no_entry_is_taken_without_it(mode, moves):
    """Its machine is gone: another one comes, with its id elsewhere or with a new one."""
    script = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2, mode=mode), disk=True)
    master = script.form()
    script.everywhere(script.submit(master, 3))
    lost = script.hosts[1]
    lost.crash()
    lost.lose_disk()
    script.until(lambda: master.channel.role == "blocked")
    assert master.channel.standing.may_change
    if moves:
        assert master.channel.admit(script.world.now, 1, b"elsewhere")
        master.settle()
        script.until(lambda: b"elsewhere" in {seat.data for seat in master.channel.seats})
        lost.start()
    else:
        fresh = Host(script.world, 3)
        script.hosts.append(fresh)
        assert master.channel.admit(script.world.now, 3, b"new")
        master.settle()
        fresh.start()
        script.until(lambda: master.channel.role == "master")
        remove(script, 1)
        lost.retired = True
        script.until(lambda: seats(script) == {(0, 2, 3)})
        script.hosts.remove(lost)
    script.everywhere(script.submit(script.whole(), 2))


def test_a_change_that_cannot_be_committed_is_refused_with_too_few_copies_too():
    script = ScriptedCluster(3, settings=Settings(min_copies=3, suspect_s=1.0))
    master = script.form()
    script.hosts[2].crash()
    script.until(lambda: master.channel.role == "blocked" and len(master.channel.members) == 2)
    script.hosts[1].crash()
    script.run(0.5)
    assert not master.channel.standing.may_change
    with pytest.raises(NotYet):
        master.channel.admit(script.world.now, 3, b"new")


def test_nobody_is_removed_without_whom_there_are_too_few_copies():
    """Then no entry could be committed any more, not even the one that adds a replica."""
    script = ScriptedCluster(3, witnesses=1, settings=Settings(min_copies=2))
    script.form()
    with pytest.raises(ChangeRefused, match="would have 1 copy, and min_copies is 2: add another one"):
        remove(script, 1)
    remove(script, 2)
    script.whole(but=[2])
    script.everywhere(script.submit(script.master(), 3))


def test_what_cannot_be_done_is_refused_with_a_reason():
    script = ScriptedCluster(3)
    master = script.form()
    slave = script.hosts[1].channel
    now = script.world.now
    with pytest.raises(NotMaster):
        slave.remove(now, 2)
    assert not master.channel.admit(now, 1)
    assert not master.channel.remove(now, 7)
    with pytest.raises(ChangeRefused, match="stop it"):
        master.channel.admit(now, 1, b"elsewhere")
    script.hosts[2].crash()
    script.whole(but=[2])
    with pytest.raises(ChangeRefused, match="too few"):
        master.channel.remove(script.world.now, 1)
    assert master.channel.remove(script.world.now, 2)
    with pytest.raises(NotYet, match=r"under way \(replica 2 is removed\)"):
        master.channel.remove(script.world.now, 1)
    master.settle()
    script.until(lambda: master.channel.can_submit and seats(script) == {(0, 1)})
    remove(script, 1)
    script.until(lambda: master.channel.can_submit and seats(script) == {(0,)})
    with pytest.raises(ChangeRefused, match="only one"):
        master.channel.remove(script.world.now, 0)


def test_scenario_20_a_leader_that_cannot_commit_makes_no_half_of_a_change():
    script = ScriptedCluster(3, settings=Settings(suspect_s=1.5))
    master = script.form()
    script.split([0], [1, 2])
    assert master.channel.admit(script.world.now, 3, b"place")
    master.settle()
    script.run(0.5)
    assert [seat.replica for seat in master.channel.view.seats] == [0, 1, 2]
    script.until(lambda: script.hosts[1].channel.role == "master", 20)
    script.mend()
    script.whole()
    assert seats(script) == {(0, 1, 2)}


def test_a_change_that_reached_a_slave_is_made_by_the_next_master():
    script = ScriptedCluster(3, settings=Settings(suspect_s=1.5))
    master = script.form()
    script.cut((1, 0), (2, 0))
    assert master.channel.admit(script.world.now, 3, b"place")
    master.settle()
    script.until(lambda: script.hosts[1].state.log.reconfig(0) is not None)
    master.crash()
    script.until(lambda: script.hosts[1].channel.role == "master", 20)
    assert seats(script) == {(0, 1, 2, 3)}


def test_scenario_18_the_master_leaves_during_the_handover_and_there_is_one_master():
    script = ScriptedCluster(4)
    master = script.form()
    remove(script, 0)
    script.until(lambda: master.channel.role == "changing" or not master.running)
    if master.running:
        master.crash()
    script.whole(but=[0])
    assert script.master().replica == 1


def test_scenario_21_what_a_newcomer_acknowledges_does_not_commit():
    script = ScriptedCluster(3, snapshot_s=2.0)
    master = script.form()
    script.everywhere(script.submit(master, 200))
    add(script)
    script.until(lambda: script.hosts[3].running and script.hosts[3].channel.last > 0)
    script.cut((1, 0), (2, 0))
    before = master.channel.commit
    script.submit(master, 3)
    script.run(0.5)
    assert master.channel.commit == before
    script.mend()
    script.whole(seconds=30)


def test_a_change_whose_new_voter_dies_is_given_up_as_a_whole():
    script = ScriptedCluster(1)
    master = script.form()
    host = add(script)
    script.until(lambda: master.state.pending is not None or len(master.channel.members) == 2)
    host.crash()
    script.until(lambda: master.channel.role == "master" and master.channel.can_submit)
    if len(master.channel.members) == 1:
        assert len(master.channel.view.config) == 1
    script.hosts[1].start()
    script.whole()


def test_a_replica_that_is_down_moves():
    script = ScriptedCluster(3)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    ask(script, lambda channel, now: channel.admit(now, 2, b"elsewhere"))
    script.hosts[2].start()
    script.whole()
    assert script.hosts[2].channel.seats[2].data == b"elsewhere"


def test_an_outsider_that_knows_one_replica_only_learns_of_the_others():
    script = ScriptedCluster(2)
    script.form()
    add(script)
    script.whole()
    script.world.configured = [0, 1]
    script.hosts[1].crash()
    script.hosts[1].start()
    script.whole()
    assert [seat.replica for seat in script.hosts[1].channel.seats] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(12))
def test_clusters_that_an_operator_changes_keep_all_invariants(seed):
    assert simulate(administered(seed), seed=seed).views


def test_one_that_is_added_again_before_it_knows_of_its_removal_has_to_be_started_again():
    """It stops when it hears of the view without it, which the one that has it again follows."""
    seed = 349234
    assert simulate(administered(draw(seed, disk=True)), seed=seed).views


def test_the_reason_of_a_view_after_an_orderly_leave_says_so():
    script = ScriptedCluster(3)
    script.form()
    script.hosts[2].leave()
    script.whole(but=[2])
    assert script.master().channel.view.reason == "slave 2 leaves"
    first, second = script.master(), script.hosts[1]
    first.leave()
    script.until(lambda: not first.running)
    assert second.channel.view.reason == "master 0 leaves"
