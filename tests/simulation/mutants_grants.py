"""Mutants of what a lease is made of: whose grants count, and what binds those who gave them."""

import math

from quorate.hachannel.membership import witness_admission
from quorate.hachannel.model.messages import Grant, Heartbeat
from quorate.hachannel.replication import lease
from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.hachannel.transfer import donor
from quorate.testing.channel.by_hand import Hand
from quorate.testing.channel.world import Host
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script

Lease = lease.Lease


def a_removed_replica_follows_its_master_still():
    """It has not heard that it was removed, and grants. The voters of the view are cut off."""
    hand = Hand(4)
    master = hand.form()
    hand.tick(0.05)
    hand.settle()
    assert master.holds_lease(hand.now)
    hand.act(0, lambda channel: channel.remove(hand.now, 3))
    while master.members != (0, 1, 2):
        here, there = next(pair for pair, wire in hand.wires.items() if wire)
        hand.deliver(here, there, 1)
    for pair in list(hand.wires):
        hand.lose(*pair)
    granted = 0
    for _ in range(40):
        hand.tick(0.05, 0)
        for other in (1, 2):
            hand.lose(0, other)
        for message in hand.lose(0, 3):
            if isinstance(message, Heartbeat):
                hand.give(0, 3, message)
        for message in hand.lose(3, 0):
            if isinstance(message, Grant):
                granted += 1
                hand.give(3, 0, message)
    assert granted > 30
    assert not master.holds_lease(hand.now), "it counts a replica that does not vote: the others may lead"


@mutant(
    "Grants of anybody count, also of those who vote no more.",
    scenario=a_removed_replica_follows_its_master_still,
    caught=("scenario", "I11"),
    quick=True,
)
def grants_of_anybody():
    def expires(self):
        view = self._state.accepted
        if self._reigns_since is None or view is None:
            return -math.inf
        granted = sorted((*self.grants.values(), math.inf), reverse=True)
        return granted[view.quorum - 1] if len(granted) >= view.quorum else -math.inf

    with patched(Lease, "expires", expires):
        yield


@mutant("A voter grants at once, whatever its disk has of the promise.", caught=("I3",), quick=True)
def granted_at_once():
    with patched(ReplicaState, "pledge", ReplicaState.send):
        yield


@mutant("How long grants last is not written.", caught=("I3",), quick=True)
def length_not_written():
    with patched(Lease, "_remember", lambda *_: None):
        yield


@mutant("A master that installs a view itself forgets what was granted to it.", caught=("I11",), quick=True)
def forgotten_in_a_view_of_its_own():
    original = Lease.reign

    def reign(self, now, master):
        self._reigns_since = None
        original(self, now, master)

    with patched(Lease, "reign", reign):
        yield


@mutant("A master that holds the lease promises views to others.", caught=("I11",))
def holder_not_bound():
    with patched(Lease, "blocks", lambda self, now, other: now < self.until and self.holder != other):
        yield


def a_master_of_before_is_heard_by_one_voter():
    """It knows three voters. There are five now, and another master: two are a majority of its own only."""
    script = Script(3)
    before = script.form()
    master, voter = script.hosts[1:]
    script.split([0], [1, 2, 3, 4])
    for other in (1, 2):
        script.net.shut((0, other))
    script.whole(but=[0])
    for replica in (3, 4):
        script.hosts.append(Host(script.world, replica))
        master.channel.admit(script.world.now, replica)
        master.settle()
        script.hosts[replica].start()
        assert script.whole(but=[0]) is master
    # The voter promises the next view, is left out of it, and does not hear of it any more.
    script.cut((2, 1), (2, 3), (2, 4))
    accepted = voter.channel.view
    assert accepted is not None
    script.until(lambda: voter.state.promised > accepted.number)
    script.split([1, 3, 4], [2])
    assert script.whole(but=[0, 2]) is master
    for way in ((0, 2), (2, 0)):
        script.net.mend(way)
    script.until(lambda: voter.state.promised.replica == 0)
    script.run(1.0)
    assert not before.channel.holds_lease(script.world.now)
    assert master.channel.holds_lease(script.world.now)
    script.mend()
    script.whole()


@mutant(
    "A voter grants to whom it has promised a view, although another one is master of that it has accepted.",
    scenario=a_master_of_before_is_heard_by_one_voter,
    caught=("I11",),
    quick=True,
)
def granted_for_a_promise():
    with rewritten(Lease, "on_mark", ("or view.members[0] != voter", "or False")):
        yield


def longest_wait(script: Script, late: Host, *away: Host) -> float:
    """Start a replica again while the master submits and some are away: how long an entry waits at most."""
    master = script.whole(but=[host.replica for host in (late, *away)])
    late.start()
    longest, end = 0.0, script.world.now + 10.0
    while script.world.now < end:
        start = script.world.now
        payloads = set(script.submit(master))
        script.until(lambda sent=payloads: sent <= script.delivered_once.keys())
        longest = max(longest, script.world.now - start)
        script.run(0.01)
    assert late.channel.role in ("slave", "witness"), f"{late} is not taken in"
    return longest


def learner_that_granted_to_a_master_of_before():
    """It comes back with its disk while what it may have granted is not over: it cannot promise before."""
    script = Script(5, disk=True, seed=8)
    first = script.form()
    late = script.hosts[4]
    late.crash()
    script.whole(but=[4])
    first.crash()
    assert longest_wait(script, late, first) < 0.5, "everybody waits until its grant is over"


@mutant(
    "A learner that may not promise a view as yet is taken in all the same.",
    scenario=learner_that_granted_to_a_master_of_before,
    caught=("scenario",),
    quick=True,
)
def bound_learner_taken_in():
    with rewritten(donor.Donor, "on_caught_up", ("not message.bound_s > 0", "True")):
        yield


def witness_that_may_have_granted():
    """It comes back without a memory where not all are needed to found a cluster."""
    script = Script(3, expected=2, witnesses=1)
    script.form()
    late = script.hosts[2]
    late.crash()
    assert longest_wait(script, late) < 0.5, "everybody waits until what it may have granted is over"


@mutant(
    "A witness that may not promise a view as yet is taken in all the same.",
    scenario=witness_that_may_have_granted,
    caught=("scenario",),
    quick=True,
)
def bound_witness_taken_in():
    with rewritten(witness_admission.WitnessAdmission, "on_join", ("message.bound or", "")):
        yield
