"""A replica whose application has a wrong state: it votes, never serves, and gets the whole state."""

import pytest

from quorate.hachannel import NotMaster, Settings
from quorate.hachannel.protocol.diagnosis import diagnose
from quorate.testing.channel.host import Host
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def formed(replicas: int = 3, *, witnesses: int = 0, disk: bool = True) -> ScriptedCluster:
    cluster = ScriptedCluster(replicas, witnesses=witnesses, disk=disk, settings=QUICK)
    cluster.everywhere(cluster.submit(cluster.form(), 10))
    cluster.run(0.5)
    return cluster


def disqualify(host: Host) -> None:
    host.disqualify("its state is wrong")


def serving(cluster: ScriptedCluster) -> list[int]:
    return [host.replica for host in cluster.running() if host.channel.holds_lease(host.clock())]


@pytest.mark.parametrize("disk", [False, True])
def test_an_unfit_slave_gets_the_whole_state_as_the_same_voter(disk: bool) -> None:
    cluster = formed(disk=disk)
    slave = cluster.hosts[1]
    voter = slave.state.me
    disqualify(slave)
    assert slave.state.unfit
    cluster.until(lambda: cluster.hosts[0].channel.members == (0, 2))
    assert cluster.whole() is cluster.hosts[0]
    assert not slave.state.unfit
    assert slave.state.me == voter
    assert cluster.installed[1] == 1
    assert cluster.hosts[0].channel.members == (0, 2, 1)


def test_an_unfit_master_hands_over_at_once_and_gets_the_state() -> None:
    cluster = formed()
    master = cluster.hosts[0]
    disqualify(master)
    assert not master.channel.holds_lease(master.clock())
    assert not master.channel.can_submit
    with pytest.raises(NotMaster):
        master.channel.submit(master.clock(), 0, b"late")
    took_s = cluster.until(lambda: serving(cluster) == [1])
    assert took_s < 0.3
    assert cluster.whole() is cluster.hosts[1]
    assert cluster.hosts[1].channel.members == (1, 2, 0)
    assert cluster.installed[0] == 1


def test_two_replicas_and_a_witness_drop_an_unfit_slave_and_take_it_in_again() -> None:
    cluster = formed(witnesses=1)
    disqualify(cluster.hosts[1])
    cluster.until(lambda: cluster.hosts[0].channel.members == (0,))
    cluster.everywhere(cluster.submit(cluster.hosts[0], 3))
    assert cluster.whole().channel.members == (0, 1)
    assert cluster.installed[1] == 1


@pytest.mark.parametrize("dropped", [False, True])
def test_an_unfit_slave_does_not_serve_after_its_master_but_waits_for_it(dropped: bool) -> None:
    cluster = formed(witnesses=1)
    master, slave, witness = cluster.hosts
    disqualify(slave)
    if dropped:
        cluster.until(lambda: master.channel.members == (0,))
    master.crash()
    cluster.run(5.0)
    assert serving(cluster) == []
    if not dropped:
        assert slave.channel.role == "blocked"
        for host in (slave, witness):
            assert diagnose(host.channel).startswith(
                "replica 1 has another state than the others had, and waits for one that has the right "
                "state; start replica 0"
            )
    master.start()
    assert cluster.whole() is master
    assert cluster.installed[1] == 1
    assert not slave.state.unfit


def test_what_only_the_unfit_slave_has_acknowledged_goes_on_with_its_master() -> None:
    """Its log counts: the master that comes back fetches the end of it."""
    cluster = formed(witnesses=1)
    master, slave, _ = cluster.hosts
    disqualify(slave)
    entries = cluster.submit(master, 3)
    cluster.until(lambda: slave.channel.last > slave.channel.commit or not entries, 0.2)
    cluster.injector.crash(master, 1.0)
    assert cluster.whole() is master


def test_a_replica_is_unfit_after_a_restart_until_it_has_the_whole_state() -> None:
    cluster = formed(witnesses=1)
    master, slave, _ = cluster.hosts
    disqualify(slave)
    cluster.until(lambda: slave.disk is not None and slave.disk.remembered.unfit)
    slave.crash()
    master.crash()
    cluster.run(1.0)
    slave.start()
    assert slave.state.unfit
    cluster.run(3.0)
    assert serving(cluster) == []
    master.start()
    assert cluster.whole() is master
    assert cluster.installed[1] == 1
    slave.crash()
    slave.start()
    assert not slave.state.unfit
    assert cluster.whole() is master
    assert cluster.installed[1] == 0


def test_an_unfit_slave_does_not_propose_although_it_is_first_after_the_master() -> None:
    cluster = formed()
    disqualify(cluster.hosts[1])
    cluster.hosts[0].crash()
    cluster.until(lambda: serving(cluster) == [2])
    cluster.hosts[0].start()
    assert cluster.whole() is cluster.hosts[2]


def test_of_an_unfit_replica_in_a_view_change_no_view_is_left() -> None:
    cluster = formed()
    heir = cluster.hosts[1]
    cluster.hosts[0].crash()
    cluster.until(lambda: heir.channel.proposing)
    disqualify(heir)
    assert not heir.channel.proposing
    cluster.until(lambda: serving(cluster) == [2])
    cluster.hosts[0].start()
    assert cluster.whole() is cluster.hosts[2]


def test_a_learner_that_follows_entries_begins_again_with_the_state() -> None:
    cluster = formed()
    away = cluster.hosts[2]
    away.crash()
    master = cluster.whole(but=[2])
    cluster.everywhere(cluster.submit(master, 3))
    away.start()
    cluster.until(lambda: away.channel.phases.learning == "entries")
    disqualify(away)
    assert cluster.whole() is master
    assert cluster.installed[2] == 1


def test_disqualified_twice_is_disqualified_once() -> None:
    cluster = formed()
    slave = cluster.hosts[1]
    disqualify(slave)
    before = slave.state.me
    disqualify(slave)
    cluster.until(lambda: not slave.state.unfit)
    assert cluster.whole().replica == 0
    assert slave.state.me == before
    assert cluster.installed[1] == 1
