"""Mutants of what replicas with disks write, and when."""

import attrs

from quorate.hachannel import durable, election, state
from quorate.hachannel.messages import Ack, Record
from quorate.hachannel.view import View, ViewNumber, Voter
from quorate.testing import channel_world
from quorate.testing.channel_hand import with_disks as with_slow_disks
from quorate.testing.drawing import draw
from quorate.testing.mutation import mutant, patched, rewritten


def with_disks(seed):
    return draw(seed, disk=True)


def with_tails(seed):
    return draw(seed, disk=True, profile="tails")


@mutant("A promise is not written.", caught=("I3", "I1"), schedule=with_disks, quick=True)
def promise_not_written():
    original = state.State.record

    def record(self, what):
        if not isinstance(what, state.Promised):
            original(self, what)

    with patched(state.State, "record", record):
        yield


@mutant("An accepted view is not written.", caught=("I3", "raised"), schedule=with_disks, quick=True)
def acceptance_not_written():
    original = state.State.record

    def record(self, what):
        if not isinstance(what, state.Accepted):
            original(self, what)

    with patched(state.State, "record", record):
        yield


@mutant("Entries that slaves receive are not written.", schedule=with_disks, quick=True)
def entries_not_written():
    original = state.State.record_entry

    def record_entry(self, entry):
        if self.leading:
            original(self, entry)

    with patched(state.State, "record_entry", record_entry):
        yield


@mutant("A cut of the log is not written.", caught=("I17",), schedule=with_tails)
def cut_not_written():
    original = state.State.record

    def record(self, what):
        if not isinstance(what, state.Truncated):
            original(self, what)

    with patched(state.State, "record", record):
        yield


@mutant(
    "Promises and acknowledgements leave before the disk has them.",
    caught=("I3",),
    schedule=with_disks,
    quick=True,
)
def said_before_synced():
    def vow(self, replica, message):
        if replica == self.me.replica:
            self.loopback(message)
        else:
            self.send(replica, message)

    with patched(state.State, "vow", vow):
        yield


@mutant(
    "The master counts its own entries before its disk has them.",
    caught=("I13", "I10"),
    schedule=with_disks,
    explore="disks",
    budget={"tick": 0, "stay": 1},
)
def own_entries_counted_unsynced():
    original = state.State.vow

    def vow(self, replica, message):
        if replica == self.me.replica:
            self.loopback(message)
        else:
            original(self, replica, message)

    with patched(state.State, "vow", vow):
        yield


@mutant(
    "A proposer asks for promises before its disk has the number.", caught=("I3", "I1"), schedule=with_disks
)
def number_not_durable():
    original = state.State.vow

    def vow(self, replica, message):
        if isinstance(message, election.Prepare):
            self.send(replica, message)
        else:
            original(self, replica, message)

    with patched(state.State, "vow", vow):
        yield


@mutant("A replica that comes back takes its whole log for committed.", schedule=with_disks, quick=True)
def all_committed_after_a_restart():
    original = durable.Remembered.apply

    def apply(self, record):
        original(self, record)
        self.commit = self.last

    with patched(durable.Remembered, "apply", apply):
        yield


@mutant(
    "A replica that comes back has forgotten what it promised.",
    caught=("I3", "I1"),
    schedule=with_disks,
    quick=True,
)
def promise_lost_in_a_restart():
    original = durable.DurableLog.recovered

    def recovered(self):
        kept = original(self)
        number = kept.accepted.number if kept.accepted is not None else state.NO_VIEW
        return attrs.evolve(kept, promised=number)

    with patched(durable.DurableLog, "recovered", recovered):
        yield


@mutant("A replica whose disk is gone comes back as the voter it was.", schedule=with_disks, quick=True)
def voter_without_its_disk():
    def lose_disk(self):
        self.disk = channel_world.Disk(self.incarnation)
        return self.disk

    with patched(channel_world.Host, "lose_disk", lose_disk):
        yield


def a_view_is_recorded_by_a_slave_whose_disk_is_slow():
    """It has not heard yet that the view is active."""
    hand = with_slow_disks()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.deliver(0, 2)
    one, two, _ = hand.channels[0].view.config
    number = ViewNumber(9, *two)
    hand.now += 60.0
    hand.give(1, 2, Record(View(number, (one, two, Voter(2, 3)), (two, one), 2, 0)))
    assert hand.channels[2].view.number == number
    hand.sync(2)
    assert not hand.waiting(2, 0, Ack), "it acknowledges an entry of a view below the one that it recorded"


@mutant(
    "What waited for the disk to be acknowledged is, although another view has been recorded meanwhile.",
    scenario=a_view_is_recorded_by_a_slave_whose_disk_is_slow,
    caught=("scenario",),
    quick=True,
)
def record_takes_nothing_back():
    with rewritten(state.State, "accept", ("if view.number > self.promised:", "if False:")):
        yield
