"""Replicas that come to the cluster or leave it: who may ask for it, who is told, and who leads then."""

import msgspec
import pytest

from quorate.hachannel import NotMaster, View, ViewNumber
from quorate.hachannel.model.messages import Activate, Record, Seats
from quorate.hachannel.model.view import Seat
from quorate.hachannel.view_change.election import MAX_MISSED
from quorate.testing.channel.manual_cluster import ManualCluster


class Dialling(ManualCluster):
    """With what the transport of each replica is told: whom to be connected with."""

    def __init__(self, replicas=3):
        self.dials = {}
        super().__init__(replicas)

    def _put(self, replica, output):
        if output.seats is not None:
            self.dials[replica] = [seat.replica for seat in output.seats]
        super()._put(replica, output)


def test_only_a_master_that_stays_takes_a_change_of_the_cluster():
    cluster = ManualCluster()
    with pytest.raises(NotMaster):
        cluster.channels[0].admit(cluster.now, 3)
    cluster.form()
    cluster.stops = False
    cluster.act(0, lambda channel: channel.leave(cluster.now))
    for replica in (0, 1):
        channel = cluster.channels[replica]
        last = channel.last
        assert not channel.standing.may_change
        with pytest.raises(NotMaster):
            channel.admit(cluster.now, 3)
        with pytest.raises(NotMaster):
            channel.remove(cluster.now, 2)
        assert channel.last == last


def test_a_change_that_is_there_already_is_none():
    cluster = ManualCluster()
    master = cluster.form()
    assert not cluster.act(0, lambda channel: channel.admit(cluster.now, 1))
    assert not cluster.act(0, lambda channel: channel.remove(cluster.now, 7))
    assert master.last == 0


def test_that_the_configured_replicas_are_the_cluster_is_said_once():
    cluster = Dialling()
    assert cluster.dials == {}
    cluster.form()
    assert cluster.dials == {replica: [0, 1, 2] for replica in range(3)}
    cluster.dials.clear()
    cluster.silence(2)
    cluster.settle()
    assert cluster.channels[0].members == (0, 1)
    assert cluster.dials == {}


def test_all_are_connected_with_who_is_admitted_and_not_with_who_was_removed():
    cluster = Dialling()
    cluster.form()
    cluster.act(0, lambda channel: channel.admit(cluster.now, 7, b"there"))
    cluster.settle()
    assert cluster.dials == {replica: [0, 1, 2, 7] for replica in range(3)}
    cluster.silence(2)
    cluster.settle()
    cluster.act(0, lambda channel: channel.remove(cluster.now, 7))
    for _ in range(20):
        cluster.deliver(1, 0)
        if cluster.waiting(0, 1, Activate):
            break
        cluster.deliver(0, 1)
    # Until it knows that the view without it is active, its vote may be needed.
    assert cluster.dials[0] == [0, 1, 2]
    assert sorted(cluster.dials[1]) == [0, 1, 2, 7]
    cluster.settle()
    assert cluster.dials[1] == [0, 1, 2]


def test_a_replica_outside_the_view_learns_that_departed_replicas_are_not_needed():
    cluster = Dialling()
    voters = cluster.form().view.config
    number = ViewNumber(2, *voters[0])
    view = View(number, voters, voters[:1], 1, 0, seats=(Seat(0), Seat(1)))
    cluster.inject(0, 1, Record(view))
    # The vote of the one that leaves may be needed.
    assert sorted(cluster.dials[1]) == [0, 1, 2]
    assert not cluster.channels[1].state.known_active
    beat = cluster.channels[0]._heartbeats.heartbeat()
    cluster.inject(
        0, 1, msgspec.structs.replace(beat, view=number, promised=number, newest=number, active=True)
    )
    assert cluster.dials[1] == [0, 1]
    assert cluster.channels[1].state.known_active


def test_a_connecting_replica_receives_the_list_of_replicas():
    cluster = ManualCluster()
    cluster.form()
    seats = Seats(cluster.channels[1].view.number, (Seat(0), Seat(1), Seat(2)))
    cluster.act(1, lambda channel: channel.connected(cluster.now, 9, 77))
    assert cluster.waiting(1, 9, Seats) == [seats]


@pytest.mark.parametrize(("removed", "members"), [(1, (2, 3)), (3, (1, 2))])
def test_a_removal_that_the_proposer_has_to_fetch_concerns_the_very_next_view(removed, members):
    """Only replica 2 has it when the master dies. If it concerns the proposer another one leads."""
    cluster = ManualCluster(4)
    cluster.form()
    cluster.act(0, lambda channel: channel.remove(cluster.now, removed))
    cluster.deliver(0, 2)
    cluster.silence(0)
    for _ in range(60):
        cluster.settle()
        cluster.tick(0.05)
        if cluster.channels[removed].role == "stopped":
            break
    assert cluster.channels[removed].role == "stopped"
    assert cluster.channels[2].members == members
    assert [seat.replica for seat in cluster.channels[2].seats] == [0, *members]
    assert [view.members for view in cluster.views(2)] == [(0, 1, 2, 3), members]


def test_a_master_that_alone_holds_the_log_stays_and_its_removal_is_given_up():
    """The others vote, and could take the change up, but have not taken the log of views before in time."""
    cluster = ManualCluster(4)
    master = cluster.form()
    voters = master.view.members
    master._election._missed = dict.fromkeys(voters[1:], MAX_MISSED)
    cluster.act(0, lambda channel: channel.remove(cluster.now, 0))
    for _ in range(40):
        for way in [way for way, wire in cluster.wires.items() if wire]:
            cluster.deliver(*way, 1)
        if len(cluster.views(0)) == 2:
            break
    assert (master.view.members, master.view.config) == (voters[:1], voters)
    assert [seat.replica for seat in master.seats] == [0, 1, 2, 3]
