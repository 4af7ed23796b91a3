"""Mutants of the first view, and of processes that come back into a view."""

from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.view_change import choice, installation
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.random_schedules import draw
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    return draw(seed, profile="founding")


@mutant(
    "A first view that may have failed is replaced by a majority of it: others found a cluster meanwhile.",
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
    script = ScriptedCluster(5, expected=3, witnesses=2, disk=True)
    hosts = script.hosts
    script.split((0, 1, 3), (2, 4))
    for host in hosts:
        host.start()
    script.until(lambda: hosts[0].channel.installing is not None)
    first = hosts[0].channel.installing.view
    assert {voter.replica for voter in first.config} == {0, 1, 3}
    script.mend()
    script.split((0, 1), (2, 3, 4))
    script.until(lambda: hosts[2].state.serving, 15.0)
    script.mend()
    script.whole()
    assert script.first_times == 1


@mutant(
    "A first view is active once a majority of its voters know it: others can found a cluster meanwhile.",
    scenario=a_founder_loses_a_witness_before_that_has_recorded_the_first_view,
    caught=("I12",),
    quick=True,
)
def first_view_quorum():
    with rewritten(installation, "activated", ("quorum_of(view, False)", "view.quorum")):
        yield


@mutant("No view says first_time.", caught=("I12", "I14"), quick=True)
def first_time_unsaid():
    original = installation.Installation._begin

    def begin(self, now, view, *, first_time):
        del first_time
        original(self, now, view, first_time=False)

    with patched(installation.Installation, "_begin", begin):
        yield


def a_founder_that_stops(seed):
    """Who proposes the first view stops for seconds, or is cut off, somewhere on the way to it."""
    return draw(seed, profile="slow-founding")


@mutant(
    "A first view is announced before its members know that it will be.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def first_view_not_founded():
    original = installation.Installation._found

    def found(self, now, installing):
        original(self, now, installing)
        installing.known = True
        self.activate(now)

    with patched(installation.Installation, "_found", found):
        yield


@mutant(
    "A first view is announced once one member fewer knows of it than commit an entry.",
    schedule=a_founder_that_stops,
    caught=("I12",),
)
def founded_one_less():
    original = installation.Installation.on_founded

    def on_founded(self, now, voter, message):
        original(self, now, voter, message)
        installing = self.current
        if (
            installing is not None
            and not installing.known
            and len(installing.founded) >= installing.view.k - 1
        ):
            installing.known = True
            self.activate(now)

    with patched(installation.Installation, "on_founded", on_founded):
        yield
