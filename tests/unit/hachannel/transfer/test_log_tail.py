"""Entries that go to a learner beside the state, and what it does with them."""

import pytest
from msgspec.structs import replace

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import CatchUp, Entry, TailEntries
from quorate.hachannel.model.settings import TRIM_STEP
from quorate.hachannel.model.view import Tag, ViewNumber
from quorate.hachannel.transfer.log_tail import TailReceiver, TailSender
from quorate.testing.channel.manual_cluster import ManualCluster, SlowLog, returning

N1 = ViewNumber(1, 0, 1)
PARTS = 10


def giving(cluster: ManualCluster, parts: int = PARTS) -> int:
    """The master's application gives its state; returns the entry it is of. The learner has nothing yet."""
    *_, event = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    applied = cluster.channels[0].applied
    pieces = [b"part"] * parts
    cluster.act(0, lambda channel: channel.snapshot_ready(cluster.now, event.token, applied, pieces))
    return applied


def submit(cluster: ManualCluster, count: int, payload: bytes = b"x") -> None:
    """Entries that all members commit; time passes for the members."""
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, payload))
    cluster.settle(0, 1)
    cluster.tick(0.05, 0, 1)
    cluster.settle(0, 1)


def parts(cluster: ManualCluster) -> list[InstallPart]:
    """What the learner's application got in the present transfer."""
    came = [event for event in cluster.events[2] if isinstance(event, InstallPart)]
    return [event for event in came if event.token == came[-1].token]


def install(cluster: ManualCluster, count: int = PARTS) -> None:
    """The learner's application takes so many parts, one after the other; what comes next is on its way."""
    for done in range(count):
        while len(parts(cluster)) <= done:
            cluster.settle()
            cluster.tick(0.05)
        if done == count - 1:
            cluster.settle()
        token = parts(cluster)[done].token
        cluster.act(2, lambda channel, token=token: channel.part_installed(cluster.now, token, b"m"))


def trimmed(**settings) -> ManualCluster:
    """A cluster whose last replica is back, and needs the state."""
    return returning(3, Settings(keep=0, window=16, **settings))


def joined(cluster: ManualCluster) -> None:
    """The replica that was away is a member, and has what the others have."""
    for _ in range(100):
        cluster.settle()
        cluster.tick(0.05)
        if len(cluster.channels[0].members) == 3:
            break
    assert cluster.channels[0].members == (0, 1, 2)
    submit(cluster, 1, b"last")
    cluster.settle()
    cluster.tick(0.05)
    cluster.settle()
    assert cluster.channels[2].applied == cluster.channels[0].applied
    assert cluster.payloads(2)[-1] == b"last"


def test_the_master_keeps_nothing_that_the_learner_has_beside_the_state():
    cluster = trimmed()
    start = giving(cluster)
    master = cluster.channels[0]
    for _ in range(100):
        submit(cluster, 10)
        cluster.settle()
        assert len(master.state.log) <= 10 + TRIM_STEP
    assert master.phases.giving == "state"
    install(cluster)
    cluster.settle()
    # All of it is here, and nothing of it has to come again.
    while cluster.channels[2].phases.learning == "state":
        cluster.tick(0.0, 2)
        assert not cluster.waiting(0, 2, CatchUp)
    assert cluster.channels[2].applied == start + 1000
    assert cluster.payloads(2)[-1000:] == [b"x"] * 1000
    joined(cluster)


def test_only_what_is_committed_goes_beside_the_state():
    cluster = trimmed()
    giving(cluster)
    cluster.settle()
    for _ in range(5):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.tick(0.05, 0)
    assert not cluster.waiting(0, 2, TailEntries)
    cluster.settle(0, 1)
    cluster.tick(0.05, 0)
    [message] = cluster.waiting(0, 2, TailEntries)
    assert len(message.entries) == 5


@pytest.mark.parametrize("lost", ["first", "second", "answers"])
def test_what_is_lost_on_the_way_goes_again(lost):
    cluster = trimmed()
    start = giving(cluster)
    cluster.settle()
    for number in range(4):
        submit(cluster, 10)
        if (lost, number) in {("first", 0), ("second", 1)}:
            assert [message for message in cluster.lose(0, 2) if isinstance(message, TailEntries)]
        cluster.deliver(0, 2)
        if lost == "answers":
            cluster.lose(2, 0)
        cluster.deliver(2, 0)
    lead = cluster.channels[0]._donor.transfer.phase.tail
    assert lead.acked == start + {"first": 0, "second": 10, "answers": 0}[lost]
    for _ in range(100):
        cluster.tick(0.05)
        cluster.settle()
    assert lead.acked == start + 40
    install(cluster)
    joined(cluster)


def test_what_was_under_way_when_the_connection_broke_goes_again():
    cluster = trimmed()
    start = giving(cluster)
    cluster.settle()
    submit(cluster, 10)
    for here, there in ((0, 2), (2, 0)):
        cluster.act(here, lambda channel, there=there: channel.disconnected(cluster.now, there))
    cluster.connect(0, 2)
    for _ in range(3):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0]._donor.transfer.phase.tail.acked == start + 10
    install(cluster)
    joined(cluster)


def test_the_view_may_change_meanwhile():
    """The master stays; what the learner was to be told goes on, also what it answers while nobody leads."""
    cluster = trimmed()
    start = giving(cluster)
    cluster.settle()
    submit(cluster, 10)
    cluster.deliver(0, 2)
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test"))
    cluster.deliver(2, 0)
    assert cluster.channels[0].role == "changing"
    cluster.settle()
    assert cluster.channels[0].role == "master"
    submit(cluster, 10)
    cluster.settle()
    lead = cluster.channels[0]._donor.transfer.phase.tail
    assert lead.acked == start + 20
    install(cluster)
    joined(cluster)


@pytest.mark.parametrize("bound", [{"max_log": 160}, {"max_log_bytes": 160}])
def test_a_learner_holds_no_more_than_the_settings_allow(bound):
    """The log at the master is as long as it may be after that, and all wait, as they did before."""
    cluster = trimmed(stall_s=1.0, **bound)
    start = giving(cluster)
    cluster.settle()
    master, learner = cluster.channels[0], cluster.channels[2]
    taken = 0
    for _ in range(100):
        if not master.can_submit:
            break
        submit(cluster, 10)
        taken += 10
        cluster.settle()
    held = learner._learner.learning.tail
    # Beyond that only what was under way. Nothing of it is lost: the master has it, too.
    assert 150 <= held.acked - start <= 160
    assert len(held) == held.acked - start + 10 * cluster.settings.transfer_window
    assert taken == held.acked - start + 160
    # It has taken what it had, and goes on where it was.
    install(cluster)
    joined(cluster)


def test_the_more_of_the_state_it_has_taken_the_more_a_learner_holds():
    cluster = trimmed(max_log=160)
    *_, event = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    applied = cluster.channels[0].applied
    parts = [bytes(100 * 1024), b"end"]
    cluster.act(0, lambda channel: channel.snapshot_ready(cluster.now, event.token, applied, parts))
    cluster.settle()
    install(cluster, 1)
    for _ in range(50):
        submit(cluster, 10)
        cluster.settle()
    assert len(cluster.channels[2]._learner.learning.tail) >= 160 + 2 * 100


def disk() -> ManualCluster:
    """A learner that has the state, and three messages of entries beside it, whose disk is slow."""
    cluster = ManualCluster(
        settings=Settings(keep=0, window=16, part_bytes=400), logs=[None, None, SlowLog()]
    )

    def form() -> None:
        for _ in range(40):
            cluster.settle()
            cluster.sync(2)
            cluster.tick(0.01)

    form()
    assert [channel.role for channel in cluster.channels.values()] == ["master", "slave", "slave"]
    cluster.silence(2)
    while len(cluster.channels[0].members) == 3:
        cluster.settle()
        cluster.tick(0.05)
    for _ in range(40):
        submit(cluster, 5)
    cluster.start(2, 3, 9, SlowLog())
    for other in (0, 1):
        cluster.connect(other, 2)
    for _ in range(10):
        cluster.settle()
        cluster.sync(2)
        cluster.tick(0.05)
    giving(cluster, 1)
    cluster.settle()
    for _ in range(3):
        submit(cluster, 10)
        cluster.settle()
    install(cluster, 1)
    return cluster


def test_a_learner_with_a_disk_takes_no_more_at_a_time_than_that_has():
    """What it has not written it would hold twice, and its disk would hang behind all of it."""
    cluster = disk()
    learner = cluster.channels[2]
    start = learner.state.log.base.at
    assert learner.state.log.last.at == start
    for count in (10, 20, 30):
        for _ in range(3):
            cluster.tick(0.0, 2)
            cluster.settle(0, 2)
        assert learner.state.log.last.at == start + count
        assert learner.phases.learning == ("entries" if count == 30 else "state")
        assert cluster.channels[0].phases.giving == "state"
        cluster.sync(2)
    cluster.settle()
    assert cluster.channels[0].phases.giving == "entries"


def test_a_learner_without_a_disk_takes_a_part_at_a_time():
    """Its master hears from it in between."""
    cluster = trimmed(part_bytes=400)
    start = giving(cluster, 1)
    cluster.settle()
    for _ in range(3):
        submit(cluster, 10)
        cluster.settle()
    learner = cluster.channels[2]
    install(cluster, 1)
    for count in (10, 20, 30):
        assert learner.deadline <= cluster.now
        cluster.tick(0.0, 2)
        assert learner.state.log.last.at == start + count
    assert learner.phases.learning == "entries"


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": 7},
        {"start": 7},
        {"start": -1, "base": Tag(N1, -1)},
        {"entries": ()},
    ],
)
def test_what_is_not_of_this_transfer_is_not_held(wrong):
    cluster = trimmed()
    giving(cluster)
    cluster.settle()
    learning = cluster.channels[2]._learner.learning
    submit(cluster, 3)
    [message] = [message for message in cluster.lose(0, 2) if isinstance(message, TailEntries)]
    cluster.inject(0, 2, replace(message, **wrong))
    cluster.inject(1, 2, message)
    assert len(learning.tail) == 0
    cluster.inject(0, 2, message)
    assert len(learning.tail) == 3


def test_what_does_not_follow_what_is_held_is_not_held():
    cluster = trimmed()
    giving(cluster)
    cluster.settle()
    learning = cluster.channels[2]._learner.learning
    submit(cluster, 4)
    [message] = [message for message in cluster.lose(0, 2) if isinstance(message, TailEntries)]
    one, two, three, four = message.entries
    cluster.inject(0, 2, replace(message, entries=(two, one)))
    assert len(learning.tail) == 0
    cluster.inject(0, 2, replace(message, entries=(one,)))
    cluster.inject(0, 2, replace(message, base=Tag(two.view, two.index), entries=(three, four)))
    assert len(learning.tail) == 1
    # A part of it is known.
    cluster.inject(0, 2, message)
    assert len(learning.tail) == 4
    assert learning.tail.size_bytes == 4
    cluster.lose(2, 0)
    install(cluster)
    cluster.tick(0.0, 2)
    cluster.tick(0.0, 2)
    assert cluster.channels[2].applied == four.index


def test_entries_that_do_not_follow_the_state_end_the_transfer():
    """The base that they were said to have is another entry than that of the state."""
    cluster = trimmed()
    start = giving(cluster)
    cluster.settle()
    submit(cluster, 3)
    [message] = [message for message in cluster.lose(0, 2) if isinstance(message, TailEntries)]
    cluster.inject(0, 2, replace(message, base=Tag(ViewNumber(9, 0, 9), start)))
    install(cluster)
    assert any("do not follow it" in note for note in cluster.notes[2])
    assert cluster.channels[2].applied == start
    for _ in range(10):
        cluster.tick(0.05)
        cluster.settle()
    giving(cluster)
    cluster.settle()
    install(cluster)
    joined(cluster)


def test_an_acknowledgement_of_what_was_never_given_is_none():
    lead = TailSender(0.0, 1, 4, 10)
    log = MemoryLog()
    assert not lead.ack(1.0, log, 11)
    assert (lead.acked, lead.moved, lead.waits) == (10, 0.0, False)


def test_no_more_messages_are_taken_than_may_be_under_way():
    """A master that does not wait for answers fills nothing."""
    held = TailReceiver(window=2)
    base = Tag(N1, 5)
    for index in range(6, 16):
        entry = Entry(N1, index, 0, b"x")
        held.add(TailEntries(1, 5, Tag(N1, index - 1), (entry,)))
    assert held.base == base
    assert len(held) == 4
    held.ack()
    assert held.acked == 9
