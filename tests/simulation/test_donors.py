"""Donors: when a transfer begins again, and which learner has the place."""

from quorate.hachannel import ProvideSnapshot, Settings
from quorate.hachannel.model.messages import CatchUp, CaughtUp, ChunkAck, Join
from quorate.hachannel.model.view import NO_TAG, Tag
from quorate.testing.channel.host import Host
from quorate.testing.channel.manual_cluster import ManualCluster, returning
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def submit(hand, count):
    for _ in range(count):
        hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))


def test_a_learner_that_comes_back_with_less_gets_a_new_transfer():
    """What it knew to be committed had not been synced when its process died. It has taken no part yet."""
    hand = returning(3, Settings(keep=0))
    state = hand.channels[2].state
    view = hand.channels[0].view
    assert view is not None
    hand.silence(2)
    hand.tick(0.05, 0, 1)
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    hand.inject(2, 0, Join("c", False, Tag(view.number, 5), 0, 0, b"", False, 0, state.configuration.birth))
    asked = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 5
    hand.inject(2, 0, Join("c", False, Tag(view.number, 3), 0, 0, b"", False, 0, state.configuration.birth))
    asked = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked[-1].have == 3


def test_a_learner_that_wants_the_whole_state_is_not_sent_entries():
    """The log of the master has all entries that the learner lacks."""
    hand = ManualCluster()
    master = hand.form()
    hand.silence(2)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    state = hand.channels[2].state
    hand.inject(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", True, 0, state.configuration.birth))
    assert master.role == "master"
    assert not hand.waiting(0, 2, CatchUp)
    asked = [event.have for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
    assert asked == [0]


def test_a_restarted_learner_that_lost_its_parts_begins_a_new_transfer():
    """It is back before anybody noticed, and has nothing of what its earlier process had."""
    for taken, marker in ((1, b""), (0, b"some")):
        hand = ManualCluster()
        hand.form()
        hand.silence(2)
        hand.settle()
        hand.start(2, 3, 9)
        hand.connect(0, 2)
        for way in ((0, 2), (2, 0)):
            hand.lose(*way)
        birth = hand.channels[2].state.configuration.birth
        hand.inject(2, 0, Join("c", False, NO_TAG, 0, 0, marker, True, 0, birth))
        (asked,) = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
        assert asked.marker == marker
        hand.channels[0].part_ready(hand.now, asked.token, b"part")
        hand.flush(0)
        hand.inject(2, 0, ChunkAck(asked.token, taken, False))
        hand.inject(2, 0, Join("c", False, NO_TAG, 0, 0, b"", True, 0, birth))
        again = [event for event in hand.events[0] if isinstance(event, ProvideSnapshot)]
        assert [event.marker for event in again] == [marker, b""]


def test_a_transfer_of_an_earlier_reign_ends_when_the_master_accepts_another_view():
    """Its learner has entries that its own log lost to another master, which died before it could go on."""
    script = ScriptedCluster(3, witnesses=1, settings=Settings(stall_s=60.0))
    script.form()
    old, new, _ = script.hosts
    script.everywhere(script.submit(old, 20))
    learner = Host(script.world, 3)
    script.hosts.append(learner)
    old.channel.admit(old.clock(), 3, b"")
    old.settle()
    script.run(0.5)
    script.split([0, 3], [1, 2])
    script.submit(old, 5)
    learner.start()
    script.until(lambda: learner.channel.last == old.channel.last)
    script.until(lambda: new.channel.role == "master")
    script.submit(new, 1)
    for way in ((0, 1), (1, 0), (0, 2), (2, 0)):
        script.net.mend(way)
    before = old.state.accepted.number
    script.until(lambda: old.state.accepted.number > before and old.state.member and not old.state.serving)
    script.cut((1, 0), (2, 0))
    script.run(0.3)
    assert old.channel.phases.giving == "nobody"
    new.crash()
    script.net.mend((2, 0))
    script.until(lambda: old.channel.role == "master", 20)
    script.mend()
    new.start()
    script.whole(seconds=60)


def test_a_learner_that_hears_two_masters_gets_the_state_from_one():
    """The old master is cut off and does not know it. A whole state takes longer than to begin again."""
    script = ScriptedCluster(5, settings=Settings(keep=0, part_bytes=200), snapshot_s=1.0, chunk=1)
    old = script.form()
    for _ in range(20):
        script.submit(old, 100)
        script.run(0.3)
    learner = script.hosts[4]
    learner.crash()
    script.whole(but=[4])
    script.split([0], [1, 2, 3])
    script.until(lambda: script.hosts[1].channel.role == "master", 20)
    learner.start()
    script.until(lambda: learner.channel.role == "slave", 20)
    script.mend()
    script.whole(seconds=60)


def test_a_learner_that_hangs_gives_its_place_to_one_that_waits():
    """Its application takes a part of the state and never answers, and it goes on to announce itself."""
    script = ScriptedCluster(5, settings=Settings(keep=0, suspect_s=0.5, stall_s=0.3))
    master = script.form()
    for replica in (3, 2):
        script.hosts[replica].crash()
        master = script.whole(but={replica, 3})
        for _ in range(10):
            script.submit(master, 40)
            script.run(0.05)
    hangs, waits = script.hosts[3], script.hosts[2]
    hangs.application.install = lambda event: None
    hangs.start()
    script.until(lambda: hangs.channel.phases.learning == "state")
    waits.start()
    master = script.whole(but=[3])
    assert sorted(master.channel.members) == [0, 1, 2, 4]
    del hangs.application.install
    hangs.crash()
    hangs.start()
    script.everywhere(script.submit(script.whole(), 3))


def test_a_replica_with_a_hung_disk_is_not_taken_in():
    """It announces itself and lacks nothing, but can promise nothing."""
    script = ScriptedCluster(3, settings=Settings(suspect_s=0.5, stall_s=0.3), disk=True)
    script.form()
    hangs = script.hosts[2]
    hangs.machine.sync_later = lambda: None
    script.submit(script.master(), 1)
    master = script.whole(but=[2])
    before = master.channel.view
    script.run(5.0)
    assert master.channel.view == before
    hangs.crash()
    del hangs.machine.sync_later
    hangs.start()
    script.everywhere(script.submit(script.whole(), 3))


def test_a_learner_whose_disk_is_slower_than_a_view_change_is_not_taken_in():
    """It has nothing to write otherwise."""
    script = ScriptedCluster(3, disk=True)
    master = script.form()
    script.everywhere(script.submit(master, 20))
    late = script.hosts[2]
    late.crash()
    before = script.whole(but=[2]).channel.view
    sync_later = late.machine.sync_later

    def later():
        life = late.life
        script.world.at(script.world.now + 1.5, lambda: late.machine._synced(life))

    late.machine.sync_later = later
    late.start()
    script.run(30.0)
    assert master.channel.view == before
    late.machine.sync_later = sync_later
    script.everywhere(script.submit(script.whole(), 3))


def test_a_donor_believes_a_learner_that_has_more_than_was_sent_again():
    """What the learner said first came twice and late."""
    hand = ManualCluster(settings=Settings(part_bytes=1, transfer_window=2, window=16))
    hand.form()
    hand.isolate(2)
    for _ in range(10):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(0, 1)
    hand.connect(0, 2)
    learner = hand.channels[2]
    while learner.commit < 8:
        hand.tick(0.05)
        hand.settle(0, 1)
        hand.deliver(2, 0)
        hand.deliver(0, 2)
    [*_, answer] = hand.waiting(2, 0, CaughtUp)
    hand.inject(2, 0, CaughtUp(answer.token, 2, 2, True))
    for _ in range(100):
        hand.settle()
        hand.tick(0.05)
    assert hand.channels[0].members == (0, 1, 2)


def test_a_learner_that_answers_late_gives_its_place_to_one_that_waits():
    """One of two learners takes more than a second to answer, though entries come all the time."""
    hand = ManualCluster(5, Settings(stall_s=1.5))
    hand.form()
    hand.isolate(3, 4)
    master = hand.channels[0]
    hand.connect(0, 3)
    hand.tick(0.2, 3)
    hand.deliver(3, 0)
    hand.connect(0, 4)
    late = []
    for _ in range(400):
        hand.act(0, lambda channel: channel.can_submit and channel.submit(hand.now, 0, b"x"))
        hand.tick(0.05)
        hand.deliver(0, 3)
        for message in hand.lose(3, 0):
            late.append((hand.now + 1.5 * isinstance(message, CaughtUp), message))
        for due, message in list(late):
            if hand.now >= due:
                late.remove((due, message))
                hand.inject(3, 0, message)
        hand.settle(0, 1, 2, 4)
    assert master.members == (0, 1, 2, 4)


def test_an_acknowledgement_of_an_earlier_transfer_does_not_count():
    """A learner has lost its entries and gets them again; what it said before comes late."""
    hand = ManualCluster()
    master = hand.form()
    hand.silence(2)
    hand.settle()
    submit(hand, 9)
    hand.settle()
    hand.start(2, 3, 9)
    hand.connect(0, 2)
    hand.lose(2, 0)
    state = hand.channels[2].state

    birth = state.configuration.birth

    def joins(refused):
        hand.inject(2, 0, Join("c", False, state.log.tag(0), 0, 0, b"", False, refused, birth))
        return hand.waiting(0, 2, CatchUp)[-1].token

    first = joins(0)
    hand.inject(2, 0, CaughtUp(first, 9, 9, False))
    assert joins(first) > first
    hand.inject(2, 0, CaughtUp(first, 9, 9, False))
    assert master._donor.transfer.phase.acked == 0
