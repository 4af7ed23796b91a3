"""Feeding, probing and watching, against a connection that the test controls."""

import threading
from collections.abc import Callable

import pytest

from quorate import Notification
from quorate.demo import feed as module
from quorate.demo.feed import Prober, Stalled, Watch, feed
from quorate.demo.flights import Departed, Probe
from quorate.demo.result import Killed, Timeline

LONG_S = 30.0


class Lost(Exception):
    """What the fake connection raises when it is closed."""


class FakeConnection:
    """Acknowledges everything at once, until it is told to hold back or is closed."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Notification]] = []
        self.held = 0
        self.closed = threading.Event()
        self.on_send: Callable[[int], None] = lambda _count: None

    @property
    def unacknowledged(self) -> int:
        return self.held

    def send(self, to: str, notification: Notification) -> None:
        self.send_nowait(to, notification)

    def send_nowait(self, to: str, notification: Notification) -> None:
        self.sent.append((to, notification))
        self.on_send(len(self.sent))

    def flush(self) -> None:
        if self.held:
            assert self.closed.wait(LONG_S)
            raise Lost

    def close(self, timeout: float | None = 5.0) -> None:
        self.closed.set()


def flights(count: int) -> list[tuple[str, Departed]]:
    return [("EWR", Departed(row, "UA", 5, 1, 1, 1, 1)) for row in range(1, count + 1)]


def watch_of(
    connection: FakeConnection, timeline: Timeline, failure: Callable[[], str | None] = lambda: None
) -> Watch:
    return Watch(connection, timeline, 0.0, lambda _count: None, failure)


def idle_prober() -> Prober:
    return Prober(FakeConnection(), lambda: Killed(0, 1, 0.0), Timeline(), 0.0)


def test_every_flight_is_sent_in_order_and_counted() -> None:
    connection, timeline = FakeConnection(), Timeline()
    watch = watch_of(connection, timeline)
    prober = idle_prober()

    watch.start()
    assert feed(connection, flights(5), watch, prober, kill_at=None) == 5
    watch.end()

    assert [note.row for _, note in connection.sent if isinstance(note, Departed)] == [1, 2, 3, 4, 5]
    assert timeline.samples[-1][1] == 5
    assert not prober.killed.is_set()


def test_the_master_is_killed_before_the_flight_asked_for_and_the_failover_measured() -> None:
    connection, probes, timeline = FakeConnection(), FakeConnection(), Timeline()
    watch = watch_of(connection, timeline)
    kills: list[int] = []

    def kill() -> Killed:
        kills.append(len(connection.sent))
        return Killed(0, 4711, module.time.monotonic())

    prober = Prober(probes, kill, timeline, 0.0)
    prober.start()
    watch.start()
    feed(connection, flights(10), watch, prober, kill_at=4)
    prober.end(LONG_S)
    watch.end()

    assert kills == [4]
    assert prober.kill is not None
    assert prober.failover_ms is not None
    assert prober.failover_ms >= 0
    assert [note for _, note in probes.sent] == [Probe(row) for row in range(1, prober.sent + 1)]
    assert len(timeline.probes) == prober.sent


def test_a_cluster_that_acknowledges_nothing_ends_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_AFTER_S", 0.0)
    connection, timeline = FakeConnection(), Timeline()
    connection.held = 3
    watch = watch_of(connection, timeline)

    watch.start()
    with pytest.raises(Stalled, match="acknowledged nothing"):
        feed(
            connection, flights(3), watch, Prober(connection, lambda: Killed(0, 1, 0.0), timeline, 0.0), None
        )
    watch.end()

    assert connection.closed.is_set()


def test_a_hopeless_cluster_ends_the_feed_with_the_reason() -> None:
    connection, timeline = FakeConnection(), Timeline()
    connection.held = 1
    watch = watch_of(connection, timeline, lambda: "s1 has died.")

    watch.start()
    with pytest.raises(Stalled, match=r"s1 has died\."):
        feed(
            connection, flights(1), watch, Prober(connection, lambda: Killed(0, 1, 0.0), timeline, 0.0), None
        )
    watch.end()


def test_a_prober_that_cannot_kill_says_so_and_lets_the_feed_go_on() -> None:
    def kill() -> Killed:
        raise Lost

    connection, timeline = FakeConnection(), Timeline()
    prober = Prober(connection, kill, timeline, 0.0)
    prober.start()
    prober.kill_master()

    assert prober.killed.wait(LONG_S)
    prober.join(LONG_S)
    assert isinstance(prober.error, Lost)


def test_a_master_that_cannot_be_killed_yet_is_killed_before_a_later_probe() -> None:
    answers: list[Killed | None] = [None, None, Killed(0, 4711, 0.0)]
    connection, timeline = FakeConnection(), Timeline()
    prober = Prober(connection, lambda: answers.pop(0), timeline, 0.0)
    prober.start()
    prober.kill_master()

    assert prober.killed.wait(LONG_S)
    prober.end(LONG_S)
    assert prober.kill == Killed(0, 4711, 0.0)
    assert prober.sent >= 3
