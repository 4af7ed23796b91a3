"""The recorded outcome of an entry tells whether, and where, applying it again ended otherwise."""

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Note
from quorate.engine import Effects
from quorate.testing.harness import Harness


@attrs.frozen
class Put(Notification):
    amount: int


@attrs.frozen
class Total(Notification):
    amount: int


factor = 1
"""What the present version of the agents' code multiplies by."""


@attrs.define
class Purse(Agent):
    total: int = 0
    others: set[str] = attrs.field(factory=set)

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        if note.amount * factor > 1000:
            raise ValueError("too much")
        self.total += factor * note.amount
        ctx.send(ctx.sender, Total(self.total))


@attrs.define
class Silent(Agent):
    total: int = 0

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.total += factor * note.amount


@pytest.fixture(autouse=True)
def _former_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "factor", 1)


def run(*amounts: int, times: int = 1, cls: type[Agent] = Purse) -> Effects:
    """Deploy an agent and apply an entry with these amounts, under the present version of the code."""
    harness = Harness()
    harness.deploy(cls, name="p")
    notes: list[Note] = [harness.note("p", Put(amount), request=1) for amount in amounts]
    return harness.post(*notes * times)


def differs(monkeypatch: pytest.MonkeyPatch, *amounts: int, times: int = 1, cls: type[Agent] = Purse) -> str:
    recorded = run(*amounts, times=times, cls=cls).outcome
    monkeypatch.setitem(globals(), "factor", 20)
    return run(*amounts, times=times, cls=cls).differs(recorded)


def test_the_same_code_ends_as_before() -> None:
    recorded = run(5, 7)
    assert recorded.outcome
    assert run(5, 7).differs(recorded.outcome) == ""


def test_another_result_names_the_agent_the_class_and_the_notification(monkeypatch) -> None:
    told = differs(monkeypatch, 0, 5)
    assert told.startswith("ended otherwise than before: agent #0.0.1025")
    assert f"({Purse.__module__}:Purse) reacted to {Put.type_name} with another result" in told


def test_a_reaction_that_asks_for_nothing_is_compared_by_the_state_it_leaves(monkeypatch) -> None:
    assert "another result" in differs(monkeypatch, 5, cls=Silent)
    assert run(0, cls=Silent).differs(run(0, cls=Silent).outcome) == ""


def test_a_success_that_is_a_failure_now_is_told_with_the_error(monkeypatch) -> None:
    assert differs(monkeypatch, 100).endswith("with success then, and fails now: ValueError: too much")


def test_a_failure_that_is_a_success_now_is_told(monkeypatch) -> None:
    monkeypatch.setitem(globals(), "factor", 20)
    recorded = run(100).outcome
    monkeypatch.setitem(globals(), "factor", 1)
    assert run(100).differs(recorded).endswith("with a failure then, and succeeds now")


def test_an_entry_with_fewer_reactions_than_before_is_told(monkeypatch) -> None:
    assert run(1, 2).differs(run(1, 2, 3).outcome) == "had 3 reactions before, and has 2 now"


def test_the_outcome_of_many_reactions_stays_small_and_names_a_range(monkeypatch) -> None:
    recorded = run(0, 1, times=500).outcome
    assert len(recorded) < 400
    assert run(0, 1, times=500).differs(recorded) == ""
    assert "or did one of the next 15 reactions" in differs(monkeypatch, 0, 1, times=500)
