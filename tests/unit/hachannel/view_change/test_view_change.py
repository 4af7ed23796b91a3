"""Preparing, choosing, installing and joining, message by message."""

import pytest

from quorate.hachannel import Channel, Settings, Stopped, View, ViewNumber, Voter
from quorate.hachannel.model.messages import (
    Accept,
    Ack,
    Activate,
    CatchUp,
    CaughtUp,
    Data,
    Entry,
    Exit,
    Fetch,
    Forward,
    Heartbeat,
    Join,
    NewView,
    Prepare,
    Promise,
    Record,
    Recorded,
    Refuse,
    Suffix,
    Yield,
)
from quorate.hachannel.model.view import NO_TAG, NO_VIEW, Tag
from quorate.hachannel.transfer.donor import REPLICA_BITS, TOKENS
from quorate.testing.channel.manual_cluster import ManualCluster

VOTERS = tuple(Voter(replica, replica + 1) for replica in range(5))
N1 = ViewNumber(1, 0, 1)


def number(counter: int, replica: int) -> ViewNumber:
    return ViewNumber(counter, replica, replica + 1)


def entries(*views: ViewNumber, first: int = 1) -> tuple[Entry, ...]:
    return tuple(
        Entry(view, index, 0, b"%d.%d" % (view.counter, index)) for index, view in enumerate(views, first)
    )


@pytest.fixture
def cluster():
    cluster = ManualCluster()
    cluster.form()
    return cluster


def submit(cluster, *payloads):
    for payload in payloads:
        cluster.act(0, lambda channel, payload=payload: channel.submit(cluster.now, 0, payload))


def test_the_first_view_has_everybody_and_is_announced_alike(cluster):
    for replica in range(3):
        [event] = cluster.views(replica)
        assert (event.index, event.master, event.members, event.first_time) == (0, 0, (0, 1, 2), True)
    assert cluster.channels[0].view.k == 3
    assert cluster.channels[0].view.config == VOTERS[:3]


def test_a_member_does_not_announce_itself(cluster):
    cluster.tick(2 * cluster.settings.retry_s)
    assert not [way for way in cluster.wires if cluster.waiting(*way, Join)]


def test_the_gate_needs_a_majority_that_suspects_the_master(cluster):
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.tick(0.07, 1)
    assert [exit.view for exit in cluster.waiting(1, 2, Exit)] == [N1]
    assert cluster.waiting(1, 2, Prepare) == []
    cluster.deliver(1, 2)
    assert cluster.waiting(2, 1, Prepare) == []
    cluster.act(2, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.tick(0.07, 2)
    cluster.deliver(2, 1)
    assert [message.number for message in cluster.waiting(1, 2, Prepare)] == [number(2, 1)]


def test_a_master_of_which_a_long_message_is_arriving_is_not_suspected(cluster):
    """It takes longer than `suspect_s` on a slow way, and nothing else comes before it is there."""
    for _ in range(30):
        cluster.act(1, lambda channel: channel.partial_received(cluster.now, 0))
        cluster.tick(0.1, 1)
    assert cluster.waiting(1, 2, Exit) == []
    for _ in range(21):
        cluster.tick(0.1, 1)
    assert cluster.waiting(1, 2, Exit)


def test_what_a_member_said_before_it_was_in_the_view_opens_no_gate(cluster):
    """It followed nobody then, and its words were long on their way."""
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.tick(0.07, 1)
    cluster.inject(2, 1, Heartbeat(NO_VIEW, NO_VIEW, False, False, False, False, True, 0, 0, 0, 0, 0))
    cluster.inject(2, 1, Exit(NO_VIEW, False, "the master is suspected"))
    cluster.tick(0.2, 1)
    assert cluster.waiting(1, 2, Prepare) == []
    cluster.inject(2, 1, Exit(N1, False, "the master is suspected"))
    assert cluster.waiting(1, 2, Prepare)


def test_a_dead_master_is_replaced_and_its_unfinished_entries_become_everybodys(cluster):
    submit(cluster, b"one", b"two")
    cluster.deliver(0, 2)
    cluster.silence(0)
    cluster.settle()
    assert cluster.channels[1].role == "master"
    assert cluster.payloads(1) == cluster.payloads(2) == [b"one", b"two"]
    for replica in (1, 2):
        event = cluster.views(replica)[-1]
        assert (event.index, event.members, event.first_time) == (2, (1, 2), False)
        assert event.reason == "master 0 is suspected"


def test_the_proposer_fetches_the_longest_log_in_parts():
    cluster = ManualCluster(settings=Settings(part_bytes=40))
    cluster.form()
    submit(cluster, *(b"%d" % count for count in range(5)))
    cluster.deliver(0, 2)
    cluster.silence(0)
    fetched = []
    while any(cluster.wires[pair] for pair in ((1, 2), (2, 1))):
        fetched += cluster.waiting(1, 2, Fetch)
        cluster.deliver(1, 2)
        cluster.deliver(2, 1)
    assert [message.index for message in fetched] == [0, 1, 2, 3, 4]
    assert cluster.payloads(1) == [b"%d" % count for count in range(5)]


def test_a_proposer_with_an_end_of_its_own_fetches_all_that_it_does_not_know_to_be_committed(cluster):
    """It is a member of a view that it has not accepted: another member has the log of that one."""
    submit(cluster, b"one")
    cluster.deliver(0, 1)
    cluster.silence(0)
    cluster.deliver(2, 1)
    later = number(3, 2)
    source = View(number(4, 2), VOTERS[:3], (VOTERS[1], VOTERS[2]), 2, 2)
    proposed = cluster.channels[1].state.promised
    cluster.lose(1, 2)
    cluster.inject(2, 1, Promise(proposed, source, False, Tag(later, 2), 0, False))
    assert cluster.waiting(1, 2, Fetch) == [Fetch(proposed, 0)]
    cluster.inject(2, 1, Suffix(proposed, 0, entries(later, later)))
    log = cluster.channels[1].state.log
    assert [log.get(index).view for index in range(1, log.last.at + 1)] == [later, later]


def test_a_suffix_that_does_not_end_as_promised_changes_nothing(cluster):
    submit(cluster, b"one", b"two")
    cluster.deliver(0, 2)
    cluster.silence(0)
    cluster.deliver(2, 1)
    cluster.deliver(1, 2)
    cluster.deliver(2, 1)
    [fetch] = cluster.waiting(1, 2, Fetch)
    cluster.inject(2, 1, Suffix(fetch.number, 0, entries(number(9, 2), number(9, 2))))
    assert cluster.channels[1].last == 0
    assert cluster.channels[1].view.number == N1


def test_a_voter_answers_only_higher_proposals_and_tells_the_others_what_it_promised(cluster):
    cluster.inject(2, 1, Prepare(number(5, 2), "test"))
    [promise] = cluster.waiting(1, 2, Promise)
    assert promise.accepted.number == N1
    assert promise.active
    cluster.inject(0, 1, Prepare(number(4, 0), "test"))
    assert cluster.waiting(1, 0, Refuse) == [Refuse(number(4, 0), number(5, 2))]
    view = View(number(4, 0), VOTERS[:3], VOTERS[:2], 2, 0)
    cluster.lose(1, 0)
    cluster.inject(0, 1, NewView(view, NO_TAG, 0, (), True))
    cluster.inject(0, 1, Record(View(number(4, 0), VOTERS[:3], VOTERS[:1], 1, 0)))
    assert cluster.waiting(1, 0, Refuse) == [Refuse(number(4, 0), number(5, 2))] * 2
    assert cluster.waiting(1, 0, Accept) == cluster.waiting(1, 0, Recorded) == []


@pytest.mark.parametrize(("proposals", "seconds"), [(1, 2.0), (3, 4.0), (9, 8.0)])
def test_a_voter_waits_the_longer_for_a_view_the_more_were_proposed(cluster, proposals, seconds):
    """Each proposer takes more time than for its last one: who does not would interrupt it."""
    cluster.tick(0.01, 1)
    for counter in range(5, 5 + proposals):
        cluster.inject(2, 1, Prepare(number(counter, 2), "test"))
    since = cluster.now
    while not cluster.waiting(1, 2, Prepare) and cluster.now < since + 10.0:
        for other in (0, 2):
            cluster.act(1, lambda channel, other=other: channel.partial_received(cluster.now, other))
        cluster.tick(0.05, 1)
    assert seconds <= cluster.now - since < seconds + 0.2


def test_a_voter_that_knows_a_later_view_does_not_follow_an_earlier_master(cluster):
    """That one may not have heard of it, and live for long."""
    later = View(number(4, 1), VOTERS[:3], VOTERS[1:2], 1, 0)
    cluster.inject(1, 2, Record(later))
    for teller, view, exits in ((1, later.number, False), (0, N1, True)):
        cluster.inject(teller, 2, Heartbeat(view, view, True, True, True, True, False, 0, 0, 0, 0, 0))
        cluster.act(2, lambda channel, gone=1 - teller: channel.disconnected(cluster.now, gone, ended=True))
        cluster.tick(0.05, 2)
        [*_, heartbeat] = cluster.waiting(2, teller, Heartbeat)
        assert heartbeat.exit == exits
        cluster.connect(0, 2)


def test_a_voter_that_knows_a_later_view_names_its_master_and_refuses_the_earlier_one(cluster):
    later = number(9, 2)
    said = Heartbeat(later, later, True, True, True, True, False, 0, 0, 0, 0, 0, newest=later)
    cluster.inject(2, 1, said)
    assert (cluster.channels[1].role, cluster.channels[1].master) == ("joining", 2)
    cluster.act(1, lambda channel: channel.forward(cluster.now, b"one"))
    assert not cluster.waiting(1, 0, Forward)


def test_a_proposal_in_the_name_of_another_is_ignored(cluster):
    cluster.inject(2, 1, Prepare(number(5, 0), "test"))
    cluster.inject(2, 1, Prepare(ViewNumber(5, 2, 99), "test"))
    assert cluster.waiting(1, 2, Promise) == []


@pytest.mark.parametrize(("last", "goes_on"), [(1, False), (2, True)])
def test_a_replica_stops_when_a_later_view_lacks_its_committed_entries(cluster, last, goes_on):
    """The disks of the others have lost what they had confirmed: this replica may have the only copy."""
    submit(cluster, b"one", b"two")
    cluster.settle()
    assert cluster.channels[1].state.replicated.commit == 2
    later = number(9, 0)
    cluster.inject(0, 1, Heartbeat(later, later, True, True, True, True, False, last, last, last, 0, 0))
    assert (cluster.channels[1].role != "stopped") == goes_on
    stops = [event.reason for event in cluster.events[1] if isinstance(event, Stopped)]
    assert goes_on or "without the entries 2 to 2" in stops[0]


def test_what_came_since_the_master_said_how_far_it_was_is_no_loss(cluster):
    """Who joins gets entries of the later view between two heartbeats of its master."""
    submit(cluster, b"one", b"two")
    cluster.settle()
    later = number(9, 0)
    cluster.inject(0, 1, Heartbeat(later, later, True, True, True, True, False, 2, 2, 2, 0, 0))
    base = cluster.channels[1].state.log.last
    more = (Entry(later, 3, 0, b"three"), Entry(later, 4, 0, b"four"))
    cluster.inject(0, 1, CatchUp(9 << 20, later, base, more, 4))
    assert cluster.channels[1].commit == 4
    cluster.inject(0, 1, Prepare(number(10, 0), "a replica joins"))
    assert cluster.channels[1].role == "joining"
    # The master of a view in between that is over says nothing of it either.
    past = number(8, 2)
    cluster.inject(2, 1, Heartbeat(past, past, True, True, True, True, False, 2, 2, 2, 0, 0))
    assert [event for event in cluster.events[1] if isinstance(event, Stopped)] == []


def test_a_replica_that_was_joining_a_cluster_with_higher_numbers_is_admitted(cluster):
    """It was about to join that one, which is gone: it knows higher transfers and views than this one has."""
    submit(cluster, b"one")
    cluster.settle()
    cluster.silence(2)
    cluster.tick(0.1)
    cluster.settle()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    stranger = cluster.channels[2].state
    ahead = Heartbeat(NO_VIEW, NO_VIEW, False, False, False, False, True, 0, 0, 0, 0, 0, newest=number(50, 1))
    cluster.inject(2, 0, ahead)
    cluster.inject(
        2, 0, Join("c", False, NO_TAG, (50 << TOKENS) + 7, 1, b"", False, 0, stranger.configuration.birth)
    )
    assert {message.token for message in cluster.waiting(0, 2, CatchUp)} == {
        (50 << TOKENS) + (1 << REPLICA_BITS)
    }
    # The next view is above all that the other one had.
    cluster.tick(0.1)
    assert cluster.channels[0].state.counter >= 50


def test_a_late_activation_is_ignored(cluster):
    """Scenario 17."""
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    cluster.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    assert cluster.waiting(1, 2, Accept) == [Accept(number(4, 2))]
    cluster.inject(0, 1, Prepare(number(5, 0), "test"))
    cluster.inject(2, 1, Activate(number(4, 2)))
    cluster.inject(2, 1, Data(entries(number(4, 2))[0], 0, 0, 0))
    assert cluster.channels[1].role != "slave"
    assert len(cluster.views(1)) == 1
    assert cluster.channels[1].last == 0


def test_data_of_an_accepted_view_says_that_it_is_active(cluster):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    cluster.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    cluster.inject(2, 1, Data(entries(number(4, 2))[0], 0, 0, 0))
    assert cluster.views(1)[-1].view == number(4, 2)
    assert cluster.channels[1].last == 1


def test_a_view_is_accepted_again_when_the_answer_was_lost(cluster):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    for _ in range(2):
        cluster.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    assert cluster.waiting(1, 2, Accept) == [Accept(number(4, 2))] * 2


def test_a_voter_outside_the_members_records(cluster):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2],), 1, 0)
    cluster.inject(2, 1, Record(view))
    cluster.inject(2, 1, Record(view))
    assert cluster.waiting(1, 2, Recorded) == [Recorded(number(4, 2))] * 2
    assert cluster.channels[1].role == "joining"


@pytest.mark.parametrize(
    ("teller", "members"), [(0, VOTERS[2:3]), (2, (VOTERS[2], VOTERS[1]))], ids=["another one", "a member"]
)
def test_a_view_is_recorded_for_its_proposer_and_outside_its_members_only(cluster, teller, members):
    """A member must accept it, and have its log."""
    before = cluster.channels[1].state.accepted
    cluster.inject(teller, 1, Record(View(number(4, 2), VOTERS[:3], members, 1, 0)))
    assert cluster.channels[1].state.accepted == before
    assert not cluster.waiting(1, teller, Recorded)


# The logs of figure 7 of the Raft paper: terms are views here.
LEADER = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("a", (1, 1, 1, 4, 4, 5, 5, 6, 6)),
        ("b", (1, 1, 1, 4)),
        ("c", (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6)),
        ("d", (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7)),
        ("e", (1, 1, 1, 4, 4, 4, 4)),
        ("f", (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3)),
    ],
)
def test_every_divergent_log_becomes_the_log_of_the_view(cluster, name, terms):
    """Scenario 19, figure 7 of the Raft paper."""
    channel = cluster.channels[1]
    for entry in entries(*(number(term, 0) for term in terms)):
        channel.state.log.append(entry)
    log = entries(*(number(term, 0) for term in LEADER))
    view = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, len(log))
    cluster.inject(2, 1, NewView(view, NO_TAG, 0, log[:3], False))
    cluster.inject(2, 1, NewView(view, NO_TAG, 3, log[3:], True))
    assert cluster.waiting(1, 2, Accept) == [Accept(view.number)]
    assert [channel.state.log.get(index).view.counter for index in range(1, channel.last + 1)] == list(LEADER)
    cluster.inject(2, 1, Activate(view.number))
    assert len(cluster.payloads(1)) == len(LEADER)


def test_parts_of_a_log_that_do_not_fit_together_are_not_accepted(cluster):
    log = entries(N1, N1, N1, N1)
    view = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 4)
    for messages in (
        [NewView(view, NO_TAG, 2, log[2:], True)],
        [NewView(view, NO_TAG, 0, log[:1], False), NewView(view, NO_TAG, 2, log[2:], True)],
        [NewView(view, NO_TAG, 0, log[:3], True)],
        [NewView(view, NO_TAG, 0, log[1:] + log[:1], True)],
        [NewView(view, Tag(N1, 1), 0, log[1:], True)],
        [NewView(view, NO_TAG, 0, (log[0], log[2], log[2], log[3]), True)],
    ):
        for message in messages:
            cluster.inject(2, 1, message)
        assert cluster.waiting(1, 2, Accept) == []
        assert cluster.channels[1].last == 0


def test_a_log_that_goes_on_from_another_entry_is_not_accepted(cluster):
    submit(cluster, b"one")
    cluster.deliver(0, 1)
    assert cluster.channels[1].last == 1
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    other = Tag(number(7, 2), 1)
    view = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 2)
    cluster.inject(2, 1, NewView(view, other, 0, entries(number(7, 2), first=2), True))
    assert cluster.waiting(1, 2, Accept) == []
    assert cluster.channels[1].last == 1
    cluster.inject(2, 1, NewView(view, Tag(N1, 1), 0, entries(number(7, 2), first=2), True))
    assert cluster.waiting(1, 2, Accept) == [Accept(view.number)]


def test_nothing_committed_is_ever_cut(cluster):
    submit(cluster, b"one", b"two")
    cluster.settle()
    cluster.tick(0.05)
    cluster.settle()
    assert cluster.channels[1].commit == 2
    # No grant forbids to accept what comes.
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    short = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 1)
    cluster.inject(2, 1, NewView(short, NO_TAG, 0, entries(N1), True))
    other = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 2)
    cluster.inject(2, 1, NewView(other, NO_TAG, 0, entries(number(7, 0), number(7, 0)), True))
    assert [note for note in cluster.notes[1] if "cannot accept view" in note] == [
        f"cannot accept view {short.number}: the log would end at 1, not at 2",
        f"cannot accept view {other.number}: entry 1 is committed and differs",
    ]
    assert cluster.waiting(1, 2, Accept) == []
    assert cluster.payloads(1) == [b"one", b"two"]
    assert cluster.channels[1].last == 2


def test_nothing_but_heartbeats_is_heard_of_another_cluster(cluster):
    """It was begun from replica 7, which has been removed from this one: nobody has to stop."""
    follower = cluster.channels[1]
    promised = follower.state.promised
    view = number(9, 2)
    said = Heartbeat(
        view, view, True, True, True, True, False, 0, 0, 0, 0, 0, lineage=Voter(7, 9), newest=view
    )
    follower.lease.release(VOTERS[0])
    cluster.inject(2, 1, said)
    assert follower.foreigners == [2]
    cluster.inject(2, 1, Prepare(number(10, 2), "test"))
    cluster.inject(2, 1, Record(View(number(11, 2), VOTERS[:3], (VOTERS[2],), 1, 0)))
    assert (follower.role, follower.state.promised) == ("slave", promised)
    assert not cluster.waiting(1, 2, Promise)


def test_what_a_learner_has_counts_for_nothing(cluster):
    """Scenario 21."""
    cluster.silence(2)
    cluster.settle(0, 1)
    cluster.start(2, 3, 33)
    cluster.connect(0, 2)
    cluster.connect(1, 2)
    before = cluster.channels[0].commit
    submit(cluster, b"one")
    cluster.inject(2, 0, Ack(cluster.channels[0].view.number, 1))
    session = cluster.channels[0]._donor.transfer
    cluster.inject(2, 0, CaughtUp(session.token if session else 1 << 20, 1, 1, False))
    assert cluster.channels[0].commit == before


def test_a_restarted_replica_takes_the_place_of_its_dead_life_one_change_per_view(cluster):
    submit(cluster, b"one")
    cluster.settle()
    cluster.silence(2)
    cluster.settle(0, 1)
    cluster.start(2, 3, 33)
    cluster.connect(0, 2)
    cluster.connect(1, 2)
    for _ in range(10):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].view.config == (VOTERS[0], VOTERS[1], Voter(2, 33))
    assert cluster.channels[0].members == (0, 1, 2)
    assert cluster.payloads(2) == [b"one"]
    assert cluster.views(2)[-1] == cluster.views(0)[-1]
    assert [len(event.members) for event in cluster.views(0)] == [3, 2, 2, 3]


def test_a_change_that_too_few_can_vote_for_is_given_up_and_its_replicas_are_named():
    cluster = ManualCluster(4)
    cluster.form()
    cluster.silence(3)
    cluster.settle()
    cluster.start(3, 4, 50)
    for other in range(3):
        cluster.connect(other, 3)
    cluster.until(lambda: "adds voter 3/50" in cluster.notes[0])
    cluster.silence(3)
    cluster.silence(2)
    cluster.settle()
    given_up = "the change of the configuration is dropped: too few of replicas 0, 1, 2, 3 answer"
    assert given_up in cluster.notes[0]
    assert cluster.channels[0].members == (0, 1)


def test_a_vote_of_another_life_does_not_count(cluster):
    submit(cluster, b"one")
    cluster.silence(1)
    cluster.start(1, 3, 99)
    cluster.connect(1, 2)
    cluster.silence(0)
    for _ in range(60):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[2].role == "blocked"
    assert cluster.channels[1].role == "joining"
    assert len(cluster.views(2)) == 1


def test_a_proposal_number_is_never_used_twice(cluster):
    seen = set()
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    cluster.act(2, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    for _ in range(100):
        cluster.tick(0.07, 1, 2)
        for message in cluster.waiting(1, 2, Prepare):
            if message.number not in seen:
                seen.add(message.number)
        cluster.lose(1, 2)
        for message in cluster.lose(2, 1):
            if isinstance(message, Exit) or type(message).__name__ == "Heartbeat":
                cluster.inject(2, 1, message)
    counters = [message.counter for message in sorted(seen)]
    assert len(counters) > 2
    assert counters == sorted(set(counters))


def test_a_newcomer_names_the_master_that_it_hears_and_nobody_before():
    cluster = ManualCluster(5)
    assert [channel.master for channel in cluster.channels.values()] == [None] * 5
    cluster.form()
    assert [channel.master for channel in cluster.channels.values()] == [0] * 5
    cluster.silence(0)
    cluster.silence(4)
    cluster.settle()
    cluster.start(4, 5, 9)
    cluster.connect(3, 4)
    cluster.deliver(3, 4)
    assert cluster.channels[4].master is None
    cluster.connect(1, 4)
    cluster.deliver(1, 4)
    assert cluster.channels[4].master == 1


def test_a_configuration_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="more than half"):
        Channel(0, [0, 1, 2, 3], incarnation=1, cluster="c", expected=2)
    with pytest.raises(ValueError, match="distinct"):
        Channel(7, [0, 1, 2], incarnation=1, cluster="c", expected=3)
    with pytest.raises(ValueError, match="max_log"):
        Settings(max_log=10)
    with pytest.raises(ValueError, match="suspect_s"):
        Settings(suspect_s=0.1)


def test_a_member_that_has_promised_its_own_view_comes_back_although_nobody_submits(cluster):
    """It lost patience with a view that is active since. The others have granted, and follow the master."""
    cluster.tick(0.05)
    cluster.settle()
    cluster.act(1, lambda channel: channel.lease.release(Voter(0, 1)))
    cluster.act(1, lambda channel: channel._election.propose(cluster.now, "not installed in time"))
    for _ in range(100):
        cluster.settle()
        cluster.tick(0.05)
    assert [channel.role for channel in cluster.channels.values()] == ["master", "slave", "slave"]
    assert len({channel.view.number for channel in cluster.channels.values()}) == 1


def test_what_a_slave_has_delivered_and_not_acknowledged_is_kept_for_it():
    """Its disk is slow: it delivers what the others hold before it has it on its own."""
    cluster = ManualCluster(settings=Settings(mode="MAJORITY", keep=0, window=500, stall_s=60.0))
    cluster.form()
    for _ in range(200):
        submit(cluster, b"x")
        cluster.settle(0, 1)
        cluster.deliver(0, 2)
        for message in cluster.lose(2, 0):
            if not isinstance(message, Ack):
                cluster.inject(2, 0, message)
        cluster.tick(0.05)
    assert len(cluster.payloads(2)) > 100
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    cluster.act(2, lambda channel: channel.disconnected(cluster.now, 0))
    cluster.connect(0, 2)
    cluster.settle()
    assert cluster.payloads(2) == cluster.payloads(0)


def test_a_replica_that_yielded_in_vain_remains_a_member(cluster):
    """The view change in which it did was given up, long ago."""
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.05)
    cluster.inject(1, 2, Yield(cluster.channels[2].view.number, "of no use"))
    for _ in range(20):
        cluster.settle()
        cluster.tick(0.05)
    cluster.silence(0)
    late = [message for message in cluster.lose(1, 2) if not isinstance(message, Prepare)]
    for message in late:
        cluster.inject(1, 2, message)
    for _ in range(12):
        cluster.tick(0.02, 2)
    for _ in range(100):
        cluster.settle()
        if cluster.channels[2].role in ("master", "slave"):
            break
        cluster.tick(0.02)
    assert set(cluster.channels[2].members) == {1, 2}
