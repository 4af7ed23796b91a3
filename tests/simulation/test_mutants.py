"""The simulation notices when a rule of the protocol is removed.

The mutants that are caught within a few seeds are hunted always, all of them by `make mutants`, or with
QUORATE_MUTANTS=1.
"""

import os
from pathlib import Path

import pytest

from quorate.testing.channel_sim import simulate
from quorate.testing.mutation import hunt, main

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"


def test_each_rule_whose_removal_shows_soon_is_noticed(mutants):
    wrong = {}
    for mutant in mutants.values():
        if mutant.quick:
            catch = hunt(mutant, 200)
            if catch is None or (mutant.caught and catch.invariant not in mutant.caught):
                wrong[mutant.name] = catch
    assert wrong == {}


def test_the_written_scenarios_hold_without_a_mutant(mutants):
    for mutant in mutants.values():
        if mutant.scenario is not None:
            mutant.scenario()


def test_the_page_of_the_mutants_has_each_of_them_and_nobody_escapes(mutants):
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == set(mutants), (
        "make mutants MUTANTS_ARGS='--write docs/mutants.md'"
    )
    assert [row for row in rows if "| nobody |" in row] == []


@pytest.mark.skipif("QUORATE_MUTANTS" not in os.environ, reason="long: set QUORATE_MUTANTS=1")
def test_every_removed_rule_is_noticed(mutants):
    escaped = [mutant.name for mutant in mutants.values() if hunt(mutant) is None]
    assert escaped == []


def test_the_channel_itself_is_left_as_it_was(mutants):
    for mutant in mutants.values():
        with mutant.apply():
            pass
    assert simulate(seed=0).views


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--area", "nosuch"], "there is no area nosuch; there are: bounds, choice, "),
        (["--area", "gate", "--only", "nosuch"], "no mutant is named nosuch"),
        (["--area", "gate", "--only", "one_ack_short"], "no mutant is left to be hunted"),
        (["nofile.py"], "there is no Python file nofile.py"),
    ],
)
def test_what_hunts_nothing_is_refused(mutants, capsys, arguments, sentence):
    with pytest.raises(SystemExit) as ended:
        main([__file__, *arguments])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
