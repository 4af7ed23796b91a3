"""Clusters whose replicas are restarted one after the other with a later version of an agent class."""

from typing import Any

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts, upgrades
from quorate.agents import Create, Note, agent_named, agent_spec, decode, encode, factory, outside
from quorate.engine import Effects, Program
from quorate.testing.servers.cluster import SimulatedReplica
from quorate.testing.servers.durable_cluster import DurableCluster

BASE = "rolling-test.ledger"


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Added(Notification):
    number: int
    version: int


@attrs.define
class Former(Agent, name=BASE, version=1):
    numbers: list[int] = attrs.field(factory=list[int])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.numbers.append(note.number)
        ctx.send(ctx.sender, Added(note.number, 1))


@attrs.define
class Later(Agent, name=BASE, version=2):
    added: list[str] = attrs.field(factory=list[str])
    """The numbers as text."""

    @staticmethod
    @upgrades(from_version=1)
    def as_text(values: dict[str, Any]) -> dict[str, Any]:
        if 9999 in values["numbers"]:
            raise ValueError("unlucky")
        return {"added": [str(number) for number in values["numbers"]]}

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.added.append(str(note.number))
        ctx.send(ctx.sender, Added(note.number, 2))


def program(*classes: type[Agent]) -> Program:
    """A program that has these versions; `load` finds the first, as a module that stayed as it was."""
    named = {agent_spec(cls).name: cls for cls in classes}
    versions = [int(name.rpartition("/")[2]) for name in named]
    return Program(
        load=lambda _: agent_spec(classes[0]),
        named=lambda name: named.get(name) if name.startswith(BASE) else agent_named(name),
        upgrading=lambda name: next((cls for cls in classes if name in agent_spec(cls).former), None),
        defined=lambda: {BASE: versions},
        definitions=lambda: 1,
    )


FORMER, BOTH, LATER = program(Former), program(Former, Later), program(Later)


class Cluster(DurableCluster):
    """A cluster of the former program with the agent `ledger`, which gets numbers without a pause."""

    def __init__(self, seed: int) -> None:
        self.sent = 0
        self.adding = True
        self.answers: dict[int, int] = {}
        """The version that answered, by number."""
        self.failures: dict[int, str] = {}
        super().__init__(seed, on_effects=self._answered, programs=dict.fromkeys(range(3), FORMER))
        self.run_until(self.whole)
        ask = Create("bank:Ledger", "ledger")
        self.post([Note(factory(0), outside(0), Create.type_name, encode(ask))])
        self.at(0.01, self._add)

    def _add(self) -> None:
        if self.adding and self.post([add(self.sent + 1)]) is not None:
            self.sent += 1
        self.at(0.2, self._add)

    def _answered(self, _: int, effects: Effects) -> None:
        for note in effects.replies:
            if note.type == Added(0, 0).type_name:
                answer = decode(Added, note.payload)
                self.answers[answer.number] = answer.version

    def failed(self, replica: SimulatedReplica, sentence: str) -> None:
        self.failures[replica.id] = sentence
        self.kill(replica.id)

    def upgrade(self, id: int, to: Program) -> None:
        """Kill a replica, and start it with another program."""
        self.kill(id)
        self.programs[id] = to
        self.run(0.5)
        self.restart(id)

    def stop(self, id: int) -> None:
        """Stop a replica in order: it leaves within 6 s, or ends without that, and saves its state."""
        self.adding = False
        self.leave(id)
        self.run(6.0)
        self.save(id)
        self.run(0.5)
        self.adding = True

    def versions(self) -> set[int]:
        return {each.node.engine.classes.used[BASE] for each in self.replicas.values() if each.alive}

    def check_numbers(self) -> None:
        """Nothing is lost that was answered, nothing is there twice, all replicas have the same."""
        self.adding = False
        self.run(1.0)
        self.run_until(self.whole)
        self.check()
        agents = [each.node.engine.find("ledger") for each in self.replicas.values()]
        held = [agent.agent for agent in agents if agent is not None]
        numbers = [list(map(int, each.added)) for each in held if isinstance(each, Later)]
        assert len(numbers) == 3
        assert numbers[0] == sorted(set(numbers[0])) == numbers[1] == numbers[2]
        assert self.answers.keys() <= set(numbers[0])
        by_version = [version for _, version in sorted(self.answers.items())]
        assert by_version == sorted(by_version)


def add(number: int) -> Note:
    return Note("ledger", outside(0), Add.type_name, encode(Add(number)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kills_master", [False, True])
def test_replicas_that_get_both_versions_one_by_one_switch_at_one_entry(
    seed: int, kills_master: bool
) -> None:
    cluster = Cluster(seed)
    for id in cluster.random.sample(range(3), 3):
        cluster.run(1.0)
        assert cluster.versions() == {1}
        cluster.upgrade(id, BOTH)
        if kills_master:
            cluster.run(cluster.random.uniform(0, 0.6))
            master = cluster.master()
            if master is not None and all(each.alive for each in cluster.replicas.values()):
                cluster.upgrade(master.id, cluster.programs[master.id])
        cluster.run_until(cluster.whole)
        assert sum(version == 1 for version in cluster.answers.values()) > 3
    cluster.run_until(lambda: cluster.versions() == {2})
    cluster.run(1.0)
    assert 2 in cluster.answers.values()
    cluster.check_numbers()


@pytest.mark.parametrize("seed", range(6))
def test_the_master_dies_while_it_switches_and_all_switch_all_the_same(seed: int) -> None:
    cluster = Cluster(seed)
    for id in (0, 1, 2):
        cluster.run_until(cluster.whole)
        cluster.upgrade(id, BOTH)
    masters: list[int] = []

    def switching() -> bool:
        masters[:] = [
            each.id
            for each in cluster.replicas.values()
            if any("switches to that" in line for line in each.lines)
        ]
        return bool(masters)

    cluster.run_until(switching)
    cluster.run(cluster.random.uniform(0, 0.02))
    cluster.upgrade(masters[0], BOTH)
    cluster.run_until(lambda: cluster.versions() == {2})
    cluster.run(1.0)
    cluster.check_numbers()


@pytest.mark.parametrize("seed", range(3))
def test_replicas_with_the_later_version_only_wait_until_the_last_one_has_it(seed: int) -> None:
    cluster = Cluster(seed)
    master = cluster.master()
    assert master is not None
    slaves = [id for id in range(3) if id != master.id]
    for id in slaves:
        cluster.stop(id)
        cluster.upgrade(id, LATER)
        count = len(cluster.answers)
        cluster.run_until(lambda count=count: len(cluster.answers) > count + 3)
    assert set(cluster.answers.values()) == {1}
    cluster.stop(master.id)
    cluster.upgrade(master.id, LATER)
    cluster.run_until(lambda: cluster.replicas[master.id].node.serving)
    cluster.run_until(lambda: 2 in cluster.answers.values())
    cluster.check_numbers()
    assert cluster.failures == {}


def test_a_replica_with_the_former_version_only_stops_after_the_switch() -> None:
    cluster = Cluster(5)
    for id in (0, 1, 2):
        cluster.run_until(cluster.whole)
        cluster.upgrade(id, BOTH)
    cluster.run_until(lambda: cluster.versions() == {2} and cluster.whole())
    cluster.run(0.5)
    slave = next(id for id, each in cluster.replicas.items() if not each.node.serving)
    cluster.kill(slave)
    cluster.lose_disk(slave)
    cluster.programs[slave] = FORMER
    cluster.restart(slave)
    cluster.run_until(lambda: slave in cluster.failures)
    assert "cannot be used here" in cluster.failures[slave]
    cluster.programs[slave] = BOTH
    cluster.restart(slave)
    cluster.check_numbers()


def test_an_agent_that_cannot_be_upgraded_keeps_all_at_the_former_version() -> None:
    cluster = Cluster(6)
    cluster.post([add(9999)])
    for id in (0, 1, 2):
        cluster.run_until(cluster.whole)
        cluster.upgrade(id, BOTH)
    cluster.run_until(cluster.whole)
    cluster.run(2.0)
    assert cluster.versions() == {1}
    for each in cluster.replicas.values():
        (line,) = [line for line in each.lines if "keeps the versions" in line]
        assert "'ledger' (rolling-test.ledger/1)" in line
        assert "ValueError: unlucky" in line
    cluster.check()
