"""Mutants of joins: learners, snapshots, changes of the configuration."""

import msgspec

from quorate.hachannel import donor, election, gate, learner, replication
from quorate.testing.mutation import mutant, patched


@mutant("What a learner holds counts as an acknowledgement.", quick=True)
def learner_counted():
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
        return self.session is not None and self._lag(self.session) <= 1

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
        patched(gate.Gate, "reconfiguring", lambda self, current: False),
    ):
        yield


@mutant("The snapshot is said to be one entry younger than it is.", quick=True)
def snapshot_mislabelled():
    original = donor.Donor.snapshot_ready

    def snapshot_ready(self, now, token, index, chunks):
        original(self, now, token, max(index, self._state.log.base.at + 1), chunks)

    def later(self, now, token, index, chunks):
        later_index = min(index + 1, self._state.applied)
        original(self, now, token, later_index, chunks)

    assert snapshot_ready
    with patched(donor.Donor, "snapshot_ready", later):
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
