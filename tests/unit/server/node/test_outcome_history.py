"""The outcomes of the last entries: bounded, and compared with those of another replica."""

import pytest

from quorate.server.node import outcome_history
from quorate.server.node.outcome_history import OutcomeHistory
from quorate.testing.harness import Harness

from ..disk_rig import Add, Sum


def history(*amounts: int) -> OutcomeHistory:
    """Return the history of two agents, one of which gets an amount with each entry."""
    harness = Harness()
    for name in ("a0", "a1"):
        harness.deploy(Sum, name=name)
    engine = harness.engine
    made = OutcomeHistory(engine.applied, engine.chain)
    for number, amount in enumerate(amounts):
        if amount:
            made.add(harness.post(harness.note(f"a{number % 2}", Add(amount))), engine.chain)
        else:
            made.add(harness.apply(), engine.chain)
    return made


def test_the_first_entry_that_ended_otherwise_is_found() -> None:
    ours, theirs = history(1, 1, 5, 1), history(1, 1, 1, 1)
    start = theirs.applied - 4
    found = ours.first_difference(1, 0, theirs.outcomes(start, theirs.applied))
    assert found.startswith(f"entry {start + 3} ended otherwise on replica 1 than on replica 0: agent ")
    assert found.endswith("with another result")
    assert ours.first_difference(1, 0, history(1, 1, 5, 1).outcomes(start, theirs.applied)) == ""


def test_an_earlier_difference_that_is_not_compared_names_no_entry() -> None:
    ours, theirs = history(5, 1), history(1, 1)
    assert ours.first_difference(1, 0, theirs.outcomes(theirs.applied - 1, theirs.applied)) == ""


def test_an_entry_without_a_reaction_on_one_side_is_a_difference() -> None:
    quiet, busy = history(1, 0, 1), history(1, 1, 1)
    start = busy.applied - 3
    assert quiet.first_difference(1, 0, busy.outcomes(start, busy.applied)).endswith(
        "had reactions on replica 0, and has none on replica 1"
    )


def test_the_chain_is_known_after_each_entry_that_is_kept() -> None:
    made = history(1, 0, 2)
    start = made.applied - 3
    first, quiet, last = (made.chain_after(start + each) for each in (1, 2, 3))
    assert first == quiet != last == made.chain
    assert made.chain_after(made.applied + 1) is None
    assert made.chain_after(start) is not None
    assert made.chain_after(start - 1) is None


def test_the_history_and_what_is_sent_of_it_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_history, "MAX_REACTIONS", 20)
    monkeypatch.setattr(outcome_history, "MAX_SENT_REACTIONS", 4)
    made = history(*[1] * 50)
    kept = [index for index in range(made.applied + 1) if made.chain_after(index) is not None]
    assert 10 <= len(kept) <= 21
    assert kept[-1] == made.applied
    assert len(made.outcomes(0, made.applied)) == 4
