"""Mutants of joins: learners, snapshots, changes of the configuration."""

import msgspec

from quorate.hachannel.model.messages import Reconfig
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.replication import normal_case
from quorate.hachannel.transfer import donor, learner
from quorate.hachannel.view_change import choice, election
from quorate.testing.mutation import mutant, patched


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
