"""Mutants of the configuration: voters, seats and witnesses that come, go and move."""

import contextlib
from functools import partial

import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.membership import membership, witness_admission
from quorate.hachannel.model import view
from quorate.hachannel.model.messages import Admit, Dismiss, Reconfig
from quorate.hachannel.model.view import NO_VIEW, Seat
from quorate.hachannel.protocol import decision_loop, view_triggers
from quorate.hachannel.replication import normal_case, replica_state
from quorate.hachannel.transfer import donor, flow_control, learner
from quorate.hachannel.view_change import choice, election, installation
from quorate.testing import Add, Remove, Schedule, Shape, simulate
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.random_schedules import administered, draw
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


@mutant(
    "A master appends the same operator's change twice in one view.", caught=("I2",), schedule=administered
)
def second_change_in_a_view():
    def append(self, now, current, change):
        self._replication.reconfigure(now, change)
        self._replication.reconfigure(now, change)

    with patched(membership.Membership, "_append", append):
        yield


@mutant(
    "An operator's change takes effect before it is committed.", caught=("I1", "I2"), schedule=administered
)
def change_before_commit():
    def append(original, self, now, current, change):
        original(self, now, current, change)
        state = self._state
        config = choice.reconfigured(current.config, change)
        seats = choice.seated(current.seats, change)
        state.accepted = msgspec.structs.replace(current, config=config, seats=seats)

    with wrapped(membership.Membership, "_append", append):
        yield


@mutant("A removed replica keeps its vote: only its seat goes.", caught=("I2", "I12"), schedule=administered)
def removed_voter_counted():
    def reconfigured(original, config, change):
        return original(config, None if isinstance(change, Dismiss) else change)

    with wrapped(election, "reconfigured", reconfigured):
        yield


@mutant("A removed replica keeps its seat: only its vote goes.", caught=("I2", "I12"), schedule=administered)
def half_a_removal():
    def seated(seats, change):
        return tuple(seats) if isinstance(change, Dismiss) else choice.seated(seats, change)

    with patched(election, "seated", seated):
        yield


@mutant("A newcomer becomes a voter before it has caught up.", caught=("I15",), schedule=administered)
def counted_before_caught_up():
    with patched(flow_control.FlowControl, "lag", lambda *_: 0.0):
        yield


@contextlib.contextmanager
def _without_dead_life(state, newcomer):
    """The accepted view does not list an earlier process of the replica that joins."""
    current = state.accepted
    if current is None or newcomer is None:
        yield
        return
    config = [voter for voter in current.config if voter.replica != newcomer.replica or voter == newcomer]
    with patched(state, "accepted", msgspec.structs.replace(current, config=tuple(config))):
        yield


@mutant(
    "A new process of a replica becomes a voter while its dead one still votes.",
    caught=("I2",),
    schedule=administered,
)
def dead_life_stays():
    def step(original, self, now):
        with _without_dead_life(self._state, self.transfer and self.transfer.voter):
            return original(self, now)

    with wrapped(donor.Donor, "step", step):
        yield


def _activated(have, source, active, new, *, old=True, own=True):
    if not set(new.members) <= set(have):
        return False
    if old and source is not None and view.present(have, source.config) < choice.quorum_of(source, active):
        return False
    return not own or view.present(have, new.config) >= choice.quorum_of(new, False)


@mutant("A view is active without a majority of the old voters.", caught=("I2",), schedule=administered)
def old_majority_not_needed():
    with patched(installation, "activated", partial(_activated, old=False)):
        yield


@mutant("A view is active without a majority of the new voters.", caught=("I2",), schedule=administered)
def new_majority_not_needed():
    with patched(installation, "activated", partial(_activated, own=False)):
        yield


@mutant("A removed replica becomes a voter again.", caught=("I12",), schedule=administered)
def removed_let_in():
    with (
        patched(membership.Membership, "lets_in", lambda *_: True),
        patched(membership.Membership, "on_unlisted", lambda *_: None),
        patched(view.View, "lists", lambda *_: True),
    ):
        yield


def _back_under_load(_seed):
    """A replica that was removed is let in again with its disk, and gets entries between heartbeats."""
    return Schedule(
        shape=Shape(disk=True, sync_s=0.002, save_entries=200, settings=Settings(keep=5000)),
        faults=[Remove(at=0.6, who=2), Add(at=1.1, who=2)],
        load=300.0,
    )


@mutant(
    "A replica stops when the last heartbeat of its master names a lower index than it has committed.",
    caught=("I5",),
    schedule=_back_under_load,
    seeds=20,
)
def ahead_is_bereft():
    def reason_to_stop(original, self):
        state = self._state
        for link in state.peers:
            said, accepted = link.heartbeat, state.accepted
            if said is None or accepted is None or not (said.active and said.master):
                continue
            if said.view > accepted.number and said.last < state.replicated.commit:
                return "the master has less"
        return original(self)

    with wrapped(decision_loop.DecisionLoop, "_reason_to_stop", reason_to_stop):
        yield


def a_replica_moves():
    """It is down, and will listen elsewhere."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.hosts[2].crash()
    cluster.whole(but=[2])
    master = cluster.master()
    master.channel.admit(cluster.world.now, 2, b"elsewhere")
    master.settle()
    cluster.until(lambda: Seat(2, b"elsewhere") in master.channel.view.seats)
    assert [seat.replica for seat in master.channel.view.seats] == [0, 1, 2]


@mutant(
    "A replica that moves keeps its old seat beside the new one.",
    scenario=a_replica_moves,
    caught=("scenario", "I2"),
)
def seat_kept_by_who_moves():
    def seated(original, seats, change):
        kept = seats if isinstance(change, Admit) else ()
        return tuple(sorted({*kept, *original(seats, change)}))

    with wrapped(election, "seated", seated):
        yield


@mutant(
    "A master takes an operator's change while another one is pending.", caught=("I2",), schedule=administered
)
def change_while_pending():
    def check(original, self):
        with patched(replica_state.ReplicaState, "pending", None):
            original(self)

    with wrapped(membership.Membership, "_check_free", check):
        yield


@mutant(
    "A committed change takes effect only when something else changes the view.",
    caught=("L1",),
    schedule=administered,
)
def change_waits():
    with patched(view_triggers.ViewTriggers, "reconfiguring", lambda *_: False):
        yield


@mutant("A learner that has no vote becomes a member of a view.", caught=("I2",), schedule=administered)
def learner_without_a_vote():
    def install(original, self, now, attempt, chosen):
        joiner = attempt.joiner

        def start(begin, election, now, new, source, active, bases):
            promise = attempt.promises.get(joiner)
            if promise is not None and joiner not in new.members:
                bases[joiner] = promise.commit
                new = msgspec.structs.replace(new, members=(*new.members, joiner))
            begin(election, now, new, source, active, bases)

        with wrapped(election.Election, "_start", start):
            original(self, now, attempt, chosen)

    with wrapped(election.Election, "_install", install):
        yield


@mutant(
    "The index that a learner acknowledges counts towards a commit.", explore="adding", budget={"tick": 1}
)
def learner_counted():
    original_caught_up = donor.Donor.on_caught_up

    def on_caught_up(self, now, voter, message):
        self._replication.learner = message.index
        original_caught_up(self, now, voter, message)
        if self._state.leading:
            self._replication._advance()

    def held(self, current):
        matches = [self._synced, *[slave.match for slave in self._slaves.values()]]
        return sorted([*matches, getattr(self, "learner", 0)], reverse=True)[current.k - 1]

    with (
        patched(donor.Donor, "on_caught_up", on_caught_up),
        patched(normal_case.Replication, "held", held),
    ):
        yield


@mutant("A new voter takes the place of the old one in the next view without a RECONFIG in the log.")
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
        return self.transfer is not None and self._flow_control.lag(self.transfer) <= 1

    original_install = election.Election._install
    assert original
    with patched(election.Election, "_install", install), patched(donor.Donor, "step", step):
        yield


@mutant("The master appends another RECONFIG before the first one took effect.")
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


@mutant("A learner appends entries after its own log without comparing the two.")
def catch_up_unchecked():
    def on_catch_up(original, self, now, voter, message):
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
        original(self, now, voter, message)

    with wrapped(learner.Learner, "on_catch_up", on_catch_up):
        yield


@mutant("A donor adds the new process of a replica before the dead one is removed.", caught=("I2",))
def dead_life_not_removed_first():
    def step(original, self, now):
        transfer, view = self.transfer, self._state.accepted
        if transfer is None or view is None or transfer.voter in view.config:
            return original(self, now)
        if self._flow_control.lag(transfer) > 1:
            return original(self, now)
        pending = self._state.log.reconfig(view.start)
        if pending is None or pending.view != view.number:
            self._replication.reconfigure(now, Reconfig(True, *transfer.voter))
        return False

    with wrapped(donor.Donor, "step", step):
        yield


@mutant("One RECONFIG removes the dead process and adds the new one.", caught=("I2",), explore="incarnations")
def replaced_in_one_change():
    original_reconfigured = choice.reconfigured
    original_step = donor.Donor.step

    def reconfigured(config, change):
        if change is not None and change.add:
            config = [voter for voter in config if voter.replica != change.replica]
        return original_reconfigured(config, change)

    def step(self, now):
        transfer, view = self.transfer, self._state.accepted
        if transfer is None or view is None or transfer.voter in view.config:
            return original_step(self, now)
        if self._flow_control.lag(transfer) > 1:
            return original_step(self, now)
        pending = self._state.log.reconfig(view.start)
        if pending is None or pending.view != view.number:
            self._replication.reconfigure(now, Reconfig(True, *transfer.voter))
        return False

    with (
        patched(choice, "reconfigured", reconfigured),
        patched(election, "reconfigured", reconfigured),
        patched(donor.Donor, "step", step),
    ):
        yield


@mutant("A RECONFIG is effective as soon as the master appends it.", caught=("I1",), quick=True)
def reconfig_effective_at_once():
    def reconfigure(original, self, now, change):
        original(self, now, change)
        state = self._state
        config = choice.reconfigured(state.accepted.config, change)
        state.accepted = msgspec.structs.replace(state.accepted, config=config)

    with wrapped(normal_case.Replication, "reconfigure", reconfigure):
        yield


@mutant("A RECONFIG in the adopted log is forgotten.", caught=("I2",))
def reconfig_forgotten():
    with patched(election.Election, "change", lambda self, source, promises: None):
        yield


def a_founder_leaves_while_its_promise_is_held_up():
    """The promise arrives after the farewell. Without its vote the other founder could agree on nothing."""
    simulate(draw(1510, profile="founding"), seed=1510)


@mutant(
    "A promise given before EXIT cancels the EXIT of a replica that leaves.",
    scenario=a_founder_leaves_while_its_promise_is_held_up,
    caught=("L1",),
)
def farewell_taken_back():
    def on_promise(original, self, now, voter, message):
        link = self._state.peers.link(voter)
        if link is not None:
            link.left_at = NO_VIEW
        original(self, now, voter, message)

    with wrapped(election.Election, "on_promise", on_promise):
        yield


def a_learner_is_removed():
    """It is about to be a voter when an operator removes it."""
    cluster = ScriptedCluster(4, settings=Settings(keep=0, window=16), snapshot_s=1.0, chunk=1)
    cluster.form()
    for _ in range(60):
        cluster.submit(cluster.master(), 4)
        cluster.run(0.02)
    cluster.run(0.2)
    cluster.hosts[3].crash()
    master = cluster.whole(but=[3])
    cluster.hosts[3].start()
    channel = master.channel
    cluster.until(
        lambda: channel.phases.giving == "state" and len(channel.view.config) == 3 and channel.can_submit
    )
    assert master.state.pending is None
    master.channel.remove(cluster.world.now, 3)
    master.settle()
    cluster.until(lambda: len(master.channel.view.seats) == 3 and master.channel.can_submit)
    cluster.run(3.0)
    assert master.channel.phases.giving == "nobody", "it is let in again"


@mutant(
    "A donor goes on with a transfer to a replica that was removed.",
    scenario=a_learner_is_removed,
    caught=("scenario", "I12"),
)
def removed_learner_kept():
    def on_view(original, self, now):
        with patched(view.View, "lists", lambda *_: True):
            original(self, now)

    with wrapped(donor.Donor, "on_view", on_view):
        yield


@mutant(
    "A new process of a witness becomes a voter while its dead one still votes.",
    caught=("I2",),
    schedule=administered,
)
def witness_beside_its_dead_life():
    def step(original, self, now):
        with _without_dead_life(self._state, self._waiting):
            return original(self, now)

    with wrapped(witness_admission.WitnessAdmission, "step", step):
        yield
