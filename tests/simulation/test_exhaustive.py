"""Exploration: small spaces are explored completely; QUORATE_EXPLORE=N explores N states of each start."""

import json
from itertools import pairwise
from random import Random

import pytest
from click.testing import CliRunner

from quorate.hachannel import Channel
from quorate.testing.channel.violation import Violation
from quorate.testing.exploration.cloning import canonical_form, clone, digest
from quorate.testing.exploration.command import command
from quorate.testing.exploration.explorer import START_STATES, explore

from ..long import amount, only_long

SMALL = {
    "quiet": {"cut": 1, "crash": 0, "tick": 0, "apart": 1},
    "majority": {"cut": 0, "tick": 0},
    "view-change": {"cut": 0},
    "two-proposers": {"tick": 0, "late": 0},
    "gate": {"tick": 0, "apart": 1},
    "incarnations": {"tick": 0},
    "adding": {"tick": 0},
    "removing": {"crash": 0, "tick": 0},
    "add-then-remove": {"tick": 0, "apart": 1},
    "witness": {"crash": 0, "cut": 0, "tick": 0},
    "copies": {"tick": 0, "stay": 1},
    "leases": {"tick": 0},
    "transfer": {"crash": 0, "tick": 0, "submit": 0},
    "disks": {"tick": 0, "stay": 1},
    "forward": {"crash": 0, "tick": 0, "lose": 0, "twice": 0},
}
"""Budgets under which all orders of events can be tried within seconds."""


def test_every_start_has_a_small_space():
    assert list(SMALL) == list(START_STATES)


@pytest.mark.parametrize("name", list(START_STATES))
def test_no_order_of_a_few_events_violates_an_invariant(name):
    explored = explore(name, budget=SMALL[name])
    assert explored.complete
    assert explored.states >= 10


@only_long
@pytest.mark.parametrize("name", list(START_STATES))
def test_no_order_of_events_violates_an_invariant(name):
    explore(name, states=int(amount("QUORATE_EXPLORE", 0, 200_000)))


@pytest.mark.parametrize("name", list(START_STATES))
def test_a_broken_rule_is_found_with_a_path_to_it(name, mutants):
    broken = [mutant for mutant in mutants.values() if mutant.explore == name]
    assert broken, f"no mutant is to be caught from {name}"
    for mutant in broken:
        START_STATES[name](Channel)
        with mutant.apply(), pytest.raises(Violation) as caught:
            explore(name, states=mutant.states, budget=mutant.budget)
        assert not mutant.caught or caught.value.invariant in mutant.caught
        assert caught.value.trace, f"{mutant.name} is caught on the way to the start"


@pytest.mark.parametrize(("name", "budget"), [("view-change", {"tick": 1, "cut": 0}), ("two-proposers", {})])
def test_the_reduction_of_orders_omits_no_state(name, budget):
    budget = {**SMALL[name], **budget}
    reduced, whole = explore(name, budget=budget), explore(name, budget=budget, reduce=False)
    assert reduced.complete
    assert whole.complete
    assert reduced.states == whole.states
    assert reduced.steps < whole.steps


@pytest.mark.parametrize("name", list(START_STATES))
def test_events_at_different_replicas_commute(name):
    """What the reduction relies on: after either order everything is as after the other."""
    random, compared = Random(name), 0
    world = START_STATES[name](Channel)
    start = world.save()
    for _ in range(12):
        world.restore(start)
        for _ in range(12):
            here = world.save()
            world.restore(here)
            events = world.events()
            random.shuffle(events)
            for one, other in pairwise(events[:3]):
                compared += _commute(world, here, one, other)
            world.restore(here)
            if not events:
                break
            world.execute(events[0])
    assert compared


def _commute(world, here, one, other):
    after, touched = [], []
    for first, second in ((one, other), (other, one)):
        world.restore(here)
        world.execute(first)
        touched.append(set(world.touched))
        if second not in world.events():
            return False
        world.execute(second)
        after.append(world.fingerprint(world.save()))
    if one[0] == other[0] != "deliver" or touched[0] & touched[1]:
        return False
    assert after[0] == after[1], f"{one} and {other}"
    return True


def test_a_saved_state_is_not_changed_by_later_events():
    world = START_STATES["quiet"](Channel)
    place = world.save()
    name = world.fingerprint(place)
    world.restore(place)
    world.execute(("crash", 0, 0))
    world.settle()
    assert world.fingerprint(world.save()) != name
    world.restore(place)
    assert world.explored[0].running
    assert world.fingerprint(world.save()) == name


def test_the_order_of_an_exploration_depends_on_the_seed_only():
    def run(seed):
        explored = explore("view-change", states=200, seed=seed)
        return explored.steps, explored.depth

    assert run(1) == run(1)
    assert len({run(seed) for seed in range(4)}) > 1


def test_an_exit_of_an_older_view_triggers_no_view():
    """A late EXIT of a replica that may well follow the present master: a slave alone must not propose."""
    world = START_STATES["gate"](Channel)
    slave = 1
    assert world.explored[slave].channel.members == (0, slave)
    while (2, slave) in world.network.waiting:
        world.prepare(("deliver", 2, slave))
    world.prepare(("cut", 0, slave), ("tick", slave, slave))
    assert not world.explored[slave].channel.proposing
    world.settle()
    assert world.explored[slave].channel.proposing or len(world.explored[slave].channel.members) > 1


def test_cloned_closures_refer_to_cloned_variables():
    box = [1]

    def read():
        return box[0]

    copied = clone({"box": box, "read": read}, {})
    copied["box"][0] = 2
    assert (read(), copied["read"]()) == (1, 2)


def test_digests_are_equal_exactly_for_equal_objects():
    def said(thing):
        return digest(canonical_form(thing, ()))

    assert said({(1, 2): {3}, (0, 1): [4]}) == said({(0, 1): [4], (1, 2): {3}})
    assert said([-1.0]) != said([-2.0])


def run(*arguments):
    result = CliRunner().invoke(command, arguments)
    last = result.output.splitlines()[-1]
    return result.exit_code, result.output, json.loads(last) if last.startswith("{") else {}


def test_the_command_prints_states_depth_and_completeness():
    status, output, summary = run("quiet", "gate", "--states", "30")
    assert status == 0
    assert output.startswith("quiet: 30 states, ")
    assert (summary["violations"], summary["complete"], summary["states"]) == (0, False, 60)
    status, _, summary = run("gate", "--budget", "tick=0,apart=1", "--json")
    assert (status, summary["complete"]) == (0, True)


def test_the_command_prints_the_path_to_a_violation_and_exits_with_1(mutants):
    with mutants["late_exit_counts"].apply():
        status, output, summary = run("gate", "--budget", "tick=0,apart=1")
    assert status == 1
    assert summary["failures"][0]["invariant"] == "gate"
    assert set(summary["failures"][0]["way"]) <= set(output.splitlines())
    assert "deliver 2 -> 1" in summary["failures"][0]["way"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "there is no start nowhere"),
        (("--budget", "fire=1"), "there is no event 'fire'"),
        (("--budget", "crash=x"), "crash=1"),
    ],
)
def test_wrong_usage_is_explained(arguments, said):
    status, output, _ = run(*arguments)
    assert status == 2
    assert said in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "nowhere"}, "there is no start 'nowhere'. There are: "),
        ({"name": None}, "there is no start None. There are: "),
        ({"name": "gate", "budget": {"fire": 1}}, "there is no event 'fire' to be counted"),
        ({"name": "gate", "budget": {"crash": "1"}}, "the budget of crash is '1': give a whole number"),
    ],
)
def test_an_exploration_of_an_unknown_start_is_refused_in_a_sentence(arguments, said):
    with pytest.raises(ValueError, match=said):
        explore(**arguments)


def test_the_starts_are_listed():
    _, output, _ = run("--list")
    assert [line.split()[0] for line in output.splitlines()] == list(START_STATES)
    assert all("Budget: " in line for line in output.splitlines())
