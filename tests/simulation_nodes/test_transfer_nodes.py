"""Servers with many agents whose replicas come back: with nothing, or an old state; the donor dies."""

from typing import Any

import attrs
import pytest

from quorate.agents import (
    Agent,
    Context,
    Create,
    Delete,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.hachannel import Settings
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.cluster import Cluster
from quorate.testing.servers.durable_cluster import DurableCluster

from ..long import amount

SEEDS = range(int(amount("QUORATE_SEEDS", 12, 240)))
AGENTS = 40


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Spoil(Notification):
    """Leave what cannot be stored."""


@attrs.define
class Account(Agent):
    total: int = 0
    ballast: str = ""
    values: list[int] = attrs.field(factory=list)

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        if note.number % 9 == 0:
            ctx.timer(0.5, Add(1))

    @reacts
    def spoil(self, ctx: Context, note: Spoil) -> None:
        self.values.append("wrong")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.engine.snapshot.transfer.PART_AGENTS", 3)
    monkeypatch.setattr("quorate.engine.snapshot.precopy.FEW", 2)
    monkeypatch.setattr("quorate.server.node.state_transfer.SLICE_AGENTS", 4)


def create(number: int) -> Note:
    state = agent_spec(Account).save(Account(ballast="x" * (3000 if number % 4 == 0 else 0)))
    note = Create(f"{__name__}:Account", f"a{number}", state, None, f"k{number}")
    return Note(factory(0), outside(0), Create.type_name, encode(note))


def delete(number: int) -> Note:
    return Note(factory(0), outside(0), Delete.type_name, encode(Delete(f"a{number}")))


def add(cluster: Cluster, amount: int) -> Note:
    to = f"a{cluster.random.randrange(AGENTS)}"
    return Note(to, outside(0), Add.type_name, encode(Add(amount)))


def form(seed: int, kind: type[Cluster] = DurableCluster, **settings: Any) -> Cluster:
    cluster = kind(
        seed,
        channel_settings=Settings(keep=0, transfer_window=1, max_log=1000, **settings),
        node_settings=NodeSettings(digest_every=7),
    )
    cluster.run_until(cluster.whole)
    for number in range(AGENTS):
        cluster.run_until(lambda number=number: cluster.post([create(number)]) is not None)
    return cluster


def drive(cluster: Cluster, posts: int) -> None:
    for _ in range(posts):
        cluster.run_until(lambda: cluster.post([add(cluster, cluster.random.randint(1, 30))]) is not None)
        cluster.run(0.01)


def said(cluster: Cluster, text: str) -> int:
    return sum(text in line for each in cluster.replicas.values() for line in each.lines)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Cluster, DurableCluster])
def test_replicas_that_come_and_go_under_load_end_in_the_same_state(seed: int, kind: type[Cluster]) -> None:
    cluster = form(seed, kind)
    for number in range(4):
        drive(cluster, 30)
        id = cluster.random.randrange(3)
        cluster.kill(id)
        # Once at least, or entries may do each time.
        if isinstance(cluster, DurableCluster) and (number == 0 or cluster.random.random() < 0.5):
            cluster.lose_disk(id)
        if cluster.random.random() < 0.3:
            cluster.post([delete(cluster.random.randrange(AGENTS))])
        drive(cluster, cluster.random.choice([5, 90]))
        cluster.restart(id)
        drive(cluster, 5)
        cluster.run_until(cluster.whole)
    cluster.run(1.0)
    cluster.check()
    assert said(cluster, "was installed")


def test_a_replica_with_an_old_disk_gets_the_agents_that_have_changed() -> None:
    cluster = form(3)
    drive(cluster, 20)
    master = cluster.master()
    assert master is not None
    away = (master.id + 1) % 3
    cluster.kill(away)
    for _ in range(150):
        cluster.run_until(lambda: cluster.post([Note("a1", outside(0), Add.type_name, encode(Add(1)))]))
        cluster.run(0.01)
    cluster.replicas[away].lines.clear()
    cluster.restart(away)
    cluster.run_until(cluster.whole)
    cluster.run(1.0)
    cluster.check()
    (line,) = [line for line in cluster.replicas[away].lines if "was installed" in line]
    # That one, and those whose timers fired.
    assert int(line.split()[-3]) < AGENTS / 3


@pytest.mark.parametrize("seed", range(6))
def test_the_next_master_goes_on_when_the_donor_dies(seed: int) -> None:
    cluster = form(seed, transfer_pause_s=0.05)
    drive(cluster, 90)
    master = cluster.master()
    assert master is not None
    learner = (master.id + 1) % 3
    cluster.kill(learner)
    cluster.lose_disk(learner)
    drive(cluster, 5)
    cluster.restart(learner)
    cluster.run_until(lambda: said(cluster, f"replica {learner} joins: sends the state") > 0)
    drive(cluster, 3 + seed)
    cluster.kill(master.id)
    cluster.run(0.5)
    cluster.restart(master.id)
    cluster.run_until(cluster.whole)
    drive(cluster, 5)
    cluster.run(1.0)
    cluster.check()


def test_an_agent_that_cannot_be_stored_keeps_no_replica_out() -> None:
    cluster = form(4)
    drive(cluster, 20)
    cluster.post([Note("a0", outside(0), Spoil.type_name, encode(Spoil()))])
    drive(cluster, 80)
    master = cluster.master()
    assert master is not None
    learner = (master.id + 1) % 3
    cluster.kill(learner)
    cluster.lose_disk(learner)
    drive(cluster, 5)
    cluster.restart(learner)
    cluster.run_until(cluster.whole)
    drive(cluster, 20)
    cluster.run(1.0)
    cluster.check()
    assert said(cluster, "can no longer be stored") >= 1
    cell = cluster.replicas[learner].node.engine.find("a0")
    assert cell is not None
    assert isinstance(cell.agent, Account)
    assert cell.agent.values == ["wrong"]
