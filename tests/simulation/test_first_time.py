"""The first view of a cluster: it is announced once, however early the replicas die."""

from pathlib import Path

import pytest

from quorate.testing.schedules.schedule import read
from quorate.testing.schedules.scripted_cluster import ScriptedCluster
from quorate.testing.schedules.simulation import simulate


def told(script):
    """Whether the application of some replica has been told of a view."""
    return any(script.view_events.get(host.replica) for host in script.hosts)


def founded(replicas):
    """A cluster with disks, all of whose processes die when somebody has been told of the first view.

    What waits for a disk then is lost.
    """
    script = ScriptedCluster(replicas, disk=True)
    for host in script.hosts:
        host.start()
    script.until(lambda: told(script))
    firsts = [events[0] for events in script.view_events.values() if events]
    assert all(event.first_time for event in firsts)
    for host in script.hosts:
        host.crash(0)
    return script


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_the_first_view_is_announced_once_even_if_all_die_at_that_moment(replicas):
    script = founded(replicas)
    assert script.first_times == 1
    script.form()
    assert script.first_times == 1


def test_a_master_that_could_have_services_is_never_followed_by_another_first_time():
    script = ScriptedCluster(3, disk=True)
    for host in script.hosts:
        host.start()
    script.until(lambda: any(host.channel.lease.held for host in script.hosts))
    gone = script.master()
    for host in script.hosts:
        host.crash(0)
    rest = [host for host in script.hosts if host is not gone]
    for host in rest:
        host.start()
    script.whole(but=[gone.replica])
    assert script.first_times == 1


def test_a_master_that_dies_before_it_knows_that_there_is_a_view_leaves_the_first_time_to_another():
    script = ScriptedCluster(3, disk=True)
    for host in script.hosts:
        host.start()
    script.until(lambda: any(host.channel.installing is not None for host in script.hosts))
    master = next(host for host in script.hosts if host.channel.installing is not None)
    view = master.channel.installing.view.number
    script.until(lambda: len(script.accepted.get(view, ())) == 3)
    master.crash(0)
    script.whole(but=[master.replica])
    assert script.first_times == 1


def test_who_restarts_before_it_knows_of_the_first_view_is_told_of_it_as_the_first():
    script = ScriptedCluster(3, disk=True)
    for host in script.hosts:
        host.start()
    script.until(lambda: any(host.channel.installing is not None for host in script.hosts))
    slave = next(host for host in script.hosts if host.channel.installing is None)
    slave.crash(0)
    slave.start()
    script.whole()
    assert script.view_events[slave.replica][0].first_time
    assert script.first_times == 1


def test_a_view_whose_voters_have_heard_of_a_first_one_is_not_the_first():
    """Those who were told are not asked at first, and come back later."""
    script = ScriptedCluster(3, disk=True, expected=2)
    script.hosts[0].start()
    script.hosts[1].start()
    script.until(lambda: bool(script.view_events.get(1)))
    for host in script.hosts[:2]:
        host.crash(0)
    script.form()
    assert script.first_times == 1


def test_a_founder_that_comes_back_does_not_go_on_beside_those_who_have_founded_another_cluster():
    """Of five, three found a cluster. One knew that their view might become active, and nobody else did."""
    schedule, seed = read(Path(__file__).with_name("two_clusters.json"))
    assert (schedule.shape.replicas, schedule.shape.expected) == (5, 3)
    simulate(schedule, seed=seed)
