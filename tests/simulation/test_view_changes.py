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
    cluster = ManualCluster(4)
    cluster.form()
    cluster.silence(3)
    while not cluster.waiting(0, 2, Prepare):
        cluster.tick(0.05, 0)
    for other in answered:
        cluster.deliver(0, other)
        cluster.deliver(other, 0)
    assert cluster.channels[0].installing is None
    return cluster


OLD, NEW = ViewNumber(3, 2, 3), ViewNumber(7, 0, 1)


def proposes(cluster, attempt):
    """Let the master propose a view, and return its number; nobody has received the proposal."""
    for other in (1, 2):
        cluster.lose(0, other)
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, f"attempt {attempt}"))
    return cluster.channels[0].state.promised


def part(counter, view, offset, *payloads, complete=False):
    number = ViewNumber(counter, 0, 1)
    entries = [Entry(number, 1 + offset + position, 0, each) for position, each in enumerate(payloads)]
    again = View(number, view.config, view.members, view.k, 2, 0, "", view.seats)
    return NewView(again, NO_TAG, offset, tuple(entries), complete)


RESTARTED = (Voter(0, 7), Voter(1, 8), Voter(2, 9))


RESTARTED_VIEW = View(ViewNumber(3, 0, 7), RESTARTED, RESTARTED, 3, 0)


def test_a_lagging_slave_gets_what_it_lacks_with_the_next_view():
    """Two of three replicas commit the entries, and then the master dies."""
    cluster = ScriptedCluster(3, settings=Settings(mode="MAJORITY"))
    cluster.form()
    cluster.cut((0, 2))
    taken = cluster.submit(cluster.hosts[0], 3)
    cluster.until(lambda: cluster.deliveries[1] == taken)
    assert cluster.hosts[2].channel.last < len(taken)
    cluster.hosts[0].crash()
    cluster.mend()
    cluster.whole(but=[0])
    assert cluster.deliveries[2] == taken
    cluster.hosts[0].start()
    cluster.whole()


def test_a_proposer_drops_its_uncommitted_end_that_a_later_view_lacks():
    """The log of the later view ends exactly where the proposer knows that all is committed."""
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"dropped by the view after this one"))
    cluster.deliver(0, 1)
    cluster.silence(0)
    cluster.deliver(2, 1)
    source = View(ViewNumber(4, 2, 3), VOTERS, (VOTERS[1], VOTERS[2]), 2, 0)
    proposed = cluster.channels[1].state.promised
    assert (cluster.channels[1].last, cluster.channels[1].commit) == (1, 0)
    cluster.lose(1, 2)
    cluster.inject(2, 1, Promise(proposed, source, False, Tag(ViewNumber(0, -1, 0), 0), 0, False))
    for message in cluster.lose(1, 2):
        if not isinstance(message, NewView):
            cluster.inject(1, 2, message)
    installing = cluster.channels[1].installing
    assert installing is not None
    assert installing.view.start == 0


def test_a_member_of_an_older_view_is_sent_all_entries_that_may_differ():
    """It has entries of that older view, which the adopted log may not have."""
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"of the first view"))
    cluster.deliver(0, 1)
    cluster.deliver(0, 2)
    cluster.silence(0)
    cluster.deliver(2, 1)
    proposed = cluster.channels[1].state.promised
    cluster.lose(1, 2)
    older = View(ViewNumber(0, 2, 3), VOTERS, VOTERS, 3, 0)
    cluster.inject(2, 1, Promise(proposed, older, True, Tag(older.number, 1), 0, False))
    [message] = cluster.waiting(1, 2, NewView)
    assert (message.base.at, len(message.entries)) == (0, 1)


def test_a_voter_that_ended_after_its_promise_is_no_member_of_the_view():
    cluster = asked(1)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 1, ended=True))
    cluster.deliver(0, 2)
    cluster.deliver(2, 0)
    assert cluster.channels[0].installing is not None
    assert cluster.channels[0].installing.view.replicas() == (0, 2)


def test_a_proposer_that_paused_installs_no_view_with_old_promises():
    """The voters that promised may be gone, and the proposer would hear of that after their promises."""
    cluster = asked(1)
    cluster.deliver(0, 2)
    cluster.now += 60.0
    cluster.deliver(2, 0)
    assert cluster.channels[0].installing is None
    assert cluster.channels[0].view.replicas() == (0, 1, 2, 3)


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
    cluster = with_disks()
    for payload in (b"one", b"two", b"three"):
        cluster.act(0, lambda channel, payload=payload: channel.submit(cluster.now, 0, payload))
    cluster.sync(0)
    for other in (1, 2):
        cluster.lose(0, other)
    cluster.now += 10.0
    between = View(ViewNumber(5, 1, 2), VOTERS, (VOTERS[1], VOTERS[0], VOTERS[2]), 3, 0)
    cluster.inject(1, 0, NewView(between, NO_TAG, 0, (), True))
    assert cluster.channels[0].last == 0
    cluster.sync(0)
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test", (VOTERS[1],)))
    for _ in range(20):
        cluster.sync()
        cluster.settle(0, 2)
        cluster.tick(0.1, 0, 2)
    assert cluster.channels[0].role == "master"
    assert cluster.channels[0].members == (0, 2)
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"new"))
    cluster.settle(0, 2)
    cluster.sync(2)
    cluster.settle(0, 2)
    assert cluster.payloads(0) == []
    cluster.sync(0)
    assert cluster.payloads(0) == [b"new"]


def test_a_view_waits_for_the_disk_of_its_proposer_to_become_active():
    """All other members have accepted it durably. After a crash of the proposer one member would not have."""
    cluster = with_disks()
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test"))
    cluster.sync(0)
    cluster.settle()
    cluster.sync(1, 2)
    while cluster.channels[0].installing is None:
        cluster.deliver(1, 0)
        cluster.deliver(2, 0)
    for other in (1, 2):
        cluster.deliver(0, other)
        cluster.sync(other)
        cluster.deliver(other, 0)
    assert cluster.channels[0].role == "changing"
    cluster.sync(0)
    assert cluster.channels[0].role == "master"


def test_a_record_of_an_earlier_attempt_does_not_activate_the_view():
    """The view of the master alone needs another voter that records it.

    One has recorded the first attempt.
    """
    cluster = ManualCluster()
    view = cluster.form().view
    assert view is not None
    for attempt in (1, 2):
        for other in (1, 2):
            cluster.lose(0, other)
            cluster.lose(other, 0)
        cluster.act(
            0,
            lambda channel, attempt=attempt: channel._election.propose(
                cluster.now, f"{attempt}", view.members[1:]
            ),
        )
        number = cluster.channels[0].state.promised
        for other in (1, 2):
            cluster.deliver(0, other, 1)
            cluster.deliver(other, 0)
            cluster.lose(0, other)
        if attempt == 1:
            first = number
    assert cluster.channels[0].installing is not None
    assert cluster.channels[0].installing.view.replicas() == (0,)
    cluster.inject(1, 0, Recorded(first))
    assert cluster.channels[0].role != "master"


def test_an_accept_of_an_earlier_attempt_does_not_activate_the_view():
    """The members have the log of the first attempt. The second one may adopt another log."""
    cluster = ManualCluster()
    cluster.form()
    first = proposes(cluster, 1)
    for other in (1, 2):
        cluster.deliver(0, other)
        cluster.deliver(other, 0)
    proposes(cluster, 2)
    for other in (1, 2):
        cluster.deliver(0, other)
        cluster.deliver(other, 0)
    assert cluster.channels[0].installing is not None
    for other in (1, 2):
        cluster.inject(other, 0, Accept(first))
    assert cluster.channels[0].role != "master"


def test_a_promise_of_an_earlier_attempt_does_not_count():
    cluster = ManualCluster()
    cluster.form()
    proposes(cluster, 1)
    for other in (1, 2):
        cluster.deliver(0, other)
    proposes(cluster, 2)
    for other in (1, 2):
        assert cluster.waiting(other, 0, Promise)
        cluster.deliver(other, 0)
    assert cluster.channels[0].installing is None


def test_a_proposer_that_records_a_higher_view_abandons_its_own():
    """The others have gone on to the higher view, of which the proposer hears by its Record only."""
    cluster = ManualCluster()
    cluster.form()
    view = cluster.channels[1].view
    assert view is not None
    for voter in (1, 2):
        cluster.act(voter, lambda channel: channel.lease.release(Voter(0, 1)))
    cluster.act(1, lambda channel: channel._election.propose(cluster.now, "test"))
    cluster.deliver(1, 2)
    cluster.deliver(2, 1)
    assert cluster.channels[1].proposing
    higher = ViewNumber(cluster.channels[1].state.promised.counter + 1, 2, 3)
    cluster.inject(2, 1, Record(View(higher, view.config, (Voter(2, 3),), 1, 0, 0, "", view.seats)))
    assert cluster.channels[1].state.promised == higher
    cluster.tick(1.5, 1)
    assert not cluster.channels[1].proposing


def test_parts_of_the_logs_of_two_views_are_not_joined():
    """The first part of the log of the second view is lost."""
    cluster = ManualCluster()
    view = cluster.form().view
    assert view is not None
    cluster.inject(0, 1, part(20, view, 0, b"one"))
    cluster.inject(0, 1, part(21, view, 1, b"two", complete=True))
    assert not cluster.waiting(1, 0, Accept)
    cluster.inject(0, 1, part(21, view, 0, b"first"))
    cluster.inject(0, 1, part(21, view, 1, b"two", complete=True))
    assert cluster.waiting(1, 0, Accept)


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
    cluster = ManualCluster(settings=Settings(view_change_s=0.5))
    cluster.form()
    cluster.silence(0)
    cluster.deliver(1, 2)
    yielded = 0
    for _ in range(200):
        for message in cluster.lose(2, 1):
            yielded += isinstance(message, Yield)
            if isinstance(message, Prepare | NewView | Record | Activate | Heartbeat):
                cluster.inject(2, 1, message)
        cluster.deliver(1, 2)
        cluster.tick(0.05, 2)
        for here, there in ((1, 2), (2, 1)):
            cluster.act(here, lambda channel, there=there: channel.partial_received(cluster.now, there))
    assert yielded > 0
    assert cluster.channels[2].role == "master", f"after {yielded} times it still waits for the first member"


def test_a_replica_that_was_yielded_to_does_not_yield_back():
    """The first member yields because of a removal that the other replica does not know of."""
    cluster = ManualCluster()
    cluster.form()
    cluster.silence(0)
    number = ViewNumber(5, 1, 2)
    cluster.inject(1, 2, Prepare(number, "test"))
    cluster.inject(1, 2, Yield(number, "test"))
    cluster.settle()
    assert cluster.channels[2].role == "master"
