"""Mutants of witnesses and of the number of copies: what a witness counts for, and how it is let in."""

from collections.abc import Generator

from quorate.hachannel import Channel, Settings
from quorate.hachannel.membership import witness_admission
from quorate.hachannel.model import view
from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import Join
from quorate.hachannel.replication import replica_state
from quorate.hachannel.view_change import choice, election
from quorate.testing.mutation import mutant, patched, wrapped
from quorate.testing.schedules.random_schedules import administered
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_witness_that_is_removed_while_it_comes():
    """It asks to be let in when its removal is pending."""
    cluster = ScriptedCluster(3, witnesses=1)
    master = cluster.form()
    witness = cluster.hosts[2]
    for request in (
        lambda now: master.channel.remove(now, 2),
        lambda now: master.channel.admit(now, 2, witness=True),
    ):
        request(cluster.world.now)
        master.settle()
        cluster.until(lambda: master.state.pending is None and master.channel.can_submit)
    witness.start()
    cluster.net.muted = Join
    link = master.state.peers.links
    cluster.until(lambda: 2 in link and link[2].connected and link[2].voter == witness.state.me)
    master.channel.remove(cluster.world.now, 2)
    master.settle()
    state = witness.state
    master.deliver(2, Join("c", True, state.log.tag(0), 0, 0, b"", False, 0, state.configuration.birth))
    cluster.run(1.0)


@mutant(
    "A witness that was removed while it joined becomes a voter.",
    scenario=a_witness_that_is_removed_while_it_comes,
    caught=("I12",),
)
def unlisted_witness_let_in():
    def step(original, self, now):
        with patched(view.View, "lists", lambda _self, _replica: True):
            original(self, now)

    with wrapped(witness_admission.WitnessAdmission, "step", step):
        yield


@mutant("A witness is added while another change is pending.", caught=("I2",), schedule=administered)
def witness_while_pending():
    def step(original, self, now):
        with patched(MemoryLog, "reconfig", lambda *_: None):
            return original(self, now)

    with wrapped(witness_admission.WitnessAdmission, "step", step):
        yield


QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def the_only_copy_is_waited_for() -> None:
    """{A} and the witness go on without B; then B and the witness must wait for A."""
    cluster = ScriptedCluster(3, witnesses=1, settings=QUICK, shared_host=False)
    cluster.form()
    cluster.split([1], [0, 2])
    master = cluster.whole(but=[1])
    alone = cluster.submit(master, 3)
    master.pause()
    cluster.mend()
    cluster.split([0], [1, 2])
    cluster.run(4.0)
    assert len(cluster.active) == 2, "B and the witness went on without what A committed"
    master.resume()
    cluster.mend()
    cluster.whole()
    cluster.everywhere(alone)


@mutant("A witness becomes a member like any replica.", caught=("I19",), quick=True)
def witness_is_member() -> Generator[None]:
    def init(original, self, *arguments, witnesses=(), **options):
        del witnesses
        original(self, *arguments, **options)

    with wrapped(Channel, "__init__", init):
        yield


@mutant(
    "Choose ignores the view that a witness has recorded.",
    scenario=the_only_copy_is_waited_for,
    explore="witness",
    budget={"crash": 0, "cut": 0, "tick": 1},
    caught=("I5",),
    quick=True,
)
def record_of_a_witness_ignored() -> Generator[None]:
    def choose(original, promises, me):
        views = [promise.accepted for promise in promises.values() if promise.accepted is not None]
        witnesses = {voter for view in views for voter in view.witnesses}
        heard = {voter: promise for voter, promise in promises.items() if voter not in witnesses}
        chosen = original({**promises, **dict.fromkeys(witnesses & set(promises), promises[me])}, me)
        return chosen if heard else "nobody"

    with wrapped(election, "choose", choose):
        yield


@mutant("Choose needs no voters beside the members, so a witness has no vote.")
def witness_not_counted() -> Generator[None]:
    def quorum_of(view, active):
        del active
        return len(view.config) // 2 + 1 - len(view.witnesses)

    with patched(choice, "quorum_of", quorum_of):
        yield


@mutant(
    "A view takes entries although it has fewer members than min_copies.",
    caught=("copies",),
    explore="copies",
    budget={"tick": 1, "stay": 1},
    quick=True,
)
def min_copies_ignored() -> Generator[None]:
    with patched(replica_state.ReplicaState, "too_few_copies", ""):
        yield


def one_of_all_three_copies_is_late() -> None:
    """A majority has the entry, and it is committed once the last member has it too."""
    cluster = ScriptedCluster(settings=Settings(mode="MAJORITY", min_copies=3))
    master = cluster.form()
    slow = next(host.replica for host in cluster.hosts if host is not master)
    cluster.cut((master.replica, slow))
    late = cluster.submit(master)
    cluster.run(0.5)
    assert not cluster.deliveries[master.replica], "it was committed with two copies of three"
    cluster.mend()
    cluster.everywhere(late)


@mutant(
    "A majority commits an entry although min_copies is higher.",
    scenario=one_of_all_three_copies_is_late,
    caught=("copies", "I13"),
)
def fewer_copies_commit() -> Generator[None]:
    def required(original, mode, members, min_copies=1):
        del min_copies
        return original(mode, members)

    with wrapped(election, "required", required):
        yield
