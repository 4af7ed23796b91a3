"""A learner shows that it can answer, with its disk and in time, before a view is to wait for it."""

from quorate.hachannel.model.log import Committed
from quorate.hachannel.model.messages import CatchUp, CaughtUp, Entry
from quorate.testing.channel.manual_cluster import ManualCluster, SlowLog

STEP_S = 0.05


def submit(cluster, count=1):
    for _ in range(count):
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))


def with_a_slow_disk():
    """Replica 2 comes back as another one, with such a disk; the number of the view, and its last entry."""
    cluster = ManualCluster()
    number = cluster.form().view.number
    base = cluster.channels[0].state.log.last
    cluster.start(2, 3, 9, SlowLog())
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    return cluster, number, base


def test_a_learner_with_nothing_to_write_answers_with_its_disk_all_the_same():
    cluster, number, base = with_a_slow_disk()
    assert not cluster.records[2]
    cluster.inject(0, 2, CatchUp(1 << 40, number, base, (), 0))
    assert not cluster.waiting(2, 0, CaughtUp)
    # Disks take their time with that one, and nobody waits.
    assert any(not isinstance(record, Committed) for record in cluster.records[2])
    cluster.sync(2)
    assert [(answer.index, answer.reset) for answer in cluster.waiting(2, 0, CaughtUp)] == [(0, False)]


def test_a_learner_answers_what_it_has_already_with_its_disk_too():
    """The question was lost, and what it had not confirmed is sent again under the same token."""
    cluster, number, base = with_a_slow_disk()
    entry = Entry(number, base.at + 1, 0, b"x")
    cluster.inject(0, 2, CatchUp(1 << 40, number, base, (entry,), 0))
    cluster.sync(2)
    cluster.lose(2, 0)
    cluster.inject(0, 2, CatchUp(1 << 40, number, base, (entry,), 0))
    assert not cluster.waiting(2, 0, CaughtUp)


def test_questions_to_a_learner_whose_disk_hangs_make_one_write():
    cluster, number, base = with_a_slow_disk()
    for count in range(20):
        cluster.inject(0, 2, CatchUp((1 << 40) + count, number, base, (), 0))
    assert cluster.tokens[2] <= 2
    cluster.sync(2)
    assert [answer.token for answer in cluster.waiting(2, 0, CaughtUp)] == [(1 << 40) + 19]


def test_only_the_answer_to_the_last_question_shows_that_a_learner_can_answer():
    """Entries that were sent twice are answered twice, and what it says to a question may come too late."""
    cluster = ManualCluster()
    cluster.form()
    cluster.isolate(2)
    submit(cluster, 3)
    cluster.settle(0, 1)
    cluster.connect(0, 2)
    answers = []

    def go(seconds):
        for _ in range(round(seconds / STEP_S)):
            cluster.tick(STEP_S)
            cluster.settle(0, 1)
            cluster.deliver(0, 2)
            for message in cluster.lose(2, 0):
                if isinstance(message, CaughtUp):
                    answers.append(message)
                else:
                    cluster.inject(2, 0, message)

    go(0.5)
    entries, first = answers
    cluster.inject(2, 0, entries)
    cluster.inject(2, 0, entries)
    go(0.2)
    assert cluster.channels[0].role == "master", "the answer to entries counts"
    go(4.0)
    assert len(answers) == 3, "it was asked again"
    cluster.inject(2, 0, first)
    go(0.2)
    assert cluster.channels[0].role == "master", "the answer to an earlier question counts"
    cluster.inject(2, 0, answers[2])
    go(0.5)
    assert cluster.channels[0].members == (0, 1, 2)
