"""Mutants of unfit replicas: whose application has a wrong state, and who serve all the same."""

import attrs
import msgspec

from quorate.hachannel.journal import durable_log
from quorate.hachannel.protocol import heartbeats
from quorate.hachannel.replication import lease
from quorate.hachannel.transfer import learner
from quorate.hachannel.view_change import election
from quorate.testing import Crash, Disqualify, Schedule, Shape, Submit
from quorate.testing.mutation import mutant, wrapped


def disqualified(seed):
    """Members become unfit, and other replicas are killed within a moment."""
    faults = []
    for number, who in enumerate(["slave", "master", "any", "slave"]):
        at = 2.0 + 3 * number
        faults += [
            Submit(at=at - 0.1, count=20),
            Disqualify(at=at, who=who),
            Crash(at=at + 0.01 + seed % 5 / 20, who="any", back_s=0.3),
        ]
    shape = Shape(replicas=3 + seed % 2, witnesses=seed % 2, disk=True, parts=bool(seed % 3))
    return Schedule(faults=faults, shape=shape)


@mutant("A view has a member that is unfit.", caught=("I21",), schedule=disqualified, seeds=20, quick=True)
def unfit_member():
    def choose(original, promises, me):
        fit = {voter: msgspec.structs.replace(each, unfit=False) for voter, each in promises.items()}
        return original(fit, me)

    with wrapped(election, "choose", choose):
        yield


@mutant("An unfit master keeps the lease.", caught=("I21",), schedule=disqualified, seeds=20)
def unfit_lease():
    def quiet(original, self, *arguments):
        if not self._state.unfit:
            original(self, *arguments)

    def reigning(original, self):
        unfit, self._state.unfit = self._state.unfit, False
        try:
            return original(self)
        finally:
            self._state.unfit = unfit

    with wrapped(lease.Lease, "give_up", quiet), wrapped(lease.Lease, "_reigning", reigning):
        yield


@mutant(
    "An unfit replica does not say so in its heartbeats.", caught=("I21",), schedule=disqualified, seeds=20
)
def unfit_unsaid():
    def heartbeat(original, self, to=None):
        return msgspec.structs.replace(original(self, to), unfit=False)

    with wrapped(heartbeats.Heartbeats, "heartbeat", heartbeat):
        yield


@mutant(
    "A replica forgets with its process that it is unfit.", caught=("I21",), schedule=disqualified, seeds=60
)
def unfit_forgotten():
    def recovered(original, self):
        return attrs.evolve(original(self), unfit=False)

    with wrapped(durable_log.DurableLog, "recovered", recovered):
        yield


@mutant("A view without it makes a replica fit again.", caught=("I21",), schedule=disqualified, seeds=20)
def fit_without_a_state():
    def tick(original, self, now):
        if not self._state.member:
            self._state.unfit = self.fresh = False
        original(self, now)

    with wrapped(learner.Learner, "tick", tick):
        yield
