"""The normal case: repairs, acknowledgements, the bounds of the log, and what all members hold."""

from contextlib import contextmanager

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import Ack, Chunk, Commit, Data, Entry, Heartbeat, Repair
from quorate.hachannel.model.view import Tag, ViewNumber, Voter
from quorate.testing.channel.manual_cluster import ManualCluster, with_disks
from quorate.testing.schedules.scripted_cluster import alone_with_a_change


def was_master():
    """Return a cluster whose former master, replica 0, has installed the state of the later view."""
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"old"))
    for other in (1, 2):
        cluster.deliver(0, other)
    number = ViewNumber(cluster.channels[2].state.promised.counter + 4, 2, 3)
    cluster.inject(2, 0, Heartbeat(number, number, True, True, True, True, False, 60, 60, 60, 0, 0))
    assert not cluster.channels[0].state.member
    cluster.inject(2, 0, Chunk(1 << 40, 0, b"state", False, Tag(number, 50)))
    cluster.act(0, lambda channel: channel.part_installed(cluster.now, 1 << 40))
    assert cluster.channels[0].applied == 50
    return cluster


@contextmanager
def nothing_raised():
    try:
        yield
    except LookupError as error:
        raise AssertionError("it looks for entries that are gone") from error


def submit(cluster, count):
    for _ in range(count):
        cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))


def test_a_log_held_by_a_change_is_bounded_in_bytes():
    """The last entry may exceed the limit a little."""
    alone_with_a_change(lambda log: log.size_bytes < 1010, Settings(window=16, keep=0, max_log_bytes=1000))


def test_a_late_repair_of_acknowledged_entries_is_not_answered():
    """The master will soon have trimmed those entries."""
    cluster = ManualCluster()
    master = cluster.form()
    view = master.view
    assert view is not None
    for _ in range(20):
        for _ in range(10):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle()
        cluster.tick(0.05)
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.lose(0, 1)
    cluster.inject(1, 0, Repair(view.number, 100))
    assert cluster.waiting(0, 1) == []
    for _ in range(40):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.payloads(1) == cluster.payloads(0) == [b"x"] * 201


def test_the_end_of_an_earlier_process_says_nothing_of_the_present_one():
    """The connection to the present process breaks for a moment."""
    cluster = ManualCluster()
    cluster.form()
    cluster.silence(2)
    cluster.start(2, 3, 9)
    cluster.connect(0, 2)
    cluster.connect(1, 2)
    for _ in range(200):
        cluster.settle()
        cluster.tick(0.05)
    assert cluster.channels[0].members == (0, 1, 2)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    assert not cluster.channels[0].proposing
    assert not cluster.channels[0].state.peers.ended(Voter(2, 9))


def test_a_former_master_sends_nothing_to_a_reconnected_slave():
    """The entries that the slave lacks are gone from its log."""
    cluster = was_master()
    with nothing_raised():
        cluster.connect(0, 1)
    assert not cluster.waiting(0, 1, Data)


def test_a_former_master_ignores_late_acknowledgements():
    """They are for entries that are gone from its log."""
    cluster = was_master()
    for other in (1, 2):
        assert cluster.waiting(other, 0, Ack)
        with nothing_raised():
            cluster.deliver(other, 0)
    assert cluster.channels[0].applied == 50


def test_a_slave_left_out_of_an_active_view_acknowledges_nothing_of_the_earlier_one():
    """Its disk is slow, and its log may lose those entries next."""
    cluster = with_disks()
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
    cluster.deliver(0, 2)
    cluster.channels[2].state.supersede(ViewNumber(9, 1, 2))
    cluster.sync(2)
    assert not cluster.waiting(2, 0, Ack)


def test_a_repair_of_an_earlier_view_is_not_answered():
    """With the new view the slave was sent what it lacked."""
    cluster = ManualCluster()
    master = cluster.form()
    earlier = master.view.number
    cluster.isolate(2)
    submit(cluster, 3)
    cluster.deliver(0, 1)
    cluster.inject(1, 0, Repair(earlier, 1))
    assert not cluster.waiting(0, 1, Data)


def test_a_change_that_has_taken_effect_holds_the_log_no_longer():
    cluster = ManualCluster(settings=Settings(mode="MAJORITY", window=16, keep=0, max_log=160))
    master = cluster.form()
    cluster.act(0, lambda channel: channel.admit(cluster.now, 3, b"place", witness=False))
    cluster.settle()
    assert 3 in [seat.replica for seat in master.view.seats]
    for _ in range(300):
        submit(cluster, 1)
        cluster.deliver(0, 1)
        cluster.deliver(1, 0)
        if len(master.state.log) >= 160:
            break
    assert len(master.state.log) == 160
    assert master.can_submit


def test_a_slave_reports_nothing_stable_beyond_its_commit_index():
    """What all members hold is committed, and the slave reports only what it has delivered."""
    for kind in (Data, Commit, Heartbeat):
        cluster = ManualCluster()
        number = cluster.form().view.number
        words = {
            Data: Data(Entry(number, 1, 0, b"x"), 0, 0, 1),
            Commit: Commit(number, 0, 0, 1),
            Heartbeat: Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 1),
        }
        cluster.inject(0, 1, words[kind])
        assert cluster.channels[1].stable == 0, f"it believes a {kind.__name__}"
