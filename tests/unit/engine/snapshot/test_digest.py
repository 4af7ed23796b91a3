"""The digest of an engine as of one entry, reckoned in steps while it goes on."""

import random

import attrs
import pytest

from quorate import Agent, AgentId, Context, Delete, Notification, reacts
from quorate.agents import factory
from quorate.engine import IncrementalDigest
from quorate.testing.harness import Harness


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0
    ballast: str = ""

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        if note.number == 13:
            raise ValueError("13")
        if note.number == 7:
            ctx.delete()


class Twins:
    """Two engines with the same entries: of one, the digest is reckoned after every entry at once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.harnesses = Harness(), Harness()
        self.engine = self.harnesses[0].engine
        self.live: dict[str, AgentId] = {}
        self.count = 0

    def expected(self) -> bytes:
        return self.harnesses[1].engine.digest()

    def act(self) -> None:
        chance = self.random.random()
        if chance < 0.2 or not self.live:
            self.count += 1
            name, ballast = f"a{self.count}", "x" * self.random.choice([0, 0, 5000])
            ids = [each.deploy(Sum, name=name, ballast=ballast) for each in self.harnesses]
            self.live[name] = ids[0]
            return
        name = self.random.choice(sorted(self.live))
        number = self.random.choice([1, 2, 3, 7, 13])
        gone = chance < 0.3
        for each in self.harnesses:
            each.send(factory(0), Delete(str(self.live[name]))) if gone else each.send(name, Add(number))
        if gone or number == 7:
            del self.live[name]


@pytest.mark.parametrize("seed", range(40))
def test_a_digest_is_that_of_the_moment_at_which_it_was_begun(seed: int) -> None:
    twins = Twins(seed)
    under_way: list[tuple[IncrementalDigest, bytes]] = []
    complete = 0
    for _ in range(150):
        twins.act()
        if twins.random.random() < 0.2:
            under_way.append((twins.engine.incremental_digest(), twins.expected()))
        for item in list(under_way):
            digest, expected = item
            if twins.random.random() < 0.3 and digest.step(twins.random.randint(0, 2), 6000):
                assert digest.digest == expected
                under_way.remove(item)
                complete += 1
        if under_way and twins.random.random() < 0.03:
            under_way.pop()[0].close()
        if twins.random.random() < 0.02:
            assert twins.engine.digest() == twins.expected()
    assert complete > 10
    for digest, expected in under_way:
        assert digest.digest == expected


def test_a_step_looks_at_so_many_agents_or_so_many_bytes() -> None:
    harness = Harness()
    for number in range(10):
        harness.deploy(Sum, name=f"a{number}", ballast="x" * 1000)
    digest = harness.engine.incremental_digest()
    assert digest.left == 10
    assert not digest.step(3)
    assert digest.left == 7
    assert not digest.step(None, 1500)
    assert digest.left == 5
    assert digest.step()
    assert digest.left == 0


def test_a_digest_that_was_begun_before_a_restore_is_refused() -> None:
    harness = Harness()
    harness.deploy(Sum, name="a")
    digest = harness.engine.incremental_digest()
    assert harness.engine.has_digest(digest)
    harness.engine.restore(harness.engine.snapshot())
    assert not harness.engine.has_digest(digest)
