"""Mutants that take messages of another attempt, transfer or reign for those of the present one."""

from contextlib import contextmanager

from quorate.hachannel import Channel, Deliver, InstallPart, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import (
    Accept,
    Ack,
    CatchUp,
    Chunk,
    Data,
    Entry,
    Grant,
    Heartbeat,
    NewView,
    Prepare,
    Promise,
    Record,
)
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.hachannel.replication import lease, normal_case, peers, replica_state
from quorate.hachannel.transfer import learner
from quorate.hachannel.view_change import attempts, election, installation
from quorate.testing.channel.by_hand import Hand, with_disks
from quorate.testing.mutation import mutant, patched, rewritten


def _proposes(hand, attempt):
    """The master begins a view change; nothing of it has arrived anywhere."""
    for other in (1, 2):
        hand.lose(0, other)
    hand.act(0, lambda channel: channel._election.propose(hand.now, f"attempt {attempt}"))
    return hand.channels[0].state.promised


def accepted_in_an_earlier_attempt():
    """Members have the log of the first attempt, which came to nothing. The second one may have another."""
    hand = Hand()
    hand.form()
    first = _proposes(hand, 1)
    for other in (1, 2):
        hand.deliver(0, other)
        hand.deliver(other, 0)
    _proposes(hand, 2)
    for other in (1, 2):
        hand.deliver(0, other)
        hand.deliver(other, 0)
    assert hand.channels[0].installing is not None
    for other in (1, 2):
        hand.give(other, 0, Accept(first))
    assert hand.channels[0].role != "master", "the view is active, and no member has its log"


@mutant(
    "A member that accepted an earlier attempt counts as if it had accepted this one.",
    scenario=accepted_in_an_earlier_attempt,
    caught=("scenario",),
    quick=True,
)
def earlier_accept_counted():
    original = installation.Installation.on_accept

    def on_accept(self, now, voter, message):
        if self.current is not None:
            message = Accept(self.current.view.number)
        original(self, now, voter, message)

    with patched(installation.Installation, "on_accept", on_accept):
        yield


def promised_in_an_earlier_attempt():
    """Promises of the first attempt arrive late; nobody has promised the second one."""
    hand = Hand()
    hand.form()
    _proposes(hand, 1)
    for other in (1, 2):
        hand.deliver(0, other)
    _proposes(hand, 2)
    for other in (1, 2):
        assert hand.waiting(other, 0, Promise)
        hand.deliver(other, 0)
    assert hand.channels[0].installing is None, "nobody has promised this view"


@mutant(
    "A promise of an earlier attempt counts for this one.",
    scenario=promised_in_an_earlier_attempt,
    caught=("scenario",),
    quick=True,
)
def earlier_promise_counted():
    original = election.Election.on_promise

    def on_promise(self, now, voter, message):
        attempt = self._attempt
        if isinstance(attempt, attempts.Preparing):
            attempt.promises[voter] = message
            self._evaluate(now, attempt)
        else:
            original(self, now, voter, message)

    with patched(election.Election, "on_promise", on_promise):
        yield


def recorded_while_it_proposes():
    """The others have gone on to a higher view, of which it hears when it is recorded."""
    hand = Hand()
    hand.form()
    view = hand.channels[1].view
    assert view is not None
    for voter in (1, 2):
        hand.act(voter, lambda channel: channel.lease.release(Voter(0, 1)))
    hand.act(1, lambda channel: channel._election.propose(hand.now, "test"))
    hand.deliver(1, 2)
    hand.deliver(2, 1)
    assert hand.channels[1].proposing
    higher = ViewNumber(hand.channels[1].state.promised.counter + 1, 2, 3)
    hand.give(2, 1, Record(View(higher, view.config, (Voter(2, 3),), 1, 0, 0, "", view.seats)))
    assert hand.channels[1].state.promised == higher
    hand.tick(1.5, 1)
    assert not hand.channels[1].proposing, "it goes on with a view below one that it has recorded"


@mutant(
    "A proposer that records a higher view goes on with its own.",
    scenario=recorded_while_it_proposes,
    caught=("scenario", "I3"),
    quick=True,
)
def proposal_survives_a_record():
    original = installation.Installation.on_record

    def on_record(self, now, voter, message):
        abandon, self._abandon = self._abandon, lambda _: None
        original(self, now, voter, message)
        self._abandon = abandon

    with patched(installation.Installation, "on_record", on_record):
        yield


def _part(counter, view, offset, *payloads, complete=False):
    number = ViewNumber(counter, 0, 1)
    entries = [Entry(number, 1 + offset + position, 0, each) for position, each in enumerate(payloads)]
    again = View(number, view.config, view.members, view.k, 2, 0, "", view.seats)
    return NewView(again, NO_TAG, offset, tuple(entries), complete)


def parts_of_two_views():
    """The first part of the second view is lost."""
    hand = Hand()
    view = hand.form().view
    assert view is not None
    hand.give(0, 1, _part(20, view, 0, b"one"))
    hand.give(0, 1, _part(21, view, 1, b"two", complete=True))
    assert not hand.waiting(1, 0, Accept), "it accepts a view whose first entry it does not have"
    hand.give(0, 1, _part(21, view, 0, b"first"))
    hand.give(0, 1, _part(21, view, 1, b"two", complete=True))
    assert hand.waiting(1, 0, Accept)


@mutant(
    "Parts of the logs of two views are put together.",
    scenario=parts_of_two_views,
    caught=("scenario",),
    quick=True,
)
def parts_of_two_views_joined():
    original = installation.Installation._stage

    def stage(self, message):
        if self._staged is not None:
            self._staged.number = message.view.number
        return original(self, message)

    with patched(installation.Installation, "_stage", stage):
        yield


def entries_after_others_than_it_has():
    """A learner has a log of its own beyond what is committed; what would replace it is lost."""
    old, new = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)
    voters = (Voter(0, 1), Voter(1, 2), Voter(2, 3))
    own = [Entry(old, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    log = DurableLog(Remembered(old, View(old, voters, voters, 3, 0), True, 1, NO_TAG, 3), own)
    hand = Hand()
    hand.form()
    hand.start(2, 3, 3, log)
    hand.connect(0, 2)
    channel = hand.channels[2]
    channel.state.supersede(new)
    hand.give(0, 2, CatchUp(1 << 40, new, Tag(new, 3), (Entry(new, 4, 0, b"four"),), 4))
    delivered = [event.payload for event in hand.events[2] if isinstance(event, Deliver)]
    assert delivered == [], f"it delivers {delivered}, which are not committed"


@mutant(
    "A learner appends entries after others than those they follow.",
    scenario=entries_after_others_than_it_has,
    caught=("scenario",),
    quick=True,
)
def entries_after_others():
    original = learner.Learner.on_catch_up

    def on_catch_up(self, voter, message):
        log = self._state.log
        at = message.base.at
        if log.base.at <= at <= log.last.at:
            message = CatchUp(message.token, message.view, log.tag(at), message.entries, message.commit)
        original(self, voter, message)

    with patched(learner.Learner, "on_catch_up", on_catch_up):
        yield


def another_transfer_while_a_state_is_installed():
    """The application replaces its state by that of the first transfer: that must be noted."""
    hand = Hand()
    hand.form()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    end = Tag(ViewNumber(3, 0, 1), 40)
    hand.give(0, 2, Chunk(5, 0, b"state", False, end))
    assert [event.index for event in hand.events[2] if isinstance(event, InstallPart)] == [40]
    hand.give(0, 2, Chunk(6, 0, b"another", False, Tag(ViewNumber(3, 0, 1), 50)))
    hand.act(2, lambda channel: channel.part_installed(hand.now, 5))
    assert hand.channels[2].applied == 40, "the application has a state that the channel does not know of"


@mutant(
    "Another transfer begins while the application installs the state of the first one.",
    scenario=another_transfer_while_a_state_is_installed,
    caught=("scenario",),
    quick=True,
)
def transfer_begins_while_installing():
    with patched(learner.Learner, "installing", False):
        yield


def grants_to_a_reign_that_was_given_up():
    """It had too few grants for the lease when it gave up; those who gave them are released."""
    hand = Hand(5)
    hand.form()
    hand.tick(0.05)
    hand.settle()
    held = hand.channels[0].lease
    voter = Voter(1, 2)
    hand.now = held.grants[voter] + 0.1
    hand.channels[0].state.now = hand.now
    held.grants = {voter: hand.now + 0.5}
    held.review(hand.now)
    assert not held.held
    held.give_up(hand.now)
    held.reign(hand.now + 0.01, master=True)
    assert not held.grants, "it counts a grant that it has released"


@mutant(
    "Grants of an earlier reign count in the next one.",
    scenario=grants_to_a_reign_that_was_given_up,
    caught=("scenario",),
    quick=True,
)
def grants_of_an_earlier_reign():
    original = lease.Lease.reign

    def reign(self, now, master):
        before = dict(self.grants)
        original(self, now, master)
        self.grants.update(before)

    with patched(lease.Lease, "reign", reign):
        yield


def _granted_on_a_slow_disk(now):
    """A voter that is no member records a view; its master asks for a grant before the disk has it."""
    voters = tuple(Voter(replica, replica + 7) for replica in range(4))
    old = View(ViewNumber(3, 0, 7), voters, voters, 4, 0)
    new = View(ViewNumber(4, 1, 8), voters, voters[1:3], 2, 0)
    log = DurableLog(Remembered(old.number, old, True))
    channel = Channel(3, range(4), incarnation=10, cluster="c", expected=4, log=log)
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    channel.take()
    channel.receive(now, 1, Record(new))
    beat = Heartbeat(new.number, new.number, True, True, True, True, False, 0, 0, 0, 0, 0, now)
    channel.receive(now, 1, beat)
    out = channel.take()
    said = [message for _, message in out.messages if isinstance(message, Grant)]
    assert not said, "a crash now would take back the promise that the grant stands on"
    return channel, out.token


def _granted(channel):
    return [peer for peer, message in channel.take().messages if isinstance(message, Grant)]


def granted_before_the_view_is_durable():
    """It comes once that is."""
    channel, token = _granted_on_a_slow_disk(5.0)
    channel.persisted(5.0, token)
    assert _granted(channel) == [1]


def granted_and_run_out_before_it_is_durable():
    """The voter promises a view of another proposer before the disk has the view of the first."""
    channel, token = _granted_on_a_slow_disk(5.0)
    channel.connected(9.0, 2, 9)
    channel.receive(9.0, 2, Prepare(ViewNumber(5, 2, 9), "test"))
    assert channel.state.promised.replica == 2
    channel.persisted(9.5, token)
    assert _granted(channel) == []


@mutant(
    "A voter grants before its disk has what it promised.",
    scenario=granted_before_the_view_is_durable,
    caught=("scenario",),
    quick=True,
)
def granted_before_durable():
    original = lease.Lease.on_mark

    def on_mark(self, now, voter, mark):
        with patched(type(self._state), "vow", type(self._state).send):
            original(self, now, voter, mark)

    with patched(lease.Lease, "on_mark", on_mark):
        yield


@mutant(
    "A grant that waited for the disk is given although another view has been promised meanwhile.",
    scenario=granted_and_run_out_before_it_is_durable,
    caught=("scenario",),
    quick=True,
)
def granted_after_a_promise():
    with rewritten(replica_state.ReplicaState, "_take_back", ("held[1] == number.replica", "True")):
        yield


def a_connection_breaks_with_one_that_had_ended_before():
    """Another life of it takes part now; what is known of the end of the first says nothing of it."""
    hand = Hand()
    hand.form()
    hand.silence(2)
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.connect(1, 2)
    for _ in range(200):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[0].members == (0, 1, 2)
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    assert not hand.channels[0].proposing, "a moment without a connection is taken for the end of its process"
    assert not hand.channels[0].state.peers.ended(Voter(2, 9))


@mutant(
    "What is known of the end of one life of a replica is taken for known of the next.",
    scenario=a_connection_breaks_with_one_that_had_ended_before,
    caught=("scenario",),
    quick=True,
)
def ended_is_not_forgotten():
    with rewritten(peers.Link, "forget", ("self.ended = False", "pass")):
        yield


def _was_master():
    """Replica 0: it has learned that others have gone on, and has taken their state."""
    hand = Hand()
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"old"))
    for other in (1, 2):
        hand.deliver(0, other)
    number = ViewNumber(hand.channels[2].state.promised.counter + 4, 2, 3)
    hand.give(2, 0, Heartbeat(number, number, True, True, True, True, False, 60, 60, 60, 0, 0))
    assert not hand.channels[0].state.member
    hand.give(2, 0, Chunk(1 << 40, 0, b"state", False, Tag(number, 50)))
    hand.act(0, lambda channel: channel.part_installed(hand.now, 1 << 40))
    assert hand.channels[0].applied == 50
    return hand


@contextmanager
def _nothing_raised():
    try:
        yield
    except LookupError as error:
        raise AssertionError("it looks for entries that are gone") from error


def a_slave_of_before_connects_with_who_was_master():
    """What it had been sent is not there any more."""
    hand = _was_master()
    with _nothing_raised():
        hand.connect(0, 1)
    assert not hand.waiting(0, 1, Data)


@mutant(
    "Who was master sends slaves of before what they lack.",
    scenario=a_slave_of_before_connects_with_who_was_master,
    caught=("scenario",),
    quick=True,
)
def slaves_of_before_are_sent_entries():
    with rewritten(
        normal_case.Replication, "resume", ("slave is not None and self._state.leading", "slave is not None")
    ):
        yield


def an_acknowledgement_for_who_was_master():
    """It comes late, and is of entries that are not there any more."""
    hand = _was_master()
    for other in (1, 2):
        assert hand.waiting(other, 0, Ack)
        with _nothing_raised():
            hand.deliver(other, 0)
    assert hand.channels[0].applied == 50


@mutant(
    "Who was master takes acknowledgements of its last view.",
    scenario=an_acknowledgement_for_who_was_master,
    caught=("scenario",),
    quick=True,
)
def acknowledged_to_who_was_master():
    with rewritten(
        normal_case.Replication, "on_ack", ("not state.leading or state.accepted", "state.accepted")
    ):
        yield


def a_view_is_active_without_a_slave_whose_disk_is_slow():
    """What it was about to acknowledge is cut from its log by what it learns next."""
    hand = with_disks()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    hand.deliver(0, 2)
    hand.channels[2].state.supersede(ViewNumber(9, 1, 2))
    hand.sync(2)
    assert not hand.waiting(2, 0, Ack), "it says that it has what it may not have any more"


@mutant(
    "A slave acknowledges entries of a view after it has heard that a later one is active without it.",
    scenario=a_view_is_active_without_a_slave_whose_disk_is_slow,
    caught=("scenario",),
    quick=True,
)
def acknowledged_when_superseded():
    with rewritten(replica_state.ReplicaState, "supersede", ("not isinstance(held[2], Ack)", "True")):
        yield


def an_acknowledgement_of_the_view_before():
    """The same master goes on in the next view, and what it acknowledges may be other entries."""
    hand = Hand(settings=Settings(mode="MAJORITY"))
    master = hand.form()
    before = master.view.number
    hand.act(0, lambda channel: channel._election.propose(hand.now, "test"))
    hand.settle()
    assert master.role == "master"
    assert master.view.number > before
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
    for other in (1, 2):
        hand.lose(0, other)
        hand.give(other, 0, Ack(before, master.last))
    assert master.applied < master.last, "nobody else has it"


@mutant(
    "The master takes acknowledgements of the view before for those of its present one.",
    scenario=an_acknowledgement_of_the_view_before,
    caught=("scenario", "I13"),
    quick=True,
)
def acknowledged_in_another_view():
    with rewritten(normal_case.Replication, "on_ack", (" or message.view != state.accepted.number", "")):
        yield
