"""Mutants of view changes, of the gate and of the start."""

from quorate.hachannel import choice, election, gate, installation, learner, view
from quorate.testing import channel_world
from quorate.testing.mutation import mutant, patched


@mutant("RECORD is sent before all members accepted.")
def recorded_before_accepted():
    with patched(installation.Installation, "complete", lambda *_: True):
        yield


@mutant("A view is active once majorities know it, although some member does not have its log.", quick=True)
def active_before_all_members_accepted():
    def activated(have, source, active, new):
        if source is not None and view.present(have, source.config) < choice.quorum_of(source, active):
            return False
        return view.present(have, new.config) >= choice.quorum_of(new, False)

    with patched(installation, "activated", activated):
        yield


@mutant("A view is active once its members accepted, although no majority knows it.", quick=True)
def active_without_majority():
    with (
        patched(installation, "activated", lambda have, source, active, new: set(new.members) <= set(have)),
        patched(gate.Gate, "possible", lambda *_: True),
    ):
        yield


@mutant("A proposer counts from the view it accepted, not from the highest it has seen.", quick=True)
def number_reused():
    def counter(self):
        accepted = self._state.accepted
        return accepted.number.counter + 1 if accepted is not None else 1

    with patched(election.Election, "next_counter", counter):
        yield


@mutant("A voter accepts and records views below what it has promised.", quick=True)
def promise_forgotten():
    with patched(installation.Installation, "_refused", lambda *_: False):
        yield


@mutant("A replica that restarts without its memory keeps its identity as a voter.", quick=True)
def amnesiac_votes():
    with patched(channel_world.World, "incarnation", lambda _self: 1):
        yield


@mutant("Any two empty replicas found a cluster.")
def barrier_ignored():
    original_boot = election.Election._evaluate_boot
    original_may = learner.Learner.may_boot

    def weakened(original):
        def call(self, *arguments):
            expected = self._state.expected
            self._state.expected = min(expected, 2)
            try:
                return original(self, *arguments)
            finally:
                self._state.expected = expected

        return call

    with (
        patched(election.Election, "_evaluate_boot", weakened(original_boot)),
        patched(learner.Learner, "may_boot", weakened(original_may)),
    ):
        yield


@mutant("No slave ever proposes while its view is active (a fault of liveness).", quick=True)
def gate_closed():
    with patched(gate.Gate, "_gate_open", lambda *_: False):
        yield
