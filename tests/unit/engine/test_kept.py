"""What agents keep and send, as other processes see it: sets in another order, classes of another version."""

import subprocess
import sys
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
