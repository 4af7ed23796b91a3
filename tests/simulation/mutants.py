"""Ways to break the channel on purpose, to see that the simulation notices.

    python tests/simulation/mutants.py [--seeds 2000] [NAME...]

Every mutant removes or weakens one rule. A simulation that does not catch it does not test the rule.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import attrs

from quorate.hachannel import (
    Settings,
    choice,
    donor,
    election,
    gate,
    installation,
    learner,
    replication,
    state,
    view,
)
from quorate.hachannel.messages import Join
from quorate.testing import channel_world
from quorate.testing.channel_script import Script
from quorate.testing.channel_sim import Failed, run
from quorate.testing.channel_world import Violation

Mutation = Callable[[], contextlib.AbstractContextManager[None]]
MUTANTS: dict[str, Mutation] = {}


def mutant(function):
    """Register a mutant under its name."""
    MUTANTS[function.__name__] = contextlib.contextmanager(function)
    return function


@contextlib.contextmanager
def patched(target, name, value) -> Iterator[None]:
    """Replace an attribute for a while."""
    original = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, original)


@mutant
def members_overlap_removed():
    """Choose does not need |R and M| >= |M| - k + 1."""

    def overlap(answered, source, active):
        if view.present(answered, source.config) < choice.quorum_of(source, active):
            return "too few voters"
        return ""

    with patched(choice, "overlap", overlap), patched(gate.Gate, "possible", lambda *_: True):
        yield


@mutant
def voters_overlap_removed():
    """Choose does not need |R and C| >= maj(C)."""

    def overlap(answered, source, active):
        few = view.present(answered, source.members) < len(source.members) - source.k + 1
        return "too few members" if few else ""

    with patched(choice, "overlap", overlap), patched(gate.Gate, "possible", lambda *_: True):
        yield


@mutant
def shortest_log():
    """Choose takes the shortest log instead of the longest."""

    def shortest(holders, me):
        return min(holders, key=lambda voter: holders[voter].last.at, default=None)

    with patched(choice, "longest", shortest):
        yield


@mutant
def recorders_logs_adopted():
    """Choose takes the log of whoever recorded the view, too."""
    original = choice.choose

    def choose(promises, me):
        chosen = original(promises, me)
        if isinstance(chosen, str):
            return chosen
        same = {
            voter: promise
            for voter, promise in promises.items()
            if promise.accepted is not None and promise.accepted.number == chosen.source.number
        }
        holder = choice.longest(same, chosen.holder)
        return attrs.evolve(chosen, holder=holder, last=same[holder].last)

    with patched(election, "choose", choose):
        yield


@mutant
def recorded_before_accepted():
    """RECORD is sent before all members accepted."""
    with patched(installation.Installation, "complete", lambda *_: True):
        yield


@mutant
def active_before_all_members_accepted():
    """A view is active once majorities know it, although some member does not have its log."""

    def activated(have, source, active, new):
        if source is not None and view.present(have, source.config) < choice.quorum_of(source, active):
            return False
        return view.present(have, new.config) >= choice.quorum_of(new, False)

    with patched(installation, "activated", activated):
        yield


@mutant
def active_without_majority():
    """A view is active once its members accepted, although no majority knows it."""
    with (
        patched(installation, "activated", lambda have, source, active, new: set(new.members) <= set(have)),
        patched(gate.Gate, "possible", lambda *_: True),
    ):
        yield


@mutant
def old_views_acknowledged():
    """A voter that has promised a new view goes on acknowledging the old one."""
    original = state.State.promise

    def promise(self, number):
        serving = self.serving
        original(self, number)
        self.serving = serving and not self.leading

    with (
        patched(state.State, "promise", promise),
        patched(replication.Replication, "may_ack", lambda *_: True),
    ):
        yield


@mutant
def one_ack_short():
    """An entry is committed with one acknowledgement less."""

    def held(self, current):
        matches = sorted((slave.match for slave in self._slaves.values()), reverse=True)
        others = max(current.k - 2, 0)
        return min(self._synced, matches[others - 1]) if others else self._synced

    with patched(replication.Replication, "held", held):
        yield


@mutant
def amnesiac_votes():
    """A replica that restarts without its memory keeps its identity as a voter."""
    with patched(channel_world.World, "incarnation", lambda _self: 1):
        yield


@mutant
def number_reused():
    """A proposer counts from the view it accepted, not from the highest it has seen."""

    def counter(self):
        accepted = self._state.accepted
        return accepted.number.counter + 1 if accepted is not None else 1

    with patched(election.Election, "next_counter", counter):
        yield


@mutant
def promise_forgotten():
    """A voter accepts and records views below what it has promised."""
    with patched(installation.Installation, "_refused", lambda *_: False):
        yield


@mutant
def tail_not_truncated():
    """A member keeps entries of its own beyond the log of the new view."""
    original = state.State.splice

    def splice(self, entries, end):
        return original(self, entries, None)

    with patched(state.State, "splice", splice):
        yield


@mutant
def truncated_below_commit():
    """A member of a new view cuts its log down to where the message begins, and is told from too far back."""
    original = installation.Installation._adopt

    def adopt(self, new, staged):
        self._state.log.truncate(max(staged.base.at - 1, self._state.log.base.at))
        return original(self, new, staged)

    with patched(installation.Installation, "_adopt", adopt):
        yield


@mutant
def learner_counted():
    """What a learner holds counts as an acknowledgement."""
    original_caught_up = donor.Donor.on_caught_up
    original_held = replication.Replication.held

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
        patched(replication.Replication, "held", held),
    ):
        yield


@mutant
def reconfig_not_logged():
    """The new voter simply takes the place of the old one in the next view, without RECONFIG."""
    original = election.reconfigured

    def install(self, now, attempt, chosen):
        joiner = attempt.joiner

        def jump(config, change):
            voters = {voter for voter in config if joiner is None or voter.replica != joiner.replica}
            return tuple(sorted(voters | ({joiner} if joiner is not None else set())))

        with patched(election, "reconfigured", jump):
            original_install(self, now, attempt, chosen)

    def step(self, now):
        return self.session is not None and self._lag(self.session) <= 1

    original_install = election.Election._install
    assert original
    with patched(election.Election, "_install", install), patched(donor.Donor, "step", step):
        yield


@mutant
def two_reconfigs_in_a_view():
    """The master appends another RECONFIG before the first one took effect."""
    original = donor.Donor.step

    def step(self, now):
        log = self._state.log
        with patched(type(log), "reconfig", lambda *_: None):
            return original(self, now)

    with (
        patched(donor.Donor, "step", step),
        patched(gate.Gate, "reconfiguring", lambda self, current: False),
    ):
        yield


@mutant
def delivered_before_commit():
    """A slave delivers what it receives."""
    original = replication.Replication.on_data

    def on_data(self, now, voter, message):
        original(self, now, voter, message)
        if self._state.serving:
            self._state.commit_to(self._state.log.last.at)

    with patched(replication.Replication, "on_data", on_data):
        yield


@mutant
def barrier_ignored():
    """Any two empty replicas found a cluster."""
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


@mutant
def snapshot_mislabelled():
    """The snapshot is said to be one entry younger than it is."""
    original = donor.Donor.snapshot_ready

    def snapshot_ready(self, now, token, index, chunks):
        original(self, now, token, max(index, self._state.log.base.at + 1), chunks)

    def later(self, now, token, index, chunks):
        later_index = min(index + 1, self._state.applied)
        original(self, now, token, later_index, chunks)

    assert snapshot_ready
    with patched(donor.Donor, "snapshot_ready", later):
        yield


@mutant
def trimmed_too_far():
    """The master trims what it has applied itself, whatever the slaves have."""

    def bound(self, hold):
        self._trim = self._state.applied
        self.trim(self._trim)

    with patched(replication.Replication, "bound", bound):
        yield


@mutant
def catch_up_unchecked():
    """A learner appends what it is sent after its own log, without comparing."""
    original = learner.Learner.on_catch_up

    def on_catch_up(self, voter, message):
        log = self._state.log
        if log.base.at <= message.base.at <= log.last.at:
            mine = log.tag(message.base.at)
            last = log.last.at
            entries = tuple(entry for entry in message.entries if entry.index > last)
            if entries:
                base = log.last
                message = attrs_replace(message, base=base, entries=entries)
            else:
                message = attrs_replace(message, base=mine, entries=())
        original(self, voter, message)

    with patched(learner.Learner, "on_catch_up", on_catch_up):
        yield


def attrs_replace(message, **changes):
    """A copy of a struct with some fields changed."""
    import msgspec

    return msgspec.structs.replace(message, **changes)


@mutant
def gate_closed():
    """No slave ever proposes while its view is active (a fault of liveness)."""
    with patched(gate.Gate, "_gate_open", lambda *_: False):
        yield


def members_that_lack_what_is_committed() -> None:
    """Three of five are members, two of them commit; the third one and the other voters must not go on."""
    script = Script(5, settings=Settings(mode="MAJORITY", suspect_s=0.5, view_change_s=0.4))
    script.form()
    script.split([3, 4], [0, 1, 2])
    script.whole(but=[3, 4])
    script.net.muted = Join
    script.mend()
    script.run(0.3)
    script.cut((0, 2))
    taken = script.submit(script.hosts[0], 3)
    script.run(0.1)
    assert script.deliveries[0] == taken
    script.split([0, 1], [2, 3, 4])
    script.run(3.0)
    assert script.hosts[2].channel.role == "blocked"
    script.net.muted = None
    script.mend()
    script.whole()


DIRECTED = {"members_overlap_removed": members_that_lack_what_is_committed}
"""Random runs seldom get there."""


def hunt(name: str, seeds: range) -> tuple[int, str] | None:
    """The first seed that catches a mutant, and how; -1 for a written scenario; None when none does."""
    if name in DIRECTED:
        with MUTANTS[name]():
            try:
                DIRECTED[name]()
            except Violation as violation:
                return -1, str(violation)
    for seed in seeds:
        with MUTANTS[name]():
            try:
                run(seed)
            except Failed as failed:
                return seed, failed.reason
            except Exception as error:
                return seed, f"raised {type(error).__name__}: {error}"
    return None


def main() -> int:
    """Hunt all mutants, or those named; returns 1 when one escapes."""
    parser = argparse.ArgumentParser(description="Break the channel on purpose.")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    escaped = 0
    for name in options.names or MUTANTS:
        started = time.monotonic()
        caught = hunt(name, range(options.seeds))
        took = time.monotonic() - started
        if caught is None:
            escaped += 1
            print(f"{name}: ESCAPED {options.seeds} seeds, {took:.0f} s", flush=True)
        else:
            print(f"{name}: seed {caught[0]}, {took:.0f} s: {caught[1][:110]}", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
