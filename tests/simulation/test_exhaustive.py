"""Every order of events in small clusters, within a bound that suits the suite."""

import pytest

from quorate.hachannel import Channel
from quorate.testing.channel_world import Violation
from quorate.testing.cloning import clone, fingerprint
from quorate.testing.exhaustive import START_STATES, Budget, explore, main


@pytest.mark.parametrize("name", list(START_STATES))
def test_no_order_of_events_violates_an_invariant(name):
    explored = explore(name, states=150, depth=12)
    assert explored.states == 150
    assert explored.depth == 12


def test_all_orders_of_few_events_are_tried():
    explored = explore("quiet", depth=2, states=1000)
    assert not explored.whole
    assert explored.states > 20


def test_a_copy_of_a_cluster_goes_its_own_way():
    world, budget = START_STATES["quiet"](Channel)
    there, rest = clone((world, budget))
    assert there.place(rest) == world.place(budget)
    there.happen(("crash", 0, 0), rest)
    there.settle()
    assert there.place(rest) != world.place(budget)
    assert world.small[0].running
    assert (budget, rest) == (Budget(crash=1, cut=1, tick=2), Budget(crash=0, cut=1, tick=2))
    assert fingerprint({"a": [1, (2.0, {3})]}) == fingerprint({"a": [1, (7.0, {3})]})


def test_a_weakened_rule_is_found_with_the_way_to_it(mutants):
    with mutants["seniority_ignored"].apply(), pytest.raises(Violation) as caught:
        explore("quiet", states=2000)
    assert caught.value.invariant == "I2"
    assert caught.value.trace


def test_the_command_line_tells_how_far_it_came(capsys):
    assert main(["--states", "30", "--start", "quiet"]) == 0
    assert capsys.readouterr().out.startswith("quiet: 30 states, ")
