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
def hand():
    hand = ManualCluster()
    hand.form()
    return hand


def submit(hand, *payloads):
    for payload in payloads:
        hand.act(0, lambda channel, payload=payload: channel.submit(hand.now, 0, payload))


def test_the_first_view_has_everybody_and_is_announced_alike(hand):
    for replica in range(3):
        [event] = hand.views(replica)
        assert (event.index, event.master, event.members, event.first_time) == (0, 0, (0, 1, 2), True)
    assert hand.channels[0].view.k == 3
    assert hand.channels[0].view.config == VOTERS[:3]


def test_a_member_does_not_announce_itself(hand):
    hand.tick(2 * hand.settings.retry_s)
    assert not [way for way in hand.wires if hand.waiting(*way, Join)]


def test_the_gate_needs_a_majority_that_suspects_the_master(hand):
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.tick(0.07, 1)
    assert [exit.view for exit in hand.waiting(1, 2, Exit)] == [N1]
    assert hand.waiting(1, 2, Prepare) == []
    hand.deliver(1, 2)
    assert hand.waiting(2, 1, Prepare) == []
    hand.act(2, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.tick(0.07, 2)
    hand.deliver(2, 1)
    assert [message.number for message in hand.waiting(1, 2, Prepare)] == [number(2, 1)]


def test_a_master_of_which_a_long_message_is_arriving_is_not_suspected(hand):
    """It takes longer than `suspect_s` on a slow way, and nothing else comes before it is there."""
    for _ in range(30):
        hand.act(1, lambda channel: channel.partial_received(hand.now, 0))
        hand.tick(0.1, 1)
    assert hand.waiting(1, 2, Exit) == []
    for _ in range(21):
        hand.tick(0.1, 1)
    assert hand.waiting(1, 2, Exit)


def test_what_a_member_said_before_it_was_in_the_view_opens_no_gate(hand):
    """It followed nobody then, and its words were long on their way."""
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.tick(0.07, 1)
    hand.inject(2, 1, Heartbeat(NO_VIEW, NO_VIEW, False, False, False, False, True, 0, 0, 0, 0, 0))
    hand.inject(2, 1, Exit(NO_VIEW, False, "the master is suspected"))
    hand.tick(0.2, 1)
    assert hand.waiting(1, 2, Prepare) == []
    hand.inject(2, 1, Exit(N1, False, "the master is suspected"))
    assert hand.waiting(1, 2, Prepare)


def test_a_dead_master_is_replaced_and_its_unfinished_entries_become_everybodys(hand):
    submit(hand, b"one", b"two")
    hand.deliver(0, 2)
    hand.silence(0)
    hand.settle()
    assert hand.channels[1].role == "master"
    assert hand.payloads(1) == hand.payloads(2) == [b"one", b"two"]
    for replica in (1, 2):
        event = hand.views(replica)[-1]
        assert (event.index, event.members, event.first_time) == (2, (1, 2), False)
        assert event.reason == "master 0 is suspected"


def test_the_proposer_fetches_the_longest_log_in_parts():
    hand = ManualCluster(settings=Settings(part_bytes=40))
    hand.form()
    submit(hand, *(b"%d" % count for count in range(5)))
    hand.deliver(0, 2)
    hand.silence(0)
    fetched = []
    while any(hand.wires[pair] for pair in ((1, 2), (2, 1))):
        fetched += hand.waiting(1, 2, Fetch)
        hand.deliver(1, 2)
        hand.deliver(2, 1)
    assert [message.index for message in fetched] == [0, 1, 2, 3, 4]
    assert hand.payloads(1) == [b"%d" % count for count in range(5)]


def test_a_proposer_with_an_end_of_its_own_fetches_all_that_it_does_not_know_to_be_committed(hand):
    """It is a member of a view that it has not accepted: another member has the log of that one."""
    submit(hand, b"one")
    hand.deliver(0, 1)
    hand.silence(0)
    hand.deliver(2, 1)
    later = number(3, 2)
    source = View(number(4, 2), VOTERS[:3], (VOTERS[1], VOTERS[2]), 2, 2)
    proposed = hand.channels[1].state.promised
    hand.lose(1, 2)
    hand.inject(2, 1, Promise(proposed, source, False, Tag(later, 2), 0, False))
    assert hand.waiting(1, 2, Fetch) == [Fetch(proposed, 0)]
    hand.inject(2, 1, Suffix(proposed, 0, entries(later, later)))
    log = hand.channels[1].state.log
    assert [log.get(index).view for index in range(1, log.last.at + 1)] == [later, later]


def test_a_suffix_that_does_not_end_as_promised_changes_nothing(hand):
    submit(hand, b"one", b"two")
    hand.deliver(0, 2)
    hand.silence(0)
    hand.deliver(2, 1)
    hand.deliver(1, 2)
    hand.deliver(2, 1)
    [fetch] = hand.waiting(1, 2, Fetch)
    hand.inject(2, 1, Suffix(fetch.number, 0, entries(number(9, 2), number(9, 2))))
    assert hand.channels[1].last == 0
    assert hand.channels[1].view.number == N1


def test_a_voter_answers_only_higher_proposals_and_tells_the_others_what_it_promised(hand):
    hand.inject(2, 1, Prepare(number(5, 2), "test"))
    [promise] = hand.waiting(1, 2, Promise)
    assert promise.accepted.number == N1
    assert promise.active
    hand.inject(0, 1, Prepare(number(4, 0), "test"))
    assert hand.waiting(1, 0, Refuse) == [Refuse(number(4, 0), number(5, 2))]
    view = View(number(4, 0), VOTERS[:3], VOTERS[:2], 2, 0)
    hand.lose(1, 0)
    hand.inject(0, 1, NewView(view, NO_TAG, 0, (), True))
    hand.inject(0, 1, Record(View(number(4, 0), VOTERS[:3], VOTERS[:1], 1, 0)))
    assert hand.waiting(1, 0, Refuse) == [Refuse(number(4, 0), number(5, 2))] * 2
    assert hand.waiting(1, 0, Accept) == hand.waiting(1, 0, Recorded) == []


@pytest.mark.parametrize(("proposals", "seconds"), [(1, 2.0), (3, 4.0), (9, 8.0)])
def test_a_voter_waits_the_longer_for_a_view_the_more_were_proposed(hand, proposals, seconds):
    """Each proposer takes more time than for its last one: who does not would interrupt it."""
    hand.tick(0.01, 1)
    for counter in range(5, 5 + proposals):
        hand.inject(2, 1, Prepare(number(counter, 2), "test"))
    since = hand.now
    while not hand.waiting(1, 2, Prepare) and hand.now < since + 10.0:
        for other in (0, 2):
            hand.act(1, lambda channel, other=other: channel.partial_received(hand.now, other))
        hand.tick(0.05, 1)
    assert seconds <= hand.now - since < seconds + 0.2


def test_who_knows_a_later_view_does_not_follow_the_master_of_an_earlier_one(hand):
    """That one may not have heard of it, and live for long."""
    later = View(number(4, 1), VOTERS[:3], VOTERS[1:2], 1, 0)
    hand.inject(1, 2, Record(later))
    for teller, view, exits in ((1, later.number, False), (0, N1, True)):
        hand.inject(teller, 2, Heartbeat(view, view, True, True, True, True, False, 0, 0, 0, 0, 0))
        hand.act(2, lambda channel, gone=1 - teller: channel.disconnected(hand.now, gone, ended=True))
        hand.tick(0.05, 2)
        [*_, heartbeat] = hand.waiting(2, teller, Heartbeat)
        assert heartbeat.exit == exits
        hand.connect(0, 2)


def test_who_knows_a_later_view_names_its_master_and_gives_nothing_to_that_of_an_earlier_one(hand):
    later = number(9, 2)
    said = Heartbeat(later, later, True, True, True, True, False, 0, 0, 0, 0, 0, newest=later)
    hand.inject(2, 1, said)
    assert (hand.channels[1].role, hand.channels[1].master) == ("joining", 2)
    hand.act(1, lambda channel: channel.forward(hand.now, b"one"))
    assert not hand.waiting(1, 0, Forward)


def test_a_proposal_in_the_name_of_another_is_ignored(hand):
    hand.inject(2, 1, Prepare(number(5, 0), "test"))
    hand.inject(2, 1, Prepare(ViewNumber(5, 2, 99), "test"))
    assert hand.waiting(1, 2, Promise) == []


@pytest.mark.parametrize(("last", "goes_on"), [(1, False), (2, True)])
def test_who_hears_a_later_view_without_what_is_committed_here_keeps_it_and_stops(hand, last, goes_on):
    """The disks of the others have lost what they had confirmed: this replica may have the only copy."""
    submit(hand, b"one", b"two")
    hand.settle()
    assert hand.channels[1].state.commit == 2
    later = number(9, 0)
    hand.inject(0, 1, Heartbeat(later, later, True, True, True, True, False, last, last, last, 0, 0))
    assert (hand.channels[1].role != "stopped") == goes_on
    stops = [event.reason for event in hand.events[1] if isinstance(event, Stopped)]
    assert goes_on or "without the entries 2 to 2" in stops[0]


def test_what_came_since_the_master_said_how_far_it_was_is_no_loss(hand):
    """Who joins gets entries of the later view between two heartbeats of its master."""
    submit(hand, b"one", b"two")
    hand.settle()
    later = number(9, 0)
    hand.inject(0, 1, Heartbeat(later, later, True, True, True, True, False, 2, 2, 2, 0, 0))
    base = hand.channels[1].state.log.last
    more = (Entry(later, 3, 0, b"three"), Entry(later, 4, 0, b"four"))
    hand.inject(0, 1, CatchUp(9 << 20, later, base, more, 4))
    assert hand.channels[1].commit == 4
    hand.inject(0, 1, Prepare(number(10, 0), "a replica joins"))
    assert hand.channels[1].role == "joining"
    # The master of a view in between that is over says nothing of it either.
    past = number(8, 2)
    hand.inject(2, 1, Heartbeat(past, past, True, True, True, True, False, 2, 2, 2, 0, 0))
    assert [event for event in hand.events[1] if isinstance(event, Stopped)] == []


def test_who_comes_from_a_cluster_that_had_come_further_is_taken_in(hand):
    """It was about to join that one, which is gone: it knows higher transfers and views than this one has."""
    submit(hand, b"one")
    hand.settle()
    hand.silence(2)
    hand.tick(0.1)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    stranger = hand.channels[2].state
    ahead = Heartbeat(NO_VIEW, NO_VIEW, False, False, False, False, True, 0, 0, 0, 0, 0, newest=number(50, 1))
    hand.inject(2, 0, ahead)
    hand.inject(
        2, 0, Join("c", False, NO_TAG, (50 << TOKENS) + 7, 1, b"", False, 0, stranger.configuration.birth)
    )
    assert {message.token for message in hand.waiting(0, 2, CatchUp)} == {
        (50 << TOKENS) + (1 << REPLICA_BITS)
    }
    # The next view is above all that the other one had.
    hand.tick(0.1)
    assert hand.channels[0].state.counter >= 50


def test_a_late_activation_is_ignored(hand):
    """Scenario 17."""
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    hand.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    assert hand.waiting(1, 2, Accept) == [Accept(number(4, 2))]
    hand.inject(0, 1, Prepare(number(5, 0), "test"))
    hand.inject(2, 1, Activate(number(4, 2)))
    hand.inject(2, 1, Data(entries(number(4, 2))[0], 0, 0, 0))
    assert hand.channels[1].role != "slave"
    assert len(hand.views(1)) == 1
    assert hand.channels[1].last == 0


def test_data_of_an_accepted_view_says_that_it_is_active(hand):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    hand.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    hand.inject(2, 1, Data(entries(number(4, 2))[0], 0, 0, 0))
    assert hand.views(1)[-1].view == number(4, 2)
    assert hand.channels[1].last == 1


def test_a_view_is_accepted_again_when_the_answer_was_lost(hand):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 0)
    for _ in range(2):
        hand.inject(2, 1, NewView(view, NO_TAG, 0, (), True))
    assert hand.waiting(1, 2, Accept) == [Accept(number(4, 2))] * 2


def test_a_voter_outside_the_members_records(hand):
    view = View(number(4, 2), VOTERS[:3], (VOTERS[2],), 1, 0)
    hand.inject(2, 1, Record(view))
    hand.inject(2, 1, Record(view))
    assert hand.waiting(1, 2, Recorded) == [Recorded(number(4, 2))] * 2
    assert hand.channels[1].role == "joining"


@pytest.mark.parametrize(
    ("teller", "members"), [(0, VOTERS[2:3]), (2, (VOTERS[2], VOTERS[1]))], ids=["another one", "a member"]
)
def test_a_view_is_recorded_for_its_proposer_and_outside_its_members_only(hand, teller, members):
    """A member must accept it, and have its log."""
    before = hand.channels[1].state.accepted
    hand.inject(teller, 1, Record(View(number(4, 2), VOTERS[:3], members, 1, 0)))
    assert hand.channels[1].state.accepted == before
    assert not hand.waiting(1, teller, Recorded)


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
def test_every_divergent_log_becomes_the_log_of_the_view(hand, name, terms):
    """Scenario 19, figure 7 of the Raft paper."""
    channel = hand.channels[1]
    for entry in entries(*(number(term, 0) for term in terms)):
        channel.state.log.append(entry)
    log = entries(*(number(term, 0) for term in LEADER))
    view = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, len(log))
    hand.inject(2, 1, NewView(view, NO_TAG, 0, log[:3], False))
    hand.inject(2, 1, NewView(view, NO_TAG, 3, log[3:], True))
    assert hand.waiting(1, 2, Accept) == [Accept(view.number)]
    assert [channel.state.log.get(index).view.counter for index in range(1, channel.last + 1)] == list(LEADER)
    hand.inject(2, 1, Activate(view.number))
    assert len(hand.payloads(1)) == len(LEADER)


def test_parts_of_a_log_that_do_not_fit_together_are_not_accepted(hand):
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
            hand.inject(2, 1, message)
        assert hand.waiting(1, 2, Accept) == []
        assert hand.channels[1].last == 0


def test_a_log_that_goes_on_from_another_entry_is_not_accepted(hand):
    submit(hand, b"one")
    hand.deliver(0, 1)
    assert hand.channels[1].last == 1
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    other = Tag(number(7, 2), 1)
    view = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 2)
    hand.inject(2, 1, NewView(view, other, 0, entries(number(7, 2), first=2), True))
    assert hand.waiting(1, 2, Accept) == []
    assert hand.channels[1].last == 1
    hand.inject(2, 1, NewView(view, Tag(N1, 1), 0, entries(number(7, 2), first=2), True))
    assert hand.waiting(1, 2, Accept) == [Accept(view.number)]


def test_nothing_committed_is_ever_cut(hand):
    submit(hand, b"one", b"two")
    hand.settle()
    hand.tick(0.05)
    hand.settle()
    assert hand.channels[1].commit == 2
    # No grant forbids to accept what comes.
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    short = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 1)
    hand.inject(2, 1, NewView(short, NO_TAG, 0, entries(N1), True))
    other = View(number(8, 2), VOTERS[:3], (VOTERS[2], VOTERS[1]), 2, 2)
    hand.inject(2, 1, NewView(other, NO_TAG, 0, entries(number(7, 0), number(7, 0)), True))
    assert [note for note in hand.notes[1] if "cannot accept view" in note] == [
        f"cannot accept view {short.number}: the log would end at 1, not at 2",
        f"cannot accept view {other.number}: entry 1 is committed and differs",
    ]
    assert hand.waiting(1, 2, Accept) == []
    assert hand.payloads(1) == [b"one", b"two"]
    assert hand.channels[1].last == 2


def test_nothing_but_heartbeats_is_heard_of_another_cluster(hand):
    """It was begun from replica 7, which has been removed from this one: nobody has to stop."""
    follower = hand.channels[1]
    promised = follower.state.promised
    view = number(9, 2)
    said = Heartbeat(
        view, view, True, True, True, True, False, 0, 0, 0, 0, 0, lineage=Voter(7, 9), newest=view
    )
    follower.lease.release(VOTERS[0])
    hand.inject(2, 1, said)
    assert follower.foreigners == [2]
    hand.inject(2, 1, Prepare(number(10, 2), "test"))
    hand.inject(2, 1, Record(View(number(11, 2), VOTERS[:3], (VOTERS[2],), 1, 0)))
    assert (follower.role, follower.state.promised) == ("slave", promised)
    assert not hand.waiting(1, 2, Promise)


def test_what_a_learner_has_counts_for_nothing(hand):
    """Scenario 21."""
    hand.silence(2)
    hand.settle(0, 1)
    hand.start(2, 3, 33)
    hand.connect(0, 2)
    hand.connect(1, 2)
    before = hand.channels[0].commit
    submit(hand, b"one")
    hand.inject(2, 0, Ack(hand.channels[0].view.number, 1))
    session = hand.channels[0]._donor.transfer
    hand.inject(2, 0, CaughtUp(session.token if session else 1 << 20, 1, 1, False))
    assert hand.channels[0].commit == before


def test_a_restarted_replica_takes_the_place_of_its_dead_life_one_change_per_view(hand):
    submit(hand, b"one")
    hand.settle()
    hand.silence(2)
    hand.settle(0, 1)
    hand.start(2, 3, 33)
    hand.connect(0, 2)
    hand.connect(1, 2)
    for _ in range(10):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[0].view.config == (VOTERS[0], VOTERS[1], Voter(2, 33))
    assert hand.channels[0].members == (0, 1, 2)
    assert hand.payloads(2) == [b"one"]
    assert hand.views(2)[-1] == hand.views(0)[-1]
    assert [len(event.members) for event in hand.views(0)] == [3, 2, 2, 3]


def test_a_change_that_too_few_can_vote_for_is_given_up_and_its_replicas_are_named():
    hand = ManualCluster(4)
    hand.form()
    hand.silence(3)
    hand.settle()
    hand.start(3, 4, 50)
    for other in range(3):
        hand.connect(other, 3)
    hand.until(lambda: "adds voter 3/50" in hand.notes[0])
    hand.silence(3)
    hand.silence(2)
    hand.settle()
    given_up = "the change of the configuration is dropped: too few of replicas 0, 1, 2, 3 answer"
    assert given_up in hand.notes[0]
    assert hand.channels[0].members == (0, 1)


def test_a_vote_of_another_life_does_not_count(hand):
    submit(hand, b"one")
    hand.silence(1)
    hand.start(1, 3, 99)
    hand.connect(1, 2)
    hand.silence(0)
    for _ in range(60):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[2].role == "blocked"
    assert hand.channels[1].role == "joining"
    assert len(hand.views(2)) == 1


def test_a_proposal_number_is_never_used_twice(hand):
    seen = set()
    hand.act(1, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    hand.act(2, lambda channel: channel.disconnected(hand.now, 0, ended=True))
    for _ in range(100):
        hand.tick(0.07, 1, 2)
        for message in hand.waiting(1, 2, Prepare):
            if message.number not in seen:
                seen.add(message.number)
        hand.lose(1, 2)
        for message in hand.lose(2, 1):
            if isinstance(message, Exit) or type(message).__name__ == "Heartbeat":
                hand.inject(2, 1, message)
    counters = [message.counter for message in sorted(seen)]
    assert len(counters) > 2
    assert counters == sorted(set(counters))


def test_a_newcomer_names_the_master_that_it_hears_and_nobody_before():
    hand = ManualCluster(5)
    assert [channel.master for channel in hand.channels.values()] == [None] * 5
    hand.form()
    assert [channel.master for channel in hand.channels.values()] == [0] * 5
    hand.silence(0)
    hand.silence(4)
    hand.settle()
    hand.start(4, 5, 9)
    hand.connect(3, 4)
    hand.deliver(3, 4)
    assert hand.channels[4].master is None
    hand.connect(1, 4)
    hand.deliver(1, 4)
    assert hand.channels[4].master == 1


def test_a_configuration_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="more than half"):
        Channel(0, [0, 1, 2, 3], incarnation=1, cluster="c", expected=2)
    with pytest.raises(ValueError, match="distinct"):
        Channel(7, [0, 1, 2], incarnation=1, cluster="c", expected=3)
    with pytest.raises(ValueError, match="max_log"):
        Settings(max_log=10)
    with pytest.raises(ValueError, match="suspect_s"):
        Settings(suspect_s=0.1)


def test_a_member_that_has_promised_its_own_view_comes_back_although_nobody_submits(hand):
    """It lost patience with a view that is active since. The others have granted, and follow the master."""
    hand.tick(0.05)
    hand.settle()
    hand.act(1, lambda channel: channel.lease.release(Voter(0, 1)))
    hand.act(1, lambda channel: channel._election.propose(hand.now, "not installed in time"))
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert [channel.role for channel in hand.channels.values()] == ["master", "slave", "slave"]
    assert len({channel.view.number for channel in hand.channels.values()}) == 1


def test_what_a_slave_has_delivered_and_not_acknowledged_is_kept_for_it():
    """Its disk is slow: it delivers what the others hold before it has it on its own."""
    hand = ManualCluster(settings=Settings(mode="MAJORITY", keep=0, window=500, stall_s=60.0))
    hand.form()
    for _ in range(200):
        submit(hand, b"x")
        hand.settle(0, 1)
        hand.deliver(0, 2)
        for message in hand.lose(2, 0):
            if not isinstance(message, Ack):
                hand.inject(2, 0, message)
        hand.tick(0.05)
    assert len(hand.payloads(2)) > 100
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    hand.act(2, lambda channel: channel.disconnected(hand.now, 0))
    hand.connect(0, 2)
    hand.settle()
    assert hand.payloads(2) == hand.payloads(0)


def test_who_yielded_once_for_nothing_is_no_less_a_member_later(hand):
    """The view change in which it did was given up, long ago."""
    for _ in range(20):
        hand.settle()
        hand.tick(0.05)
    hand.inject(1, 2, Yield(hand.channels[2].view.number, "of no use"))
    for _ in range(20):
        hand.settle()
        hand.tick(0.05)
    hand.silence(0)
    late = [message for message in hand.lose(1, 2) if not isinstance(message, Prepare)]
    for message in late:
        hand.inject(1, 2, message)
    for _ in range(12):
        hand.tick(0.02, 2)
    for _ in range(100):
        hand.settle()
        if hand.channels[2].role in ("master", "slave"):
            break
        hand.tick(0.02)
    assert set(hand.channels[2].members) == {1, 2}
