"""View changes: promises, acceptances and records, which log is adopted, and what must be durable."""

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import (
    Accept,
    Activate,
    Entry,
    Heartbeat,
    NewView,
    Prepare,
    Promise,
    Record,
    Recorded,
    Yield,
)
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.testing.channel.manual_cluster import ManualCluster, with_disks
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))


def asked(*answered):
    """Return a cluster without replica 3 of four, in which some voters have promised replica 0 a view."""
    hand = ManualCluster(4)
    hand.form()
    hand.silence(3)
    while not hand.waiting(0, 2, Prepare):
        hand.tick(0.05, 0)
    for other in answered:
        hand.deliver(0, other)
        hand.deliver(other, 0)
    assert hand.channels[0].installing is None
    return hand


OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def proposes(hand, attempt):
    """Let the master propose a view, and return its number; nobody has received the proposal."""
    for other in (1, 2):
        hand.lose(0, other)
    hand.act(0, lambda channel: channel._election.propose(hand.now, f"attempt {attempt}"))
    return hand.channels[0].state.promised


def part(counter, view, offset, *payloads, complete=False):
    number = ViewNumber(counter, 0, 1)
    entries = [Entry(number, 1 + offset + position, 0, each) for position, each in enumerate(payloads)]
    again = View(number, view.config, view.members, view.k, 2, 0, "", view.seats)
    return NewView(again, NO_TAG, offset, tuple(entries), complete)


RESTARTED = (Voter(0, 7), Voter(1, 8), Voter(2, 9))


RESTARTED_VIEW = View(ViewNumber(3, 0, 7), RESTARTED, RESTARTED, 3, 0)


def test_a_lagging_slave_gets_what_it_lacks_with_the_next_view():
    """Two of three replicas commit the entries, and then the master dies."""
    script = ScriptedCluster(3, settings=Settings(mode="MAJORITY"))
    script.form()
    script.cut((0, 2))
    taken = script.submit(script.hosts[0], 3)
    script.until(lambda: script.deliveries[1] == taken)
    assert script.hosts[2].channel.last < len(taken)
    script.hosts[0].crash()
    script.mend()
    script.whole(but=[0])
    assert script.deliveries[2] == taken
    script.hosts[0].start()
    script.whole()


def test_a_proposer_drops_its_uncommitted_end_that_a_later_view_lacks():
    """The log of the later view ends exactly where the proposer knows that all is committed."""
    hand = ManualCluster()
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"dropped by the view after this one"))
    hand.deliver(0, 1)
    hand.silence(0)
    hand.deliver(2, 1)
    source = View(ViewNumber(4, 2, 3), VOTERS, (VOTERS[1], VOTERS[2]), 2, 0)
    proposed = hand.channels[1].state.promised
    assert (hand.channels[1].last, hand.channels[1].commit) == (1, 0)
    hand.lose(1, 2)
    hand.inject(2, 1, Promise(proposed, source, False, Tag(ViewNumber(0, -1, 0), 0), 0, False))
    for message in hand.lose(1, 2):
        if not isinstance(message, NewView):
            hand.inject(1, 2, message)
    installing = hand.channels[1].installing
    assert installing is not None
    assert installing.view.start == 0


def test_a_member_of_an_older_view_is_sent_all_entries_that_may_differ():
    """It has entries of that older view, which the adopted log may not have."""
    hand = ManualCluster()
    hand.form()
    hand.act(0, lambda channel: channel.submit(hand.now, 0, b"of the first view"))
    hand.deliver(0, 1)
    hand.deliver(0, 2)
    hand.silence(0)
    hand.deliver(2, 1)
    proposed = hand.channels[1].state.promised
    hand.lose(1, 2)
    older = View(ViewNumber(0, 2, 3), VOTERS, VOTERS, 3, 0)
    hand.inject(2, 1, Promise(proposed, older, True, Tag(older.number, 1), 0, False))
    [message] = hand.waiting(1, 2, NewView)
    assert (message.base.at, len(message.entries)) == (0, 1)


def test_a_voter_that_ended_after_its_promise_is_no_member_of_the_view():
    hand = asked(1)
    hand.act(0, lambda channel: channel.disconnected(hand.now, 1, ended=True))
    hand.deliver(0, 2)
    hand.deliver(2, 0)
    assert hand.channels[0].installing is not None
    assert hand.channels[0].installing.view.replicas() == (0, 2)


def test_a_proposer_that_paused_installs_no_view_with_old_promises():
    """The voters that promised may be gone, and the proposer would hear of that after their promises."""
    hand = asked(1)
    hand.deliver(0, 2)
    hand.now += 60.0
    hand.deliver(2, 0)
    assert hand.channels[0].installing is None
    assert hand.channels[0].view.replicas() == (0, 1, 2, 3)


def test_a_promise_says_what_is_committed_and_that_the_view_may_not_be_active():
    """Of three entries one is known to be committed; the accepted view is not known to be active."""
    own = [Entry(OLD, index, 0, b"own %d" % index) for index in (1, 2, 3)]
    remembered = Remembered(OLD, View(OLD, VOTERS, VOTERS, 3, 0), False, 1, NO_TAG, 3)
    channel = Channel(2, range(3), incarnation=3, cluster="c", expected=3, log=DurableLog(remembered, own))
    channel.start(0.0)
    channel.connected(0.0, 0, 1)
    channel.drain()
    channel.receive(5.0, 0, Prepare(NEW, "test"))
    out = channel.drain()
    channel.persisted(5.0, out.token)
    (promise,) = [m for _, m in (*out.messages, *channel.drain().messages) if isinstance(m, Promise)]
    assert (promise.commit, promise.last.at, promise.active) == (1, 3, False)


def test_a_master_reinstated_with_a_shorter_log_counts_only_what_is_synced_again():
    """In its earlier reign it had synced entries that the view in between dropped. Its disk is slow now."""
    hand = with_disks()
    for payload in (b"one", b"two", b"three"):
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))
    hand.sync(0)
    for other in (1, 2):
        hand.lose(0, other)
    hand.now += 10.0
    between = View(ViewNumber(5, 1, 2), VOTERS, (VOTERS[1], VOTERS[0], VOTERS[2]), 3, 0)
    hand.inject(1, 0, NewView(between, NO_TAG, 0, (), True))
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
    assert hand.payloads(0) == []
    hand.sync(0)
    assert hand.payloads(0) == [b"new"]


def test_a_view_waits_for_the_disk_of_its_proposer_to_become_active():
    """All other members have accepted it durably. After a crash of the proposer one member would not have."""
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
    assert hand.channels[0].role == "changing"
    hand.sync(0)
    assert hand.channels[0].role == "master"


def test_a_record_of_an_earlier_attempt_does_not_activate_the_view():
    """The view of the master alone needs another voter that records it.

    One has recorded the first attempt.
    """
    hand = ManualCluster()
    view = hand.form().view
    assert view is not None
    for attempt in (1, 2):
        for other in (1, 2):
            hand.lose(0, other)
            hand.lose(other, 0)
        hand.act(
            0,
            lambda channel, attempt=attempt: channel._election.propose(
                hand.now, f"{attempt}", view.members[1:]
            ),
        )
        number = hand.channels[0].state.promised
        for other in (1, 2):
            hand.deliver(0, other, 1)
            hand.deliver(other, 0)
            hand.lose(0, other)
        if attempt == 1:
            first = number
    assert hand.channels[0].installing is not None
    assert hand.channels[0].installing.view.replicas() == (0,)
    hand.inject(1, 0, Recorded(first))
    assert hand.channels[0].role != "master"


def test_an_accept_of_an_earlier_attempt_does_not_activate_the_view():
    """The members have the log of the first attempt. The second one may adopt another log."""
    hand = ManualCluster()
    hand.form()
    first = proposes(hand, 1)
    for other in (1, 2):
        hand.deliver(0, other)
        hand.deliver(other, 0)
    proposes(hand, 2)
    for other in (1, 2):
        hand.deliver(0, other)
        hand.deliver(other, 0)
    assert hand.channels[0].installing is not None
    for other in (1, 2):
        hand.inject(other, 0, Accept(first))
    assert hand.channels[0].role != "master"


def test_a_promise_of_an_earlier_attempt_does_not_count():
    hand = ManualCluster()
    hand.form()
    proposes(hand, 1)
    for other in (1, 2):
        hand.deliver(0, other)
    proposes(hand, 2)
    for other in (1, 2):
        assert hand.waiting(other, 0, Promise)
        hand.deliver(other, 0)
    assert hand.channels[0].installing is None


def test_a_proposer_that_records_a_higher_view_abandons_its_own():
    """The others have gone on to the higher view, of which the proposer hears by its Record only."""
    hand = ManualCluster()
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
    hand.inject(2, 1, Record(View(higher, view.config, (Voter(2, 3),), 1, 0, 0, "", view.seats)))
    assert hand.channels[1].state.promised == higher
    hand.tick(1.5, 1)
    assert not hand.channels[1].proposing


def test_parts_of_the_logs_of_two_views_are_not_joined():
    """The first part of the log of the second view is lost."""
    hand = ManualCluster()
    view = hand.form().view
    assert view is not None
    hand.inject(0, 1, part(20, view, 0, b"one"))
    hand.inject(0, 1, part(21, view, 1, b"two", complete=True))
    assert not hand.waiting(1, 0, Accept)
    hand.inject(0, 1, part(21, view, 0, b"first"))
    hand.inject(0, 1, part(21, view, 1, b"two", complete=True))
    assert hand.waiting(1, 0, Accept)


def test_a_restarted_master_does_not_resume_its_view():
    """It knows neither what its slaves hold nor what it has sent them."""
    channel = Channel(
        0,
        range(3),
        incarnation=7,
        cluster="c",
        expected=3,
        log=DurableLog(Remembered(RESTARTED_VIEW.number, RESTARTED_VIEW, True)),
    )
    channel.start(0.0)
    for slave in RESTARTED[1:]:
        channel.connected(0.0, slave.replica, slave.incarnation)
        number = RESTARTED_VIEW.number
        heartbeat = Heartbeat(number, number, True, True, False, True, False, 0, 1, 0, 0, 0)
        channel.receive(0.0, slave.replica, heartbeat)
    assert channel.role == "changing"


def test_a_view_recorded_without_a_promise_binds_the_voter_after_a_restart():
    """The voter is no member of that view. Nobody has said that the view is active."""
    remembered = Remembered(RESTARTED_VIEW.number, RESTARTED_VIEW, True)
    channel = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=DurableLog(remembered))
    channel.start(0.0)
    channel.connected(0.0, 1, 8)
    view = View(ViewNumber(9, 1, 8), RESTARTED, RESTARTED[1:2], 1, 0)
    channel.receive(5.0, 1, Record(view))
    for record in channel.drain().persist:
        remembered.apply(record)
    again = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=DurableLog(remembered))
    assert again.state.promised == view.number
    assert again.view == view
    assert not again.state.known_active


def test_a_proposer_stops_yielding_to_a_first_member_that_never_proposes():
    """The first member answers every proposal, and ignores every Yield."""
    hand = ManualCluster(settings=Settings(view_change_s=0.5))
    hand.form()
    hand.silence(0)
    hand.deliver(1, 2)
    yielded = 0
    for _ in range(200):
        for message in hand.lose(2, 1):
            yielded += isinstance(message, Yield)
            if isinstance(message, Prepare | NewView | Record | Activate | Heartbeat):
                hand.inject(2, 1, message)
        hand.deliver(1, 2)
        hand.tick(0.05, 2)
        for here, there in ((1, 2), (2, 1)):
            hand.act(here, lambda channel, there=there: channel.partial_received(hand.now, there))
    assert yielded > 0
    assert hand.channels[2].role == "master", f"after {yielded} times it still waits for the first member"


def test_a_replica_that_was_yielded_to_does_not_yield_back():
    """The first member yields because of a removal that the other replica does not know of."""
    hand = ManualCluster()
    hand.form()
    hand.silence(0)
    number = ViewNumber(5, 1, 2)
    hand.inject(1, 2, Prepare(number, "test"))
    hand.inject(1, 2, Yield(number, "test"))
    hand.settle()
    assert hand.channels[2].role == "master"
