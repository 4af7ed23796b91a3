"""Networks in which replicas are connected in part: who hears whom decides, and nothing is lost.

Two sources: figure 1 of OmniPaxos (Ng, Haridi, Carbone, 2023), and the nemesis "majorities-ring" of Jepsen.
"""

import pytest

from quorate.hachannel import Settings
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

SETTINGS = Settings(suspect_s=0.5, view_change_s=0.4)


def star(replicas: int, hub: int) -> list[tuple[int, int]]:
    """What to cut so that each is connected to the hub only."""
    leaves = [replica for replica in range(replicas) if replica != hub]
    return [(one, other) for one in leaves for other in leaves if one != other]


def load(cluster: ScriptedCluster, seconds: float) -> list[bytes]:
    """Submit at whoever takes it, for a while."""
    taken: list[bytes] = []
    for _ in range(int(seconds / 0.1)):
        master = cluster.world.master()
        if master is not None:
            taken += cluster.submit(master, 2)
        cluster.run(0.1)
    return taken


@pytest.mark.parametrize("hub", range(5))
def test_when_all_hear_one_replica_only_nothing_is_lost_and_the_quorum_comes_back(hub):
    """Scenario 16, PartialConnectivity: five in a star."""
    cluster = ScriptedCluster(5, settings=SETTINGS, seed=hub)
    first = cluster.form()
    load(cluster, 0.5)
    cluster.cut(*star(5, hub))
    load(cluster, 5.0)
    if hub == first.replica:
        # Its slaves need nobody else.
        assert cluster.master() is first
    cluster.mend()
    master = cluster.whole()
    cluster.everywhere(cluster.submit(master, 3))
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_a_replica_that_still_hears_an_earlier_master_joins_the_others():
    """The old master and the last of five hear each other; three hear all but the old master.

    Were it bound by grants to the old one, each attempt to take it in would stop the others for a while.
    """
    cluster = ScriptedCluster(5, settings=SETTINGS)
    first = cluster.form()
    cluster.cut(*(pair for other in (1, 2, 3) for pair in ((0, other), (other, 0))))
    load(cluster, 6.0)
    master = cluster.whole(but=[first.replica])
    assert sorted(master.channel.members) == [1, 2, 3, 4]
    assert cluster.counts["views"] < 6
    cluster.mend()
    master = cluster.whole()
    cluster.everywhere(cluster.submit(master, 3))


def test_in_a_chain_of_three_two_go_on():
    """Scenario 16, PartialConnectivity: the chain, with each of the three in the middle."""
    for middle in range(3):
        cluster = ScriptedCluster(3, settings=SETTINGS, seed=middle)
        cluster.form()
        cluster.cut(*star(3, middle))
        cluster.run(3.0)
        cluster.everywhere(cluster.submit(cluster.master(), 3))
        cluster.mend()
        master = cluster.whole()
        cluster.everywhere(cluster.submit(master, 3))


def test_a_ring_in_which_each_sees_another_majority_goes_on_and_all_come_back():
    """Scenario 16, the majority ring: five, each connected to two neighbours, each with another majority."""
    cluster = ScriptedCluster(5, settings=SETTINGS)
    cluster.form()
    load(cluster, 0.5)
    cluster.cut(*((one, (one + step) % 5) for one in range(5) for step in (2, 3)))
    load(cluster, 5.0)
    cluster.everywhere(cluster.submit(cluster.master(), 3))
    cluster.mend()
    master = cluster.whole()
    cluster.everywhere(cluster.submit(master, 3))
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_a_quorum_that_was_lost_altogether_recovers():
    """Scenario 16: nobody hears anybody, so nobody commits; what was pending is kept or dropped by all."""
    cluster = ScriptedCluster(5, settings=SETTINGS)
    master = cluster.form()
    for replica in range(5):
        cluster.split([replica], [other for other in range(5) if other != replica])
    pending = cluster.submit(master, 3)
    cluster.run(5.0)
    assert cluster.world.master() is None
    assert not set(pending) & set(cluster.delivered_once)
    cluster.mend()
    heir = cluster.whole()
    cluster.everywhere(cluster.submit(heir, 3))
    assert len({host.app.chain for host in cluster.hosts}) == 1


def test_join_answers_that_come_late_lead_to_one_membership():
    """Scenario 6, the delayed join answer: everything to the newcomer takes longer than it waits."""
    cluster = ScriptedCluster(3)
    cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    deliver = cluster.hosts[2].deliver

    def late(peer, message):
        cluster.world.at(cluster.world.now + 0.4, lambda: deliver(peer, message))

    cluster.hosts[2].deliver = late
    cluster.hosts[2].start()
    cluster.run(3.0)
    cluster.hosts[2].deliver = deliver
    cluster.whole()
    assert sorted(cluster.hosts[0].channel.members) == [0, 1, 2]
    assert len(cluster.hosts[0].channel.view.config) == 3
    assert cluster.first_times == 1
