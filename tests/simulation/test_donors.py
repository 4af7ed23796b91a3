"""Donors: when a transfer begins again, and which learner has the place."""

import pytest

from quorate.hachannel import ProvideSnapshot, Settings
from quorate.hachannel.model.messages import CatchUp, CaughtUp, ChunkAck, Join
from quorate.hachannel.model.view import NO_TAG, Tag
from quorate.testing.channel.host import Host
from quorate.testing.channel.manual_cluster import ManualCluster, returning
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def submit(cluster, count):
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))


def test_a_learner_that_comes_back_with_less_gets_a_new_transfer():
    """What it knew to be committed had not been synced when its process died. It has taken no part yet."""
    cluster = returning(3, Settings(keep=0))
    state = cluster.channels[2].state
    view = cluster.channels[0].view
    assert view is not None
    cluster.silence(2)
    cluster.tick(0.05, 0, 1)
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    cluster.inject(
        2, 0, Join("c", False, Tag(view.number, 5), 0, 0, b"", False, 0, state.configuration.birth)
    )
    asked = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 5
    cluster.inject(
        2, 0, Join("c", False, Tag(view.number, 3), 0, 0, b"", False, 0, state.configuration.birth)
    )
    asked = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 3


def test_a_learner_that_wants_the_whole_state_is_not_sent_entries():
    """The log of the master has all entries that the learner lacks."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.silence(2)
    cluster.settle()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    state = cluster.channels[2].state
    cluster.inject(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", True, 0, state.configuration.birth))
    assert master.role == "master"
    assert not cluster.waiting(0, 2, CatchUp)
    asked = [event.have for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked == [0]


def test_a_restarted_learner_that_lost_its_parts_begins_a_new_transfer():
    """It is back before anybody noticed, and has nothing of what its earlier process had."""
    for taken, marker in ((1, b""), (0, b"some")):
        cluster = ManualCluster()
        cluster.form()
        cluster.silence(2)
        cluster.settle()
        cluster.start(2, 3, 9)
        cluster.connect(0, 2)
        for way in ((0, 2), (2, 0)):
            cluster.lose(*way)
        birth = cluster.channels[2].state.configuration.birth
        cluster.inject(2, 0, Join("c", False, NO_TAG, 0, 0, marker, True, 0, birth))
        (asked,) = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
        assert asked.marker == marker
        cluster.channels[0].part_ready(cluster.now, asked.token, b"part")
        cluster.flush(0)
        cluster.inject(2, 0, ChunkAck(asked.token, taken, False))
        cluster.inject(2, 0, Join("c", False, NO_TAG, 0, 0, b"", True, 0, birth))
        again = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
        assert [event.marker for event in again] == [marker, b""]


def test_a_transfer_of_an_earlier_reign_ends_when_the_master_accepts_another_view():
    """Its learner has entries that its own log lost to another master, which died before it could go on."""
    cluster = ScriptedCluster(3, witnesses=1, settings=Settings(stall_s=60.0))
    cluster.form()
    old, new, _ = cluster.hosts
    cluster.everywhere(cluster.submit(old, 20))
    learner = Host(cluster.world, 3)
    cluster.hosts.append(learner)
    old.channel.admit(old.clock(), 3, b"")
    old.settle()
    cluster.run(0.5)
    cluster.split([0, 3], [1, 2])
    cluster.submit(old, 5)
    learner.start()
    cluster.until(lambda: learner.channel.last == old.channel.last)
    cluster.until(lambda: new.channel.role == "master")
    cluster.submit(new, 1)
    for way in ((0, 1), (1, 0), (0, 2), (2, 0)):
        cluster.net.mend(way)
    before = old.state.accepted.number
    cluster.until(lambda: old.state.accepted.number > before and old.state.member and not old.state.serving)
    cluster.cut((1, 0), (2, 0))
    cluster.run(0.3)
    assert old.channel.phases.giving == "nobody"
    new.crash()
    cluster.net.mend((2, 0))
    cluster.until(lambda: old.channel.role == "master", 20)
    cluster.mend()
    new.start()
    cluster.whole(seconds=60)


def test_a_learner_that_hears_two_masters_gets_the_state_from_one():
    """The old master is cut off and does not know it. A whole state takes longer than to begin again."""
    cluster = ScriptedCluster(5, settings=Settings(keep=0, part_bytes=200), snapshot_s=1.0, chunk=1)
    old = cluster.form()
    for _ in range(20):
        cluster.submit(old, 100)
        cluster.run(0.3)
    learner = cluster.hosts[4]
    learner.crash()
    cluster.whole(but=[4])
    cluster.split([0], [1, 2, 3])
    cluster.until(lambda: cluster.hosts[1].channel.role == "master", 20)
    learner.start()
    cluster.until(lambda: learner.channel.role == "slave", 20)
    cluster.mend()
    cluster.whole(seconds=60)


def test_a_learner_that_hangs_gives_its_place_to_one_that_waits():
    """Its application takes a part of the state and never answers, and it goes on to announce itself."""
    cluster = ScriptedCluster(5, settings=Settings(keep=0, suspect_s=0.5, stall_s=0.3))
    master = cluster.form()
    for replica in (3, 2):
        cluster.hosts[replica].crash()
        master = cluster.whole(but={replica, 3})
        for _ in range(10):
            cluster.submit(master, 40)
            cluster.run(0.05)
    hangs, waits = cluster.hosts[3], cluster.hosts[2]
    hangs.application.install = lambda event: None
    hangs.start()
    cluster.until(lambda: hangs.channel.phases.learning == "state")
    waits.start()
    master = cluster.whole(but=[3])
    assert sorted(master.channel.members) == [0, 1, 2, 4]
    del hangs.application.install
    hangs.crash()
    hangs.start()
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


def test_a_replica_with_a_hung_disk_is_not_taken_in():
    """It announces itself and lacks nothing, but can promise nothing."""
    cluster = ScriptedCluster(3, settings=Settings(suspect_s=0.5, stall_s=0.3), disk=True)
    cluster.form()
    hangs = cluster.hosts[2]
    hangs.machine.sync_later = lambda: None
    cluster.submit(cluster.master(), 1)
    master = cluster.whole(but=[2])
    before = master.channel.view
    cluster.run(5.0)
    assert master.channel.view == before
    hangs.crash()
    del hangs.machine.sync_later
    hangs.start()
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


def slow_down(cluster, host, write_s):
    """Make every write of a host take this long."""

    def later():
        life = host.life
        cluster.world.at(cluster.world.now + write_s, lambda: host.machine._synced(life))

    host.machine.sync_later = later


def late_with_a_slow_disk(write_s, mode="ALL"):
    """Return a cluster, its master, a replica that returns with a slow disk, and the view without it."""
    cluster = ScriptedCluster(3, settings=Settings(mode=mode), disk=True)
    master = cluster.form()
    cluster.everywhere(cluster.submit(master, 20))
    late = cluster.hosts[2]
    late.crash()
    before = cluster.whole(but=[2]).channel.view
    slow_down(cluster, late, write_s)
    late.start()
    return cluster, master, late, before


def test_a_learner_whose_disk_needs_longer_than_stall_s_for_a_write_is_not_taken_in():
    """It has nothing to write otherwise."""
    cluster, master, late, before = late_with_a_slow_disk(5.5)
    cluster.run(30.0)
    assert master.channel.view == before
    del late.machine.sync_later
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


@pytest.mark.parametrize("write_s", [0.5, 1.5, 4.0])
def test_a_learner_with_a_slow_disk_is_taken_in_at_the_first_attempt(write_s):
    cluster, master, late, before = late_with_a_slow_disk(write_s)
    cluster.run(12 * write_s)
    assert master.channel.view.number.counter == before.number.counter + 1
    assert late.channel.role == "slave"


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_learner_with_a_slow_disk_promises_its_view_while_the_master_goes_on(mode):
    cluster, master, late, before = late_with_a_slow_disk(2.0, mode)
    late_promised = late.channel.state.promised
    cluster.until(lambda: late.channel.state.promised > max(late_promised, before.number))
    assert master.channel.view == before
    assert master.channel.can_submit
    assert master.channel.state.promised == before.number
    payloads = cluster.submit(master, 3)
    cluster.until(lambda: cluster.delivered_once.keys() >= set(payloads))
    assert master.channel.view == before
    cluster.until(lambda: late.channel.role == "slave")
    assert master.channel.view.number.counter == before.number.counter + 1


def test_a_master_that_restarts_uses_no_number_that_a_learner_has_promised():
    cluster, master, late, before = late_with_a_slow_disk(2.0)
    cluster.until(lambda: late.channel.state.promised > before.number)
    promised = late.channel.state.promised
    master.crash()
    master.start()
    assert master.channel.state.promised == promised
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


def test_a_learner_that_reconnects_is_asked_for_its_promise_again():
    cluster, _, late, before = late_with_a_slow_disk(0.5)
    cluster.until(lambda: late.channel.state.promised > before.number)
    late.crash()
    late.start()
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


def test_a_donor_believes_a_learner_that_has_more_than_was_sent_again():
    """What the learner said first came twice and late."""
    cluster = ManualCluster(settings=Settings(part_bytes=1, transfer_window=2, window=16))
    cluster.form()
    cluster.isolate(2)
    for _ in range(10):
        for _ in range(10):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
    cluster.connect(0, 2)
    learner = cluster.channels[2]
    while learner.commit < 8:
        cluster.tick(0.05)
        cluster.settle(0, 1)
        cluster.deliver(2, 0)
        cluster.deliver(0, 2)
    [*_, answer] = cluster.waiting(2, 0, CaughtUp)
    cluster.inject(2, 0, CaughtUp(answer.token, 2, 2, True))
    for _ in range(100):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)


def test_a_learner_that_answers_late_gives_its_place_to_one_that_waits():
    """One of two learners takes more than a second to answer, though entries come all the time."""
    cluster = ManualCluster(5, Settings(stall_s=1.5))
    cluster.form()
    cluster.isolate(3, 4)
    master = cluster.channels[0]
    cluster.connect(0, 3)
    cluster.tick(0.2, 3)
    cluster.deliver(3, 0)
    cluster.connect(0, 4)
    late = []
    for _ in range(400):
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))
        cluster.tick(0.05)
        cluster.deliver(0, 3)
        for message in cluster.lose(3, 0):
            late.append((cluster.now + 1.5 * isinstance(message, CaughtUp), message))
        for due, message in list(late):
            if cluster.now >= due:
                late.remove((due, message))
                cluster.inject(3, 0, message)
        cluster.settle(0, 1, 2, 4)
    assert master.members == (0, 1, 2, 4)


def test_an_acknowledgement_of_an_earlier_transfer_does_not_count():
    """A learner has lost its entries and gets them again; what it said before comes late."""
    cluster = ManualCluster()
    master = cluster.form()
    cluster.silence(2)
    cluster.settle()
    submit(cluster, 9)
    cluster.settle()
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.lose(2, 0)
    state = cluster.channels[2].state

    birth = state.configuration.birth

    def joins(refused):
        cluster.inject(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", False, refused, birth))
        return cluster.waiting(0, 2, CatchUp)[-1].token

    first = joins(0)
    cluster.inject(2, 0, CaughtUp(first, 9, 9, False))
    assert joins(first) > first
    cluster.inject(2, 0, CaughtUp(first, 9, 9, False))
    assert master._donor.transfer.phase.acked == 0
