"""A slave compares what its master has answered with its own outcomes."""

from typing import Any

import pytest

from quorate.agents import AgentId
from quorate.engine import Effects
from quorate.engine.entry_outcome import Reacted, encode_outcome
from quorate.server.node import answered_outcomes
from quorate.server.node.answered_outcomes import AnsweredOutcomes
from quorate.server.node.digests import Answered
from quorate.server.node.outcome_history import OutcomeHistory


class Replica:
    """A slave that has applied some entries; those in `wrong` otherwise."""

    def __init__(self, *wrong: int) -> None:
        self.wrong = wrong
        self.history = OutcomeHistory(0, b"")
        self.agreed: list[tuple[int, int]] = []
        self.outcomes = AnsweredOutcomes(1, self.history, self.note_agreed)

    def note_agreed(self, master: int, index: int) -> None:
        self.agreed.append((master, index))

    def apply(self, index: int) -> bool:
        differs = any(each <= index for each in self.wrong)
        reaction: Any = Reacted(AgentId(0, 0, 1), "bank:Account", "bank:Deposit", "", "")
        self.history.add(Effects(index, trace=[reaction], marks=[1 + differs]), chain(index, differs))
        return self.outcomes.applied()


def chain(index: int, differs: bool = False) -> bytes:
    return (index + 1000 * differs).to_bytes(16, "little")


def answered(*indexes: int) -> Answered:
    return Answered([(index, encode_outcome(chain(index), [1])) for index in indexes])


def test_equal_outcomes_are_no_contradiction() -> None:
    slave = Replica()
    slave.apply(1)
    assert not slave.outcomes.received(0, answered(1))
    assert slave.outcomes.contradiction is None
    assert slave.agreed == [(0, 1)]


def test_an_outcome_that_comes_early_is_compared_when_its_entry_is_applied() -> None:
    slave = Replica(2)
    assert not slave.outcomes.received(0, answered(1, 2))
    assert not slave.apply(1)
    assert slave.apply(2)
    found = slave.outcomes.contradiction
    assert found is not None
    assert (found.master, found.index) == (0, 2)
    assert "entry 2 ended otherwise on replica 1 than on replica 0" in found.first
    assert "(bank:Account) reacted to bank:Deposit" in found.first


def test_only_the_first_contradiction_is_kept_and_agreement_from_there_on_settles_it() -> None:
    slave = Replica(2)
    for index in (1, 2, 3):
        slave.apply(index)
    assert slave.outcomes.received(0, answered(2))
    assert not slave.outcomes.received(0, answered(3))
    assert slave.outcomes.agreed(1) is None
    found = slave.outcomes.agreed(3)
    assert found is not None
    assert found.index == 2
    assert slave.outcomes.contradiction is None


def test_a_new_state_has_no_contradiction() -> None:
    slave = Replica(1)
    slave.outcomes.received(0, answered(1))
    slave.outcomes.state_installed()
    assert not slave.apply(1)
    assert slave.outcomes.contradiction is None


def test_a_message_has_the_last_outcomes_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_outcomes, "MAX_ENTRIES", 2)
    master = Replica()
    for index in (1, 2, 3):
        master.outcomes.add(index, b"x")
    assert master.outcomes.pending
    assert master.outcomes.take() == Answered([(2, b"x"), (3, b"x")])
    assert not master.outcomes.pending
