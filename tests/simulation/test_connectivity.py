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


def load(script: ScriptedCluster, seconds: float) -> list[bytes]:
    """Submit at whoever takes it, for a while."""
    taken: list[bytes] = []
    for _ in range(int(seconds / 0.1)):
        master = script.world.master()
        if master is not None:
            taken += script.submit(master, 2)
        script.run(0.1)
    return taken


@pytest.mark.parametrize("hub", range(5))
def test_when_all_hear_one_replica_only_nothing_is_lost_and_the_quorum_comes_back(hub):
    """Scenario 16, PartialConnectivity: five in a star."""
    script = ScriptedCluster(5, settings=SETTINGS, seed=hub)
    first = script.form()
    load(script, 0.5)
    script.cut(*star(5, hub))
    load(script, 5.0)
    if hub == first.replica:
        # Its slaves need nobody else.
        assert script.master() is first
    script.mend()
    master = script.whole()
    script.everywhere(script.submit(master, 3))
    assert len({host.app.chain for host in script.hosts}) == 1


def test_who_still_hears_a_master_of_before_goes_with_the_others():
    """The old master and the last of five hear each other; three hear all but the old master.

    Were it bound by grants to the old one, each attempt to take it in would stop the others for a while.
    """
    script = ScriptedCluster(5, settings=SETTINGS)
    first = script.form()
    script.cut(*(pair for other in (1, 2, 3) for pair in ((0, other), (other, 0))))
    load(script, 6.0)
    master = script.whole(but=[first.replica])
    assert sorted(master.channel.members) == [1, 2, 3, 4]
    assert script.counts["views"] < 6
    script.mend()
    master = script.whole()
    script.everywhere(script.submit(master, 3))


def test_in_a_chain_of_three_two_go_on():
    """Scenario 16, PartialConnectivity: the chain, with each of the three in the middle."""
    for middle in range(3):
        script = ScriptedCluster(3, settings=SETTINGS, seed=middle)
        script.form()
        script.cut(*star(3, middle))
        script.run(3.0)
        script.everywhere(script.submit(script.master(), 3))
        script.mend()
        master = script.whole()
        script.everywhere(script.submit(master, 3))


def test_a_ring_in_which_each_sees_another_majority_goes_on_and_all_come_back():
    """Scenario 16, the majority ring: five, each connected to two neighbours, each with another majority."""
    script = ScriptedCluster(5, settings=SETTINGS)
    script.form()
    load(script, 0.5)
    script.cut(*((one, (one + step) % 5) for one in range(5) for step in (2, 3)))
    load(script, 5.0)
    script.everywhere(script.submit(script.master(), 3))
    script.mend()
    master = script.whole()
    script.everywhere(script.submit(master, 3))
    assert len({host.app.chain for host in script.hosts}) == 1


def test_a_quorum_that_was_lost_altogether_recovers():
    """Scenario 16: nobody hears anybody, so nobody commits; what was pending is kept or dropped by all."""
    script = ScriptedCluster(5, settings=SETTINGS)
    master = script.form()
    for replica in range(5):
        script.split([replica], [other for other in range(5) if other != replica])
    pending = script.submit(master, 3)
    script.run(5.0)
    assert script.world.master() is None
    assert not set(pending) & set(script.delivered_once)
    script.mend()
    heir = script.whole()
    script.everywhere(script.submit(heir, 3))
    assert len({host.app.chain for host in script.hosts}) == 1


def test_join_answers_that_come_late_lead_to_one_membership():
    """Scenario 6, the delayed join answer: everything to the newcomer takes longer than it waits."""
    script = ScriptedCluster(3)
    script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    deliver = script.hosts[2].deliver

    def late(peer, message):
        script.world.at(script.world.now + 0.4, lambda: deliver(peer, message))

    script.hosts[2].deliver = late
    script.hosts[2].start()
    script.run(3.0)
    script.hosts[2].deliver = deliver
    script.whole()
    assert sorted(script.hosts[0].channel.members) == [0, 1, 2]
    assert len(script.hosts[0].channel.view.config) == 3
    assert script.first_times == 1
