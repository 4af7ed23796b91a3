"""Who is suspected, and when: silence, and pauses of the replica that listens."""

import itertools

import attrs
import pytest

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import Exit, Join
from quorate.hachannel.model.view import NO_TAG, Voter
from quorate.hachannel.replication.peers import Link, Peers
from quorate.testing.channel.manual_cluster import ManualCluster, returning


def linked(settings: Settings) -> Peers:
    peers = Peers([1], 0.0, settings)
    link = peers.links[1]
    link.connected, link.voter, link.heard = True, Voter(1, 1), 0.0
    return peers


@pytest.mark.parametrize("late", [0.0, 0.01, 0.5])
@pytest.mark.parametrize(
    ("heartbeat_s", "suspect_s"),
    [(0.5, 2.0), (0.49, 2.0), (0.05, 2.0), (0.001, 0.06), (0.015, 0.06), (5.0, 20.0)],
)
def test_silence_is_suspected_however_few_heartbeats_the_settings_allow(heartbeat_s, suspect_s, late):
    """late: how much later than after a heartbeat the replica looks, in heartbeats."""
    peers = linked(Settings(heartbeat_s=heartbeat_s, suspect_s=suspect_s, verify_s=0.0))
    period = heartbeat_s * (1 + late)
    for count in itertools.count(1):
        now = count * period
        assert not peers.paused(now)
        if peers.review(now):
            break
        assert now < suspect_s
    assert peers.links[1].suspected


def test_nothing_that_was_known_of_an_earlier_life_holds_for_the_next():
    cluster = ManualCluster()
    number = cluster.form().view.number
    link = cluster.channels[0].state.peers.links[2]
    cluster.inject(
        2, 0, Join("c", False, NO_TAG, 0, 0, b"", True, 0, cluster.channels[0].state.configuration.birth)
    )
    cluster.inject(2, 0, Exit(number, True, "test"))
    link.ended = link.foreign = True
    assert link.heartbeat is not None
    assert link.join is not None
    link.forget()
    kept = {"replica", "closed", "voter", "connected", "heard", "exit_since", "suspected"}
    unknown = Link(2, link.closed)
    for field in attrs.fields(Link):
        if field.name not in kept:
            assert getattr(link, field.name) == getattr(unknown, field.name), field.name


@pytest.mark.parametrize("heartbeat_s", [0.05, 0.5])
@pytest.mark.parametrize("seconds", [1.1, 1.9, 2.5, 60.0])
def test_nobody_is_blamed_for_a_pause_of_the_replica_itself(heartbeat_s, seconds):
    peers = linked(Settings(heartbeat_s=heartbeat_s, suspect_s=2.0))
    assert not peers.paused(heartbeat_s)
    assert peers.paused(heartbeat_s + seconds) == pytest.approx(seconds)
    assert peers.review(heartbeat_s + seconds) == []
    assert peers.links[1].heard == pytest.approx(seconds)


def test_a_pause_too_short_to_be_noticed_makes_nobody_suspected():
    """The last heartbeat was one period ago, and the next one is there when the replica looks again."""
    peers = linked(Settings(heartbeat_s=0.5, suspect_s=2.0))
    assert not peers.paused(0.5)
    assert not peers.paused(1.49)
    assert peers.review(1.49) == []


def test_a_peer_heard_once_after_a_pause_is_suspected_when_silent_again():
    peers = linked(Settings(suspect_s=2.0))
    peers.links[1].heard = 60.0
    assert peers.paused(60.0) == 60.0
    assert peers.review(61.9) == []
    assert [link.replica for link, _ in peers.review(62.0)] == [1]


def test_a_connection_that_breaks_during_a_pause_is_missed_soon():
    cluster = ManualCluster()
    cluster.form()
    cluster.now += 60.0
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 1))
    assert cluster.channels[0].state.peers.deadline() == pytest.approx(
        cluster.now + cluster.settings.verify_s
    )


def test_a_silent_peer_whose_connection_is_closed_for_that_does_not_live():
    """Nobody should wait for it again, nor read that it does."""
    peers = linked(Settings(heartbeat_s=0.5, suspect_s=2.0, verify_s=0.1))
    link = peers.links[1]
    assert [link.replica for link, _ in peers.review(2.0)] == [1]
    link.connected, link.closed = False, 4.0
    for now in (4.0, 4.05, 4.2):
        assert peers.review(now) == []
    # Nor because this replica did not run.
    assert not peers.paused(0.5)
    assert peers.paused(60.0)
    assert peers.review(60.0) == []
    link.connected, link.heard = True, 61.0
    assert peers.review(61.0) == [(link, "alive")]


def test_a_replica_without_peers_that_was_idle_did_not_stand_still():
    peers = Peers([], 0.0, Settings())
    assert not peers.paused(60.0)
    peers.guest(1, 120.0)
    assert not peers.paused(120.1)


@pytest.mark.parametrize("seconds", [0.3, 4.0, 60.0])
def test_a_slave_is_not_blamed_for_a_pause_of_its_master(seconds):
    """What it has acknowledged meanwhile waits here."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.tick(0.01, 0)
    cluster.now += cluster.settings.stall_s + seconds
    cluster.act(0, lambda channel: channel.tick(cluster.now))
    assert master.role == "master"
    cluster.settle()
    cluster.tick(0.05)
    cluster.settle()
    assert (master.role, master.commit, master.view.number.counter) == ("master", 1, 1)


@pytest.mark.parametrize("phase", ["state", "entries"])
def test_a_learner_is_not_blamed_for_a_pause_of_its_donor(phase):
    """The transfer goes on."""
    if phase == "state":
        cluster = returning(3, Settings(keep=0))
    else:
        cluster = ManualCluster()
        cluster.form()
        cluster.isolate(2)
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
        cluster.connect(0, 2)
    master = cluster.channels[0]
    while master.phases.giving != phase:
        cluster.tick(0.05)
        cluster.deliver(2, 0)
        cluster.deliver(0, 2)
    opened = master._donor.transfer.first_token
    cluster.now += 60.0
    cluster.act(0, lambda channel: channel.tick(cluster.now))
    assert master.phases.giving == phase
    assert master._donor.transfer.first_token == opened
