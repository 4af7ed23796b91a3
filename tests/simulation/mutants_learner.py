"""Mutants of replicas that learn while they have, or get, something of their own."""

from quorate.hachannel import Settings
from quorate.hachannel.transfer import learner
from quorate.testing import Crash, Schedule, Shape, Submit, simulate
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def one_that_wants_the_state_is_back_and_nothing_was_committed_meanwhile():
    """It was found to differ, say: by its log it lacks nothing, and what it holds is of no use."""
    schedule = Schedule(
        shape=Shape(disk=True, fresh=True),
        faults=[Submit(at=1.5, count=30), Crash(who=2, at=3.0, back_s=0.5)],
        seconds=6.0,
        load=0.0,
    )
    assert simulate(schedule, seed=1).snapshots


@mutant(
    "Who wants the state keeps the one it has, if nothing was committed after that, and wants none any more.",
    scenario=one_that_wants_the_state_is_back_and_nothing_was_committed_meanwhile,
    caught=("I15",),
    quick=True,
)
def fresh_keeps_state():
    with rewritten(learner.Learner, "_has", ("if self.fresh or ", "self.fresh = False\n    if ")):
        yield


def a_master_of_before_with_an_end_of_its_own():
    """It is back once nobody has the log any more that the others made in the place of that end."""
    script = ScriptedCluster(3, settings=Settings(keep=0, window=16), chunk=1)
    first = script.form()
    for _ in range(50):
        script.everywhere(script.submit(first))
    script.run(0.5)
    script.split([0], [1, 2])
    script.submit(first, 10)
    end = first.state.log.last.at
    assert first.state.commit == end - 10
    second = script.hosts[1]
    script.until(lambda: second.channel.members == (1, 2) and second.channel.can_submit)
    while second.state.log.base.at <= end:
        script.submit(second)
        script.run(0.02)
    script.mend()
    script.everywhere(script.submit(script.whole(), 30))
    assert first.channel._learner._refused == 0, "what has changed since its last entry is of no use to it"


@mutant(
    "A learner says that it has all of its log, not what it knows to be committed.",
    scenario=a_master_of_before_with_an_end_of_its_own,
    caught=("I15", "scenario"),
    quick=True,
)
def own_end_claimed():
    with rewritten(learner.Learner, "join", ("state.log.tag(state.commit)", "state.log.last")):
        yield
