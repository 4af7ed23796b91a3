"""Triggers of view changes: when a slave may propose, and when a master drops a slave."""

from quorate.hachannel import Channel, Settings
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.messages import Ack, Exit, Heartbeat, Prepare
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.testing.channel.manual_cluster import ManualCluster
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

VOTERS = (Voter(0, 1), Voter(1, 2), Voter(2, 3))


def without_acknowledgements(cluster, seconds):
    """Let time pass; the Acks of the last replica are lost."""
    for _ in range(round(seconds / 0.05)):
        cluster.settle(0, 1)
        cluster.deliver(0, 2)
        for there in (0, 1):
            for message in cluster.lose(2, there):
                if not isinstance(message, Ack):
                    cluster.inject(2, there, message)
        cluster.tick(0.05)


def drops_a_slave_that_is_behind(payload, **bounds):
    """Check that the last replica is dropped when its lack fills the log of the master."""
    cluster = ManualCluster(settings=Settings(mode="MAJORITY", stall_s=60.0, keep=0, window=40, **bounds))
    master = cluster.form()
    for _ in range(30):
        for _ in range(10):
            if master.can_submit:
                cluster.act(0, lambda channel: channel.submit(cluster.now, 1, payload))
            cluster.settle(0, 1)
        without_acknowledgements(cluster, 0.05)
        if master.members == (0, 1):
            return
    log = master.state.log
    raise AssertionError(f"{master.members} with {len(log)} entries, {log.size_bytes} bytes in memory")


QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def test_a_voter_that_missed_the_record_of_a_view_gets_it_again():
    """A witness was down when the view was recorded.

    When another one fails, its grants are needed for the lease.
    """
    cluster = ScriptedCluster(5, witnesses=3, disk=True)
    cluster.form()
    cluster.run(1.0)
    cluster.hosts[4].crash()
    cluster.run(1.0)
    cluster.hosts[1].crash()
    master = cluster.hosts[0]
    cluster.until(lambda: master.channel.view.replicas() == (0,))
    cluster.run(1.5)
    cluster.hosts[4].start()
    cluster.run(3.0)
    cluster.hosts[3].crash()
    cluster.run(10.0)
    assert master.channel.lease.held


def test_a_master_does_not_wait_for_the_promise_of_an_excluded_slave():
    cluster = ManualCluster(settings=Settings(mode="MAJORITY"))
    master = cluster.form()
    cluster.act(0, lambda channel: channel._election.propose(cluster.now, "test", exclude=(VOTERS[2],)))
    for pair in ((0, 1), (1, 0), (0, 1), (1, 0)):
        cluster.deliver(*pair)
    assert master.role == "master"
    assert master.view.members == VOTERS[:2]


def test_exits_of_an_older_view_do_not_open_the_gate_in_the_next():
    """All left the earlier master. One slave loses the new one before it hears that the others follow it."""
    cluster = ManualCluster(5)
    cluster.form()
    for one in (1, 2, 3, 4):
        cluster.act(one, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    slave = cluster.channels[2]
    while slave.members != (1, 2, 3, 4) or slave.role != "slave":
        cluster.settle(1, 2, 3, 4)
        cluster.tick(0.01, 1)
    for other in (1, 3, 4):
        cluster.lose(other, 2)
    cluster.act(2, lambda channel: channel.disconnected(cluster.now, 1, ended=True))
    cluster.tick(0.01, 2)
    assert not slave.proposing


def test_a_slave_that_does_not_hear_its_master_is_dropped_while_the_cluster_is_idle():
    """The master hears the slave, nobody submits anything, and the other slave has no complaint."""
    cluster = ScriptedCluster(3)
    master = cluster.form()
    cluster.cut((master.replica, 1))
    cluster.until(lambda: master.channel.members == (0, 2))
    cluster.mend()
    cluster.whole()


def test_a_slave_that_acknowledges_nothing_is_dropped_after_stall_s():
    """It says that it follows the master, and holds up all the others."""
    cluster = ManualCluster()
    first = cluster.form().view
    assert first is not None
    cluster.act(0, lambda channel: channel.submit(cluster.now, 1, b"x"))
    without_acknowledgements(cluster, Settings().stall_s + 1.0)
    assert cluster.channels[0].state.promised > first.number


def test_a_slave_that_lacks_too_many_entries_is_dropped():
    drops_a_slave_that_is_behind(b"x", max_log=250)


def test_a_slave_that_lacks_too_many_bytes_is_dropped():
    drops_a_slave_that_is_behind(bytes(100), max_log_bytes=25_000)


def test_a_master_whose_witness_promised_another_view_changes_the_view():
    """The master serves alone.

    The witness promised a view to a dead proposer, and grants nothing in this one.
    """
    cluster = ScriptedCluster(3, witnesses=1)
    master, other, witness = cluster.form(), *cluster.hosts[1:]
    cluster.split([0], [1])
    cluster.until(lambda: master.channel.members == (0,) and master.channel.can_submit)
    cluster.split([0], [2])
    cluster.until(lambda: witness.state.promised.replica == 1)
    other.crash()
    cluster.mend()
    cluster.until(lambda: master.channel.role == "master" and master.channel.lease.held)


def test_a_restarted_slave_waits_for_a_heartbeat_before_it_proposes():
    """It is connected with all; on a slow network the heartbeat of the master takes its time."""
    voters = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
    number = ViewNumber(3, 0, 7)
    log = DurableLog(Remembered(number, View(number, voters, voters, 3, 0), True))
    channel = Channel(2, range(3), incarnation=9, cluster="c", expected=3, log=log)
    channel.start(98.0)
    for step in range(1, 40):
        # What the process before may have granted is over.
        channel.tick(98.0 + step * 0.05)
    channel.connected(100.0, 0, 7)
    channel.connected(100.0, 1, 8)
    master = Heartbeat(number, number, True, True, True, True, False, 0, 0, 0, 0, 0)
    for step in range(1, 9):
        channel.tick(100.0 + step * 0.05)
        assert not channel.proposing
    channel.receive(100.45, 0, master)
    assert channel.role == "slave"


def test_a_slave_that_loses_its_master_for_a_moment_stays_in_the_view():
    """The view has lasted longer than the master bears a slave that does not follow."""
    cluster = ManualCluster()
    view = cluster.form().view
    assert view is not None
    for _ in range(100):
        cluster.tick(0.05)
        cluster.settle()
    cluster.inject(1, 0, Exit(view.number, False, "the master is suspected"))
    for _ in range(10):
        cluster.tick(0.05, 0)
        assert not cluster.channels[0].proposing
    cluster.settle()
    assert cluster.channels[0].view.number == view.number


def test_a_witness_that_promised_a_view_of_a_dead_proposer_joins_the_next_view():
    """Only the witness heard the proposer. The others have gone on with a view below the promised one."""
    cluster = ScriptedCluster(5, witnesses=3, settings=QUICK, shared_host=False)
    master = cluster.form()
    cluster.split([4], [0, 1, 2, 3])
    witness, slave = cluster.hosts[4], cluster.hosts[1]
    cluster.run(2.0)
    witness.channel.receive(witness.clock(), 1, Prepare(ViewNumber(9, 1, slave.state.me.incarnation), "test"))
    witness.settle()
    assert witness.state.promised.counter == 9
    slave.crash()
    cluster.whole(but=[1, 4])
    assert master.channel.view is not None
    assert master.channel.view.number.counter < 9
    cluster.mend()
    cluster.whole(but=[1], seconds=3.0)
    views = len(cluster.view_events[0])
    cluster.run(10.0)
    assert len(cluster.view_events[0]) == views


def test_an_exit_of_a_suspected_voter_does_not_open_the_gate():
    """Replica 4 said EXIT to replica 1, which has not heard it since. Replicas 1 and 2 leave the master."""
    cluster = ManualCluster(5)
    number = cluster.form().view.number
    cluster.inject(4, 1, Exit(number, False, "test"))

    def pass_time(*replicas):
        cluster.tick(0.05)
        cluster.lose(4, 1)
        cluster.settle(*replicas)
        cluster.lose(4, 1)

    for _ in range(50):
        pass_time(0, 1, 2, 3)
        pass_time(0, 2, 3, 4)
    cluster.act(1, lambda channel: channel.disconnected(cluster.now, 0, ended=True))
    for _ in range(35):
        pass_time(0, 2, 3, 4)
        cluster.deliver(2, 1)
        cluster.deliver(3, 1)
    cluster.lose(1, 2)
    cluster.inject(2, 1, Exit(number, False, "test"))
    cluster.tick(0.1, 1)
    assert not cluster.waiting(1, 2, Prepare)
    for other in (2, 3):
        cluster.inject(other, 1, Exit(number, False, "test"))
    cluster.tick(0.1, 1)
    assert cluster.waiting(1, 2, Prepare)
