"""The first view of a cluster: it is announced once, however early the replicas die."""

from pathlib import Path

import pytest

from quorate.testing.schedules.schedule import read
from quorate.testing.schedules.scripted_cluster import ScriptedCluster
from quorate.testing.schedules.simulation import simulate


def view_announced(cluster):
    """Whether the application of some replica has been told of a view."""
    return any(cluster.view_events.get(host.replica) for host in cluster.hosts)


def founded(replicas):
    """A cluster with disks, all of whose processes die when somebody has been told of the first view.

    What waits for a disk then is lost.
    """
    cluster = ScriptedCluster(replicas, disk=True)
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: view_announced(cluster))
    firsts = [events[0] for events in cluster.view_events.values() if events]
    assert all(event.first_time for event in firsts)
    for host in cluster.hosts:
        host.crash(0)
    return cluster


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_the_first_view_is_announced_once_even_if_all_die_at_that_moment(replicas):
    cluster = founded(replicas)
    assert cluster.first_times == 1
    cluster.form()
    assert cluster.first_times == 1


def test_a_master_that_could_have_services_is_never_followed_by_another_first_time():
    cluster = ScriptedCluster(3, disk=True)
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: any(host.channel.lease.held for host in cluster.hosts))
    gone = cluster.master()
    for host in cluster.hosts:
        host.crash(0)
    rest = [host for host in cluster.hosts if host is not gone]
    for host in rest:
        host.start()
    cluster.whole(but=[gone.replica])
    assert cluster.first_times == 1


def test_a_master_that_dies_before_it_knows_that_there_is_a_view_leaves_the_first_time_to_another():
    cluster = ScriptedCluster(3, disk=True)
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: any(host.channel.installing is not None for host in cluster.hosts))
    master = next(host for host in cluster.hosts if host.channel.installing is not None)
    view = master.channel.installing.view.number
    cluster.until(lambda: len(cluster.accepted.get(view, ())) == 3)
    master.crash(0)
    cluster.whole(but=[master.replica])
    assert cluster.first_times == 1


def test_a_replica_that_restarts_before_the_first_view_is_active_learns_of_it_as_the_first():
    cluster = ScriptedCluster(3, disk=True)
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: any(host.channel.installing is not None for host in cluster.hosts))
    slave = next(host for host in cluster.hosts if host.channel.installing is None)
    slave.crash(0)
    slave.start()
    cluster.whole()
    assert cluster.view_events[slave.replica][0].first_time
    assert cluster.first_times == 1


def test_a_view_whose_voters_have_heard_of_a_first_one_is_not_the_first():
    """Those who were told are not asked at first, and come back later."""
    cluster = ScriptedCluster(3, disk=True, expected=2)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.until(lambda: bool(cluster.view_events.get(1)))
    for host in cluster.hosts[:2]:
        host.crash(0)
    cluster.form()
    assert cluster.first_times == 1


def test_a_founder_that_comes_back_does_not_go_on_beside_those_who_have_founded_another_cluster():
    """Of five, three found a cluster. One knew that their view might become active, and nobody else did."""
    schedule, seed = read(Path(__file__).with_name("two_clusters.json"))
    assert (schedule.shape.replicas, schedule.shape.expected) == (5, 3)
    simulate(schedule, seed=seed)
