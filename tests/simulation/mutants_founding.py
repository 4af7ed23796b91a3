"""Mutants of the founding of a cluster: who may found one, and when its first view is announced."""

import contextlib
from pathlib import Path

import attrs
import msgspec

from quorate.hachannel.model.messages import Activate, Founded
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.hachannel.view_change import choice, election, founding, installation
from quorate.testing import simulate
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.random_schedules import draw
from quorate.testing.schedules.schedule import read
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    return draw(seed, profile="founding")


@mutant(
    "A majority of a first view that may have failed replaces it, and others may have founded a cluster.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
)
def founders_not_met():
    def quorum(view, active):
        del active
        return view.quorum

    with patched(choice, "quorum_of", quorum), patched(view_triggers, "quorum_of", quorum):
        yield


def a_founder_loses_a_witness_before_that_has_recorded_the_first_view():
    """Three found it: 0, 1 and the witness 3, which has promised it and then sees 2 and 4 only.

    Two of its voters know of it, a majority, and the three others have lost nothing and know of no cluster.
    """
    cluster = ScriptedCluster(5, expected=3, witnesses=2, disk=True)
    hosts = cluster.hosts
    cluster.split((0, 1, 3), (2, 4))
    for host in hosts:
        host.start()
    cluster.until(lambda: hosts[0].channel.installing is not None)
    first = hosts[0].channel.installing.view
    assert {voter.replica for voter in first.config} == {0, 1, 3}
    cluster.mend()
    cluster.split((0, 1), (2, 3, 4))
    cluster.until(lambda: hosts[2].state.serving, 15.0)
    cluster.mend()
    cluster.whole()
    assert cluster.first_times == 1


@mutant(
    "A first view is active once a majority of its voters know it, and others may found a cluster.",
    scenario=a_founder_loses_a_witness_before_that_has_recorded_the_first_view,
    caught=("I12",),
)
def first_view_quorum():
    def activated(original, have, source, active, new):
        return original(have, source, active, msgspec.structs.replace(new, boot=0))

    with wrapped(installation, "activated", activated):
        yield


@mutant("No view event says first_time.", caught=("I12", "I14"))
def first_time_unsaid():
    def begin(original, self, now, view, *, first_time):
        del first_time
        original(self, now, view, first_time=False)

    with wrapped(installation.Installation, "_begin", begin):
        yield


def a_founder_that_stops(seed):
    """Schedules in which the proposer of the first view pauses or is cut off while it founds a cluster."""
    return draw(seed, profile="slow-founding")


@mutant(
    "A first view is announced before its members know that it may be active.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def first_view_not_founded():
    def found(original, self, now, installing):
        original(self, now, installing)
        installing.known = True
        self.activate(now)

    with wrapped(installation.Installation, "_found", found):
        yield


@mutant(
    "A first view is announced once one member fewer knows of it than is needed for a commit.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def founded_one_less():
    def on_founded(original, self, now, voter, message):
        original(self, now, voter, message)
        installing = self.current
        if (
            installing is not None
            and not installing.known
            and len(installing.founded) >= installing.view.k - 1
        ):
            installing.known = True
            self.activate(now)

    with wrapped(installation.Installation, "on_founded", on_founded):
        yield


def two_founders_come_back_and_the_others_have_founded_a_cluster():
    """The proposer of the first view had noted that it may be active, and had told nobody."""
    schedule, seed = read(Path(__file__).with_name("two_clusters.json"))
    simulate(schedule, seed=seed)


@mutant(
    "A replica treats a first view that may be active as active.",
    scenario=two_founders_come_back_and_the_others_have_founded_a_cluster,
    caught=("I2",),
)
def foreseen_is_active():
    def foresee(self):
        self.know_active()
        self.foreseen = True

    with patched(ReplicaState, "foresee", foresee):
        yield


@mutant(
    "A first view can be replaced by one voter less than a majority of all replicas.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
)
def founders_one_less():
    with wrapped(founding, "majority", lambda original, voters: original(voters) - 1):
        yield


@contextlib.contextmanager
def _founding_with(fewer):
    """So many replicas found a cluster, as a function of how many should."""

    def weakened(original):
        def call(self, *arguments):
            expected = self._state.configuration.expected
            state = self._state
            configuration = state.configuration
            state.configuration = attrs.evolve(configuration, expected=fewer(expected))
            try:
                return original(self, *arguments)
            finally:
                state.configuration = configuration

        return call

    with (
        patched(founding.Founding, "decide", weakened(founding.Founding.decide)),
        patched(founding.Founding, "due", weakened(founding.Founding.due)),
    ):
        yield


@mutant("Any two empty replicas found a cluster.")
def barrier_ignored():
    with _founding_with(lambda expected: min(expected, 2)):
        yield


@mutant("Half of the expected replicas found a cluster.", caught=("I12",))
def barrier_at_half():
    with _founding_with(lambda expected: (expected + 1) // 2):
        yield


@mutant("Each view that replaces the first one says first_time, too.", caught=("I12",), quick=True)
def first_time_twice():
    def start(original, self, now, new, source, active, bases):
        if source is not None and source.boot:
            new = msgspec.structs.replace(new, boot=source.boot)
        original(self, now, new, source, active, bases)

    with wrapped(election.Election, "_start", start):
        yield


def a_founder_that_dies_at_once():
    """The only replica of its cluster is told of the first view, and dies before anything else is written."""
    cluster = ScriptedCluster(1, disk=True)
    [host] = cluster.hosts
    host.start()
    cluster.until(lambda: bool(cluster.view_events[0]))
    host.crash(0)
    host.start()
    cluster.whole()


@mutant(
    "The first view is announced before the disk has that it is active.",
    scenario=a_founder_that_dies_at_once,
    caught=("I12",),
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
