"""Mutants of replicas that learn while they have, or get, something of their own."""

from quorate.hachannel import Channel, Deliver, InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import (
    Accept,
    CatchUp,
    CaughtUp,
    Chunk,
    Entry,
    Forward,
    Heartbeat,
    Join,
    NewView,
)
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.hachannel.replication import forwarding, replica_state
from quorate.hachannel.transfer import donor, learner
from quorate.testing import Crash, Schedule, Shape, Submit, simulate
from quorate.testing.channel.by_hand import Hand, returning
from quorate.testing.mutation import mutant, patched, rewritten
from quorate.testing.schedules.script import Script

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def _learner_with_a_log_of_its_own():
    """Replica 2 has entries 1 to 3 of an old view; it knows that 1 is committed, and that it was dropped."""
    own = [Entry(OLD, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    log = DurableLog(Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True, 1, NO_TAG, 3), own)
    hand = Hand()
    hand.form()
    hand.start(2, 3, 3, log)
    hand.connect(0, 2)
    hand.channels[2].state.supersede(NEW)
    return hand


def committed_beyond_what_came():
    """Entry 2 is the same for all. What is committed at 3 was not sent yet; the learner's own is another."""
    hand = _learner_with_a_log_of_its_own()
    hand.give(0, 2, CatchUp(1 << 40, NEW, Tag(OLD, 1), (Entry(OLD, 2, 0, b"own 2"),), 3))
    delivered = [event.payload for event in hand.events[2] if isinstance(event, Deliver)]
    assert delivered == [b"own 2"], f"it delivers {delivered}, of which the last is not committed"
    hand.act(2, lambda channel: channel.persisted(hand.now, hand.tokens[2]))
    assert [message.index for message in hand.waiting(2, 0, CaughtUp)] == [2]


@mutant(
    "A learner takes its whole log for what it was sent, and commits of it what others have committed.",
    scenario=committed_beyond_what_came,
    caught=("scenario",),
    quick=True,
)
def own_tail_committed():
    original = replica_state.ReplicaState.commit_to
    taught = learner.Learner.on_catch_up

    def on_catch_up(self, voter, message):
        def commit_to(self, index):
            original(self, min(message.commit, self.log.last.at) if index else index)

        with patched(replica_state.ReplicaState, "commit_to", commit_to):
            taught(self, voter, message)

    with patched(learner.Learner, "on_catch_up", on_catch_up):
        yield


def taken_into_a_view_while_a_state_is_installed():
    """The application is about to have the state after 40: a view that starts at 0 is not for it."""
    hand = Hand()
    view = hand.form().view
    assert view is not None
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.give(0, 2, Chunk(5, 0, b"state", False, Tag(view.number, 40)))
    members = (Voter(0, 1), Voter(2, 9))
    number = ViewNumber(20, 0, 1)
    message = NewView(View(number, members, members, 2, 0, 0, "", view.seats), NO_TAG, 0, (), True)
    hand.give(0, 2, message)
    assert not hand.waiting(2, 0, Accept), "it is a member, and its application goes elsewhere"
    hand.act(2, lambda channel: channel.part_installed(hand.now, 5))
    assert hand.channels[2].applied == 40


@mutant(
    "A learner accepts a view while its application installs a state.",
    scenario=taken_into_a_view_while_a_state_is_installed,
    caught=("scenario",),
    quick=True,
)
def accepted_while_installing():
    original = learner.Learner._give

    def give(self, learning):
        original(self, learning)
        self._busy(False)

    with patched(learner.Learner, "_give", give):
        yield


def entries_of_a_donor_that_is_master_no_more():
    """They come late, and differ from what this member has acknowledged since."""
    hand = Hand()
    master = hand.form()
    view = master.view
    assert view is not None
    master.submit(hand.now, 1, b"new")
    hand.flush(0)
    hand.deliver(0, 1)
    stale = CatchUp(1 << 40, OLD, NO_TAG, (Entry(OLD, 1, 0, b"stale"),), 0)
    hand.give(2, 1, stale)
    assert hand.channels[1].state.log.get(1).payload == b"new", "what it has acknowledged is gone"


@mutant(
    "A member takes entries as learners do.",
    scenario=entries_of_a_donor_that_is_master_no_more,
    caught=("scenario",),
    quick=True,
)
def member_learns():
    original = learner.Learner._follows

    def follows(self, voter, token, *, entries):
        newer, self._state.newer = self._state.newer, ViewNumber(1 << 30, 0, 0)
        try:
            return original(self, voter, token, entries=entries)
        finally:
            self._state.newer = newer

    with patched(learner.Learner, "_follows", follows):
        yield


def forwarded_before_the_boot_is_durable():
    """A crash now, and the next process would use the same numbers for something else."""
    voters = (Voter(0, 7), Voter(1, 8))
    view = View(ViewNumber(3, 0, 7), voters, voters, 2, 0)
    log = DurableLog(Remembered(view.number, view, True))
    channel = Channel(1, range(2), incarnation=8, cluster="c", expected=2, log=log)
    channel.start(0.0)
    channel.connected(0.0, 0, 7)
    number = view.number
    channel.receive(0.0, 0, Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 0))
    assert channel.role == "slave"
    channel.take()
    channel.forward(0.0, b"first")
    out = channel.take()
    assert not any(isinstance(message, Forward) for _, message in out.messages), "it has left already"
    channel.persisted(0.0, out.token)
    assert any(isinstance(message, Forward) for _, message in channel.take().messages)


@mutant(
    "What is forwarded leaves before the disk knows the process that numbers it.",
    scenario=forwarded_before_the_boot_is_durable,
    caught=("scenario",),
    quick=True,
)
def boot_not_awaited():
    with patched(forwarding.Forwarding, "_ready", True):
        yield


def back_within_a_transfer_that_had_come_further():
    """Its application has nothing, and its log what was committed after the state that comes once more."""
    hand = Hand()
    hand.form()
    known = View(OLD, VOTERS, VOTERS[:2], 2, 0)
    hand.start(2, 3, 3, DurableLog(Remembered(OLD, known, True, 8, Tag(OLD, 8), 8)), fresh=True)
    hand.connect(0, 2)
    hand.give(0, 2, Chunk(1 << 40, 0, b"", False, Tag(OLD, 4)))
    assert not any(isinstance(event, InstallPart) for event in hand.events[2]), "it goes back behind entry 8"
    hand.tick(1.0)
    assert hand.waiting(2, 0, Join)[-1].refused == 1 << 40, "the master never begins another transfer"


@mutant(
    "A learner takes a state that is older than what it knows to be committed.",
    scenario=back_within_a_transfer_that_had_come_further,
    caught=("scenario",),
    quick=True,
)
def older_state_taken():
    with rewritten(learner.Learner, "_give", ("at.at < state.commit", "False")):
        yield


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


def one_that_wants_the_state_is_back_while_it_gets_entries():
    """Its last process lacked entries only; this one was found to differ. Nobody noticed that it was away."""
    hand = Hand()
    hand.form()
    hand.silence(2)
    hand.settle()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.tick(0.0, 2)
    hand.deliver(2, 0)
    [entries] = hand.waiting(0, 2, CatchUp)
    hand.start(2, 3, 9, fresh=True)
    hand.connect(0, 2)
    hand.give(0, 2, entries)
    assert not hand.waiting(2, 0, CaughtUp), "entries do not mend its state"
    hand.tick(0.0, 2)
    hand.deliver(2, 0)
    assert any(isinstance(event, ProvideSnapshot) for event in hand.events[0]), "it never gets a state"


@mutant(
    "A learner that wants the whole state takes entries of a transfer to its last process.",
    scenario=one_that_wants_the_state_is_back_while_it_gets_entries,
    caught=("scenario",),
    quick=True,
)
def fresh_takes_entries():
    with rewritten(learner.Learner, "_follows", (" or (entries and self.fresh)", "")):
        yield


@mutant(
    "A donor goes on sending entries to a learner that wants the whole state.",
    scenario=one_that_wants_the_state_is_back_while_it_gets_entries,
    caught=("scenario",),
    quick=True,
)
def fresh_not_noticed():
    with rewritten(donor.Donor, "_lost", ("return message.fresh\n", "return False\n")):
        yield


def a_master_of_before_with_an_end_of_its_own():
    """It is back once nobody has the log any more that the others made in the place of that end."""
    script = Script(3, settings=Settings(keep=0, window=16), chunk=1)
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


def the_state_is_refused_in_the_middle():
    """What was taken of it is of no use either."""
    hand = returning(3, Settings(keep=0))
    [asked] = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    hand.act(0, lambda channel: channel.part_ready(hand.now, asked.token, b"x", channel.applied))
    hand.deliver(0, 2)
    part = [event for event in hand.events[2] if isinstance(event, InstallPart)][-1]
    hand.act(2, lambda channel: channel.part_installed(hand.now, part.token, b"marker"))
    hand.act(2, lambda channel: channel.part_refused(hand.now, part.token, "test"))
    hand.lose(2, 0)
    hand.until(lambda: hand.waiting(2, 0, Join), 2)
    [join] = hand.waiting(2, 0, Join)
    assert (join.marker, join.fresh) == (b"", True), "it would get the rest of what it refused"


@mutant(
    "A learner that cannot use what it was given asks to go on with it.",
    scenario=the_state_is_refused_in_the_middle,
    caught=("scenario",),
    quick=True,
)
def goes_on_with_what_it_refused():
    with rewritten(learner.Learner, "_give_up", ('self._marker = b""', "pass")):
        yield
