"""Mutants of view changes, of the gate and of the start."""

import contextlib
from functools import partial

import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.model import view
from quorate.hachannel.model.messages import Activate, Founded, decode_reconfig
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.transfer import learner
from quorate.hachannel.view_change import choice, election, installation
from quorate.testing.channel import world
from quorate.testing.mutation import mutant, patched
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_voter_that_dies_when_it_is_added():
    """A fourth voter is added and dies; a third one promises the next view and is cut off then."""
    settings = Settings(mode="MAJORITY", suspect_s=0.5, view_change_s=0.4)
    script = ScriptedCluster(4, settings=settings, snapshot_s=2.0)
    script.form()
    script.hosts[3].crash()
    master = script.whole(but=[3])
    script.hosts[3].start()
    script.until(lambda: 3 not in {voter.replica for voter in master.channel.view.config})
    script.split([2], [0, 1, 3])
    script.whole(but=[2, 3])
    script.mend()

    def adds():
        entry = master.state.log.reconfig(master.state.accepted.start)
        return entry is not None and getattr(decode_reconfig(entry.payload), "add", False)

    script.until(adds)
    script.hosts[3].crash()
    script.until(lambda: master.channel.installing is not None)
    script.split([2], [0, 1, 3])
    script.run(1.0)
    script.mend()
    script.hosts[3].start()
    script.whole()


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
        patched(view_triggers.ViewTriggers, "possible", lambda *_: True),
    ):
        yield


@mutant(
    "A proposer counts from the view it accepted, not from the highest it has seen.",
    quick=True,
    explore="view-change",
    budget={"cut": 0},
)
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
    with patched(world.World, "incarnation", lambda _self: 1):
        yield


@contextlib.contextmanager
def _founding_with(fewer):
    """So many replicas found a cluster, as a function of how many should."""

    def weakened(original):
        def call(self, *arguments):
            expected = self._state.expected
            self._state.expected = fewer(expected)
            try:
                return original(self, *arguments)
            finally:
                self._state.expected = expected

        return call

    with (
        patched(election.Election, "_evaluate_boot", weakened(election.Election._evaluate_boot)),
        patched(learner.Learner, "may_boot", weakened(learner.Learner.may_boot)),
    ):
        yield


@mutant("Any two empty replicas found a cluster.")
def barrier_ignored():
    with _founding_with(lambda expected: min(expected, 2)):
        yield


@mutant("No slave ever proposes while its view is active (a fault of liveness).", quick=True)
def gate_closed():
    with patched(view_triggers.ViewTriggers, "_gate_open", lambda *_: False):
        yield


def _activated(have, source, active, new, *, old=0, own=0):
    """As the channel has it, but with so many voters less than a majority of the old or the own ones."""
    if not set(new.members) <= set(have):
        return False
    if source is not None and view.present(have, source.config) < choice.quorum_of(source, active) - old:
        return False
    return view.present(have, new.config) >= choice.quorum_of(new, False) - own


@mutant("A view needs one voter less than a majority of the configuration it replaces.", caught=("I2",))
def old_quorum_one_short():
    with patched(installation, "activated", partial(_activated, old=1)):
        yield


@mutant(
    "A view needs one voter less than a majority of its own configuration.",
    caught=("I2", "I12"),
    scenario=a_voter_that_dies_when_it_is_added,
    quick=True,
)
def new_quorum_one_short():
    with patched(installation, "activated", partial(_activated, own=1)):
        yield


@mutant(
    "Only the configuration of the new view must know it, not that of the view it replaces.",
    explore="removing",
    budget={"tick": 0},
)
def old_configuration_not_asked():
    def activated(have, source, active, new):
        known = view.present(have, new.config)
        return set(new.members) <= set(have) and known >= choice.quorum_of(new, False)

    with patched(installation, "activated", activated), patched(choice, "overlap", lambda *_: ""):
        yield


@mutant("Half of the expected replicas found a cluster.", caught=("I12",))
def barrier_at_half():
    with _founding_with(lambda expected: (expected + 1) // 2):
        yield


@mutant("Every view that follows the first one says first_time, too.", caught=("I12",), quick=True)
def first_time_twice():
    original = election.Election._start

    def start(self, now, new, source, active, bases):
        if source is not None and source.boot:
            new = msgspec.structs.replace(new, boot=source.boot)
        original(self, now, new, source, active, bases)

    with patched(election.Election, "_start", start):
        yield


@mutant("A member acts on a view before it is told that the view is active.")
def accepted_is_active():
    original = installation.Installation.on_new_view

    def on_new_view(self, now, voter, message):
        original(self, now, voter, message)
        if self._state.accepted == message.view:
            self.activate(now)

    with patched(installation.Installation, "on_new_view", on_new_view):
        yield


def a_founder_that_dies_at_once():
    """The only replica of its cluster is told of the first view, and dies before anything else is written."""
    script = ScriptedCluster(1, disk=True)
    [host] = script.hosts
    host.start()
    script.until(lambda: bool(script.view_events[0]))
    host.crash(0)
    host.start()
    script.whole()


@mutant(
    "The first view is announced before it is durable that it is active.",
    scenario=a_founder_that_dies_at_once,
    caught=("I12",),
    quick=True,
)
def first_view_announced_at_once():
    original_found, original = installation.Installation._found, installation.Installation.activate

    def found(self, now, installing):
        original_found(self, now, installing)
        self.on_founded(now, self._state.me, Founded(installing.view.number))

    def activate(self, now):
        original(self, now)
        if self._noted == self._state.promised:
            self.on_noted(now, Activate(self._noted))

    with (
        patched(installation.Installation, "_found", found),
        patched(installation.Installation, "activate", activate),
    ):
        yield
