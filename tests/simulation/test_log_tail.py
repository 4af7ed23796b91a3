"""The log tail that a donor sends beside a state."""

from msgspec.structs import replace

from quorate.hachannel import InstallPart, ProvideSnapshot, Settings
from quorate.hachannel.model.messages import Join, TailEntries
from quorate.testing.channel.manual_cluster import ManualCluster, returning
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def giving_a_state(**settings) -> ManualCluster:
    """Return a cluster whose last replica is back, and has received a whole state, but not installed it."""
    cluster = returning(3, Settings(keep=0, window=16, **settings))
    *_, event = [event for event in cluster.events[0] if isinstance(event, ProvideSnapshot)]
    applied = cluster.channels[0].applied
    cluster.act(0, lambda channel: channel.snapshot_ready(cluster.now, event.token, applied, [b"state"]))
    cluster.settle()
    return cluster


def submit_ten(cluster: ManualCluster) -> None:
    """Submit ten entries, if there is room, which are then on their way to the learner."""
    for _ in range(10):
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))
    cluster.settle(0, 1)
    cluster.tick(0.05, 0, 1)
    cluster.settle(0, 1)


def install_state(cluster: ManualCluster) -> None:
    *_, part = [event for event in cluster.events[2] if isinstance(event, InstallPart)]
    cluster.act(2, lambda channel: channel.part_installed(cluster.now, part.token, b""))


def reconnect(cluster: ManualCluster) -> None:
    """Break the connection between the donor and the learner, and connect them again."""
    for here, there in ((0, 2), (2, 0)):
        cluster.act(here, lambda channel, there=there: channel.disconnected(cluster.now, there))
    cluster.connect(0, 2)


def test_a_learner_holds_a_bounded_log_tail_and_the_master_keeps_the_rest():
    """The state takes long to install while the master is under load."""
    cluster = giving_a_state(max_log=160)
    for _ in range(15):
        submit_ten(cluster)
        cluster.settle()
    held = cluster.channels[2].tail_length
    for _ in range(20):
        submit_ten(cluster)
        cluster.settle()
    assert held == 150
    assert 160 <= cluster.channels[2].tail_length <= 160 + 10 * cluster.settings.transfer_window
    assert not cluster.channels[0].can_submit
    install_state(cluster)
    for _ in range(60):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)


def test_a_learner_with_a_hung_disk_moves_a_bounded_part_of_the_tail_into_its_log():
    """It has the state, and many entries beside it."""
    settings = Settings(keep=0, window=16, part_bytes=200)
    cluster = ScriptedCluster(3, settings=settings, chunk=1, parts=False, disk=True)
    cluster.form()
    learner = cluster.hosts[2]
    learner.crash()
    learner.lose_disk()
    cluster.whole(but=[2])
    for _ in range(30):
        cluster.submit(cluster.master(), 4)
        cluster.run(0.05)
    parts = []
    learner.application.install = parts.append
    learner.start()
    for _ in range(30):
        cluster.submit(cluster.master(), 4)
        cluster.run(0.05)
    held = learner.channel.tail_length
    assert held > 40
    del learner.application.install
    learner.machine.sync_later = lambda: None
    for part in parts:
        learner.driver.act(lambda part=part: learner.application.install(part))
    cluster.run(0.3)
    assert learner.channel.phases.learning == "state"
    assert 0 < held - learner.channel.tail_length < 20
    del learner.machine.sync_later
    learner.machine.sync_later()
    cluster.everywhere(cluster.submit(cluster.whole(), 3))


def test_a_transfer_ends_although_the_last_acknowledgement_is_lost():
    """The learner has the state and the entries beside it in its log."""
    for lost in range(4):
        cluster = giving_a_state(part_bytes=400)
        for _ in range(3):
            submit_ten(cluster)
            cluster.settle()
        install_state(cluster)
        for count in range(200):
            cluster.tick(0.05)
            if count == lost:
                reconnect(cluster)
            cluster.settle()
        assert cluster.channels[0].members == (0, 1, 2)
        assert sum("joins: sends" in note for note in cluster.notes[0]) == 1


def test_entries_beside_a_state_do_not_count_as_progress_of_a_learner():
    """Its application hangs, and another learner waits."""
    cluster = ManualCluster(5, Settings(keep=0, window=16, stall_s=1.0))
    master = cluster.form()
    cluster.isolate(3, 4)
    for _ in range(30):
        for _ in range(10):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1, 2)
        cluster.tick(0.05, 0, 1, 2)
    for late in (3, 4):
        for other in (0, 1, 2):
            cluster.connect(other, late)
    served = []
    for _ in range(400):
        cluster.tick(0.05)
        cluster.act(0, lambda channel: channel.can_submit and channel.submit(cluster.now, 0, b"x"))
        cluster.settle()
        for event in cluster.events[0]:
            if isinstance(event, ProvideSnapshot) and event.token not in served:
                served.append(event.token)
                cluster.act(
                    0,
                    lambda channel, event=event: channel.snapshot_ready(
                        cluster.now, event.token, channel.applied, [b"state"]
                    ),
                )
        if len(served) == 2:
            break
    assert len(served) == 2
    assert master.phases.giving == "state"


def test_a_learner_moves_small_messages_of_the_tail_into_its_log_together():
    """Each write takes as long as a heartbeat, and entries go beside the state one by one."""
    cluster = giving_a_state()
    learner = cluster.channels[2]
    for _ in range(200):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
        cluster.tick(0.05, 0, 1)
        cluster.settle()
    assert learner.tail_length == 200
    install_state(cluster)
    cluster.tick(0.0, 2)
    assert learner.tail_length == 0


def test_entries_beside_a_state_go_once_per_transfer_pause():
    """They go neither as fast as the learner answers nor with heartbeats only."""
    cluster = giving_a_state(transfer_pause_s=0.02)
    messages = entries = 0
    for _ in range(1000):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(0, 1)
        cluster.deliver(2, 0)
        cluster.now += 0.001
        if cluster.channels[0].deadline <= cluster.now:
            cluster.tick(0.0, 0)
        sent = cluster.waiting(0, 2, TailEntries)
        messages, entries = messages + len(sent), entries + sum(len(message.entries) for message in sent)
        cluster.deliver(0, 2)
    assert entries > 950
    assert 40 < messages < 60


def test_a_restarted_learner_that_lost_its_log_tail_begins_a_new_transfer():
    """It is back before anybody noticed, and has nothing of the entries that came beside the state."""
    cluster = giving_a_state()
    for _ in range(10):
        submit_ten(cluster)
        cluster.settle()
    voter = cluster.channels[2].state.me
    join = [message for message in cluster.lose(2, 0) if isinstance(message, Join)]
    while not join:
        cluster.tick(0.05, 2)
        join = [message for message in cluster.lose(2, 0) if isinstance(message, Join)]
    asked = sum(isinstance(event, ProvideSnapshot) for event in cluster.events[0])
    assert cluster.channels[0]._donor.transfer.voter == voter
    cluster.inject(2, 0, replace(join[0], token=0, chunks=0, refused=0))
    assert sum(isinstance(event, ProvideSnapshot) for event in cluster.events[0]) == asked + 1
