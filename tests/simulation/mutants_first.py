"""Mutants of what becomes of a first view that may have been active: who replaces it, or founds another."""

from pathlib import Path

from quorate.hachannel.replication.replica_state import ReplicaState
from quorate.testing import simulate
from quorate.testing.mutation import mutant, patched
from quorate.testing.schedules.schedule import read


def two_founders_come_back_and_the_others_have_founded_a_cluster():
    """The proposer of the first view had noted that it may be active, and had told nobody."""
    schedule, seed = read(Path(__file__).with_name("two_clusters.json"))
    simulate(schedule, seed=seed)


@mutant(
    "That a first view may be active is taken for that it is.",
    scenario=two_founders_come_back_and_the_others_have_founded_a_cluster,
    caught=("I2",),
    quick=True,
)
def foreseen_is_active():
    def foresee(self):
        self.know_active()
        self.foreseen = True

    with patched(ReplicaState, "foresee", foresee):
        yield
