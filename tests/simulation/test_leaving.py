"""Written scenarios: replicas without disks leave in order."""

import pytest

from quorate.hachannel import Settings
from quorate.testing import simulate
from quorate.testing.channel.cluster_shape import Shape
from quorate.testing.faults.membership import Remove
from quorate.testing.faults.processes import Leave
from quorate.testing.schedules.schedule import Schedule
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def voters(host):
    return tuple(voter.replica for voter in host.channel.view.config)


def comes_back(cluster, master):
    """The last one goes on, and lets the others in."""
    cluster.alone(master)
    payloads = cluster.submit(master, 3)
    for host in cluster.hosts:
        if not host.running:
            host.start()
    cluster.whole()
    cluster.everywhere(payloads)


def test_masters_leave_in_turn_until_one_is_left():
    cluster = ScriptedCluster(4)
    cluster.form()
    while len(cluster.running()) > 1:
        cluster.leave(cluster.master())
        cluster.until(lambda: any(host.state.leading for host in cluster.running()))
    comes_back(cluster, cluster.master())


def test_in_mode_majority_slaves_leave_in_turn():
    cluster = ScriptedCluster(5, settings=Settings(mode="MAJORITY"))
    cluster.form()
    for replica in (4, 2, 3, 1):
        cluster.leave(cluster.hosts[replica])
        cluster.run(1.0)
    comes_back(cluster, cluster.hosts[0])


def test_all_slaves_leave_at_the_same_time():
    cluster = ScriptedCluster(5)
    cluster.form()
    assert cluster.leave(*cluster.hosts[1:]) < Settings().leave_s
    comes_back(cluster, cluster.hosts[0])


def test_of_two_that_founded_a_group_of_three_the_first_leaves_and_the_third_comes():
    cluster = ScriptedCluster(3, expected=2)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.whole(but=[2])
    cluster.leave(cluster.hosts[0])
    cluster.hosts[2].start()
    cluster.whole(but=[0])
    assert voters(cluster.hosts[1]) == (1, 2)


def test_a_leaving_replica_that_is_not_heard_ends_when_it_hears_nobody():
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.split([2], [0, 1])
    # Its connections stay open: until it suspects the others, it may yet be heard.
    assert cluster.leave(cluster.hosts[2]) == pytest.approx(Settings().suspect_s, abs=0.1)
    cluster.mend()
    cluster.hosts[2].start()
    cluster.whole()


def test_of_two_the_master_waits_for_its_services_and_then_for_the_view():
    for seed in range(10):
        cluster = ScriptedCluster(2, stop_s=1.45, seed=seed)
        master = cluster.form()
        cluster.until(lambda master=master: master.channel.holds_lease(master.clock()))
        cluster.leave(master)
        cluster.alone(cluster.running()[0])


def test_an_operator_keeps_in_the_file_who_knows_of_the_cluster():
    # By a file in which only the one that left stands, it would found another cluster when it starts again.
    faults = [Leave(at=2.0, who=1, back_s=0.1), Remove(at=2.0001, who=0)]
    result = simulate(seed=1, schedule=Schedule(faults=faults, shape=Shape(replicas=2)))
    assert (result.skipped, result.faults) == (1, {"leave": 1})


def two_let_a_third_in(**shape):
    """Return a cluster of two in which the vote of a third is in the log, and not yet in a view."""
    cluster = ScriptedCluster(3, expected=2, **shape)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    master = cluster.whole(but=[2])
    cluster.hosts[2].start()
    cluster.until(lambda: master.state.pending is not None)
    return cluster, master


def votes(host):
    return [voter.replica for voter in host.channel.view.config]


def test_two_leave_after_one_of_them_restarted_and_the_last_goes_on():
    """Only the restart tells that the earlier process has ended."""
    cluster = ScriptedCluster(3, shared_host=False)
    cluster.form()
    cluster.run(1.0)
    cluster.hosts[2].crash()
    cluster.run(4.0)
    cluster.hosts[2].start()
    cluster.until(lambda: cluster.hosts[0].state.peers.links[2].connected)
    cluster.hosts[2].leave()
    cluster.hosts[1].leave()
    cluster.run(8.0)
    cluster.hosts[1].start()
    cluster.hosts[2].start()
    cluster.whole()


def test_all_but_one_leave_at_the_same_time_with_the_master():
    """Each is needed until its own vote has gone."""
    cluster = ScriptedCluster(5)
    cluster.form()
    assert cluster.leave(*cluster.hosts[:4]) < Settings().leave_s
    cluster.alone(cluster.hosts[4])


def test_two_witnesses_of_four_leave_and_the_replicas_go_on():
    """They are half of the voters: with their votes the others could agree on nothing."""
    cluster = ScriptedCluster(4, witnesses=2)
    master = cluster.form()
    cluster.leave(*cluster.hosts[2:])
    cluster.until(lambda: len(master.channel.view.config) == 2)
    cluster.leave(cluster.hosts[1])
    cluster.alone(master)
    for replica in (1, 2, 3):
        cluster.hosts[replica].start()
    cluster.whole()


def test_the_vote_of_a_dead_replica_goes_when_another_one_leaves():
    """With three votes, or two, the last replica would be no majority."""
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[1].crash()
    master = cluster.whole(but=[1])
    cluster.run(2.0)
    assert len(master.channel.view.config) == 3
    cluster.leave(cluster.hosts[2])
    cluster.alone(master)


def test_the_vote_of_a_replica_that_is_cut_off_stays_when_another_leaves():
    """If the leaver ended before its own vote had gone, the others would need the vote of the third."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.split([1], [0, 2])
    cluster.whole(but=[1])
    cluster.leave(cluster.hosts[2])
    assert len(master.channel.view.config) == 3
    cluster.mend()
    cluster.hosts[2].start()
    cluster.whole()


def test_a_replica_with_a_disk_keeps_its_vote_when_it_leaves():
    """It comes back as the same voter, and is needed when another one is gone."""
    cluster = ScriptedCluster(3, disk=True)
    master = cluster.form()
    cluster.leave(cluster.hosts[2])
    cluster.run(2.0)
    assert len(master.channel.view.config) == 3


def test_a_replica_that_leaves_says_so_again_on_a_new_connection():
    """The master does not hear it the first time."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.net.shut((0, 2))
    cluster.leave(cluster.hosts[2])
    cluster.until(lambda: len(master.channel.view.config) == 2)


def test_the_first_of_two_founders_waits_for_the_view_with_the_third():
    """The third is frozen just then, and the view waits for it."""
    cluster, master = two_let_a_third_in(settings=Settings(view_change_s=1.5))
    third = cluster.hosts[2]
    third.pause()
    cluster.leave(master)
    cluster.alone(cluster.hosts[1])
    third.resume()
    cluster.whole(but=[master.replica])
    master.start()
    cluster.whole()


def test_a_joiner_that_leaves_before_its_view_gets_no_vote():
    """It has promised nothing, and goes at once. As a voter it would block the last replica."""
    cluster, master = two_let_a_third_in(shared_host=False)
    cluster.leave(cluster.hosts[2])
    cluster.run(1.0)
    cluster.leave(next(host for host in cluster.running() if host is not master))
    cluster.alone(master)


def test_a_joiner_that_leaves_waits_for_the_view_that_it_promised():
    """It hears that the view is active, and has not received it."""
    cluster = ScriptedCluster(5, shared_host=False)
    hosts = cluster.hosts
    master = cluster.form()
    for replica in (4, 3):
        cluster.leave(hosts[replica])
        cluster.run(1.0)
    hosts[3].start()
    cluster.until(lambda: master.state.pending is not None)
    cluster.run(0.002)
    number = master.state.accepted.number
    master.leave()
    cluster.until(lambda: hosts[3].state.promised > number)
    cluster.cut((1, 3))
    cluster.until(lambda: hosts[2].state.serving and hosts[3].state.newer > number)
    assert votes(hosts[2]) == [1, 2, 3]
    cluster.leave(hosts[3])
    assert votes(hosts[1]) == [1, 2]


def test_replicas_that_restarted_leave_in_turn_beside_a_dead_one():
    """Those who knew that the fourth has ended are gone themselves, and the others do not know it."""
    cluster = ScriptedCluster(4)
    hosts = cluster.hosts
    cluster.form()
    hosts[3].crash()
    cluster.whole(but=[3])
    for replica in (2, 1, 0):
        cluster.leave(hosts[replica])
        cluster.run(1.0)
        hosts[replica].start()
        cluster.whole(but=[3])
    master = cluster.master()
    for host in cluster.running():
        if host is not master:
            cluster.leave(host)
            cluster.run(1.0)
    cluster.alone(master)


def test_a_leaver_that_is_heard_waits_longer_than_leave_s_for_its_view():
    """The others have heard that it leaves, and wait for the promise of a silent replica."""
    cluster = ScriptedCluster(4, settings=Settings(leave_s=0.1))
    master = cluster.form()
    cluster.hosts[3].pause()
    cluster.run(0.1)
    cluster.leave(cluster.hosts[1])
    assert cluster.hosts[1].state.me not in master.channel.view.config
