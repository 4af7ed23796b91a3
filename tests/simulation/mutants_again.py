"""Mutants of what is said a second time, or to those who missed it: that is bound by the same rules."""

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import Found, Founded
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.hachannel.protocol import decision_loop, heartbeats
from quorate.hachannel.replication import forwarding, peers
from quorate.hachannel.view_change import installation
from quorate.testing.channel.by_hand import slow_proposer
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.script import Script


def told_to_found_twice():
    """Its disk is slower than the proposer is patient."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 1, "start-up")
    log = DurableLog(Remembered(number, first))
    channel = Channel(0, range(3), incarnation=10, cluster="c", expected=3, log=log)
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.take()
    said = []
    for now in (100.1, 100.2):
        channel.receive(now, 1, Found(number))
        output = channel.take()
        said += [message for _, message in output.messages if isinstance(message, Founded)]
    assert not said, "after a crash it would take part in founding another view"


@mutant(
    "A member that is asked again says that it knows of the first view, whether its disk does or not.",
    scenario=told_to_found_twice,
    caught=("scenario", "I3"),
    quick=True,
)
def founded_again_before_durable():
    early = "(state.vow if state._out.persist else state.send)(voter.replica, Founded(view.number))"
    vow = "state.vow(voter.replica, Founded(view.number))"
    with rewritten(installation.Installation, "on_found", (vow, early)):
        yield


def nobody_answers_the_proposer_whose_disk_is_slow():
    """It repeats itself."""
    hand = slow_proposer()
    for _ in range(3):
        hand.tick(0.05)
    assert not hand.waiting(0, 1, Found), "a member that knows proves nothing"
    hand.sync(0)
    assert hand.waiting(0, 1, Found)


@mutant(
    "The proposer of a first view repeats what it would not have said before its disk has it.",
    scenario=nobody_answers_the_proposer_whose_disk_is_slow,
    caught=("scenario", "I3"),
    quick=True,
)
def told_again_before_durable():
    early = ("elif state.me in installing.founded:", "else:")
    with rewritten(installation.Installation, "_found", early):
        yield


def a_member_connects_again_to_the_proposer_whose_disk_is_slow():
    """What was on its way to it may be lost; nothing was."""
    hand = slow_proposer()
    hand.connect(0, 1)
    assert not hand.waiting(0, 1, Found), "a member that knows proves nothing"
    hand.sync(0)
    assert hand.waiting(0, 1, Found)


@mutant(
    "The proposer of a first view tells a member that connects again before its disk has it.",
    scenario=a_member_connects_again_to_the_proposer_whose_disk_is_slow,
    caught=("scenario", "I3"),
    quick=True,
)
def told_anew_before_durable():
    early = ("elif self._state.me in installing.founded:", "else:")
    with rewritten(installation.Installation, "reconnected", early):
        yield


def an_origin_comes_back_within_the_view():
    """With its disk, before anybody misses it: it numbers anew, under another number of its process."""
    script = Script(3, disk=True, shared_host=False, settings=Settings(verify_s=1.0))
    master = script.form()
    script.run(1.0)
    slave = next(host for host in script.hosts if host is not master)
    view = master.channel.view.number
    before = script.forward(slave, 3)
    script.run(1.0)
    slave.crash()
    script.run(0.2)
    slave.start()
    script.run(1.5)
    assert master.channel.view.number == view
    after = script.forward(slave, 5)
    script.run(8.0)
    assert script.deliveries[master.replica] == before + after


@mutant(
    "What another process of an origin forwards is counted on with that of the one before.",
    scenario=an_origin_comes_back_within_the_view,
    caught=("I7", "scenario"),
    quick=True,
)
def held_of_the_process_before():
    with rewritten(forwarding.Forwarding, "on_forward", (" or message.boot > held.boot", "")):
        yield


def a_voter_that_missed_the_view_is_needed():
    """A witness was down when the view was recorded. Without its grants there is no lease once another is."""
    script = Script(5, witnesses=3, disk=True)
    script.form()
    script.run(1.0)
    script.hosts[4].crash()
    script.run(1.0)
    script.hosts[1].crash()
    master = script.hosts[0]
    script.until(lambda: master.channel.view.replicas() == (0,))
    script.run(1.5)
    script.hosts[4].start()
    script.run(3.0)
    script.hosts[3].crash()
    script.run(10.0)
    assert master.channel.lease.held, "three voters of five are there"


@mutant(
    "A voter that missed the record of a view is not told of it.",
    scenario=a_voter_that_missed_the_view_is_needed,
    caught=("scenario",),
    quick=True,
)
def record_not_repeated():
    with rewritten(heartbeats.Heartbeats, "on_heartbeat", ("self._remind(voter, message)", "pass")):
        yield


def two_leave_and_one_of_them_had_just_come_back():
    """Nothing tells that its life before has ended but that another one came."""
    script = Script(3, shared_host=False)
    script.form()
    script.run(1.0)
    script.hosts[2].crash()
    script.run(4.0)
    script.hosts[2].start()
    script.until(lambda: script.hosts[0].state.peers.links[2].connected)
    script.hosts[2].leave()
    script.hosts[1].leave()
    script.run(8.0)
    script.hosts[1].start()
    script.hosts[2].start()
    script.whole()


@mutant(
    "That a later life of a replica came does not tell that the one before has ended.",
    scenario=two_leave_and_one_of_them_had_just_come_back,
    caught=("scenario", "L1"),
    quick=True,
)
def later_life_proves_nothing():
    with rewritten(peers.Peers, "ended", ("else link.voter > voter", "else False")):
        yield


def a_replica_is_admitted_while_another_one_learns():
    """The learner is outside the view that lists the new one; it is to know whom to expect."""
    script = Script(3, snapshot_s=8.0)
    master = script.form()
    script.submit(master, 100)
    script.run(1.0)
    script.hosts[2].crash()
    script.until(lambda: len(script.hosts[0].channel.members) == 2)
    script.run(2.0)
    for _ in range(12):
        script.submit(script.master(), 100)
        script.run(0.3)
    learner = script.hosts[2]
    learner.start()
    script.run(1.5)
    master = script.master()
    assert learner.channel.phases.learning != "alone"
    master.channel.admit(script.world.now, 3, b"place 3")
    master.settle()
    script.until(lambda: master.channel.view.lists(3))
    script.run(1.0)
    assert learner.channel.role == "joining"
    assert learner.channel.seats == master.channel.seats


@mutant(
    "Who is outside a view is not told who belongs to the cluster now.",
    scenario=a_replica_is_admitted_while_another_one_learns,
    caught=("scenario",),
    quick=True,
)
def outsiders_not_told():
    with rewritten(decision_loop.DecisionLoop, "_follow_up", ("self._membership.greet(link)", "pass")):
        yield
