"""Clusters of real nodes with faults, by seed: one state, and every acknowledged effect exactly once."""

from typing import Any

import attrs
import pytest

from quorate.agents import Agent, Context, Create, Note, Notification, encode, factory, outside, reacts
from quorate.engine import Effects
from quorate.server.node.batching import BatchLimits
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.cluster import Cluster

from ..long import amount

SEEDS = range(int(amount("QUORATE_SEEDS", 25, 800)))


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Beat(Notification):
    pass


@attrs.define
class Ledger(Agent):
    """Writes down what it gets; answers, and sets itself a timer now and then."""

    numbers: list[int] = attrs.field(factory=list[int])
    beats: int = 0
    stamps: list[int] = attrs.field(factory=list[int])

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.numbers.append(note.number)
        ctx.send(ctx.sender, Entry(note.number))
        if note.number % 10 == 0:
            ctx.timer(0.3 * ctx.random.random(), Beat())

    @reacts
    def beat(self, ctx: Context, _: Beat) -> None:
        self.beats += 1
        self.stamps.append(ctx.now_ns)


def create(cls: type[Agent], name: str) -> Note:
    note = Create(f"{cls.__module__}:{cls.__qualname__}", name, encode_state(cls), None, name)
    return Note(factory(0), outside(0), Create.type_name, encode(note))


def encode_state(cls: type[Agent]) -> bytes:
    from quorate.agents import agent_spec

    return agent_spec(cls).save(cls())


class Run:
    """A cluster under a load of numbered notes, each posted once and never again."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.replies: dict[int, int] = {}
        self.cluster = Cluster(seed, on_effects=self.effects, **options)
        self.tokens: dict[int, int] = {}
        self.next = 0
        self.loading = True
        self.cluster.run_until(lambda: self.cluster.master() is not None)
        assert self.cluster.post([create(Ledger, "ledger")]) is not None
        self.cluster.run_until(self.cluster.whole)
        self.load()

    def effects(self, replica: int, effects: Effects) -> None:
        for note in effects.replies:
            if note.request:
                self.replies[note.request] = self.replies.get(note.request, 0) + 1

    def load(self) -> None:
        if not self.loading:
            return
        notes: list[Note] = []
        for _ in range(self.cluster.random.randint(1, 5)):
            self.next += 1
            notes.append(Note("ledger", outside(0), Entry.type_name, encode(Entry(self.next)), self.next))
        token = self.cluster.post(notes)
        if token is not None:
            self.tokens.update({note.request: token for note in notes})
        self.cluster.at(self.cluster.random.expovariate(80), self.load)

    def finish(self) -> list[int]:
        cluster = self.cluster
        self.loading = False
        cluster.run_until(cluster.whole)
        cluster.run(1.0)
        cluster.run_until(cluster.whole)
        cluster.check()
        agents = [
            cell.agent for cell in cluster.replicas[0].node.engine.cells() if isinstance(cell.agent, Ledger)
        ]
        (ledger,) = agents
        numbers = ledger.numbers
        assert len(numbers) == len(set(numbers)), f"seed {cluster.seed}: something happened twice"
        acknowledged = {number for number, token in self.tokens.items() if token in cluster.committed}
        assert acknowledged <= set(numbers), f"seed {cluster.seed}: something acknowledged is lost"
        assert set(self.replies) <= set(numbers), f"seed {cluster.seed}: a reply to what never happened"
        assert set(self.replies.values()) <= {1}
        assert acknowledged
        assert ledger.beats == sum(number % 10 == 0 for number in numbers)
        assert ledger.stamps == sorted(ledger.stamps)
        return numbers


def settings(seed: int) -> NodeSettings:
    answers = "confirmed" if seed % 2 else "committed"
    return NodeSettings(digest_every=20, limits=BatchLimits(batch_notes=20), answers=answers)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_replicas_lose_and_repeat_nothing(seed: int) -> None:
    run = Run(seed, skew_s=2.0, node_settings=settings(seed))
    cluster = run.cluster
    for _ in range(2):
        cluster.run(cluster.random.uniform(0.05, 1.0))
        victim = cluster.random.choice([0, 1, 2])
        cluster.kill(victim)
        cluster.run(cluster.random.uniform(0.01, 3.0))
        cluster.restart(victim)
        run.loading = False
        cluster.run_until(cluster.whole)
        run.loading = True
        run.load()
    run.finish()


@pytest.mark.parametrize("seed", SEEDS[:15])
def test_a_replica_that_was_cut_off_comes_back_in_the_same_state(seed: int) -> None:
    run = Run(seed, skew_s=2.0, node_settings=settings(seed))
    cluster = run.cluster
    for _ in range(2):
        cluster.run(cluster.random.uniform(0.05, 1.0))
        cluster.cut(cluster.random.choice([0, 1, 2]))
        cluster.run(cluster.random.uniform(0.1, 8.0))
        cluster.heal()
        run.loading = False
        cluster.run_until(cluster.whole)
        run.loading = True
        run.load()
    run.finish()


def test_a_run_can_be_repeated() -> None:
    def transcript(seed: int) -> list[int]:
        run = Run(seed)
        run.cluster.run(0.5)
        run.cluster.kill(0)
        run.cluster.run(1.0)
        run.cluster.restart(0)
        return run.finish()

    assert transcript(7) == transcript(7)


@pytest.mark.parametrize("seed", range(5))
def test_a_master_goes_on_serving_while_it_loses_a_slave(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.run_until(cluster.whole)
    master = cluster.master()
    assert master is not None
    slaves = [id for id in cluster.replicas if id != master.id]
    cluster.kill(slaves[seed % 2])
    cluster.run(10.0)
    assert [role.master for role in master.roles] == [True]
    assert master.node.accepting


def firsts(cluster: Cluster) -> list[int]:
    """Which replicas were told to start the services for the first time."""
    return [id for id, each in cluster.replicas.items() for role in each.roles if role.first_time]


@pytest.mark.parametrize("seed", range(5))
def test_services_start_for_the_first_time_at_the_next_master_if_the_first_one_dies_before_it_serves(
    seed: int,
) -> None:
    cluster = Cluster(seed)
    cluster.run_until(lambda: any(each.node.role == "slave" for each in cluster.replicas.values()))
    [first] = [id for id, each in cluster.replicas.items() if each.node.role == "master"]
    assert not cluster.replicas[first].node.serving
    cluster.kill(first)
    cluster.run_until(lambda: cluster.master() is not None)
    master = cluster.master()
    assert master is not None
    assert firsts(cluster) == [master.id]


@pytest.mark.parametrize("seed", range(5))
def test_a_later_master_is_not_told_that_it_is_the_first_time(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.run_until(cluster.whole)
    master = cluster.master()
    assert master is not None
    cluster.run(0.5)
    cluster.kill(master.id)
    cluster.run_until(lambda: cluster.master() is not None)
    assert firsts(cluster) == [master.id]


@pytest.mark.parametrize("stop_s", [0.0, 0.3])
def test_nobody_serves_before_the_services_of_a_master_that_leaves_have_stopped(stop_s: float) -> None:
    cluster = Cluster(1)
    cluster.run_until(cluster.whole)
    master = cluster.master()
    assert master is not None
    cluster.stop_s = stop_s
    start = cluster.now
    cluster.leave(master.id)
    others = [each for each in cluster.replicas.values() if each is not master]
    cluster.run_until(lambda: any(other.node.serving for other in others))
    assert stop_s <= cluster.now - start < stop_s + 0.3


@pytest.mark.parametrize("seed", range(5))
def test_a_master_that_is_cut_off_stops_serving_and_another_takes_over(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.run_until(cluster.whole)
    master = cluster.master()
    assert master is not None
    cluster.cut(master.id)
    cluster.run(15.0)
    assert [role.master for role in master.roles] == [True, False]
    now = cluster.master()
    assert now is not None
    assert now.id != master.id
