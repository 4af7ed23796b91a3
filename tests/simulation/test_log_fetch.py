"""View changes that take long: a proposer fetches the log, and members receive it."""

import attrs

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import Entry, Fetch, NewView, Prepare, Suffix, Yield
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.testing import simulate
from quorate.testing.channel.manual_cluster import ManualCluster
from quorate.testing.schedules.random_schedules import administered, draw

ENTRIES = 8


def number(counter: int, replica: int) -> ViewNumber:
    return ViewNumber(counter, replica, replica + 1)


def orphaned(replicas: int, holder: int, settings: Settings) -> ManualCluster:
    """Return a cluster without its master, whose last entries only one slave has."""
    cluster = ManualCluster(replicas, settings)
    cluster.form()
    # The proposals of the founding do not count any more.
    cluster.tick(0.01)
    cluster.settle()
    for count in range(ENTRIES):
        cluster.act(0, lambda channel, count=count: channel.submit(cluster.now, 0, b"%d" % count))
    cluster.deliver(0, holder)
    cluster.silence(0)
    return cluster


def interrupt(cluster: ManualCluster, counter: int) -> None:
    """Let replica 3 propose a view while replica 1 fetches the log of 2, and yield to 1."""
    cluster.lose(1, 2)
    for replica in (1, 2):
        cluster.inject(3, replica, Prepare(number(counter, 3), "it takes too long"))
    assert cluster.channels[1].phases.change == "idle"
    cluster.inject(3, 1, Yield(number(counter, 3), "it takes too long"))


VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))


SOON_S = 15.0
"""A cluster on narrow connections is whole again before that."""


def test_an_interrupted_proposer_keeps_the_parts_of_the_log_that_it_fetched():
    """If it began from the start each time, it would never have the whole log."""
    cluster = orphaned(4, 2, Settings(part_bytes=40))
    for pair in ((2, 1), (3, 1)):
        cluster.deliver(*pair)
    asked: list[int] = []
    for counter in range(9, 9 + 2 * ENTRIES):
        for pair in ((1, 2), (1, 3), (2, 1), (3, 1)):
            cluster.deliver(*pair)
        asked += [message.index for message in cluster.waiting(1, 2, Fetch)]
        cluster.deliver(1, 2)
        cluster.deliver(2, 1)
        if cluster.channels[1].phases.change == "fetching":
            interrupt(cluster, counter)
        else:
            cluster.settle()
    payloads = [b"%d" % count for count in range(ENTRIES)]
    assert cluster.payloads(1) == cluster.payloads(2) == cluster.payloads(3) == payloads
    assert asked == sorted(set(asked))


def test_fetched_entries_of_one_view_are_not_used_for_another():
    """A proposer is interrupted, and the next view has other entries than those that it has fetched."""
    cluster = orphaned(3, 2, Settings())
    for pair in ((2, 1), (1, 2), (2, 1)):
        cluster.deliver(*pair)
    [fetch] = cluster.waiting(1, 2, Fetch)
    old, new = number(1, 0), number(8, 1)
    cluster.inject(2, 1, Suffix(fetch.number, 0, (Entry(old, 1, 0, b"old"),)))
    cluster.lose(1, 2)
    view = View(new, VOTERS, VOTERS[1:], 2, 0)
    for replica in (1, 2):
        cluster.channels[replica].state.accept(view)
    entries = (Entry(new, 1, 0, b"new"), Entry(new, 2, 0, b"newer"))
    cluster.channels[2].state.replicated.splice((), 0)
    cluster.channels[2].state.replicated.splice(entries, 2)
    cluster.inject(2, 1, Prepare(number(9, 2), "test"))
    cluster.inject(2, 1, Yield(number(9, 2), "test"))
    cluster.settle()
    assert cluster.payloads(1) == cluster.payloads(2) == [b"new", b"newer"]


def test_a_proposer_does_not_give_up_while_parts_of_the_log_arrive():
    """One part takes longer than the attempt timeout of the other replica; all take more than twice that."""
    cluster = orphaned(3, 2, Settings(part_bytes=40, view_change_s=0.5))
    began = cluster.now
    while not cluster.payloads(1) and cluster.now < began + 9.0:
        cluster.deliver(1, 2)
        cluster.deliver(2, 1)
        cluster.tick(0.3, 1, 2)
    assert not [note for note in cluster.notes[1] if "not installed" in note]
    assert len(cluster.payloads(1)) == ENTRIES
    assert cluster.now - began > 4 * 0.5


def test_a_view_goes_on_without_a_member_that_does_not_take_the_log_in_time():
    """The member is slow and lacks much. It joins again later."""
    for mode in ("ALL", "MAJORITY"):
        cluster = orphaned(3, 1, Settings(mode=mode, view_change_s=0.5))
        began = cluster.now
        while cluster.channels[1].role != "master" and cluster.now < began + 9.0:
            cluster.deliver(2, 1)
            for message in cluster.lose(1, 2):
                if not isinstance(message, NewView):
                    cluster.inject(1, 2, message)
            cluster.tick(0.05, 1, 2)
        assert cluster.channels[1].view.members == VOTERS[1:2]
        assert len(cluster.payloads(1)) == ENTRIES
        for _ in range(20):
            cluster.settle()
            cluster.tick(0.1, 1, 2)
        assert cluster.channels[1].view.members == VOTERS[1:3]
        assert len(cluster.payloads(2)) == ENTRIES


def test_a_part_that_takes_long_is_asked_for_less_and_less_often():
    """Each part takes several times `retry_s`; a part that was asked for twice would come twice."""
    cluster = orphaned(3, 2, Settings(part_bytes=40))
    cluster.lose(1, 2)
    free, carried = cluster.now, 0
    while not cluster.payloads(1) and cluster.now < 130.0:
        cluster.tick(0.05, 1, 2)
        while cluster.wires[2, 1] and not (isinstance(cluster.wires[2, 1][0], Suffix) and cluster.now < free):
            if isinstance(cluster.wires[2, 1][0], Suffix):
                free, carried = cluster.now + 0.4, carried + 1
            cluster.deliver(2, 1, 1)
        cluster.deliver(1, 2)
    assert len(cluster.payloads(1)) == ENTRIES
    assert carried < 2 * ENTRIES, f"{carried} parts for {ENTRIES}"


def test_a_log_that_takes_long_is_sent_to_a_member_less_and_less_often():
    cluster = orphaned(3, 1, Settings(view_change_s=8.0))
    sent = 0
    for _ in range(150):
        cluster.deliver(2, 1)
        for message in cluster.lose(1, 2):
            sent += isinstance(message, NewView)
            if not isinstance(message, NewView):
                cluster.inject(1, 2, message)
        cluster.tick(0.05, 1, 2)
    assert cluster.channels[1].phases.change == "installing"
    assert 2 < sent < 6, f"{sent} times in 7 s"


def test_attempt_timeouts_grow_until_a_view_fits_on_narrow_connections():
    """Three replicas propose in turns; with fixed timeouts they would interrupt each other for ever."""
    for seed in (384, 73):
        schedule = attrs.evolve(draw(seed, profile="narrow"), deaths="none")
        assert simulate(schedule, seed=seed).healed_s < SOON_S


def test_a_learner_that_missed_a_view_must_be_nearer_for_the_next():
    """What it lacks takes longer than a view change may, and the others stand still meanwhile."""
    schedule = attrs.evolve(administered(draw(21, disk=True, profile="narrow")), deaths="none")
    assert simulate(schedule, seed=21).healed_s < SOON_S
