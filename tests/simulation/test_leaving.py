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


def comes_back(script, master):
    """The last one goes on, and lets the others in."""
    script.alone(master)
    payloads = script.submit(master, 3)
    for host in script.hosts:
        if not host.running:
            host.start()
    script.whole()
    script.everywhere(payloads)


def test_masters_leave_in_turn_until_one_is_left():
    script = ScriptedCluster(4)
    script.form()
    while len(script.running()) > 1:
        script.leave(script.master())
        script.until(lambda: any(host.state.leading for host in script.running()))
    comes_back(script, script.master())


def test_in_mode_majority_slaves_leave_in_turn():
    script = ScriptedCluster(5, settings=Settings(mode="MAJORITY"))
    script.form()
    for replica in (4, 2, 3, 1):
        script.leave(script.hosts[replica])
        script.run(1.0)
    comes_back(script, script.hosts[0])


def test_all_slaves_leave_at_the_same_time():
    script = ScriptedCluster(5)
    script.form()
    assert script.leave(*script.hosts[1:]) < Settings().leave_s
    comes_back(script, script.hosts[0])


def test_of_two_that_founded_a_group_of_three_the_first_leaves_and_the_third_comes():
    script = ScriptedCluster(3, expected=2)
    script.hosts[0].start()
    script.hosts[1].start()
    script.whole(but=[2])
    script.leave(script.hosts[0])
    script.hosts[2].start()
    script.whole(but=[0])
    assert voters(script.hosts[1]) == (1, 2)


def test_who_leaves_and_is_not_heard_goes_when_it_hears_nobody():
    script = ScriptedCluster(3)
    script.form()
    script.split([2], [0, 1])
    # Its connections stay open: until it suspects the others, it may yet be heard.
    assert script.leave(script.hosts[2]) == pytest.approx(Settings().suspect_s, abs=0.1)
    script.mend()
    script.hosts[2].start()
    script.whole()


def test_of_two_the_master_waits_for_its_services_and_then_for_the_view():
    for seed in range(10):
        script = ScriptedCluster(2, stop_s=1.45, seed=seed)
        master = script.form()
        script.until(lambda master=master: master.channel.holds_lease(master.clock()))
        script.leave(master)
        script.alone(script.running()[0])


def test_an_operator_keeps_in_the_file_who_knows_of_the_cluster():
    # By a file in which only the one that left stands, it would found another cluster when it starts again.
    faults = [Leave(at=2.0, who=1, back_s=0.1), Remove(at=2.0001, who=0)]
    result = simulate(seed=1, schedule=Schedule(faults=faults, shape=Shape(replicas=2)))
    assert (result.skipped, result.faults) == (1, {"leave": 1})


def two_let_a_third_in(**shape):
    """Return a cluster of two in which the vote of a third is in the log, and not yet in a view."""
    script = ScriptedCluster(3, expected=2, **shape)
    script.hosts[0].start()
    script.hosts[1].start()
    master = script.whole(but=[2])
    script.hosts[2].start()
    script.until(lambda: master.state.pending is not None)
    return script, master


def votes(host):
    return [voter.replica for voter in host.channel.view.config]


def test_two_leave_after_one_of_them_restarted_and_the_last_goes_on():
    """Only the restart tells that the earlier process has ended."""
    script = ScriptedCluster(3, shared_host=False)
    script.form()
    script.run(1.0)
    script.hosts[2].crash()
    script.run(4.0)
    script.hosts[2].start()
    script.until(lambda: script.hosts[0].state.peers.links[2].connected)
    script.hosts[2].leave()
    script.hosts[1].leave()
    script.run(8.0)
    script.hosts[1].start()
    script.hosts[2].start()
    script.whole()


def test_all_but_one_leave_at_the_same_time_with_the_master():
    """Each is needed until its own vote has gone."""
    script = ScriptedCluster(5)
    script.form()
    assert script.leave(*script.hosts[:4]) < Settings().leave_s
    script.alone(script.hosts[4])


def test_two_witnesses_of_four_leave_and_the_replicas_go_on():
    """They are half of the voters: with their votes the others could agree on nothing."""
    script = ScriptedCluster(4, witnesses=2)
    master = script.form()
    script.leave(*script.hosts[2:])
    script.until(lambda: len(master.channel.view.config) == 2)
    script.leave(script.hosts[1])
    script.alone(master)
    for replica in (1, 2, 3):
        script.hosts[replica].start()
    script.whole()


def test_the_vote_of_a_dead_replica_goes_when_another_one_leaves():
    """With three votes, or two, the last replica would be no majority."""
    script = ScriptedCluster(3)
    script.form()
    script.hosts[1].crash()
    master = script.whole(but=[1])
    script.run(2.0)
    assert len(master.channel.view.config) == 3
    script.leave(script.hosts[2])
    script.alone(master)


def test_the_vote_of_a_replica_that_is_cut_off_stays_when_another_leaves():
    """If the leaver ended before its own vote had gone, the others would need the vote of the third."""
    script = ScriptedCluster(3)
    master = script.form()
    script.split([1], [0, 2])
    script.whole(but=[1])
    script.leave(script.hosts[2])
    assert len(master.channel.view.config) == 3
    script.mend()
    script.hosts[2].start()
    script.whole()


def test_a_replica_with_a_disk_keeps_its_vote_when_it_leaves():
    """It comes back as the same voter, and is needed when another one is gone."""
    script = ScriptedCluster(3, disk=True)
    master = script.form()
    script.leave(script.hosts[2])
    script.run(2.0)
    assert len(master.channel.view.config) == 3


def test_a_replica_that_leaves_says_so_again_on_a_new_connection():
    """The master does not hear it the first time."""
    script = ScriptedCluster(3)
    master = script.form()
    script.net.shut((0, 2))
    script.leave(script.hosts[2])
    script.until(lambda: len(master.channel.view.config) == 2)


def test_the_first_of_two_founders_waits_for_the_view_with_the_third():
    """The third is frozen just then, and the view waits for it."""
    script, master = two_let_a_third_in(settings=Settings(view_change_s=1.5))
    third = script.hosts[2]
    third.pause()
    script.leave(master)
    script.alone(script.hosts[1])
    third.resume()
    script.whole(but=[master.replica])
    master.start()
    script.whole()


def test_a_joiner_that_leaves_before_its_view_gets_no_vote():
    """It has promised nothing, and goes at once. As a voter it would block the last replica."""
    script, master = two_let_a_third_in(shared_host=False)
    script.leave(script.hosts[2])
    script.run(1.0)
    script.leave(next(host for host in script.running() if host is not master))
    script.alone(master)


def test_a_joiner_that_leaves_waits_for_the_view_that_it_promised():
    """It hears that the view is active, and has not received it."""
    script = ScriptedCluster(5, shared_host=False)
    hosts = script.hosts
    master = script.form()
    for replica in (4, 3):
        script.leave(hosts[replica])
        script.run(1.0)
    hosts[3].start()
    script.until(lambda: master.state.pending is not None)
    script.run(0.002)
    number = master.state.accepted.number
    master.leave()
    script.until(lambda: hosts[3].state.promised > number)
    script.cut((1, 3))
    script.until(lambda: hosts[2].state.serving and hosts[3].state.newer > number)
    assert votes(hosts[2]) == [1, 2, 3]
    script.leave(hosts[3])
    assert votes(hosts[1]) == [1, 2]


def test_replicas_that_restarted_leave_in_turn_beside_a_dead_one():
    """Those who knew that the fourth has ended are gone themselves, and the others do not know it."""
    script = ScriptedCluster(4)
    hosts = script.hosts
    script.form()
    hosts[3].crash()
    script.whole(but=[3])
    for replica in (2, 1, 0):
        script.leave(hosts[replica])
        script.run(1.0)
        hosts[replica].start()
        script.whole(but=[3])
    master = script.master()
    for host in script.running():
        if host is not master:
            script.leave(host)
            script.run(1.0)
    script.alone(master)


def test_a_leaver_that_is_heard_waits_longer_than_leave_s_for_its_view():
    """The others have heard that it leaves, and wait for the promise of a silent replica."""
    script = ScriptedCluster(4, settings=Settings(leave_s=0.1))
    master = script.form()
    script.hosts[3].pause()
    script.run(0.1)
    script.leave(script.hosts[1])
    assert script.hosts[1].state.me not in master.channel.view.config
