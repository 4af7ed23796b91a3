"""Mutants of what comes late: to a learner that is elsewhere, or to a voter that has promised or granted."""

from quorate.hachannel import Settings
from quorate.hachannel.protocol import view_triggers
from quorate.hachannel.transfer import donor
from quorate.hachannel.view_change import election, installation
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_learner_is_removed():
    """It is about to be a voter when an operator removes it."""
    script = ScriptedCluster(4, settings=Settings(keep=0, window=16), snapshot_s=1.0, chunk=1)
    script.form()
    for _ in range(60):
        script.submit(script.master(), 4)
        script.run(0.02)
    script.run(0.2)
    script.hosts[3].crash()
    master = script.whole(but=[3])
    script.hosts[3].start()
    channel = master.channel
    script.until(
        lambda: channel.phases.giving == "state" and len(channel.view.config) == 3 and channel.can_submit
    )
    assert master.state.pending is None
    master.channel.remove(script.world.now, 3)
    master.settle()
    script.until(lambda: len(master.channel.view.seats) == 3 and master.channel.can_submit)
    script.run(3.0)
    assert master.channel.phases.giving == "nobody", "it is let in again"


@mutant(
    "A transfer to a replica that is removed goes on.",
    scenario=a_learner_is_removed,
    caught=("scenario", "I12"),
    quick=True,
)
def removed_learner_kept():
    with rewritten(donor.Donor, "on_view", ("elif not view.lists(session.voter.replica):", "elif False:")):
        yield


@mutant("A member makes a view active although it has promised a later one.", quick=True)
def activated_against_a_promise():
    with rewritten(installation.Installation, "activate", ("or state.promised != view.number\n", "\n")):
        yield


@mutant("A voter proposes a view of its own although it has granted.", caught=("I11",), quick=True)
def proposed_within_its_grant():
    with (
        rewritten(election.Election, "propose", ("if self._lease.blocks(now, state.me):", "if False:")),
        rewritten(
            view_triggers.ViewTriggers, "_consider_master", ("start = max(start, self._lease.until)", "pass")
        ),
    ):
        yield


@mutant("A proposer that promises a higher view goes on with its own.", caught=("I3",), quick=True)
def proposal_survives_a_promise():
    with rewritten(election.Election, "on_prepare", ("self.abandon(now)", "pass")):
        yield


@mutant("The log that a view starts from is not taken for committed.", quick=True)
def start_not_committed():
    with rewritten(installation.Installation, "_begin", ("state.commit_to(view.start)", "pass")):
        yield
