"""When a keep-alive is sent, and when a replica counts as silent."""

from quorate.client.keep_alive import KeepAlive, Liveness


def test_a_keep_alive_is_sent_once_in_each_interval():
    keep = KeepAlive(0.0, 2.0)
    assert [keep.tick(now) for now in (1.9, 2.0, 2.1)] == [Liveness.ALIVE, Liveness.PING, Liveness.ALIVE]
    assert keep.deadline == 4.0


def test_a_replica_is_silent_after_three_intervals_without_bytes():
    keep = KeepAlive(0.0, 2.0)
    keep.heard_at = 1.0
    assert keep.tick(6.9) == Liveness.PING
    assert keep.deadline == 7.0
    assert keep.tick(7.0) == Liveness.SILENT


def test_a_client_that_was_stopped_first_reads_what_has_arrived():
    keep = KeepAlive(0.0, 2.0)
    assert keep.tick(60.0) == Liveness.PING
    assert keep.deadline == 62.0
    assert keep.tick(62.0) == Liveness.SILENT
