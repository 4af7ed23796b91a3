"""A slave that lags behind what the others commit, on a connection that takes its time."""

from quorate.hachannel import Settings
from quorate.hachannel.model.messages import Data, Repair
from quorate.testing.channel.manual_cluster import ManualCluster


def lagging(**settings):
    """A cluster that commits by majority, without the slave 2 for now."""
    hand = ManualCluster(settings=Settings(mode="MAJORITY", **settings))
    hand.form()
    return hand


def commit(hand, payload=b"x"):
    """The master and the slave 1 have one entry more."""
    hand.act(0, lambda channel: channel.submit(hand.now, 0, payload))
    hand.deliver(0, 1)
    hand.deliver(1, 0)


def test_a_slave_that_lags_behind_its_window_gets_every_entry_once():
    hand = lagging(window=16)
    sent = 0
    for step in range(200):
        commit(hand)
        if step % 10 == 0:
            hand.tick(0.05, 0)
        wire = hand.wires[0, 2]
        taken = 0
        # Of two entries it takes one, with the heartbeats before it.
        while step % 2 and wire and not taken:
            taken += isinstance(wire[0], Data)
            hand.deliver(0, 2, 1)
        sent += taken
        assert len(hand.waiting(0, 2, Data)) <= 16
        assert not hand.waiting(2, 0, Repair)
        hand.deliver(2, 0)
    assert hand.channels[2].last == sent
    hand.settle()
    assert hand.channels[2].commit == 200


def test_a_slave_behind_its_window_whose_acknowledgements_were_lost_says_again_what_it_has():
    hand = lagging(window=16)
    for _ in range(40):
        commit(hand)
    hand.deliver(0, 2)
    hand.lose(2, 0)
    assert hand.channels[2].last == 16
    hand.tick(0.05, 0)
    hand.settle()
    assert hand.channels[2].commit == 40


def test_a_slave_behind_its_window_notices_that_the_last_it_was_sent_is_lost():
    hand = lagging(window=16)
    for _ in range(40):
        commit(hand)
    hand.deliver(0, 2, len(hand.wires[0, 2]) - 3)
    hand.lose(0, 2)
    hand.lose(2, 0)
    hand.tick(0.05, 0)
    hand.settle()
    assert hand.channels[2].commit == 40


def test_what_a_slave_gets_after_its_connection_broke_comes_once():
    hand = lagging(window=16)
    for _ in range(10):
        commit(hand)
    hand.lose(0, 2)
    hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
    hand.act(2, lambda channel: channel.disconnected(hand.now, 0))
    hand.connect(0, 2)
    hand.deliver(0, 2)
    assert not hand.waiting(2, 0, Repair)
    hand.settle()
    assert hand.channels[2].commit == 10


def test_the_window_of_a_slave_counts_bytes_too():
    """More would be dropped with the connection, which holds only so much for one that does not read."""
    hand = lagging(window=64, window_bytes=1000)
    for _ in range(40):
        commit(hand, b"x" * 300)
        assert len(hand.waiting(0, 2, Data)) <= 4
    for _ in range(36):
        hand.deliver(0, 2, 1)
        hand.deliver(2, 0)
        assert len(hand.waiting(0, 2, Data)) <= 4
    hand.settle()
    assert hand.channels[2].commit == 40


def test_an_entry_that_is_larger_than_the_window_goes_alone():
    hand = lagging(window_bytes=100)
    for _ in range(3):
        commit(hand, b"x" * 300)
    assert len(hand.waiting(0, 2, Data)) == 1
    hand.settle()
    assert hand.channels[2].commit == 3


def test_the_window_of_a_slave_is_what_it_was_after_its_connection_broke():
    hand = lagging(window_bytes=1000)
    for _ in range(20):
        commit(hand, b"x" * 300)
    for _ in range(3):
        hand.deliver(0, 2, 2)
        hand.lose(0, 2)
        hand.lose(2, 0)
        hand.act(0, lambda channel: channel.disconnected(hand.now, 2))
        hand.act(2, lambda channel: channel.disconnected(hand.now, 0))
        hand.connect(0, 2)
        assert len(hand.waiting(0, 2, Data)) == 4
    hand.settle()
    assert hand.channels[2].commit == 20
    commit(hand, b"x" * 300)
    hand.settle()
    assert hand.channels[2].commit == 21
