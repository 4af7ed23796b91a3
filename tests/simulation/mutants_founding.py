"""Mutants of the founding of a cluster: who may found one, and what is known of a first view."""

from quorate.hachannel import Channel, Settings, ViewEvent
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import (
    Accept,
    Activate,
    Found,
    Founded,
    Heartbeat,
    Join,
    NewView,
    Prepare,
    Promise,
)
from quorate.hachannel.model.view import NO_TAG, Seat, View, ViewNumber, Voter
from quorate.hachannel.replication import peers
from quorate.hachannel.transfer import learner
from quorate.hachannel.view_change import choice, election, installation
from quorate.hachannel.view_change.choice import Activation
from quorate.testing.channel.by_hand import Hand, founding
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.random_schedules import draw


def _empty(channel):
    """What a replica says that holds nothing and is configured as this one is."""
    return Join("c", True, NO_TAG, 0, 0, b"", False, 0, channel.state.birth)


def _meets(channel, *empties):
    """Others that hold nothing connect and say so; time passes until this replica would found a cluster."""
    for replica in empties:
        channel.connected(100.0, replica, replica + 10)
        channel.receive(100.0, replica, _empty(channel))
    for step in range(40):
        for replica in empties:
            channel.receive(100.0 + step / 10, replica, _empty(channel))
        channel.tick(100.0 + step / 10)
        if channel.proposing:
            return


def _says(number, *, active):
    """A heartbeat of a replica whose cluster exists."""
    return Heartbeat(number, number, active, True, False, True, False, 0, 0, 0, 0, 0)


def _one_of_five(**options):
    channel = Channel(0, range(5), incarnation=10, cluster="c", expected=3, **options)
    channel.start(100.0)
    return channel


def a_member_of_a_cluster_waits_for_others():
    """Three of five are enough to found one. One of the others has a disk that knows of one already."""
    channel = _one_of_five()
    _meets(channel, 1, 2)
    assert channel.proposing, "three are enough"
    channel = _one_of_five()
    channel.connected(100.0, 3, 13)
    channel.receive(100.0, 3, _says(ViewNumber(4, 3, 13), active=False))
    _meets(channel, 1, 2)
    assert not channel.proposing, "it founds a second cluster"


@mutant(
    "Enough replicas that hold nothing found a cluster although another one says that there is one.",
    scenario=a_member_of_a_cluster_waits_for_others,
    caught=("scenario",),
    quick=True,
)
def founded_beside_a_cluster():
    with rewritten(
        learner.Learner, "may_boot", ("link.heartbeat is not None and link.heartbeat.founded", "False")
    ):
        yield


def a_cluster_was_heard_of_and_its_member_has_lost_its_memory():
    """There was an active view: others may have what it committed."""
    channel = _one_of_five()
    channel.connected(100.0, 3, 13)
    channel.receive(100.0, 3, _says(ViewNumber(4, 3, 13), active=True))
    channel.disconnected(100.0, 3)
    _meets(channel, 1, 2, 3)
    assert not channel.proposing, "it founds a second cluster"


@mutant(
    "A replica that has heard of an active view founds a cluster once nobody says so any more.",
    scenario=a_cluster_was_heard_of_and_its_member_has_lost_its_memory,
    caught=("scenario",),
    quick=True,
)
def founded_after_a_cluster():
    with rewritten(learner.Learner, "empty", (" and state.newer == NO_VIEW", "")):
        yield


def a_replica_of_which_a_cluster_is_known_elsewhere():
    """Its server was turned away by a cluster: see `Channel.bar_founding`."""
    channel = _one_of_five()
    channel.bar_founding()
    _meets(channel, 1, 2)
    assert not channel.proposing, "it founds a cluster of its own"


@mutant(
    "A replica that a cluster has turned away founds one.",
    scenario=a_replica_of_which_a_cluster_is_known_elsewhere,
    caught=("scenario",),
    quick=True,
)
def guest_founds():
    with rewritten(learner.Learner, "empty", ("not state.guest and", "")):
        yield


def one_that_held_nothing_is_another_one_now():
    """It may have founded a cluster meanwhile, with others, and have lost its disk since."""
    channel = _one_of_five()
    channel.connected(100.0, 2, 12)
    channel.receive(100.0, 2, _empty(channel))
    channel.disconnected(100.0, 2)
    channel.connected(100.0, 2, 99)
    _meets(channel, 1)
    assert not channel.proposing, "it founds a second cluster"
    for now in (105.0, 110.0):
        channel.receive(now, 2, _empty(channel))
        channel.tick(now)
    assert channel.proposing, "three are enough"


@mutant(
    "A replica that once held nothing is taken for one that holds nothing, whichever life of it is there.",
    scenario=one_that_held_nothing_is_another_one_now,
    caught=("scenario",),
    quick=True,
)
def earlier_life_founds():
    with rewritten(peers.Link, "forget", ("self.join = None", "pass")):
        yield


def a_first_view_that_others_may_have_made_active():
    """Of five, 1, 2 and 0 accepted it. 0 has heard nothing since, and sees 3 and 4, who hold nothing."""
    channel = _one_of_five(settings=Settings(mode="MAJORITY"))
    channel.connected(100.0, 1, 11)
    number = ViewNumber(1, 1, 11)
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    seats = tuple(Seat(replica) for replica in range(5))
    first = View(number, voters, (voters[1], voters[0], voters[2]), 2, 0, 3, "start-up", seats)
    channel.receive(100.0, 1, Prepare(number, "start-up"))
    channel.tick(102.0)
    channel.receive(102.0, 1, NewView(first, NO_TAG, 0, (), True))
    assert any(isinstance(message, Accept) for _, message in channel.take().messages)
    channel.disconnected(102.0, 1)
    _meets(channel, 3, 4)
    if channel.proposing:
        number = channel.state.promised
        for replica in (3, 4):
            promise = Promise(number, None, False, NO_TAG, 0, False)
            channel.receive(channel.state.now, replica, promise)
    assert channel.installing is None, "it founds a second cluster"


@mutant(
    "Who founds a cluster does not ask whether a first view that was accepted may be active elsewhere.",
    scenario=a_first_view_that_others_may_have_made_active,
    caught=("scenario",),
    quick=True,
)
def never_active_not_asked():
    with rewritten(election.Election, "_evaluate_boot", ("Activation.OPEN in activations.values()", "False")):
        yield


@mutant(
    "A first view can be active though one member fewer knows of it than commit an entry.",
    scenario=a_first_view_that_others_may_have_made_active,
    caught=("scenario",),
    quick=True,
)
def never_active_one_early():
    with rewritten(election, "activation", ("len(unaware) < view.k", "len(unaware) <= view.k")):
        yield


def who_proposed_the_first_view_is_gone_for_good():
    """The two others have accepted it, and cannot know of it: they found another one, with two that come."""
    hand = founding("MAJORITY", replicas=5, expected=3)
    hand.silence(0)
    hand.part((1, 2, 3, 4))
    for _ in range(100):
        hand.settle()
        hand.tick(0.1)
    assert hand.views(3), "they wait for ever"
    assert hand.views(3)[0].first_time


@mutant(
    "A first view of which too few know is taken for one that may be active.",
    scenario=who_proposed_the_first_view_is_gone_for_good,
    caught=("scenario",),
    quick=True,
)
def unknowing_not_counted():
    with rewritten(election, "activation", ("len(view.members) - len(unaware) < view.k", "False")):
        yield


def who_has_promised_another_view_is_asked_to_found_one():
    """It has told the proposer of that other view that nobody knows of the first one."""
    hand = founding()
    hand.give(2, 1, Prepare(ViewNumber(9, 2, 3), "test"))
    hand.give(0, 1, hand.waiting(0, 1, Found)[0])
    assert not hand.waiting(1, 0, Founded), "two views may be said to be the first"


@mutant(
    "A member that has promised another view says that the first one will be active.",
    scenario=who_has_promised_another_view_is_asked_to_found_one,
    caught=("scenario",),
    quick=True,
)
def founded_against_a_promise():
    with rewritten(
        installation.Installation,
        "on_found",
        ("view.number == message.number == state.promised", "view.number == message.number"),
    ):
        yield


def founded_by_those_of_an_earlier_attempt():
    """What they know of is another view, which was not made active."""
    hand = founding()
    for other in (1, 2):
        hand.give(other, 0, Founded(ViewNumber(0, 0, 1)))
    assert hand.views(0) == [], "nobody knows of the view that is announced"


@mutant(
    "Members that know of an earlier attempt at a first view count as if they knew of this one.",
    scenario=founded_by_those_of_an_earlier_attempt,
    caught=("scenario",),
    quick=True,
)
def earlier_founding_counted():
    with rewritten(
        installation.Installation,
        "on_founded",
        ("message.number == installing.view.number == self._state.promised", "True"),
    ):
        yield


def told_to_found_with_a_disk():
    """It has accepted the first view on its disk. That it will be active is not there yet."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 1, "start-up")
    channel = Channel(
        0, range(3), incarnation=10, cluster="c", expected=3, log=DurableLog(Remembered(number, first))
    )
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.take()
    channel.receive(100.1, 1, Found(number))
    output = channel.take()
    said = [message for _, message in output.messages if isinstance(message, Founded)]
    assert not said, "after a crash it would take part in founding another view"
    channel.persisted(100.2, output.token)
    assert any(isinstance(message, Founded) for _, message in channel.take().messages)


@mutant(
    "A member says that it knows of the first view before its disk does.",
    scenario=told_to_found_with_a_disk,
    caught=("scenario",),
    quick=True,
)
def founded_before_durable():
    with rewritten(installation.Installation, "on_found", ("state.vow(", "state.send(")):
        yield


def a_first_view_that_nobody_knew_of():
    """The one that replaces it is the first one; else the cluster would begin and nobody were told."""
    hand = founding()
    hand.silence(0)
    for _ in range(200):
        hand.settle()
        if hand.views(1) and hand.views(2):
            break
        hand.tick(0.05)
    assert [[view.first_time for view in hand.views(replica)] for replica in (1, 2)] == [[True]] * 2


@mutant(
    "A view that replaces a first one never is the first.",
    scenario=a_first_view_that_nobody_knew_of,
    caught=("scenario",),
    quick=True,
)
def second_view_is_not_the_first():
    with rewritten(election.Election, "_install", ("source.boot if first else 0", "0")):
        yield


def a_founder_comes_back_within_the_first_view():
    """It may have been told: what is on its disk is that the first view is active."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 2, "start-up")
    log = DurableLog(Remembered(number, first, active=True))
    channel = Channel(0, range(3), incarnation=10, cluster="c", expected=3, log=log)
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.receive(100.0, 1, _says(number, active=True))
    output = channel.take()
    channel.persisted(100.1, output.token)
    events = [*output.events, *channel.take().events]
    assert [event.first_time for event in events if isinstance(event, ViewEvent)] == [False], "told twice"


@mutant(
    "Who comes back within the first view is told once more that it is the first.",
    scenario=a_founder_comes_back_within_the_first_view,
    caught=("scenario",),
    quick=True,
)
def first_time_after_a_restart():
    with rewritten(installation.Installation, "on_noted", ("view.number != state.told", "True")):
        yield


def _told_that_its_first_view_is_active() -> Channel:
    """A member that has accepted it, at 105 s: what it records of that is not taken yet, nor on its disk."""
    voters = tuple(Voter(replica, replica + 10) for replica in range(3))
    number = ViewNumber(1, 1, 11)
    first = View(number, voters, (voters[1], voters[0], voters[2]), 3, 0, 1, "start-up")
    channel = Channel(
        0, range(3), incarnation=10, cluster="c", expected=3, log=DurableLog(Remembered(number, first))
    )
    channel.start(100.0)
    channel.connected(100.0, 1, 11)
    channel.connected(100.0, 2, 12)
    channel.take()
    channel.receive(105.0, 1, Found(number))
    channel.receive(105.0, 1, Activate(number))
    return channel


def told_that_a_first_view_is_active_with_a_disk():
    """Before its disk has that it promises another view, and says that it knew of the first one."""
    channel = _told_that_its_first_view_is_active()
    channel.receive(105.0, 2, Prepare(ViewNumber(9, 2, 12), "test"))
    output = channel.take()
    channel.persisted(105.0, output.token)
    events = [*output.events, *channel.take().events]
    assert channel.state.promised == ViewNumber(9, 2, 12)
    assert not any(isinstance(event, ViewEvent) for event in events), "it serves in a view it has left"


@mutant(
    "A member begins with the first view although it has promised another one since.",
    scenario=told_that_a_first_view_is_active_with_a_disk,
    caught=("scenario",),
    quick=True,
)
def first_view_begun_against_a_promise():
    with rewritten(
        installation.Installation,
        "on_noted",
        ("view.number == message.number == state.promised", "view.number == message.number"),
    ):
        yield


def told_late_by_the_disk_that_a_first_view_is_active():
    """Its disk is slow. Meanwhile the others have gone on without it, and it hears of their view."""
    later = ViewNumber(9, 2, 12)
    channel = _told_that_its_first_view_is_active()
    channel.receive(105.0, 2, _says(later, active=True))
    output = channel.take()
    assert channel.state.newer == later
    assert channel.state.promised == ViewNumber(1, 1, 11)
    channel.persisted(105.0, output.token)
    events = [*output.events, *channel.take().events]
    assert not any(isinstance(event, ViewEvent) for event in events), "it serves in a view that is over"


@mutant(
    "A member begins with the first view although it knows by now that a later one is active.",
    scenario=told_late_by_the_disk_that_a_first_view_is_active,
    caught=("scenario",),
    quick=True,
)
def first_view_begun_after_a_later_one():
    with rewritten(installation.Installation, "on_noted", ("and state.member", "")):
        yield


def a_witness_restarts_while_a_cluster_is_founded():
    """Four of five found it. Both lives of the witness have promised, and replica 2 has not."""
    channel = Channel(0, range(5), incarnation=10, cluster="c", expected=4, witnesses=(4,))
    channel.start(100.0)
    _meets(channel, 1, 2, 4)
    assert channel.proposing
    now, number = channel.state.now, channel.state.promised
    promise = Promise(number, None, False, NO_TAG, 0, False)
    channel.disconnected(now, 2)
    channel.receive(now, 4, promise)
    channel.disconnected(now, 4)
    channel.connected(now, 4, 24)
    channel.receive(now, 4, _empty(channel))
    channel.receive(now, 4, promise)
    channel.receive(now, 1, promise)
    channel.tick(now + 0.6)
    assert channel.installing is None, "three found a cluster: one of them counts twice"
    channel.connected(now + 0.6, 2, 12)
    channel.receive(now + 0.6, 2, promise)
    assert channel.installing is not None, "four are enough"
    assert channel.installing.view.config == (Voter(0, 10), Voter(1, 11), Voter(2, 12), Voter(4, 24))


@mutant(
    "Who founds a cluster counts the promises of processes that have ended since.",
    scenario=a_witness_restarts_while_a_cluster_is_founded,
    caught=("scenario",),
    quick=True,
)
def founded_with_earlier_lives():
    with rewritten(
        election.Election,
        "_evaluate_boot",
        (
            "voter == state.me or (state.peers.link(voter) is not None and voter.replica in state.order)",
            "voter.replica in state.order",
        ),
    ):
        yield


def founded_by_few(seed):
    """Clusters that a bare majority of replicas founds, with faults while it does."""
    return draw(seed, profile="founding")


@mutant(
    "One voter fewer than more than half of all replicas may replace a first view.",
    caught=("I2", "I12"),
    schedule=founded_by_few,
    quick=True,
)
def founders_one_less():
    with rewritten(
        election.Election,
        "_evaluate_boot",
        ("majority(state.order),", "majority(state.order) - 1,"),
    ):
        yield


def a_first_view_that_a_member_of_an_earlier_one_did_not_accept():
    """It has promised a later one: the cluster can be founded by those who are there."""
    voters = tuple(Voter(replica, replica + 1) for replica in range(3))
    first = View(ViewNumber(1, 0, 1), voters, voters, 2, 0, 1)
    second = View(ViewNumber(2, 1, 2), voters, voters, 2, 0, 1)
    asked = ViewNumber(3, 1, 2)
    promises = {
        voters[1]: Promise(asked, second, False, NO_TAG, 0, False),
        voters[2]: Promise(asked, first, False, NO_TAG, 0, False),
    }
    assert choice.activation(second, promises) is Activation.NEVER, "it never was, and they wait for ever"


@mutant(
    "Who has accepted an earlier first view may have accepted a later one.",
    scenario=a_first_view_that_a_member_of_an_earlier_one_did_not_accept,
    caught=("scenario",),
    quick=True,
)
def earlier_view_is_none():
    with rewritten(choice, "_before", (" or accepted.number < view.number", "")):
        yield


def a_replica_of_another_cluster_proposes():
    """Its disk was made the beginning of another one. Nothing but its heartbeats is heard."""
    hand = Hand()
    hand.form()
    number = ViewNumber(99, 2, 3)
    hand.now += 10.0
    beat = Heartbeat(number, number, False, True, False, True, False, 0, 0, 0, 0, 0, None, Voter(7, 99))
    hand.give(2, 1, beat)
    hand.lose(1, 2)
    hand.give(2, 1, Prepare(number, "test"))
    assert not hand.waiting(1, 2, Promise), "it promises a view of another cluster"
    assert hand.channels[1].state.promised < number


@mutant(
    "A replica takes messages of one that belongs to another cluster.",
    scenario=a_replica_of_another_cluster_proposes,
    caught=("scenario",),
    quick=True,
)
def foreign_messages_taken():
    with rewritten(
        Channel, "receive", ("if link.foreign and not isinstance(message, Heartbeat):", "if False:")
    ):
        yield
