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
    hand = ManualCluster()
    with pytest.raises(NotMaster):
        hand.channels[0].admit(hand.now, 3)
    hand.form()
    hand.stops = False
    hand.act(0, lambda channel: channel.leave(hand.now))
    for replica in (0, 1):
        channel = hand.channels[replica]
        last = channel.last
        assert not channel.standing.may_change
        with pytest.raises(NotMaster):
            channel.admit(hand.now, 3)
        with pytest.raises(NotMaster):
            channel.remove(hand.now, 2)
        assert channel.last == last


def test_a_change_that_is_there_already_is_none():
    hand = ManualCluster()
    master = hand.form()
    assert not hand.act(0, lambda channel: channel.admit(hand.now, 1))
    assert not hand.act(0, lambda channel: channel.remove(hand.now, 7))
    assert master.last == 0


def test_that_the_configured_replicas_are_the_cluster_is_said_once():
    hand = Dialling()
    assert hand.dials == {}
    hand.form()
    assert hand.dials == {replica: [0, 1, 2] for replica in range(3)}
    hand.dials.clear()
    hand.silence(2)
    hand.settle()
    assert hand.channels[0].members == (0, 1)
    assert hand.dials == {}


def test_all_are_connected_with_who_is_admitted_and_not_with_who_was_removed():
    hand = Dialling()
    hand.form()
    hand.act(0, lambda channel: channel.admit(hand.now, 7, b"there"))
    hand.settle()
    assert hand.dials == {replica: [0, 1, 2, 7] for replica in range(3)}
    hand.silence(2)
    hand.settle()
    hand.act(0, lambda channel: channel.remove(hand.now, 7))
    for _ in range(20):
        hand.deliver(1, 0)
        if hand.waiting(0, 1, Activate):
            break
        hand.deliver(0, 1)
    # Until it knows that the view without it is active, its vote may be needed.
    assert hand.dials[0] == [0, 1, 2]
    assert sorted(hand.dials[1]) == [0, 1, 2, 7]
    hand.settle()
    assert hand.dials[1] == [0, 1, 2]


def test_who_is_outside_a_view_knows_that_those_who_left_with_it_are_not_needed_once_it_hears_of_it():
    hand = Dialling()
    voters = hand.form().view.config
    number = ViewNumber(2, *voters[0])
    view = View(number, voters, voters[:1], 1, 0, seats=(Seat(0), Seat(1)))
    hand.inject(0, 1, Record(view))
    # The vote of the one that leaves may be needed.
    assert sorted(hand.dials[1]) == [0, 1, 2]
    assert not hand.channels[1].state.known_active
    beat = hand.channels[0]._heartbeats.heartbeat()
    hand.inject(0, 1, msgspec.structs.replace(beat, view=number, promised=number, newest=number, active=True))
    assert hand.dials[1] == [0, 1]
    assert hand.channels[1].state.known_active


def test_who_connects_is_told_who_belongs_to_the_cluster():
    hand = ManualCluster()
    hand.form()
    seats = Seats(hand.channels[1].view.number, (Seat(0), Seat(1), Seat(2)))
    hand.act(1, lambda channel: channel.connected(hand.now, 9, 77))
    assert hand.waiting(1, 9, Seats) == [seats]


@pytest.mark.parametrize(("removed", "members"), [(1, (2, 3)), (3, (1, 2))])
def test_a_removal_that_the_proposer_has_to_fetch_concerns_the_very_next_view(removed, members):
    """Only replica 2 has it when the master dies. If it concerns the proposer another one leads."""
    hand = ManualCluster(4)
    hand.form()
    hand.act(0, lambda channel: channel.remove(hand.now, removed))
    hand.deliver(0, 2)
    hand.silence(0)
    for _ in range(60):
        hand.settle()
        hand.tick(0.05)
        if hand.channels[removed].role == "stopped":
            break
    assert hand.channels[removed].role == "stopped"
    assert hand.channels[2].members == members
    assert [seat.replica for seat in hand.channels[2].seats] == [0, *members]
    assert [view.members for view in hand.views(2)] == [(0, 1, 2, 3), members]


def test_a_master_that_alone_holds_the_log_stays_and_its_removal_is_given_up():
    """The others vote, and could take the change up, but have not taken the log of views before in time."""
    hand = ManualCluster(4)
    master = hand.form()
    voters = master.view.members
    master._election._missed = dict.fromkeys(voters[1:], MAX_MISSED)
    hand.act(0, lambda channel: channel.remove(hand.now, 0))
    for _ in range(40):
        for way in [way for way, wire in hand.wires.items() if wire]:
            hand.deliver(*way, 1)
        if len(hand.views(0)) == 2:
            break
    assert (master.view.members, master.view.config) == (voters[:1], voters)
    assert [seat.replica for seat in master.seats] == [0, 1, 2, 3]
