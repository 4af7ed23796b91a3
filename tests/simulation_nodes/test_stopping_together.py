"""All replicas of a server are told to stop: they stop after the same entry, in the view that they had."""

from random import Random

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
from quorate.testing.servers.cluster import Cluster

SEEDS = range(10)
ARRIVES_S = 0.004
"""Longer than a message of these clusters is on its way."""


@attrs.frozen
class Add(Notification):
    amount: int


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.amount


class Ending:
    """A cluster under load, whose replicas are told to stop, and end when they say that they may."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        self.random = Random(f"stop {seed}")
        self.ended: list[int] = []
        self.cluster.run_until(self.cluster.whole)
        state = agent_spec(Sum).save(Sum())
        create = Create(f"{__name__}:Sum", "sum", state, None, "k")
        self.cluster.post([Note(factory(0), outside(0), Create.type_name, encode(create))])
        self._load()
        self.cluster.run(1.0)
        master = self.cluster.master()
        assert master is not None
        self.master = master.id
        self.views = self.seen()

    def _load(self) -> None:
        note = Note("sum", outside(0), Add.type_name, encode(Add(1)))
        self.cluster.post([note] * self.random.randint(1, 5))
        self.cluster.at(self.random.expovariate(300), self._load)

    def seen(self) -> set[object]:
        """The view of each, also of those that have ended."""
        return {each.node.channel.view for each in self.cluster.replicas.values()}

    def retire_soon(self, *replicas: int, after_s: float = 0.0) -> None:
        for id in replicas:
            self.cluster.at(after_s + self.random.uniform(0, 0.05), lambda id=id: self._retire(id))

    def _retire(self, id: int) -> None:
        self.cluster.retire(id)
        self._end_once_retired(id)

    def _end_once_retired(self, id: int) -> None:
        replica = self.cluster.replicas[id]
        if not replica.node.retired:
            self.cluster.at(0.0005, lambda: self._end_once_retired(id))
        elif replica.node.role == "master":
            # It does nothing more; what it has sent arrives before the end of the connection.
            replica.life += 1
            self.cluster.at(ARRIVES_S, lambda: self._end(id))
        else:
            self._end(id)

    def _end(self, id: int) -> None:
        self.cluster.kill(id)
        self.ended.append(id)

    def until_ended(self, *replicas: int) -> None:
        self.cluster.run_until(lambda: {*replicas} <= {*self.ended}, 3.0)

    def positions(self, *replicas: int) -> set[tuple[int, int, int, int]]:
        """What each had at its end."""
        nodes = [self.cluster.replicas[id].node for id in replicas]
        return {
            (node.engine.applied, node.channel.applied, node.channel.commit, node.channel.last)
            for node in nodes
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_all_have_the_same_and_nobody_has_left(seed: int) -> None:
    ending = Ending(seed)
    ending.retire_soon(*(id for id in range(3) if id != ending.master))
    ending.retire_soon(ending.master, after_s=0.05)
    ending.until_ended(0, 1, 2)
    ((applied, *others),) = ending.positions(0, 1, 2)
    assert others == [applied] * 3
    assert ending.seen() == ending.views
    assert ending.ended[0] == ending.master


@pytest.mark.parametrize("seed", SEEDS)
def test_of_one_that_ends_meanwhile_the_others_think_as_ever(seed: int) -> None:
    ending = Ending(seed)
    left = [id for id in range(3) if id != ending.master]
    victim = left.pop(seed % 2)
    ending.retire_soon(*left)
    ending.cluster.run(0.06)
    ending.cluster.kill(victim)
    ending.retire_soon(ending.master)
    ending.until_ended(ending.master, *left)
    assert len(ending.positions(ending.master, *left)) == 1


@pytest.mark.parametrize("left", range(3))
def test_without_a_majority_there_is_nobody_to_stop_with(left: int) -> None:
    ending = Ending(1)
    for id in {*range(3)} - {left}:
        ending.cluster.kill(id)
    ending.cluster.run(5.0)
    last = ending.cluster.replicas[left]
    assert last.node.role == "blocked"
    ending.cluster.retire(left)
    assert last.node.retired


def test_a_master_that_is_to_stop_takes_nothing_new() -> None:
    ending = Ending(1)
    master = ending.cluster.replicas[ending.master]
    assert master.node.serving
    ending._retire(ending.master)
    assert not master.node.serving
    assert not master.node.post([Note("sum", outside(0), Add.type_name, encode(Add(1)))])
    ending.until_ended(ending.master)
    # Those that were told nothing go on without it.
    ending.cluster.run_until(lambda: ending.cluster.master() is not None)
