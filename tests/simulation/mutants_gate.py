"""Mutants of the gate: when a slave may propose."""

from quorate.hachannel import facts, gate, peers, steps
from quorate.hachannel.view import Voter
from quorate.testing.channel_hand import Hand
from quorate.testing.mutation import mutant, patched


@mutant("One EXIT opens the gate.", caught=("gate",), quick=True)
def one_exit_opens():
    def opened(self, view):
        return self.exit

    with patched(gate.Gate, "_gate_open", opened):
        yield


@mutant("One EXIT less than a majority opens the gate.", caught=("gate",))
def gate_one_short():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            if voter == self._state.me:
                exits += self.exit
            elif link is not None and not link.suspected:
                exits += link.exit or link.leaving
        return exits >= view.quorum - 1

    with patched(gate.Gate, "_gate_open", opened):
        yield


@mutant("Voters that are suspected count as if they had said EXIT.", caught=("gate",))
def silence_counts_as_exit():
    def opened(self, view):
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            exits += self.exit if voter == self._state.me else link is None or link.suspected or link.exit
        return exits >= view.quorum

    with patched(gate.Gate, "_gate_open", opened):
        yield


@mutant("An EXIT counts for ever, also in later views.", caught=("gate",))
def old_exits_count():
    original = facts.Facts.on_heartbeat
    ever = set()

    def on_heartbeat(self, now, link, voter, message):
        if message.exit:
            ever.add((id(self._gate), voter))
        original(self, now, link, voter, message)

    def opened(self, view):
        exits = 0
        for voter in view.config:
            exits += self.exit if voter == self._state.me else (id(self), voter) in ever
        return exits >= view.quorum

    with (
        patched(facts.Facts, "on_heartbeat", on_heartbeat),
        patched(gate.Gate, "_gate_open", opened),
    ):
        yield


@mutant(
    "An EXIT that was said of an older view counts in the next one.",
    caught=("gate",),
    seeds=0,
    explore="gate",
    budget={"tick": 0, "apart": 1},
)
def late_exit_counts():
    with patched(facts.Facts, "_of_before", lambda *_: False):
        yield


def the_next_master_is_lost_at_once():
    """All have left the master of before. One loses the new one before it hears that others follow it."""
    hand = Hand(5)
    hand.form()
    for one in (1, 2, 3, 4):
        hand.act(one, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    slave = hand.channels[2]
    while slave.members != (1, 2, 3, 4) or slave.role != "slave":
        hand.settle(1, 2, 3, 4)
        hand.tick(0.01, 1)
    for other in (1, 3, 4):
        hand.lose(other, 2)
    hand.act(2, lambda channel: channel.disconnected(hand.now, 1, ended=True))
    hand.tick(0.01, 2)
    assert not slave.proposing, "those whom it counts have left the master of an older view"


@mutant(
    "What was heard of a voter in an older view counts until it says something else.",
    scenario=the_next_master_is_lost_at_once,
    caught=("scenario", "gate"),
    quick=True,
)
def exit_outlives_its_view():
    original = peers.Link.__setattr__
    during = []

    def set_but_not_then(self, name, value):
        if not (name == "exit" and value is False and during):
            original(self, name, value)

    follow_up = steps.Steps._follow_up

    def forgetting_nothing(self, now):
        during.append(now)
        try:
            follow_up(self, now)
        finally:
            during.pop()

    with (
        patched(peers.Link, "__setattr__", set_but_not_then),
        patched(steps.Steps, "_follow_up", forgetting_nothing),
    ):
        yield


def a_member_wants_another_view_and_nobody_submits():
    """It lost patience with a view that is active since. The others have granted, and follow the master."""
    hand = Hand()
    hand.form()
    hand.tick(0.05)
    hand.settle()
    hand.act(1, lambda channel: channel.lease.release(Voter(0, 1)))
    hand.act(1, lambda channel: channel._election.propose(hand.now, "not installed in time"))
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[1].role == "slave", "nobody takes it back as long as no entry is appended"


@mutant(
    "A member that proposes a view says that it follows the master of the active one.",
    scenario=a_member_wants_another_view_and_nobody_submits,
    caught=("scenario", "L1"),
    quick=True,
)
def own_proposal_followed():
    original = gate.Gate.follows

    def follows(self, now):
        known, self._state.known_active = self._state.known_active, False
        try:
            return original(self, now)
        finally:
            self._state.known_active = known

    with patched(gate.Gate, "follows", follows):
        yield
