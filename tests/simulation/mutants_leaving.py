"""Mutants of what becomes of the votes of replicas that leave in order."""

from quorate.hachannel import Settings
from quorate.hachannel.membership import departures
from quorate.hachannel.model.messages import Exit
from quorate.hachannel.protocol import channel, decision_loop
from quorate.hachannel.replication import replica_state
from quorate.hachannel.view_change import election
from quorate.testing import simulate
from quorate.testing.channel.by_hand import Hand
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.random_schedules import draw
from quorate.testing.schedules.script import Script


def _voters(host):
    return [voter.replica for voter in host.channel.view.config]


def all_but_one_leave_in_turn():
    """It has the only vote then, and lets them in again."""
    script = Script(5)
    script.form()
    for replica in (4, 2, 3, 1):
        script.leave(script.hosts[replica])
        script.run(1.0)
    script.alone(script.hosts[0])
    for replica in (1, 2, 3, 4):
        script.hosts[replica].start()
    script.whole()


@mutant(
    "Without disks, too, the vote of who has left stays until that is back.",
    scenario=all_but_one_leave_in_turn,
    caught=("scenario",),
    quick=True,
)
def vote_of_the_leaver_stays():
    with patched(departures.Departures, "next", lambda self, view: None):
        yield


def all_but_one_leave_at_the_same_time():
    """The master among them: each is needed until its own vote has gone."""
    script = Script(5)
    script.form()
    assert script.leave(*script.hosts[:4]) < Settings().leave_s, "they waited in vain"
    script.alone(script.hosts[4])


@mutant(
    "The vote of one that leaves goes only if those who stay are a majority of the rest.",
    scenario=all_but_one_leave_at_the_same_time,
    caught=("scenario",),
    quick=True,
)
def other_leavers_not_counted():
    with rewritten(election.Election, "_unfeasible", ("stay and promise.leaving", "promise.leaving")):
        yield


def witnesses_leave_at_the_same_time():
    """They are half of the voters: with their votes, too, the others could agree on nothing."""
    script = Script(4, witnesses=2)
    master = script.form()
    script.leave(*script.hosts[2:])
    script.until(lambda: len(master.channel.view.config) == 2)
    script.leave(script.hosts[1])
    script.alone(master)
    for replica in (1, 2, 3):
        script.hosts[replica].start()
    script.whole()


@mutant(
    "Who leaves and is no member goes at once, and leaves its vote behind.",
    scenario=witnesses_leave_at_the_same_time,
    caught=("scenario",),
    quick=True,
)
def leaver_gone_before_its_vote():
    with patched(replica_state.ReplicaState, "relied_on", property(lambda self: self.member)):
        yield


def one_leaves_after_another_died():
    """With three votes, or two, the one that stays would be no majority."""
    script = Script(3)
    script.form()
    script.hosts[1].crash()
    master = script.whole(but=[1])
    script.run(2.0)
    assert len(master.channel.view.config) == 3, "for a death alone no vote goes"
    script.leave(script.hosts[2])
    script.alone(master)


@mutant(
    "The vote of one that has died stays when another one leaves.",
    scenario=one_leaves_after_another_died,
    caught=("scenario",),
    quick=True,
)
def vote_of_the_dead_stays():
    with rewritten(departures.Departures, "next", ("(*ended, *leaving)", "leaving")):
        yield


@mutant(
    "The vote of one that has died goes although nobody leaves.",
    scenario=one_leaves_after_another_died,
    caught=("scenario",),
    quick=True,
)
def vote_of_the_dead_goes():
    with rewritten(departures.Departures, "next", ("if not leaving:", "if False:")):
        yield


def one_leaves_while_another_is_cut_off():
    """Should it end before its own vote has gone, the others need that of the third."""
    script = Script(3)
    master = script.form()
    script.split([1], [0, 2])
    script.whole(but=[1])
    script.leave(script.hosts[2])
    assert len(master.channel.view.config) == 3, "it can be reached again"
    script.mend()
    script.hosts[2].start()
    script.whole()


@mutant(
    "When one leaves, the vote of one that is only cut off may go, too.",
    scenario=one_leaves_while_another_is_cut_off,
    caught=("scenario",),
    quick=True,
)
def vote_of_one_cut_off_goes():
    with rewritten(departures.Departures, "next", (" and state.peers.ended(voter)", "")):
        yield


def one_leaves_with_a_disk():
    """It is back as the same voter, and needed when another one is gone."""
    script = Script(3, disk=True)
    master = script.form()
    script.leave(script.hosts[2])
    script.run(2.0)
    assert len(master.channel.view.config) == 3, "it has not given its vote up"


@mutant(
    "With disks, too, the vote of who leaves goes.",
    scenario=one_leaves_with_a_disk,
    caught=("scenario",),
    quick=True,
)
def vote_goes_with_a_disk():
    with rewritten(departures.Departures, "next", ("state.log.durable or ", "")):
        yield


def one_leaves_while_its_connection_is_broken():
    """The master does not hear it the first time."""
    script = Script(3)
    master = script.form()
    script.net.shut((0, 2))
    script.leave(script.hosts[2])
    script.until(lambda: len(master.channel.view.config) == 2)


@mutant(
    "Who leaves says so once, whether it is heard or not.",
    scenario=one_leaves_while_its_connection_is_broken,
    caught=("scenario",),
    quick=True,
)
def farewell_once():
    with rewritten(channel.Channel, "connected", ("if state.leaving:", "if False:")):
        yield


def one_is_said_to_leave_and_stays():
    """Its own last word counts."""
    hand = Hand()
    master = hand.form()
    hand.give(2, 0, Exit(master.view.number, True, "it leaves"))
    hand.settle()
    for _ in range(5):
        hand.tick(0.05)
        hand.settle()
    assert master.members == (0, 1, 2)
    assert len(master.view.config) == 3
    assert master.view.number.counter == 2, "one view is enough to find that out"


@mutant(
    "The vote of one goes that promises to be in the next view.",
    scenario=one_is_said_to_leave_and_stays,
    caught=("scenario",),
    quick=True,
)
def vote_of_one_that_stays_goes():
    with rewritten(
        election.Election, "change", ("if promise is not None and not promise.leaving:", "if False:")
    ):
        yield


def _two_let_a_third_in(**shape):
    """Its vote is in the log, and not yet in a view."""
    script = Script(3, expected=2, **shape)
    script.hosts[0].start()
    script.hosts[1].start()
    master = script.whole(but=[2])
    script.hosts[2].start()
    script.until(lambda: master.state.pending is not None)
    return script, master


def first_leaves_while_the_third_is_let_in():
    """Of two that founded it. The third is frozen just then, and the view waits for it."""
    script, master = _two_let_a_third_in(settings=Settings(view_change_s=1.5))
    third = script.hosts[2]
    third.pause()
    script.leave(master)
    script.alone(script.hosts[1])
    third.resume()
    script.whole(but=[master.replica])
    master.start()
    script.whole()


@mutant(
    "Who leaves waits for `leave_s`, whatever a view takes.",
    scenario=first_leaves_while_the_third_is_let_in,
    caught=("scenario",),
    quick=True,
)
def leaver_gone_before_the_view():
    with patched(decision_loop.DecisionLoop, "_patience", lambda self: self._state.settings.leave_s):
        yield


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


def joiner_leaves_while_it_is_let_in():
    """It has promised nothing, and goes at once. If it were a voter, the last one could not go on alone."""
    script, master = _two_let_a_third_in(shared_host=False)
    script.leave(script.hosts[2])
    script.run(1.0)
    script.leave(next(host for host in script.running() if host is not master))
    script.alone(master)


@mutant(
    "A joiner that has gone becomes a voter all the same.",
    scenario=joiner_leaves_while_it_is_let_in,
    caught=("scenario",),
    quick=True,
)
def joiner_that_has_gone_votes():
    with rewritten(
        election.Election, "_unfeasible", ("link is None or link.suspected or link.leaving", "False")
    ):
        yield


def joiner_leaves_that_does_not_know_that_it_votes():
    """It has promised the view, hears that it is active, and has not received it."""
    script = Script(5, shared_host=False)
    hosts = script.hosts
    master = script.form()
    for replica in (4, 3):
        script.leave(hosts[replica])
        script.run(1.0)
    hosts[3].start()
    script.until(lambda: master.state.pending is not None)
    script.run(0.002)
    number = master.state.accepted.number
    master.leave()
    script.until(lambda: hosts[3].state.promised > number)
    script.cut((1, 3))
    script.until(lambda: hosts[2].state.serving and hosts[3].state.newer > number)
    assert _voters(hosts[2]) == [1, 2, 3]
    script.leave(hosts[3])
    assert _voters(hosts[1]) == [1, 2]


@mutant(
    "A joiner that leaves need not have seen the view that it promised.",
    scenario=joiner_leaves_that_does_not_know_that_it_votes,
    caught=("scenario",),
    quick=True,
)
def joiner_gone_before_its_vote():
    with rewritten(
        replica_state.ReplicaState, "relied_on", ("self.promised > NO_VIEW", "self.promised > self.newer")
    ):
        yield


def all_come_back_one_by_one_and_leave():
    """Those who knew that the fourth has ended are gone themselves, and those who stay do not know it."""
    script = Script(4)
    hosts = script.hosts
    script.form()
    hosts[3].crash()
    script.whole(but=[3])
    for replica in (2, 1, 0):
        script.leave(hosts[replica])
        script.run(1.0)
        hosts[replica].start()
        script.whole(but=[3])
    master = script.master()
    for host in script.running():
        if host is not master:
            script.leave(host)
            script.run(1.0)
    script.alone(master)


@mutant(
    "When one leaves, the vote of one that has died goes only if it must.",
    scenario=all_come_back_one_by_one_and_leave,
    caught=("scenario",),
    quick=True,
)
def vote_of_the_dead_last():
    with rewritten(departures.Departures, "next", ("(*ended, *leaving)", "(*leaving, *ended)")):
        yield


def who_leaves_waits_for_one_that_is_silent():
    """The others have heard that it leaves, and wait for the promise of one that is silent."""
    script = Script(4, settings=Settings(leave_s=0.1))
    master = script.form()
    script.hosts[3].pause()
    script.run(0.1)
    script.leave(script.hosts[1])
    assert script.hosts[1].state.me not in master.channel.view.config, "it leaves its vote behind for ever"


@mutant(
    "Who leaves without a disk waits for `leave_s` only, unless nobody is heard.",
    scenario=who_leaves_waits_for_one_that_is_silent,
    caught=("scenario",),
    quick=True,
)
def patience_of_who_is_alone():
    with rewritten(decision_loop.DecisionLoop, "_patience", ("or not stays", "or stays")):
        yield
