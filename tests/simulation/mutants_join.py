"""Mutants of joins: learners, snapshots, changes of the configuration."""

from collections import deque

import msgspec

from quorate.hachannel import ProvideSnapshot, Settings
from quorate.hachannel.model.messages import CatchUp, Join, Reconfig
from quorate.hachannel.model.view import Tag
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication import normal_case
from quorate.hachannel.transfer import donor, flow_control, learner
from quorate.hachannel.view_change import choice, election
from quorate.testing.channel.by_hand import Hand, returning
from quorate.testing.mutation import mutant, patched, rewritten


@mutant(
    "What a learner holds counts as an acknowledgement.",
    explore="adding",
    budget={"tick": 1},
)
def learner_counted():
    original_caught_up = donor.Donor.on_caught_up
    original_held = normal_case.Replication.held

    def on_caught_up(self, now, voter, message):
        self._replication.learner = message.index
        original_caught_up(self, now, voter, message)
        if self._state.leading:
            self._replication._advance()

    def held(self, current):
        matches = [slave.match for slave in self._slaves.values()]
        matches = sorted([*matches, getattr(self, "learner", 0)], reverse=True)
        others = current.k - 1
        if others == 0:
            return self._synced
        return max(original_held(self, current), min(self._synced, matches[others - 1]))

    with (
        patched(donor.Donor, "on_caught_up", on_caught_up),
        patched(normal_case.Replication, "held", held),
    ):
        yield


@mutant("The new voter simply takes the place of the old one in the next view, without RECONFIG.", quick=True)
def reconfig_not_logged():
    original = election.reconfigured

    def install(self, now, attempt, chosen):
        joiner = attempt.joiner

        def jump(config, change):
            voters = {voter for voter in config if joiner is None or voter.replica != joiner.replica}
            return tuple(sorted(voters | ({joiner} if joiner is not None else set())))

        with patched(election, "reconfigured", jump):
            original_install(self, now, attempt, chosen)

    def step(self, now):
        return self.session is not None and self._lending.lag(self.session) <= 1

    original_install = election.Election._install
    assert original
    with patched(election.Election, "_install", install), patched(donor.Donor, "step", step):
        yield


@mutant("The master appends another RECONFIG before the first one took effect.", quick=True)
def two_reconfigs_in_a_view():
    original = donor.Donor.step

    def step(self, now):
        log = self._state.log
        with patched(type(log), "reconfig", lambda *_: None):
            return original(self, now)

    with (
        patched(donor.Donor, "step", step),
        patched(view_triggers.ViewTriggers, "reconfiguring", lambda self, current: False),
    ):
        yield


@mutant("A learner appends what it is sent after its own log, without comparing.")
def catch_up_unchecked():
    original = learner.Learner.on_catch_up

    def on_catch_up(self, voter, message):
        log = self._state.log
        if log.base.at <= message.base.at <= log.last.at:
            mine = log.tag(message.base.at)
            last = log.last.at
            entries = tuple(entry for entry in message.entries if entry.index > last)
            if entries:
                base = log.last
                message = msgspec.structs.replace(message, base=base, entries=entries)
            else:
                message = msgspec.structs.replace(message, base=mine, entries=())
        original(self, voter, message)

    with patched(learner.Learner, "on_catch_up", on_catch_up):
        yield


@mutant("The new life of a replica is added while its dead one still votes.", caught=("I2",), quick=True)
def dead_life_not_removed_first():
    original = donor.Donor.step

    def step(self, now):
        session, view = self.session, self._state.accepted
        if session is None or view is None or session.voter in view.config or self._lending.lag(session) > 1:
            return original(self, now)
        pending = self._state.log.reconfig(view.start)
        if pending is None or pending.view != view.number:
            self._replication.reconfigure(now, Reconfig(True, *session.voter))
        return False

    with patched(donor.Donor, "step", step):
        yield


@mutant(
    "One RECONFIG takes the dead life out and puts the new one in.",
    caught=("I2",),
    quick=True,
    explore="incarnations",
)
def replaced_in_one_change():
    original_reconfigured = choice.reconfigured
    original_step = donor.Donor.step

    def reconfigured(config, change):
        if change is not None and change.add:
            config = [voter for voter in config if voter.replica != change.replica]
        return original_reconfigured(config, change)

    def step(self, now):
        session, view = self.session, self._state.accepted
        if session is None or view is None or session.voter in view.config or self._lending.lag(session) > 1:
            return original_step(self, now)
        pending = self._state.log.reconfig(view.start)
        if pending is None or pending.view != view.number:
            self._replication.reconfigure(now, Reconfig(True, *session.voter))
        return False

    with (
        patched(choice, "reconfigured", reconfigured),
        patched(election, "reconfigured", reconfigured),
        patched(donor.Donor, "step", step),
    ):
        yield


@mutant("A RECONFIG is effective as soon as the master appends it.", quick=True)
def reconfig_effective_at_once():
    original = normal_case.Replication.reconfigure

    def reconfigure(self, now, change):
        original(self, now, change)
        state = self._state
        config = choice.reconfigured(state.accepted.config, change)
        state.accepted = msgspec.structs.replace(state.accepted, config=config)

    with patched(normal_case.Replication, "reconfigure", reconfigure):
        yield


@mutant("A RECONFIG in the adopted log is forgotten.", caught=("I2",), quick=True)
def reconfig_forgotten():
    with patched(election.Election, "change", lambda self, source, promises: None):
        yield


def one_takes_no_entries_and_one_waits():
    """It announces itself, and what it is sent again and again never arrives."""
    settings = Settings(suspect_s=0.5, stall_s=0.3, window=16, keep=1000)
    hand = Hand(5, settings)
    master = hand.form()
    hand.isolate(3, 4)
    for _ in range(20):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1, 2)
        hand.tick(0.05, 0, 1, 2)
    hand.connect(0, 3)
    for step in range(200):
        if step == 10:
            assert master.phases.giving == "entries"
            hand.connect(0, 4)
        hand.wires[0, 3] = deque(each for each in hand.wires[0, 3] if not isinstance(each, CatchUp))
        hand.deliver(0, 3)
        hand.deliver(3, 0)
        hand.settle(0, 1, 2, 4)
        hand.tick(0.05)
        if 4 in master.members:
            return
    raise AssertionError(f"{master.members}: who comes no further keeps its place")


@mutant(
    "What is sent again counts as if the learner had come further.",
    scenario=one_takes_no_entries_and_one_waits,
    caught=("scenario",),
    quick=True,
)
def sent_again_is_progress():
    with rewritten(donor.Donor, "_push_entries", (" < log.last.at and not again:", " < log.last.at:")):
        yield


def a_learner_comes_back_with_less_than_it_had():
    """What it knew to be committed had not been synced when its process died. It has taken no part yet."""
    hand = returning(3, Settings(keep=0))
    state = hand.channels[2].state
    view = hand.channels[0].view
    assert view is not None
    hand.silence(2)
    hand.tick(0.05, 0, 1)
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    hand.give(2, 0, Join("c", False, Tag(view.number, 5), 0, 0, b"", False, 0, state.birth))
    asked = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 5
    hand.give(2, 0, Join("c", False, Tag(view.number, 3), 0, 0, b"", False, 0, state.birth))
    asked = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 3, "it never gets what entries 4 and 5 have changed"


@mutant(
    "A donor goes on with a learner that has an older state than it had when the transfer began.",
    scenario=a_learner_comes_back_with_less_than_it_had,
    caught=("scenario",),
    quick=True,
)
def have_lost_not_noticed():
    with rewritten(donor.Donor, "_lost", ("or message.commit.at < session.have\n", "\n")):
        yield


def a_state_is_as_of_an_entry_long_ago():
    """Its application takes long for the parts. Much is ordered meanwhile, and trimmed where it may be."""
    hand = returning(3, Settings(keep=0))
    [asked] = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    at = hand.channels[0].applied
    for _ in range(2):
        hand.act(0, lambda channel: channel.part_ready(hand.now, asked.token, b"part", at))
        for _ in range(20):
            for _ in range(10):
                hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
            hand.settle()
            hand.tick(0.05)
    hand.act(0, lambda channel: channel.part_ready(hand.now, asked.token, b"the last", at, last=True))
    assert hand.channels[0].phases.giving == "state", "the log does not reach back to that entry"


@mutant(
    "While the application gives what is as of one entry, the log is held from where it is asked.",
    scenario=a_state_is_as_of_an_entry_long_ago,
    caught=("scenario",),
    quick=True,
)
def hold_moves_on():
    with rewritten(donor.Donor, "_ask_application", ("if not session.frozen:", "if True:")):
        yield


def a_learner_that_does_not_know_what_is_committed():
    """It has entries that the members have committed since. A view that takes it in begins where it knows."""
    hand = Hand(settings=Settings(keep=0))
    master = hand.form()
    hand.isolate(2)
    for other in (0, 1):
        hand.connect(other, 2)
    while master.phases.giving != "entries":
        hand.tick(0.01)
        for way in ((0, 1), (1, 0), (0, 2), (2, 0)):
            hand.deliver(*way)
    for _ in range(200):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.tick(0.01, 0)
    hand.deliver(0, 2)
    said = hand.lose(2, 0)
    for late in (True, False):
        # Its answer is too late to take it in for it.
        for _ in range(24 if late else 12):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"y"))
            hand.settle(0, 1)
            hand.tick(0.05, 0, 1)
            hand.lose(0, 2)
        for message in said if late else ():
            hand.give(2, 0, message)
    assert hand.channels[2].last == 200
    assert hand.channels[2].commit == 0
    assert master.commit > 200
    assert master.state.log.base.at == 0, "no view can give it what it must compare"


@mutant(
    "The log is trimmed up to what a learner has, though it does not know that to be committed.",
    scenario=a_learner_that_does_not_know_what_is_committed,
    caught=("scenario",),
    quick=True,
)
def hold_by_index():
    with rewritten(donor.Donor, "on_caught_up", ("min(message.index, message.commit)", "message.index")):
        yield


def _lacks(count, size):
    """A learner lacks entries of so many bytes each, and takes none: after how many seconds is it let in?"""
    hand = Hand(settings=Settings(window=64, window_bytes=1000, part_bytes=100, stall_s=9.0))
    master = hand.form()
    hand.isolate(2)
    for _ in range(count):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, bytes(size)))
        hand.settle(0, 1)
    hand.connect(0, 2)
    ends = hand.now + 6.0
    while hand.now < ends:
        hand.tick(0.05)
        for message in hand.lose(0, 2):
            if not isinstance(message, CatchUp):
                hand.give(0, 2, message)
        hand.settle(0, 1)
        hand.deliver(2, 0)
        session = master._donor.session
        if session is not None and session.proof_asked > 0:
            # That it is asked to answer shows it.
            return session.proof_asked - session.follows
    raise AssertionError("never")


def one_lacks_large_entries():
    """The others would stand still until it has them; if it comes no nearer they do so for more."""
    assert _lacks(60, 1) < 0.2
    assert _lacks(8, 400) < 0.2
    assert 0.8 < _lacks(40, 30) < 1.2
    assert 3.8 < _lacks(40, 50) < 4.2


@mutant(
    "A learner is let in with as many bytes as it may lack entries.",
    scenario=one_lacks_large_entries,
    caught=("scenario",),
    quick=True,
)
def lag_of_any_bytes():
    with rewritten(flow_control.FlowControl, "lag", ("max(count / most, size / most_bytes)", "count / most")):
        yield


@mutant(
    "A learner that lacks a few large entries is never let in, as long as the load lasts.",
    scenario=one_lacks_large_entries,
    caught=("scenario",),
    quick=True,
)
def large_lag_never_let_in():
    with rewritten(flow_control.FlowControl, "_most", ("* self._followed(session)", "")):
        yield
