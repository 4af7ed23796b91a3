"""Mutants of the founding of a cluster: who may found one, and what is known of a first view."""

from quorate.hachannel.view_change import election
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.random_schedules import draw


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    return draw(seed, profile="founding")


@mutant(
    "One voter fewer than more than half of all replicas may replace a first view.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
    quick=True,
)
def founders_one_less():
    with rewritten(
        election.Election,
        "_evaluate_boot",
        ("majority(state.order),", "majority(state.order) - 1,"),
    ):
        yield
