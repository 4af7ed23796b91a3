"""Agents that are not deterministic: the replica in another state is found, and fetches the state again."""

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
from quorate.engine import Reaction
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.cluster import Cluster, SimulatedReplica


@attrs.frozen
class Touch(Notification):
    odd: bool = False
    fails: bool = False


_running: list[Cluster] = []
_wrong: set[int] = set()


@attrs.define
class Counter(Agent):
    count: int = 0

    @reacts
    def touch(self, ctx: Context, note: Touch) -> None:
        self.count += 1
        if note.fails and _running[0].current in _wrong:
            _wrong.discard(_running[0].current)
            raise ValueError("only here")
        if note.odd and _running[0].current in _wrong:
            # Once only: running the same entries again ends right.
            _wrong.discard(_running[0].current)
            self.count += 100 + _running[0].current


class Tolerant(Cluster):
    """A cluster in which replicas may differ for a while."""

    def diverged(self, replica: SimulatedReplica, known: Reaction, reaction: Reaction) -> None:
        pass


def touch(odd: bool = False, fails: bool = False) -> Note:
    return Note("counter", outside(0), Touch.type_name, encode(Touch(odd, fails)))


def start(seed: int) -> Cluster:
    cluster = Tolerant(seed, node_settings=NodeSettings(digest_every=5))
    _running[:] = [cluster]
    cluster.run_until(cluster.whole)
    state = agent_spec(Counter).save(Counter())
    note = Create(f"{__name__}:Counter", "counter", state, None, "k")
    cluster.post([Note(factory(0), outside(0), Create.type_name, encode(note))])
    return cluster


def drive(cluster: Cluster, posts: int) -> None:
    for _ in range(posts):
        cluster.run_until(lambda: cluster.post([touch()]) is not None)
        cluster.run(0.02)


def count(replica: SimulatedReplica) -> Any:
    return [cell.agent.count for cell in replica.node.engine.cells() if isinstance(cell.agent, Counter)]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_replica_whose_code_raises_where_the_others_do_not_stops_serving_and_gets_the_state(
    wrong: int,
) -> None:
    """Scenario 23: its reaction was undone, theirs were not; the digests say so."""
    cluster = start(wrong)
    _wrong.clear()
    _wrong.add(wrong)
    drive(cluster, 7)
    cluster.post([touch(fails=True)])
    drive(cluster, 15)
    cluster.run_until(cluster.whole)
    cluster.check()
    lines = cluster.replicas[wrong].lines
    said = [line for line in lines if f"replica {wrong} is in another state than the others" in line]
    assert len(said) == 1
    assert cluster.replicas[wrong].incarnation == 1
    assert {count(each)[0] for each in cluster.replicas.values()} == {23}


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_the_replica_that_differs_says_so_once_and_comes_back_in_the_right_state(wrong: int) -> None:
    cluster = start(wrong)
    _wrong.clear()
    _wrong.add(wrong)
    drive(cluster, 7)
    cluster.post([touch(odd=True)])
    drive(cluster, 15)
    cluster.run_until(cluster.whole)
    cluster.check()
    lines = cluster.replicas[wrong].lines
    said = [line for line in lines if f"replica {wrong} is in another state than the others" in line]
    assert len(said) == 1
    others = [line for each in cluster.replicas.values() if each.id != wrong for line in each.lines]
    assert any(f"replica {wrong} joins: sends the state" in line for line in others)
    assert not any(f"replica {wrong} joins: sends the entries" in line for line in others)
    assert "ended otherwise on replica" in said[0]
    assert "Counter) reacted to" in said[0]
    assert [each.incarnation for each in cluster.replicas.values()] == [1, 1, 1]
    assert [count(each) for each in cluster.replicas.values()] == [[count(cluster.replicas[wrong])[0]]] * 3
    assert count(cluster.replicas[wrong])[0] < 100


def test_when_all_differ_the_state_of_the_master_counts() -> None:
    cluster = start(9)
    _wrong.clear()
    _wrong.update({1, 2})

    drive(cluster, 7)
    cluster.post([touch(odd=True)])
    drive(cluster, 40)
    cluster.run_until(cluster.whole)
    cluster.check()


def skip_next(cluster: Cluster, *replicas: int) -> None:
    """Order these replicas to skip the reaction to the next notification."""
    cluster.run(1.0)
    for each in cluster.replicas.values():
        if each.id in replicas:
            engine = each.node.engine
            engine.current.skips = {engine.position + 1: (engine.applied + 1, engine.birth)}


def test_replicas_that_skip_the_same_reaction_agree() -> None:
    cluster = start(3)
    _wrong.clear()
    drive(cluster, 7)
    skip_next(cluster, 0, 1, 2)
    drive(cluster, 15)
    cluster.run_until(cluster.whole)
    cluster.check()
    assert [count(each) for each in cluster.replicas.values()] == [[21]] * 3
    lines = [line for each in cluster.replicas.values() for line in each.lines]
    assert sum("failed on" in line and "skipped by the administrator" in line for line in lines) == 3
    assert not any("in another state" in line for line in lines)


@pytest.mark.parametrize("without", [0, 1, 2])
def test_a_replica_that_does_not_skip_is_found_and_gets_the_state_of_the_others(without: int) -> None:
    cluster = start(without)
    _wrong.clear()
    drive(cluster, 7)
    skip_next(cluster, *({0, 1, 2} - {without}))
    drive(cluster, 15)
    cluster.run_until(cluster.whole)
    cluster.check()
    assert any(f"replica {without} is in another state" in line for line in cluster.replicas[without].lines)
    assert [count(each) for each in cluster.replicas.values()] == [[21]] * 3
