"""An agent that differs on a slave, and a master that is killed: no answer is contradicted."""

import attrs
import pytest

from quorate.agents import Agent, Context, Note, Notification, decode, encode, outside, reacts
from quorate.engine import Effects, Reaction
from quorate.hachannel.model.settings import ANNOUNCE_AFTER_S
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.cluster import SimulatedReplica
from quorate.testing.servers.durable_cluster import DurableCluster

from .test_cluster import create

ODD = 100
"""The replica that differs counts so many more."""


@attrs.frozen
class Touch(Notification):
    odd: bool = False


@attrs.frozen
class Count(Notification):
    count: int


_running: list["Differing"] = []


@attrs.define
class Meter(Agent):
    count: int = 0

    @reacts
    def touch(self, ctx: Context, note: Touch) -> None:
        self.count += 1
        if note.odd and _running[0].current in _running[0].wrong:
            self.count += ODD
        ctx.send(ctx.sender, Count(self.count))


class Differing(DurableCluster):
    """A cluster of which a slave differs at one notification, and whose master is killed soon after it."""

    def __init__(self, seed: int, answers: str, witnesses: tuple[int, ...]) -> None:
        self.answers: list[int] = []
        """What the clients were answered, in this order."""
        self.wrong: set[int] = set()
        self.requests = 0
        settings = NodeSettings(answers=answers, digest_every=0)
        _running[:] = [self]
        super().__init__(seed, node_settings=settings, witnesses=witnesses, on_effects=self.answered)
        self.run_until(self.whole)
        self.post([create(Meter, "meter")])
        for _ in range(5):
            self.touch()
        self.run_until(self.whole)

    def answered(self, _replica: int, effects: Effects) -> None:
        self.answers += [decode(Count, note.payload).count for note in effects.replies if note.request]

    def touch(self, odd: bool = False) -> None:
        """Send a notification, and wait for its answer, for a second at most."""
        self.requests += 1
        note = Note("meter", outside(0), Touch.type_name, encode(Touch(odd)), self.requests)
        before = len(self.answers)
        if self.post([note]) is not None and not odd:
            self.run_until(lambda: len(self.answers) > before)

    def differ(self, delay_s: float, *, answered: bool = False) -> tuple[int, int]:
        """Let the first slave differ, and kill the master after `delay_s`. Return the two replicas.

        answered: the delay begins with the answer.
        """
        master = self.master()
        assert master is not None
        slave = self.slaves()[0]
        self.wrong = {slave}
        self.touch(odd=True)
        if answered:
            self.run_until(lambda: len(self.answers) == 6)
        self.run(delay_s)
        self.kill(master.id)
        return master.id, slave

    def differ_in_two_entries(self) -> tuple[int, int]:
        """Let the slave differ, and kill the master when the slave has the entry after that."""
        master = self.master()
        assert master is not None
        [slave] = self.slaves()
        self.wrong = {slave}
        self.touch(odd=True)
        self.run_until(lambda: len(self.answers) == 6)
        before = self.replicas[slave].node.channel.last
        self.touch(odd=True)
        self.run_until(lambda: self.replicas[slave].node.channel.last > before)
        self.kill(master.id)
        return master.id, slave

    def slaves(self) -> list[int]:
        return [each.id for each in self.replicas.values() if each.alive and each.node.role == "slave"]

    def known(self, reaction: Reaction) -> Reaction:
        return reaction


def named(replica: SimulatedReplica) -> list[str]:
    start = f"replica {replica.id} is in another state than the others: entry "
    return [line for line in replica.lines if line.startswith(start) and ":Meter) reacted to" in line]


def load(cluster: Differing, touches: int) -> None:
    """Use the cluster as long as it serves."""
    for _ in range(touches):
        if cluster.master() is not None:
            cluster.touch()


def check(cluster: Differing, former: int, slave: int) -> None:
    """Let the former master come back; what was answered stays, and the replica that differed is named."""
    answered = len(cluster.answers) > 5
    cluster.run(3.0)
    load(cluster, 3)
    cluster.restart(former)
    cluster.run(1.0)
    load(cluster, 3)
    cluster.run_until(cluster.whole)
    cluster.touch()
    cluster.run(1.0)
    cluster.run_until(cluster.whole)
    cluster.check()
    later = cluster.answers[5:]
    assert later
    assert later == sorted(later)
    assert later[-1] - later[0] < ODD
    if answered:
        assert later[-1] < ODD
        assert named(cluster.replicas[slave])


DELAYS_S = [step * 0.01 for step in range(21)]


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_slave_of_two_that_differs_contradicts_no_answer_whenever_the_master_dies(delay_s: float) -> None:
    cluster = Differing(round(delay_s * 1000), "confirmed", witnesses=(2,))
    check(cluster, *cluster.differ(delay_s))


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_slave_of_three_that_differs_contradicts_no_answer_while_another_one_is_down(
    delay_s: float,
) -> None:
    cluster = Differing(round(delay_s * 1000), "confirmed", witnesses=())
    down = cluster.slaves()[0]
    cluster.kill(down)
    cluster.run(3.0)
    former, slave = cluster.differ(delay_s)
    cluster.restart(down)
    check(cluster, former, slave)


@pytest.mark.parametrize("answers", ["committed", "confirmed"])
@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_slave_of_three_that_differs_contradicts_no_answer_that_it_knows(
    delay_s: float, answers: str
) -> None:
    cluster = Differing(round(delay_s * 1000), answers, witnesses=())
    check(cluster, *cluster.differ(max(delay_s, KNOWN_S), answered=True))


KNOWN_S = ANNOUNCE_AFTER_S + 0.004
"""Within this time after an answer the slaves know the outcome."""


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_slave_of_two_knows_the_answer_of_the_master_a_moment_later(delay_s: float) -> None:
    cluster = Differing(round(delay_s * 1000), "committed", witnesses=(2,))
    check(cluster, *cluster.differ(KNOWN_S + delay_s, answered=True))


@pytest.mark.parametrize("seed", range(20))
def test_a_slave_knows_what_was_answered_when_it_gets_the_next_entry(seed: int) -> None:
    cluster = Differing(seed, "committed", witnesses=(2,))
    former, slave = cluster.differ_in_two_entries()
    check(cluster, former, slave)


@pytest.mark.parametrize("seed", range(10))
def test_a_master_that_differed_from_all_slaves_is_named_and_they_serve(seed: int) -> None:
    cluster = Differing(seed, "committed", witnesses=())
    master = cluster.master()
    assert master is not None
    cluster.wrong = {master.id}
    cluster.touch(odd=True)
    cluster.run_until(lambda: len(cluster.answers) == 6)
    cluster.run(KNOWN_S)
    cluster.kill(master.id)
    cluster.run(3.0)
    load(cluster, 2)
    assert cluster.answers[6:] == [7, 8]
    lines = [line for each in cluster.replicas.values() for line in each.lines]
    assert any("in another state than" in line and ":Meter) reacted to" in line for line in lines)
