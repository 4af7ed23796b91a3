"""A slave that lags behind what the others commit, on a connection that takes its time."""

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import Data, Repair
from quorate.testing.channel.manual_cluster import ManualCluster


def lagging(**settings):
    """A cluster that commits by majority, without the slave 2 for now."""
    cluster = ManualCluster(settings=Settings(mode="MAJORITY", **settings))
    cluster.form()
    return cluster


def commit(cluster, payload=b"x"):
    """The master and the slave 1 have one entry more."""
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, payload))
    cluster.deliver(0, 1)
    cluster.deliver(1, 0)


def test_a_slave_that_lags_behind_its_window_gets_every_entry_once():
    cluster = lagging(window=16)
    sent = 0
    for step in range(200):
        commit(cluster)
        if step % 10 == 0:
            cluster.tick(0.05, 0)
        wire = cluster.wires[0, 2]
        taken = 0
        # Of two entries it takes one, with the heartbeats before it.
        while step % 2 and wire and not taken:
            taken += isinstance(wire[0], Data)
            cluster.deliver(0, 2, 1)
        sent += taken
        assert len(cluster.waiting(0, 2, Data)) <= 16
        assert not cluster.waiting(2, 0, Repair)
        cluster.deliver(2, 0)
    assert cluster.channels[2].last == sent
    cluster.settle()
    assert cluster.channels[2].commit == 200


def test_a_slave_behind_its_window_whose_acknowledgements_were_lost_says_again_what_it_has():
    cluster = lagging(window=16)
    for _ in range(40):
        commit(cluster)
    cluster.deliver(0, 2)
    cluster.lose(2, 0)
    assert cluster.channels[2].last == 16
    cluster.tick(0.05, 0)
    cluster.settle()
    assert cluster.channels[2].commit == 40


def test_a_slave_behind_its_window_notices_that_the_last_it_was_sent_is_lost():
    cluster = lagging(window=16)
    for _ in range(40):
        commit(cluster)
    cluster.deliver(0, 2, len(cluster.wires[0, 2]) - 3)
    cluster.lose(0, 2)
    cluster.lose(2, 0)
    cluster.tick(0.05, 0)
    cluster.settle()
    assert cluster.channels[2].commit == 40


def test_what_a_slave_gets_after_its_connection_broke_comes_once():
    cluster = lagging(window=16)
    for _ in range(10):
        commit(cluster)
    cluster.lose(0, 2)
    cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
    cluster.act(2, lambda channel: channel.disconnected(cluster.now, 0))
    cluster.connect(0, 2)
    cluster.deliver(0, 2)
    assert not cluster.waiting(2, 0, Repair)
    cluster.settle()
    assert cluster.channels[2].commit == 10


def test_the_window_of_a_slave_counts_bytes_too():
    """More would be dropped with the connection, which holds only so much for one that does not read."""
    cluster = lagging(window=64, window_bytes=1000)
    for _ in range(40):
        commit(cluster, b"x" * 300)
        assert len(cluster.waiting(0, 2, Data)) <= 4
    for _ in range(36):
        cluster.deliver(0, 2, 1)
        cluster.deliver(2, 0)
        assert len(cluster.waiting(0, 2, Data)) <= 4
    cluster.settle()
    assert cluster.channels[2].commit == 40


def test_an_entry_that_is_larger_than_the_window_goes_alone():
    cluster = lagging(window_bytes=100)
    for _ in range(3):
        commit(cluster, b"x" * 300)
    assert len(cluster.waiting(0, 2, Data)) == 1
    cluster.settle()
    assert cluster.channels[2].commit == 3


def test_the_window_of_a_slave_is_what_it_was_after_its_connection_broke():
    cluster = lagging(window_bytes=1000)
    for _ in range(20):
        commit(cluster, b"x" * 300)
    for _ in range(3):
        cluster.deliver(0, 2, 2)
        cluster.lose(0, 2)
        cluster.lose(2, 0)
        cluster.act(0, lambda channel: channel.disconnected(cluster.now, 2))
        cluster.act(2, lambda channel: channel.disconnected(cluster.now, 0))
        cluster.connect(0, 2)
        assert len(cluster.waiting(0, 2, Data)) == 4
    cluster.settle()
    assert cluster.channels[2].commit == 20
    commit(cluster, b"x" * 300)
    cluster.settle()
    assert cluster.channels[2].commit == 21
