"""What agents keep and send, as other processes see it: sets in another order, classes of another version."""

import subprocess
import sys
from collections import defaultdict
from functools import wraps
from typing import Any

import attrs
import msgspec
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, reacts
from quorate.agents import agent_spec, decode, encode
from quorate.testing.harness import Harness


@attrs.frozen
class Inner:
    words: frozenset[str]


class Packed(msgspec.Struct, array_like=True, frozen=True, tag=True):
    words: set[str]


@attrs.frozen
class Sets(Notification):
    tags: set[str]
    inner: list[Inner]
    packed: Packed
    by_number: dict[int, set[int]]


@attrs.frozen
class Go(Notification):
    word: str = ""


@attrs.define
class Tagger(Agent):
    """Looks at no order, and sends and keeps sets."""

    tags: set[str] = attrs.field(factory=set)

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.tags.add(note.word)
        ctx.send(ctx.sender, Sets(self.tags, [Inner(frozenset(self.tags))], Packed(self.tags), {1: {1, 2}}))
        ctx.create(Tagger, state={"tags": self.tags})


TWIN = """
from tests.unit.engine.test_kept import Go, Tagger
from quorate.testing.harness import Harness
harness = Harness()
harness.deploy(Tagger, name="tagger")
for word in "one two three four five six seven".split():
    harness.send("tagger", Go(word))
print(harness.engine.digest().hex())
"""


@pytest.mark.slow
def test_sets_that_are_sent_are_the_same_on_every_replica() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", TWIN], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_a_notification_with_sets_arrives_as_it_was() -> None:
    sent = Sets({"b", "a"}, [Inner(frozenset({"c"}))], Packed({"d"}), {3: {2, 1}})
    assert decode(Sets, encode(sent)) == sent
    assert sent.tags == {"a", "b"}


# A class that has changed since its agents were saved


def version(**attributes: Any) -> type[Agent]:
    """A version of a class, with these attributes beside the first one."""
    annotations = {"first": int} | {name: kind for name, (kind, _) in attributes.items()}
    defaults = {name: default for name, (_, default) in attributes.items()}
    body = {"__annotations__": annotations, "first": 0, "go": Tagger.go, **defaults}
    return attrs.define(type("Grown", (Agent,), body))


def test_an_attribute_that_is_new_gets_its_default() -> None:
    saved = agent_spec(version()).save(version()(first=5))  # type: ignore[call-arg]
    grown = version(
        number=(int, 9),
        items=(list[int], attrs.field(factory=list)),
        double=(int, attrs.field(default=attrs.Factory(lambda self: 2 * self.first, takes_self=True))),
    )
    loaded: Any = agent_spec(grown).load(saved)
    assert (loaded.first, loaded.number, loaded.items, loaded.double) == (5, 9, [], 10)
    other: Any = agent_spec(grown).load(saved)
    assert other.items is not loaded.items


def test_an_attribute_without_a_default_is_named() -> None:
    saved = agent_spec(version()).save(version()())
    grown = version(number=(int, attrs.field(kw_only=True)))
    with pytest.raises(ValueError, match=r":Grown did not have the attribute number .*; give it a default"):
        agent_spec(grown).load(saved)


def test_an_attribute_that_is_gone_is_left_out() -> None:
    saved = agent_spec(version(number=(int, 9))).save(version(number=(int, 9))(first=5))  # type: ignore[call-arg]
    loaded: Any = agent_spec(version()).load(saved)
    assert loaded.first == 5


# Reactions that are none


def hurried(method: Any) -> Any:
    @wraps(method)
    async def later(*args: Any) -> None:
        method(*args)

    return later


@attrs.define
class Absent(Agent):
    @hurried
    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        ctx.send(ctx.sender, note)


def test_a_reaction_that_has_not_run_has_failed() -> None:
    harness = Harness()
    harness.deploy(Absent, name="absent")
    (answer,) = harness.send("absent", Go())
    assert isinstance(answer, ExceptionNotification)
    assert "has not run" in answer.message


# The live agent is what its saved state loads


@attrs.frozen
class Set(Notification):
    to: int


@attrs.define
class Loose(Agent):
    """Keeps every rule, and what it keeps is not quite what is loaded of it."""

    total: float = 0.0
    one: list[int] = attrs.field(factory=list)
    same: list[int] = attrs.field(factory=list)
    counts: dict[str, int] = attrs.field(factory=dict)
    ballast: str = ""

    @reacts
    def set(self, ctx: Context, note: Set) -> None:
        self.total = note.to
        if note.to == 5:
            self.same = self.one
        self.one.append(note.to)

    @reacts
    def count(self, ctx: Context, note: Go) -> None:
        if note.word == "begin":
            self.counts = defaultdict(int)
        elif note.word == "fail":
            raise ValueError("an ordinary mistake")
        else:
            self.counts[note.word] = self.counts[note.word] + 1


def twin(harness: Harness) -> Harness:
    """Another replica, which gets the state."""
    other = Harness()
    other.know(Loose)
    other.engine.restore(harness.engine.snapshot())
    return other


def test_a_replica_that_gets_the_state_stays_in_the_same_state() -> None:
    harness = Harness()
    harness.deploy(Loose, name="loose")
    harness.send("loose", Set(5))
    other = twin(harness)
    assert other.engine.digest() == harness.engine.digest()
    for each in (harness, other):
        each.send("loose", Set(6))
    assert other.engine.digest() == harness.engine.digest()
    assert vars_of(other) == vars_of(harness) == (6.0, [5, 6], [5])


def vars_of(harness: Harness) -> tuple[float, list[int], list[int]]:
    loose = harness.agent("loose")
    assert isinstance(loose, Loose)
    assert isinstance(loose.total, float)
    return loose.total, loose.one, loose.same


@pytest.mark.parametrize("ballast", [0, 3000, 20_000])
@pytest.mark.parametrize("captured", [False, True])
def test_a_mistake_of_an_agent_whose_state_is_not_what_is_loaded_costs_itself_only(
    ballast: int, captured: bool
) -> None:
    harness = Harness()
    harness.deploy(Loose, name="loose", ballast="x" * ballast)
    harness.send("loose", Go("begin"))
    failed = 0
    for number in range(200):
        failed += len(harness.send("loose", Go(f"k{number}")))
        if captured and not number % 7:
            harness.engine.snapshot()
        if not number % 20:
            (answer,) = harness.send("loose", Go("fail"))
            assert isinstance(answer, ExceptionNotification)
            assert answer.message == "an ordinary mistake"
    # What a dict does not do is told from the next save on, on every replica from the same reaction.
    assert failed


def test_when_others_are_given_the_state_does_not_change_what_an_agent_does() -> None:
    results = []
    for captured in (False, True):
        harness = Harness()
        harness.deploy(Loose, name="loose", ballast="x" * 3000)
        harness.send("loose", Go("begin"))
        answers = []
        for number in range(100):
            answers.append(len(harness.send("loose", Go(f"k{number}"))))
            if captured and number % 3 == 1:
                harness.engine.snapshot()
        results.append(answers)
    assert results[0] == results[1]
