"""Clusters whose replicas have disks: all may die at once, and everything acknowledged is there again."""

from typing import Any

import attrs
import pytest

from quorate.agents import (
    Agent,
    Context,
    Create,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.engine import Effects
from quorate.hachannel import Settings
from quorate.server.node.batching import BatchLimits
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.durable_cluster import DurableCluster

from ..long import amount

SEEDS = range(int(amount("QUORATE_SEEDS", 15, 500)))


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

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.numbers.append(note.number)
        ctx.send(ctx.sender, Entry(note.number))
        if note.number % 10 == 0:
            ctx.timer(0.3 * ctx.random.random(), Beat())

    @reacts
    def beat(self, ctx: Context, _: Beat) -> None:
        self.beats += 1


@attrs.define
class Talker(Agent):
    """Writes to the log what it gets."""

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        ctx.log(f"got {note.number}")


def create(name: str, kind: type[Agent] = Ledger) -> Note:
    cls = f"{kind.__module__}:{kind.__qualname__}"
    note = Create(cls, name, agent_spec(kind).save(kind()), None, name)
    return Note(factory(0), outside(0), Create.type_name, encode(note))


class Run:
    """A cluster under a load of numbered notes, each posted once and never again."""

    def __init__(self, seed: int, size: int = 3, **options: Any) -> None:
        self.replies: dict[int, int] = {}
        self.cluster = DurableCluster(seed, size, on_effects=self.effects, **options)
        self.tokens: dict[int, int] = {}
        self.next = 0
        self.loading = True
        self.cluster.run_until(lambda: self.cluster.master() is not None)
        token = self.cluster.post([create("ledger"), create("other")])
        self.cluster.run_until(lambda: token in self.cluster.committed and self.cluster.whole())
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

    def settle(self) -> None:
        self.loading = False
        self.cluster.run_until(self.cluster.whole)

    def resume_load(self) -> None:
        self.loading = True
        self.load()

    def finish(self) -> None:
        cluster = self.cluster
        self.settle()
        cluster.run(1.0)
        cluster.run_until(cluster.whole)
        cluster.check()
        for replica in cluster.replicas.values():
            cell = replica.node.engine.find("ledger")
            assert cell is not None
            ledger = cell.agent
            assert isinstance(ledger, Ledger)
            numbers = ledger.numbers
            assert len(numbers) == len(set(numbers)), f"seed {cluster.seed}: something happened twice"
            acknowledged = {number for number, token in self.tokens.items() if token in cluster.committed}
            assert acknowledged, f"seed {cluster.seed}: nothing was done"
            assert acknowledged <= set(numbers), f"seed {cluster.seed}: something acknowledged is lost"
            assert set(self.replies) <= set(numbers), f"seed {cluster.seed}: a reply to what is lost"
            assert set(self.replies.values()) <= {1}
            assert ledger.beats == sum(number % 10 == 0 for number in numbers)


def options(seed: int) -> dict[str, Any]:
    # Small bounds: logs are trimmed and states transferred within a short run.
    return {
        "node_settings": NodeSettings(
            digest_every=20,
            limits=BatchLimits(batch_notes=20),
            answers="confirmed" if seed % 2 else "committed",
        ),
        "channel_settings": Settings(
            mode="ALL" if seed % 3 else "MAJORITY", keep=8, window=64, heartbeat_s=0.02
        ),
        "skew_s": 2.0,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_all_replicas_die_at_once_and_come_back_with_everything(seed: int) -> None:
    """Scenario 28: nothing uncommitted is delivered, nothing acknowledged is lost."""
    run = Run(seed, **options(seed))
    cluster = run.cluster
    for _ in range(3):
        cluster.run(cluster.random.uniform(0.05, 1.5))
        for id in cluster.replicas:
            cluster.kill(id)
        cluster.run(cluster.random.uniform(0.0, 0.5))
        for id in cluster.replicas:
            cluster.at(cluster.random.uniform(0.0, 1.0), lambda id=id: cluster.restart(id))
        cluster.run(1.1)
        run.settle()
        run.resume_load()
    run.finish()
    assert cluster.recoveries


def test_a_line_of_an_agent_is_in_the_log_of_every_replica_once_also_after_a_restart() -> None:
    cluster = DurableCluster(1, 3)

    def post(note: Note) -> None:
        token = cluster.post([note])
        cluster.run_until(lambda: token in cluster.committed and cluster.whole())

    def counts(number: int) -> list[int]:
        replicas = cluster.replicas.values()
        return [sum(line.endswith(f": got {number}") for line in each.lines) for each in replicas]

    cluster.run_until(lambda: cluster.master() is not None)
    post(create("talker", Talker))
    post(Note("talker", outside(0), Entry.type_name, encode(Entry(1)), 1))
    assert counts(1) == [1, 1, 1]
    cluster.run(1.0)  # until their disks know that it is committed
    for id in cluster.replicas:
        cluster.kill(id)
    for id in cluster.replicas:
        cluster.restart(id)
    cluster.run_until(cluster.whole)
    post(Note("talker", outside(0), Entry.type_name, encode(Entry(2)), 2))
    assert (counts(1), counts(2)) == ([1, 1, 1], [1, 1, 1])
    assert cluster.recoveries


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_die_one_after_the_other_at_any_moment(seed: int) -> None:
    run = Run(seed, **options(seed))
    cluster = run.cluster
    for _ in range(8):
        cluster.run(cluster.random.uniform(0.0, 0.6))
        victim = cluster.random.choice([0, 1, 2])
        if cluster.replicas[victim].alive:
            cluster.kill(victim)
            cluster.at(cluster.random.uniform(0.0, 1.5), lambda id=victim: cluster.restart(id))
    cluster.run(2.0)
    run.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plain_server_comes_back_with_everything(seed: int) -> None:
    run = Run(seed, 1, **options(seed))
    cluster = run.cluster
    for _ in range(5):
        cluster.run(cluster.random.uniform(0.0, 1.0))
        cluster.kill(0)
        cluster.run(cluster.random.uniform(0.0, 0.2))
        cluster.restart(0)
    cluster.run(1.0)
    run.finish()
    assert cluster.recoveries


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_that_lost_its_disk_is_another_voter_and_gets_the_state(seed: int) -> None:
    run = Run(seed, **options(seed))
    cluster = run.cluster
    for _ in range(2):
        cluster.run(cluster.random.uniform(0.3, 1.5))
        victim = cluster.random.choice([0, 1, 2])
        cluster.kill(victim)
        cluster.run(cluster.random.uniform(0.1, 3.0))
        cluster.lose_disk(victim)
        cluster.restart(victim)
        run.settle()
        for id in cluster.replicas:
            cluster.kill(id)
        for id in cluster.replicas:
            cluster.restart(id)
        run.settle()
        run.resume_load()
    run.finish()


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_replicas_that_all_lost_their_disks_found_no_second_cluster(seed: int) -> None:
    run = Run(seed, **options(seed))
    cluster = run.cluster
    run.settle()
    for id in cluster.replicas:
        cluster.kill(id)
    for id in cluster.replicas:
        cluster.lose_disk(id)
        cluster.restart(id)
    cluster.run(10.0)
    assert {replica.node.role for replica in cluster.replicas.values()} == {"joining"}


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_without_one_of_two_the_rest_of_a_restarted_cluster_waits_for_it(seed: int) -> None:
    """Every member must hold what is acknowledged: with two dead, one alone knows too little."""
    run = Run(seed, **options(3 * seed))
    cluster = run.cluster
    cluster.run(0.5)
    for id in cluster.replicas:
        cluster.kill(id)
    cluster.restart(1)
    cluster.run(5.0)
    assert cluster.master() is None
    cluster.restart(0)
    cluster.run_until(lambda: cluster.master() is not None)
    cluster.restart(2)
    run.finish()


def test_a_run_can_be_repeated() -> None:
    def transcript(seed: int) -> tuple[list[str], int]:
        run = Run(seed, **options(seed))
        run.cluster.run(0.5)
        for id in run.cluster.replicas:
            run.cluster.kill(id)
            run.cluster.restart(id)
        run.finish()
        return run.cluster.replicas[0].lines, run.next

    assert transcript(7) == transcript(7)
