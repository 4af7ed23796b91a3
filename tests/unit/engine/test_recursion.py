"""A reaction finds the same recursion limit on every replica, in every role, and from every caller."""

import sys
from collections.abc import Callable, Iterator

import attrs
import msgspec
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, reacts
from quorate.agents import agent_spec, encode
from quorate.engine.cell import AgentState, Cell
from quorate.engine.recursion import REACTION_DEPTH, stack_depth
from quorate.engine.rerun import Rerun
from quorate.testing.harness import Harness


@attrs.frozen
class Dive(Notification):
    calls: int


@attrs.frozen
class Surfaced(Notification):
    total: int


@attrs.frozen
class Fail(Notification):
    pass


def nest(calls: int) -> int:
    return 1 if calls <= 1 else 1 + nest(calls - 1)


def reached() -> int:
    try:
        return 1 + reached()
    except RecursionError:
        return 0


depths: list[int] = []
"""How many calls each reaction and each default value of an attribute could nest."""


def measured() -> int:
    depths.append(reached())
    return 0


@attrs.define
class Diver(Agent):
    """A small one is saved after each reaction; one with a `pad` is restored by running reactions again."""

    pad: str = ""
    total: int = 0

    @reacts
    def dive(self, ctx: Context, note: Dive) -> None:
        measured()
        self.total += nest(note.calls)
        ctx.send(ctx.sender, Surfaced(self.total))

    @reacts
    def fail(self, ctx: Context, note: Fail) -> None:
        raise ValueError("on purpose")


@attrs.define
class Grown(Agent):
    """An agent whose class has got an attribute since its state was stored."""

    pad: str = ""
    fresh: int = attrs.field(factory=measured)

    @reacts
    def fail(self, ctx: Context, note: Fail) -> None:
        raise ValueError("on purpose")


@pytest.fixture(autouse=True)
def _no_depths() -> Iterator[None]:
    depths.clear()
    limit = sys.getrecursionlimit()
    yield
    assert sys.getrecursionlimit() == limit


def deeper(calls: int, action: Callable[[], object]) -> object:
    return action() if calls == 0 else deeper(calls - 1, action)


def harness(pad: str = "") -> Harness:
    made = Harness(guard=False)
    made.deploy(Diver, name="d", pad=pad)
    return made


def test_the_caller_s_depth_does_not_change_what_a_reaction_can_nest() -> None:
    one = harness()
    for calls in (0, 100, 700):
        deeper(calls, lambda: one.send("d", Dive(1)))
    assert len(set(depths)) == 1
    assert depths[0] == pytest.approx(REACTION_DEPTH, abs=5)


def test_a_module_that_sets_the_limit_does_not_change_what_a_reaction_can_nest() -> None:
    one = harness()
    one.send("d", Dive(1))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        one.send("d", Dive(1))
    finally:
        sys.setrecursionlimit(limit)
    assert len(set(depths)) == 1


def test_undo_runs_the_reactions_again_at_the_depth_they_had() -> None:
    one = harness("x" * 6000)
    one.send("d", Dive(1))
    (answer,) = one.send("d", Fail())
    assert isinstance(answer, ExceptionNotification)
    assert len(depths) == 2
    assert len(set(depths)) == 1


def test_every_depth_near_the_limit_that_succeeds_can_be_undone() -> None:
    one, succeeded = harness("x" * 6000), 0
    for calls in range(REACTION_DEPTH - 30, REACTION_DEPTH + 5):
        answer = one.send("d", Dive(calls))[0]
        succeeded += isinstance(answer, Surfaced)
        one.send("d", Fail())
    assert 0 < succeeded < 35


def test_recovery_and_another_replica_decide_alike_near_the_limit() -> None:
    one = harness()
    for calls in range(REACTION_DEPTH - 30, REACTION_DEPTH + 5):
        one.send("d", Dive(calls))
    replica = Harness(guard=False)
    replica.know(Diver)

    def recover() -> None:
        for entry in one.log:
            replica.replay(*entry)

    deeper(300, recover)
    assert replica.engine.digest() == one.engine.digest()


def test_a_replay_of_one_agent_runs_its_reactions_at_the_depth_they_had() -> None:
    one = harness()
    one.send("d", Dive(1))
    cell = one.engine.find("d")
    assert cell is not None
    again = Rerun(cell.identity, cell.spec.name, cell.state(), load=lambda _: agent_spec(Diver))
    note = one.note("d", Dive(1))
    deeper(200, lambda: again.apply(2, 0, note.sender, note.type, note.payload, 0, 1025))
    assert len(set(depths)) == 1


def test_agents_are_loaded_at_one_depth_from_a_store_and_at_undo() -> None:
    one = harness()
    place = one.deploy(Grown)
    depths.clear()
    state = msgspec.msgpack.encode({"pad": "x"})
    stored = AgentState(place, None, agent_spec(Grown).name, 0, state)
    cell = deeper(50, lambda: Cell.load(stored, agent_spec(Grown), one.engine.resolve))
    assert isinstance(cell, Cell)
    note = one.note(place, Fail())
    with pytest.raises(ValueError, match="on purpose"):
        cell.react(note, 0, 1, 1025, one.engine.resolve)
    assert len(depths) == 2
    assert len(set(depths)) == 1


def test_the_depth_of_the_stack_counts_the_calls_between_two_places() -> None:
    here = stack_depth()
    assert deeper(9, stack_depth) == here + 10
    assert encode(Dive(1))
