"""A learner shows that it can answer, with its disk and in time, before a view is to wait for it."""

from quorate.hachannel import MemoryLog, Settings
from quorate.hachannel.log import Committed
from quorate.hachannel.messages import CatchUp, CaughtUp
from quorate.testing.channel_hand import Hand

STEP_S = 0.05


class SlowDisk(MemoryLog):
    """A log that is durable only when the test says so."""

    durable = True


def away(replicas, *learners, **settings):
    """These lose their connections; the others go on without them."""
    hand = Hand(replicas, Settings(**settings))
    hand.form()
    rest = [replica for replica in hand.channels if replica not in learners]
    for one in learners:
        for other in rest:
            for here, there in ((one, other), (other, one)):
                hand.act(here, lambda channel, there=there: channel.disconnected(hand.now, there))
                hand.lose(here, there)
    for _ in range(20):
        hand.tick(STEP_S, *rest)
        hand.settle(*rest)
    assert hand.channels[0].members == tuple(rest)
    return hand


def submit(hand, count=1):
    for _ in range(count):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))


def test_a_learner_with_nothing_to_write_answers_with_its_disk_all_the_same():
    hand = Hand()
    number = hand.form().view.number
    base = hand.channels[0].state.log.last
    hand.start(2, 3, 9, SlowDisk())
    hand.connect(0, 2)
    hand.lose(2, 0)
    assert not hand.records[2]
    hand.give(0, 2, CatchUp(1 << 40, number, base, (), 0))
    assert not hand.waiting(2, 0, CaughtUp)
    # Disks take their time with that one, and nobody waits.
    assert any(not isinstance(record, Committed) for record in hand.records[2])
    hand.act(2, lambda channel: channel.persisted(hand.now, hand.tokens[2]))
    assert [(answer.index, answer.reset) for answer in hand.waiting(2, 0, CaughtUp)] == [(0, False)]


def test_only_the_answer_to_the_last_question_shows_that_a_learner_can_answer():
    """Entries that were sent twice are answered twice, and what it says to a question may come too late."""
    hand = away(3, 2)
    submit(hand, 3)
    hand.settle(0, 1)
    hand.connect(0, 2)
    answers = []

    def go(seconds):
        for _ in range(round(seconds / STEP_S)):
            hand.tick(STEP_S)
            hand.settle(0, 1)
            hand.deliver(0, 2)
            for message in hand.lose(2, 0):
                if isinstance(message, CaughtUp):
                    answers.append(message)
                else:
                    hand.give(2, 0, message)

    go(0.5)
    entries, first = answers
    hand.give(2, 0, entries)
    hand.give(2, 0, entries)
    go(0.2)
    assert hand.channels[0].role == "master", "the answer to entries counts"
    go(4.0)
    assert len(answers) == 3, "it was asked again"
    hand.give(2, 0, first)
    go(0.2)
    assert hand.channels[0].role == "master", "the answer to an earlier question counts"
    hand.give(2, 0, answers[2])
    go(0.5)
    assert hand.channels[0].members == (0, 1, 2)


def test_a_learner_that_never_answers_in_time_gives_its_place_to_one_that_waits():
    """It comes further all the time, and takes longer for it than a view change waits."""
    hand = away(5, 3, 4, stall_s=1.5)
    hand.connect(0, 3)
    hand.act(3, lambda channel: channel.tick(hand.now + 1.0))
    hand.deliver(3, 0)
    hand.connect(0, 4)
    late = []
    for _ in range(round(20 / STEP_S)):
        submit(hand)
        hand.tick(STEP_S)
        hand.deliver(0, 3)
        for message in hand.lose(3, 0):
            late.append((hand.now + 1.5 * isinstance(message, CaughtUp), message))
        for due, message in list(late):
            if hand.now >= due:
                late.remove((due, message))
                hand.give(3, 0, message)
        hand.settle(0, 1, 2, 4)
        if 4 in hand.channels[0].members:
            break
    assert hand.channels[0].members == (0, 1, 2, 4)
