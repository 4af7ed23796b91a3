"""Mutants of what a disk must know before it is said, and of what it, and a promise, must say later."""

from quorate.hachannel.replication import replica_state
from quorate.testing.mutation import mutant, rewritten


@mutant("That the log begins anew after a state is not written.", caught=("I17",), quick=True)
def reset_not_written():
    with rewritten(replica_state.ReplicaState, "reset", ("self.record(Reset(base, origins))", "pass")):
        yield


@mutant(
    "With the commit index a disk remembers who had submitted how much before what is committed.",
    caught=("I7",),
)
def origins_written_too_early():
    with rewritten(
        replica_state.ReplicaState,
        "commit_to",
        ("self.deliver()", "rows = self.origins.rows\n    self.deliver()"),
        ("Committed(index, self.origins.rows)", "Committed(index, rows)"),
    ):
        yield
