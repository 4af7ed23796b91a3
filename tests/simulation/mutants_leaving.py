"""Mutants of what becomes of the votes of replicas that leave in order."""

from quorate.hachannel.view_change import election
from quorate.testing import simulate
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.random_schedules import draw


def a_founder_leaves_while_its_promise_is_held_up():
    """The promise arrives after the farewell. Without its vote the other founder could agree on nothing."""
    simulate(draw(1510, profile="founding"), seed=1510)


@mutant(
    "A promise takes a farewell back, even if it was given before.",
    scenario=a_founder_leaves_while_its_promise_is_held_up,
    caught=("L1",),
    quick=True,
)
def farewell_taken_back():
    with rewritten(
        election.Election, "on_promise", (" or (link.leaving and message.number <= link.left_at)", "")
    ):
        yield
