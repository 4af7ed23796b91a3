"""A replica without its disk: another one in its place, and the right one again."""

import pytest

from quorate.hachannel import Settings
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def said(cluster: ScriptedCluster, line: str) -> int:
    return sum(line in each for each in cluster.world.lines)


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_the_right_disk_is_put_back_after_a_life_without_it(mode: str, victim: int) -> None:
    """The others have heard of the voter that ran meanwhile, which has a higher incarnation."""
    cluster = ScriptedCluster(3, settings=Settings(mode=mode), disk=True)
    payloads = cluster.submit(cluster.form(), 5)
    cluster.everywhere(payloads)
    one, other = (host for host in cluster.hosts if host.replica != victim)
    lost = cluster.hosts[victim]
    for host in cluster.hosts:
        host.crash()
    right = lost.disk
    lost.lose_disk()
    lost.start()
    one.start()
    cluster.run(8.0)
    assert one.channel.role == "blocked"
    assert not one.channel.may_come_back(victim, lost.incarnation)
    lost.crash()
    lost.machine.disk = right
    lost.start()
    assert one.channel.may_come_back(victim, lost.incarnation)
    cluster.whole(but=[other.replica])
    other.start()
    cluster.everywhere([*payloads, *cluster.submit(cluster.whole(), 2)])


def test_a_replica_admitted_after_losing_its_disk_is_no_newcomer() -> None:
    cluster = ScriptedCluster(3, disk=True)
    cluster.everywhere(cluster.submit(cluster.form(), 3))
    lost = next(host for host in cluster.hosts if host is not cluster.master())
    lost.crash()
    lost.lose_disk()
    lost.start()
    cluster.whole()
    assert said(cluster, f"replica {lost.replica} joins: sends the state") == 1
    lost.crash()
    sent = cluster.submit(cluster.whole(but=[lost.replica]), 3)
    lost.start()
    cluster.whole()
    cluster.everywhere(sent)
    assert said(cluster, f"replica {lost.replica} joins: sends the state") == 1
    assert said(cluster, f"replica {lost.replica} joins: sends the entries") == 1
