"""Mutants of what an operator may ask for, and of who is told that it belongs to the cluster."""

from quorate.hachannel.membership import membership, witness_admission
from quorate.hachannel.model.view import Seat
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.view_change import election
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.random_schedules import administered
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_replica_moves():
    """It is down, and will listen elsewhere."""
    script = ScriptedCluster(3)
    master = script.form()
    script.hosts[2].crash()
    script.whole(but=[2])
    master = script.master()
    master.channel.admit(script.world.now, 2, b"elsewhere")
    master.settle()
    script.until(lambda: Seat(2, b"elsewhere") in master.channel.view.seats)
    assert [seat.replica for seat in master.channel.view.seats] == [0, 1, 2]


@mutant(
    "A replica that moves keeps its old seat beside the new one.",
    scenario=a_replica_moves,
    caught=("scenario", "I2"),
    quick=True,
)
def seat_kept_by_who_moves():
    with rewritten(
        election,
        "seated",
        (
            "if seat.replica != change.replica",
            "if isinstance(change, Admit) or seat.replica != change.replica",
        ),
    ):
        yield


@mutant(
    "A change is taken on while another one is pending.",
    caught=("I2",),
    schedule=administered,
)
def change_while_pending():
    with rewritten(
        membership.Membership,
        "_check_free",
        ("if pending is not None or not self._election.idle:", "if not self._election.idle:"),
    ):
        yield


@mutant("A witness is added beside its dead life.", caught=("I2",), schedule=administered)
def witness_beside_its_dead_life():
    with rewritten(witness_admission.WitnessAdmission, "step", ("if old:", "if False:")):
        yield


@mutant("A witness is let in although another change is pending.", caught=("I2",), schedule=administered)
def witness_while_pending():
    with rewritten(
        witness_admission.WitnessAdmission,
        "step",
        ("if pending is not None and pending.view == view.number:", "if False:"),
    ):
        yield


@mutant(
    "A change that is committed waits for another reason to change the view.",
    caught=("L1",),
    schedule=administered,
    quick=True,
)
def change_waits():
    with rewritten(
        view_triggers.ViewTriggers, "_consider_members", ("if self.reconfiguring(view):", "if False:")
    ):
        yield


@mutant("A learner that does not vote is made a member.", caught=("I2",), schedule=administered, quick=True)
def learner_without_a_vote():
    with rewritten(election.Election, "_install", ("joiner in config and", "")):
        yield
