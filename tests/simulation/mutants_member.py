"""Mutants of changes of the cluster: replicas added, removed and replaced, by an operator in each run."""

from functools import partial

import msgspec

from quorate.hachannel import Settings
from quorate.hachannel.membership import membership, witness_admission
from quorate.hachannel.model import view
from quorate.hachannel.model.messages import Dismiss, Join
from quorate.hachannel.replication import replica_state
from quorate.hachannel.transfer import donor, flow_control
from quorate.hachannel.view_change import choice, election, installation
from quorate.testing import Add, Remove, Schedule, Shape
from quorate.testing.mutation import mutant, patched
from quorate.testing.schedules.random_schedules import administered
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_witness_that_is_removed_while_it_comes():
    """It asks to be let in when its removal is pending."""
    script = ScriptedCluster(3, witnesses=1)
    master = script.form()
    witness = script.hosts[2]
    for request in (
        lambda now: master.channel.remove(now, 2),
        lambda now: master.channel.admit(now, 2, witness=True),
    ):
        request(script.world.now)
        master.settle()
        script.until(lambda: master.state.pending is None and master.channel.can_submit)
    witness.start()
    script.net.muted = Join
    link = master.state.peers.links
    script.until(lambda: 2 in link and link[2].connected and link[2].voter == witness.state.me)
    master.channel.remove(script.world.now, 2)
    master.settle()
    state = witness.state
    master.deliver(2, Join("c", True, state.log.tag(0), 0, 0, b"", False, 0, state.birth))
    script.run(1.0)


@mutant(
    "A witness that asked to come is let in although it has been removed since.",
    scenario=a_witness_that_is_removed_while_it_comes,
    caught=("I12",),
    quick=True,
)
def unlisted_witness_let_in():
    original = witness_admission.WitnessAdmission.step

    def step(self, now):
        with patched(view.View, "lists", lambda _self, _replica: True):
            original(self, now)

    with patched(witness_admission.WitnessAdmission, "step", step):
        yield


@mutant(
    "An operator's change is appended although another one of this view is pending.",
    caught=("I2",),
    schedule=administered,
    quick=True,
)
def second_change_in_a_view():
    def append(self, now, current, change):
        self._replication.reconfigure(now, change)
        self._replication.reconfigure(now, change)

    with patched(membership.Membership, "_append", append):
        yield


@mutant(
    "A change takes effect in the view in which it is appended, before it is committed.",
    caught=("I1", "I2"),
    schedule=administered,
    quick=True,
)
def change_before_commit():
    original = membership.Membership._append

    def append(self, now, current, change):
        original(self, now, current, change)
        state = self._state
        config = choice.reconfigured(current.config, change)
        seats = choice.seated(current.seats, change)
        state.accepted = msgspec.structs.replace(current, config=config, seats=seats)

    with patched(membership.Membership, "_append", append):
        yield


@mutant(
    "A removed replica keeps its vote: only its seat goes.",
    caught=("I2", "I12"),
    schedule=administered,
    quick=True,
)
def removed_voter_counted():
    original = choice.reconfigured

    def reconfigured(config, change):
        return original(config, None if isinstance(change, Dismiss) else change)

    with patched(election, "reconfigured", reconfigured):
        yield


@mutant(
    "A removed replica keeps its seat: only its vote goes.",
    caught=("I2", "I12"),
    schedule=administered,
    quick=True,
)
def half_a_removal():
    def seated(seats, change):
        return tuple(seats) if isinstance(change, Dismiss) else choice.seated(seats, change)

    with patched(election, "seated", seated):
        yield


@mutant(
    "A newcomer becomes a voter before it has caught up.",
    caught=("I15",),
    schedule=administered,
    quick=True,
)
def counted_before_caught_up():
    with patched(flow_control.FlowControl, "lag", lambda *_: 0.0):
        yield


@mutant(
    "A new life becomes a voter beside the dead one.",
    caught=("I2",),
    schedule=administered,
    quick=True,
)
def dead_life_stays():
    original = donor.Donor.step

    def step(self, now):
        current = self._state.accepted
        session = self.session
        if current is None or session is None:
            return original(self, now)
        others = [voter for voter in current.config if voter.replica != session.voter.replica]
        others += [session.voter] if session.voter in current.config else []
        self._state.accepted = msgspec.structs.replace(current, config=tuple(others))
        try:
            return original(self, now)
        finally:
            self._state.accepted = current

    with patched(donor.Donor, "step", step):
        yield


def _activated(have, source, active, new, *, old=True, own=True):
    if not set(new.members) <= set(have):
        return False
    if old and source is not None and view.present(have, source.config) < choice.quorum_of(source, active):
        return False
    return not own or view.present(have, new.config) >= choice.quorum_of(new, False)


@mutant(
    "A view need not be known to a majority of the old voters.",
    caught=("I2",),
    schedule=administered,
)
def old_majority_not_needed():
    with patched(installation, "activated", partial(_activated, old=False)):
        yield


@mutant(
    "A view need not be known to a majority of the new voters.",
    caught=("I2",),
    schedule=administered,
)
def new_majority_not_needed():
    with patched(installation, "activated", partial(_activated, own=False)):
        yield


@mutant("A removed replica is let in again.", caught=("I12",), schedule=administered, quick=True)
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
    "Who is ahead of what its master said last believes that the others have lost what is committed.",
    caught=("I5",),
    schedule=_back_under_load,
    seeds=20,
)
def ahead_is_bereft():
    def forgetful(self):
        for link in self.peers:
            said, accepted = link.heartbeat, self.accepted
            if said is None or accepted is None or not (said.active and said.master):
                continue
            if said.view > accepted.number and said.last < self.commit:
                return link
        return None

    with patched(replica_state.ReplicaState, "forgetful", property(forgetful)):
        yield
