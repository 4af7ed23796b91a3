"""Mutants of what a disk must know before it is said, and of what it, and a promise, must say later."""

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Reset
from quorate.hachannel.model.messages import (
    Accept,
    CatchUp,
    CaughtUp,
    Chunk,
    ChunkAck,
    Entry,
    Grant,
    Heartbeat,
    NewView,
    Prepare,
    Promise,
    Record,
)
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.hachannel.replication import normal_case, replica_state
from quorate.hachannel.transfer import learner
from quorate.hachannel.view_change import election, installation
from quorate.testing.channel.by_hand import with_disks
from quorate.testing.mutation import mutant, rewritten

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def _with_a_disk(remembered=None):
    """Replica 2 has a disk, was dropped from the view, and is connected with the master."""
    if remembered is None:
        remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.receive(0.0, 0, Heartbeat(NEW, NEW, True, True, True, True, False, 0, 9, 0, 0, 0))
    out = channel.take()
    channel.persisted(0.0, out.token)
    channel.take()
    return channel


def _said(channel, kind):
    """What a replica says at once, and what once its disk has it."""
    out = channel.take()
    at_once = [message for _, message in out.messages if isinstance(message, kind)]
    channel.persisted(0.0, out.token)
    return at_once, [message for _, message in channel.take().messages if isinstance(message, kind)]


def the_state_is_not_on_the_disk_yet():
    """The donor lets go of the log that it keeps for a learner once the learner has the state."""
    channel = _with_a_disk()
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(NEW, 9)))
    channel.take()
    channel.part_installed(0.0, 1 << 40)
    at_once, later = _said(channel, ChunkAck)
    assert not any(message.installed for message in at_once), "after a crash it would not have it"
    assert any(message.installed for message in later)


@mutant(
    "A learner says that it has the state before its disk does.",
    scenario=the_state_is_not_on_the_disk_yet,
    caught=("scenario",),
    quick=True,
)
def installed_before_durable():
    with rewritten(learner.Learner, "_answer", ("self._state.vow(", "self._state.send(")):
        yield


def entries_are_not_on_the_disk_yet():
    """The next view may count on what a learner has."""
    channel = _with_a_disk()
    channel.receive(0.0, 0, CatchUp(1 << 40, NEW, NO_TAG, (Entry(NEW, 1, 0, b"one"),), 0))
    at_once, later = _said(channel, CaughtUp)
    assert not at_once, "after a crash it would not have them"
    assert [message.index for message in later] == [1]


@mutant(
    "A learner says that it has entries before its disk does.",
    scenario=entries_are_not_on_the_disk_yet,
    caught=("scenario",),
    quick=True,
)
def caught_up_before_durable():
    with rewritten(
        learner.Learner,
        "on_catch_up",
        (
            "state.vow(voter.replica, CaughtUp(message.token, reached",
            "state.send(voter.replica, CaughtUp(message.token, reached",
        ),
    ):
        yield


def a_view_that_comes_again_before_the_disk_has_it():
    """The connection broke while the disk was busy with the acceptance."""
    channel = _with_a_disk()
    number = ViewNumber(9, 0, 1)
    view = View(number, VOTERS, VOTERS, 3, 0, 0, "")
    message = NewView(view, NO_TAG, 0, (), True)
    channel.receive(9.0, 0, message)
    channel.receive(9.0, 0, message)
    at_once, later = _said(channel, Accept)
    assert not at_once, "after a crash it would not have accepted it"
    assert later


@mutant(
    "Who is asked again to accept a view answers before its disk has it.",
    scenario=a_view_that_comes_again_before_the_disk_has_it,
    caught=("scenario",),
    quick=True,
)
def accepted_again_before_durable():
    with rewritten(
        installation.Installation,
        "on_new_view",
        ("if message.complete:\n            state.vow(", "if message.complete:\n            state.send("),
    ):
        yield


def a_voter_with_an_end_that_is_not_committed():
    """Of three entries one is known to be committed; the view it has accepted is not known to be active."""
    own = [Entry(OLD, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), False, 1, NO_TAG, 3)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered, own))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.take()
    channel.receive(5.0, 0, Prepare(NEW, "test"))
    out = channel.take()
    channel.persisted(5.0, out.token)
    (promise,) = [m for _, m in (*out.messages, *channel.take().messages) if isinstance(m, Promise)]
    assert (promise.commit, promise.last.at, promise.active) == (1, 3, False)


@mutant(
    "A voter says in its promise that all of its log is committed.",
    scenario=a_voter_with_an_end_that_is_not_committed,
    caught=("scenario",),
    quick=True,
)
def promise_commit_is_last():
    with rewritten(election.Election, "_promise", ("state.commit,", "state.log.last.at,")):
        yield


@mutant(
    "A voter says in its promise that the view it has accepted was active, whether it knows or not.",
    scenario=a_voter_with_an_end_that_is_not_committed,
    caught=("scenario", "I12"),
    quick=True,
)
def promise_says_active():
    with rewritten(election.Election, "_promise", ("state.known_active,", "True,")):
        yield


def a_learner_that_comes_back_after_a_transfer():
    """It has nothing but the state: who had submitted how much came with that."""
    rows = (Source(0, 1, 1, 7), Source(1, 2, 1, 4))
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), True)
    channel = _with_a_disk(remembered)
    channel.receive(0.0, 0, Chunk(1 << 40, 0, b"state", False, Tag(NEW, 9), rows))
    channel.take()
    channel.part_installed(0.0, 1 << 40)
    records = channel.take().persist
    assert any(isinstance(record, Reset) for record in records)
    for record in records:
        remembered.apply(record)
    again = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered))
    assert again.state.origins.rows == rows, "as master it would take again what was submitted before"
    assert (again.commit, again.applied, again.state.log.base) == (9, 9, Tag(NEW, 9))


@mutant(
    "A disk forgets who had submitted how much when a state came.",
    scenario=a_learner_that_comes_back_after_a_transfer,
    caught=("scenario",),
    quick=True,
)
def origins_of_a_state_not_remembered():
    with rewritten(
        Remembered,
        "apply",
        (
            "self.last = self.commit = record.base.at\n            self.origins = record.origins",
            "self.last = self.commit = record.base.at",
        ),
    ):
        yield


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


def granted_before_a_record_is_durable():
    """How long its grants last is on its disk since long; the view that it has just recorded is not."""
    voters = tuple(Voter(replica, replica + 7) for replica in range(4))
    old = View(ViewNumber(3, 0, 7), voters, voters, 4, 0)
    new = View(ViewNumber(4, 1, 8), voters, voters[1:3], 2, 0)
    settings = Settings()
    log = DurableLog(Remembered(old.number, old, True, lease_s=settings.lease_s))
    channel = Channel(3, range(4), incarnation=10, cluster="c", expected=4, log=log, settings=settings)
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    channel.take()
    channel.receive(5.0, 1, Record(new))
    beat = Heartbeat(new.number, new.number, True, True, True, True, False, 0, 0, 0, 0, 0, 5.0)
    channel.receive(5.0, 1, beat)
    out = channel.take()
    said = [message for _, message in out.messages if isinstance(message, Grant)]
    assert not said, "after a crash now it would promise a view to whom it followed before"
    channel.persisted(5.0, out.token)
    assert [peer for peer, message in channel.take().messages if isinstance(message, Grant)] == [1]


@mutant(
    "A voter that has granted before grants before its disk has the view that it recorded.",
    scenario=granted_before_a_record_is_durable,
    caught=("scenario",),
    quick=True,
)
def accepted_binds_not():
    with rewritten(
        replica_state.ReplicaState, "record", ("Promised | Accepted | Leased", "Promised | Leased")
    ):
        yield


def a_master_again_with_a_shorter_log_than_its_disk_had():
    """As master before it had synced entries that the view in between has dropped. The disk is slow now."""
    hand = with_disks()
    for payload in (b"one", b"two", b"three"):
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))
    hand.sync(0)
    for other in (1, 2):
        hand.lose(0, other)
    hand.now += 10.0
    between = View(ViewNumber(5, 1, 2), VOTERS, (VOTERS[1], VOTERS[0], VOTERS[2]), 3, 0)
    hand.give(1, 0, NewView(between, NO_TAG, 0, (), True))
    assert hand.channels[0].last == 0
    hand.sync(0)
    hand.act(0, lambda channel: channel._election.propose(hand.now, "test", (VOTERS[1],)))
    for _ in range(20):
        hand.sync()
        hand.settle(0, 2)
        hand.tick(0.1, 0, 2)
    assert hand.channels[0].role == "master"
    assert hand.channels[0].members == (0, 2)
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"new"))
    hand.settle(0, 2)
    hand.sync(2)
    hand.settle(0, 2)
    assert hand.payloads(0) == [], "its own disk does not have it yet"
    hand.sync(0)
    assert hand.payloads(0) == [b"new"]


@mutant(
    "Who is master again takes it that its disk has what it had in an earlier reign.",
    scenario=a_master_again_with_a_shorter_log_than_its_disk_had,
    caught=("scenario",),
    quick=True,
)
def synced_from_before():
    with rewritten(
        normal_case.Replication,
        "begin",
        ("self._synced = view.start", "self._synced = max(self._synced, view.start)"),
    ):
        yield


def a_proposer_whose_disk_does_not_have_its_view():
    """All others have accepted it on theirs. A crash now, and one member of an active view has not."""
    hand = with_disks()
    hand.act(0, lambda channel: channel._election.propose(hand.now, "test"))
    hand.sync(0)
    hand.settle()
    hand.sync(1, 2)
    while hand.channels[0].installing is None:
        hand.deliver(1, 0)
        hand.deliver(2, 0)
    for other in (1, 2):
        hand.deliver(0, other)
        hand.sync(other)
        hand.deliver(other, 0)
    assert hand.channels[0].role == "changing", "the view is active without its master's disk"
    hand.sync(0)
    assert hand.channels[0].role == "master"


@mutant(
    "A proposer counts its own acceptance before its disk has it.",
    scenario=a_proposer_whose_disk_does_not_have_its_view,
    caught=("scenario",),
    quick=True,
)
def own_accept_unsynced():
    with rewritten(
        installation.Installation,
        "_accept_own",
        ("self._state.vow(self._state.me.replica, Accept(", "self._state.loopback(Accept("),
    ):
        yield
