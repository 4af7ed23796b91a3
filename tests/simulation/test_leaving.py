"""Written scenarios: replicas without disks leave in order. More: mutants_leaving.py."""

import pytest

from quorate.hachannel import Settings
from quorate.testing import simulate
from quorate.testing.channel.cluster_shape import Shape
from quorate.testing.faults.operators import Remove
from quorate.testing.faults.processes import Leave
from quorate.testing.schedules.schedule import Schedule
from quorate.testing.schedules.script import Script


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
    script = Script(4)
    script.form()
    while len(script.running()) > 1:
        script.leave(script.master())
        script.until(lambda: any(host.state.leading for host in script.running()))
    comes_back(script, script.master())


def test_in_mode_majority_slaves_leave_in_turn():
    script = Script(5, settings=Settings(mode="MAJORITY"))
    script.form()
    for replica in (4, 2, 3, 1):
        script.leave(script.hosts[replica])
        script.run(1.0)
    comes_back(script, script.hosts[0])


def test_all_slaves_leave_at_the_same_time():
    script = Script(5)
    script.form()
    assert script.leave(*script.hosts[1:]) < Settings().leave_s, "they waited in vain"
    comes_back(script, script.hosts[0])


def test_of_two_that_founded_a_group_of_three_the_first_leaves_and_the_third_comes():
    script = Script(3, expected=2)
    script.hosts[0].start()
    script.hosts[1].start()
    script.whole(but=[2])
    script.leave(script.hosts[0])
    script.hosts[2].start()
    script.whole(but=[0])
    assert voters(script.hosts[1]) == (1, 2)


def test_who_leaves_and_is_not_heard_goes_when_it_hears_nobody():
    script = Script(3)
    script.form()
    script.split([2], [0, 1])
    # Its connections stay open: until it suspects the others, it may yet be heard.
    assert script.leave(script.hosts[2]) == pytest.approx(Settings().suspect_s, abs=0.1)
    script.mend()
    script.hosts[2].start()
    script.whole()


def test_of_two_the_master_waits_for_its_services_and_then_for_the_view():
    for seed in range(10):
        script = Script(2, stop_s=1.45, seed=seed)
        master = script.form()
        script.until(lambda master=master: master.channel.holds_lease(master.clock()))
        script.leave(master)
        script.alone(script.running()[0])


def test_an_operator_keeps_in_the_file_who_knows_of_the_cluster():
    # By a file in which only the one that left stands, it would found another cluster when it starts again.
    faults = [Leave(at=2.0, who=1, back_s=0.1), Remove(at=2.0001, who=0)]
    result = simulate(seed=1, schedule=Schedule(faults=faults, shape=Shape(replicas=2)))
    assert (result.skipped, result.faults) == (1, {"leave": 1})
