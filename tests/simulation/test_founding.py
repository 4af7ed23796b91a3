"""Founding a cluster: who may found one, and what becomes of a first view that may be active."""

from quorate.hachannel import Channel, Settings, ViewEvent
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Accepted, Foreseen
from quorate.hachannel.model.messages import (
    Accept,
    Activate,
    CatchUp,
    Found,
    Founded,
    Heartbeat,
    Join,
    NewView,
    Prepare,
    Promise,
    Record,
)
from quorate.hachannel.model.view import NO_TAG, Seat, View, ViewNumber, Voter
from quorate.hachannel.view_change import choice
from quorate.hachannel.view_change.choice import Activation
from quorate.testing.channel.manual_cluster import ManualCluster, founding, half_founded, slow_proposer

FIVE = tuple(Voter(replica, replica + 1) for replica in range(5))


def first_view(*founders, counter=1, k=3, again=False):
    """A first view of some of five replicas."""
    members = tuple(FIVE[founder] for founder in founders)
    number = ViewNumber(counter, *members[0])
    return View(number, tuple(sorted(members)), members, k, 0, 3, "start-up", again=again)


def pass_time(cluster, seconds=10.0):
    for _ in range(round(10 * seconds)):
        cluster.settle()
        cluster.tick(0.1)


def empty(channel):
    """A Join of an empty replica with the same configuration as this one."""
    return Join("c", True, NO_TAG, 0, 0, b"", False, 0, channel.state.configuration.birth)


def meets(channel, *empties):
    """Connect empty replicas, and let time pass until this replica would found a cluster with them."""
    for replica in empties:
        channel.connected(100.0, replica, replica + 10)
        channel.receive(100.0, replica, empty(channel))
    for step in range(40):
        for replica in empties:
            channel.receive(100.0 + step / 10, replica, empty(channel))
        channel.tick(100.0 + step / 10)
        if channel.proposing:
            return


def heartbeat_of(number, *, active):
    """A heartbeat of a replica whose cluster exists."""
    return Heartbeat(number, number, active, True, False, True, False, 0, 0, 0, 0, 0)


def one_of_five(**options):
    channel = Channel(0, range(5), incarnation=10, cluster="c", expected=3, **options)
    channel.start(100.0)
    return channel


def told_that_its_first_view_is_active() -> Channel:
    """Return a member that hears at 105 s that its first view is active; its disk does not have that yet."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 1, "start-up")
    channel = Channel(
        0, range(3), incarnation=10, cluster="c", expected=3, log=DurableLog(Remembered(number, first))
    )
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.connected(100.0, 2, 12)
    channel.drain()
    channel.receive(105.0, 1, Found(number))
    channel.receive(105.0, 1, Activate(number))
    return channel


def submit(cluster, count):
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))


def test_a_member_asked_twice_to_found_answers_only_after_its_disk_has_written():
    """The disk of the member is slower than the retries of the proposer."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 1, "start-up")
    log = DurableLog(Remembered(number, first))
    channel = Channel(0, range(3), incarnation=10, cluster="c", expected=3, log=log)
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.drain()
    outputs = []
    for now in (100.1, 100.2):
        channel.receive(now, 1, Found(number))
        outputs.append(channel.drain())
    said = [message for output in outputs for _, message in output.messages if isinstance(message, Founded)]
    assert not said
    channel.persisted(100.3, max(output.token for output in outputs))
    assert any(isinstance(message, Founded) for _, message in channel.drain().messages)


def test_a_proposer_repeats_found_only_after_its_disk_has_noted_the_view():
    cluster = slow_proposer()
    for _ in range(3):
        cluster.tick(0.05)
    assert not cluster.waiting(0, 1, Found)
    cluster.sync(0)
    assert cluster.waiting(0, 1, Found)


def test_a_reconnected_member_gets_found_only_after_the_disk_of_the_proposer():
    cluster = slow_proposer()
    cluster.connect(0, 1)
    assert not cluster.waiting(0, 1, Found)
    cluster.sync(0)
    assert cluster.waiting(0, 1, Found)


def test_two_founders_do_not_go_on_when_the_third_founded_another_cluster():
    """Three of five replicas are enough. Replicas 0, 3 and 4 began to found a cluster.

    Replica 4 then founded one with 1 and 2, and what it says about that reaches 0 and 3 late.
    """
    cluster = ManualCluster(5, expected=3)
    half_founded(cluster, (0, 3, 4), 3)
    cluster.part((0, 3, 4), (1, 2, 4))
    for one in (0, 3):
        cluster.deliver(4, one, 1)
    while not all(cluster.channels[one].state.serving for one in (1, 2, 4)):
        cluster.settle(1, 2, 4)
        cluster.tick(0.1, 1, 2, 4)
    # Then 4 stands still, and what it has said to 0 and 3 arrives slowly. 1 and 2 go on without it, and what
    # it granted is over, before it hears of a view of 0 and 3.
    for _ in range(100):
        cluster.settle(0, 3)
        cluster.settle(1, 2)
        if cluster.waiting(0, 4, Record):
            cluster.deliver(0, 4)
            cluster.deliver(4, 0)
        for one in (0, 3):
            cluster.act(one, lambda channel: channel.partial_received(cluster.now, 4))
        cluster.tick(0.1, 0, 1, 2, 3)
    assert cluster.channels[1].members == (1, 2)
    assert not cluster.channels[0].state.serving
    assert cluster.channels[0].state.promised.replica == 3


def test_a_disk_remembers_that_the_accepted_first_view_may_be_active():
    """A later first view that the member accepts starts without that knowledge."""
    first = first_view(0, 1, 2)
    remembered = Remembered()
    for record in (Accepted(first), Foreseen(first.number)):
        remembered.apply(record)
    assert DurableLog(remembered).recovered().foreseen
    remembered.apply(Accepted(first_view(1, 0, 2, counter=2)))
    assert not DurableLog(remembered).recovered().foreseen


def test_a_replica_that_accepted_a_replacement_of_a_first_view_founds_no_cluster():
    """It is one of three replicas of five that said they were empty, and accepted the replacement then."""
    cluster = ManualCluster(5, expected=3)
    cluster.part((2, 3, 4))
    while not cluster.waiting(2, 4, Prepare):
        cluster.settle(2, 3)
        cluster.deliver(4, 2)
        cluster.tick(0.05, 2, 3, 4)
    cluster.channels[4].state.accept(first_view(0, 1, 4, counter=0, again=True))
    pass_time(cluster)
    assert not any(channel.state.serving for channel in cluster.channels.values())


def test_no_cluster_is_founded_beside_a_replica_that_knows_of_one():
    """Three of five replicas are enough to found a cluster.

    Another one has a disk that knows of a cluster.
    """
    channel = one_of_five()
    meets(channel, 1, 2)
    assert channel.proposing
    channel = one_of_five()
    channel.connected(100.0, 3, 13)
    channel.receive(100.0, 3, heartbeat_of(ViewNumber(4, 3, 13), active=False))
    meets(channel, 1, 2)
    assert not channel.proposing


def test_no_cluster_is_founded_after_an_active_view_was_heard_of():
    """The only member that was heard has lost its memory since.

    Others may have what its cluster committed.
    """
    channel = one_of_five()
    channel.connected(100.0, 3, 13)
    channel.receive(100.0, 3, heartbeat_of(ViewNumber(4, 3, 13), active=True))
    channel.disconnected(100.0, 3)
    meets(channel, 1, 2, 3)
    assert not channel.proposing


def test_a_replica_barred_from_founding_founds_no_cluster():
    """A cluster has turned its server away: see `Channel.bar_founding`."""
    channel = one_of_five()
    channel.bar_founding()
    meets(channel, 1, 2)
    assert not channel.proposing


def test_a_restarted_replica_counts_as_a_founder_only_once_it_says_that_it_is_empty():
    """Its earlier process was empty.

    It may have founded a cluster with others meanwhile, and lost its disk.
    """
    channel = one_of_five()
    channel.connected(100.0, 2, 12)
    channel.receive(100.0, 2, empty(channel))
    channel.disconnected(100.0, 2)
    channel.connected(100.0, 2, 99)
    meets(channel, 1)
    assert not channel.proposing
    for now in (105.0, 110.0):
        channel.receive(now, 2, empty(channel))
        channel.tick(now)
    assert channel.proposing


def test_a_founder_that_accepted_a_first_view_founds_no_second_cluster():
    """Replicas 0, 1 and 2 of five accepted the first view.

    Replica 0 hears only 3 and 4 now, which are empty.
    """
    channel = one_of_five(settings=Settings(mode="MAJORITY"))
    channel.connected(100.0, 1, 11)
    number = ViewNumber(1, 1, 11)
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    seats = tuple(Seat(replica) for replica in range(5))
    first = View(number, voters, (voters[1], voters[0], voters[2]), 2, 0, 3, "start-up", seats)
    channel.receive(100.0, 1, Prepare(number, "start-up"))
    channel.tick(102.0)
    channel.receive(102.0, 1, NewView(first, NO_TAG, 0, (), True))
    assert any(isinstance(message, Accept) for _, message in channel.drain().messages)
    channel.disconnected(102.0, 1)
    meets(channel, 3, 4)
    if channel.proposing:
        number = channel.state.promised
        for replica in (3, 4):
            promise = Promise(number, None, False, NO_TAG, 0, False)
            channel.receive(channel.state.now, replica, promise)
    assert channel.installing is None


def test_founded_messages_of_an_earlier_attempt_do_not_activate_the_first_view():
    cluster = founding()
    for other in (1, 2):
        cluster.inject(other, 0, Founded(ViewNumber(0, 0, 1)))
    assert cluster.views(0) == []


def test_a_founder_that_restarts_within_the_first_view_is_not_told_first_time_again():
    """Its disk says that the first view is active: its application may have been told of it already."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 2, "start-up")
    log = DurableLog(Remembered(number, first, active=True))
    channel = Channel(0, range(3), incarnation=10, cluster="c", expected=3, log=log)
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.receive(100.0, 1, heartbeat_of(number, active=True))
    output = channel.drain()
    channel.persisted(100.1, output.token)
    events = [*output.events, *channel.drain().events]
    assert [event.first_time for event in events if isinstance(event, ViewEvent)] == [False]


def test_a_member_that_promises_another_view_does_not_begin_the_first_one():
    """It makes the promise before its disk has written that the first view is active."""
    channel = told_that_its_first_view_is_active()
    channel.receive(105.0, 2, Prepare(ViewNumber(9, 2, 12), "test"))
    output = channel.drain()
    channel.persisted(105.0, output.token)
    events = [*output.events, *channel.drain().events]
    assert channel.state.promised == ViewNumber(9, 2, 12)
    assert not any(isinstance(event, ViewEvent) for event in events)


def test_a_member_that_knows_of_a_later_view_does_not_begin_the_first_one():
    """It hears of the later view before its disk has written that the first view is active."""
    later = ViewNumber(9, 2, 12)
    channel = told_that_its_first_view_is_active()
    channel.receive(105.0, 2, heartbeat_of(later, active=True))
    output = channel.drain()
    assert channel.state.newer == later
    assert channel.state.promised == ViewNumber(1, 1, 11)
    channel.persisted(105.0, output.token)
    events = [*output.events, *channel.drain().events]
    assert not any(isinstance(event, ViewEvent) for event in events)


def test_a_restarted_witness_counts_once_among_the_founders():
    """Four of five replicas found a cluster.

    Both processes of the witness have promised, and replica 2 has not.
    """
    channel = Channel(0, range(5), incarnation=10, cluster="c", expected=4, witnesses=(4,))
    channel.start(100.0)
    meets(channel, 1, 2, 4)
    assert channel.proposing
    now, number = channel.state.now, channel.state.promised
    promise = Promise(number, None, False, NO_TAG, 0, False)
    channel.disconnected(now, 2)
    channel.receive(now, 4, promise)
    channel.disconnected(now, 4)
    channel.connected(now, 4, 24)
    channel.receive(now, 4, empty(channel))
    channel.receive(now, 4, promise)
    channel.receive(now, 1, promise)
    channel.tick(now + 0.6)
    assert channel.installing is None
    channel.connected(now + 0.6, 2, 12)
    channel.receive(now + 0.6, 2, promise)
    assert channel.installing is not None
    assert channel.installing.view.config == (Voter(0, 10), Voter(1, 11), Voter(2, 12), Voter(4, 24))


def test_a_first_view_that_a_promising_member_never_accepted_was_never_active():
    """The member has accepted an earlier first view only, and has promised a later one."""
    voters = tuple(Voter(replica, replica + 1) for replica in range(3))
    first = View(ViewNumber(1, 0, 1), voters, voters, 2, 0, 1)
    second = View(ViewNumber(2, 1, 2), voters, voters, 2, 0, 1)
    asked = ViewNumber(3, 1, 2)
    promises = {
        voters[1]: Promise(asked, second, False, NO_TAG, 0, False),
        voters[2]: Promise(asked, first, False, NO_TAG, 0, False),
    }
    assert choice.activation(second, promises) is Activation.NEVER


def test_a_learner_that_has_entries_does_not_say_that_it_is_empty():
    """It knows of no view, and has no state yet."""
    cluster = ManualCluster()
    cluster.form()
    submit(cluster, 1)
    cluster.silence(2)
    cluster.settle()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.tick(0.1, 2)
    cluster.deliver(2, 0)
    entries = cluster.waiting(0, 2, CatchUp)[0]
    cluster.lose(0, 2)
    cluster.inject(0, 2, entries)
    cluster.lose(2, 0)
    cluster.tick(1.0, 2)
    joins = cluster.waiting(2, 0, Join)
    assert joins
    assert not any(join.empty for join in joins)
