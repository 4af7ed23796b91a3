"""Mutants of what a lease is made of: whose grants count, and what binds those who gave them."""

from quorate.hachannel.replication import lease
from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.testing.channel.host import Host
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

Lease = lease.Lease


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
    script = ScriptedCluster(3)
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
