"""The feed sends flights into the cluster as a remote client, and takes measurements meanwhile.

Three threads: the caller's thread sends the flights; a prober sends numbered probes on a connection of its
own, one after the other; a watch samples the progress. The prober also kills the master between two probes:
the failover is the time from the signal to the acknowledgement of the next probe.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from ..agents import Notification
from .flights import Departed, Probe
from .result import Killed, Timeline

SAMPLE_EVERY_S = 0.1
PROBE_EVERY_S = 0.02
MAX_PROBES = 20_000
LOST_AFTER_S = 30.0
"""The run fails after this time without any acknowledgement."""
ONE_AT_A_TIME = (
    "A cluster needs most of its replicas: let one that was killed come back before you kill another."
)
KILL_WITHIN_S = 5.0
"""The feed pauses at most this time for the kill; a later kill finds more flights sent."""
PULSE = "pulse"


class Connection(Protocol):
    """The part of a blocking connection that the demo uses."""

    @property
    def unacknowledged(self) -> int:
        """Notifications sent that the cluster has not confirmed."""
        ...

    def send(self, to: str, notification: Notification) -> None:
        """Send, and return once the cluster has it."""
        ...

    def send_nowait(self, to: str, notification: Notification) -> None:
        """Send in the background; wait while too much is unacknowledged."""
        ...

    def flush(self) -> None:
        """Return once the cluster has all that was sent."""
        ...

    def close(self, timeout: float | None = 5.0) -> None:
        """End the connection, after flushing for up to `timeout` seconds; calls in other threads raise."""
        ...


class Stalled(Exception):
    """The cluster acknowledged nothing for too long."""


class Prober(threading.Thread):
    """Sends probes one by one; on demand it kills the master between two of them."""

    def __init__(
        self, connection: Connection, kill: Callable[[], Killed | None], timeline: Timeline, start_s: float
    ) -> None:
        super().__init__(name="demo-prober", daemon=True)
        self._connection = connection
        self._kill_master = kill
        self._timeline = timeline
        self._start_s = start_s
        self._ending = threading.Event()
        self._wanted = threading.Event()
        self.killed = threading.Event()
        """Set when the master has been killed, or will not be."""
        self.kill: Killed | None = None
        """The kill, once it has happened."""
        self.failover_ms: float | None = None
        """Time from the signal to the acknowledgement of the first probe sent after it."""
        self.sent = 0
        """Probes sent; their numbers are 1 to this."""
        self.error: Exception | None = None

    def kill_master(self) -> None:
        """Request that the master is killed before the next probe at which that is possible."""
        self._wanted.set()

    def end(self, timeout_s: float) -> None:
        """Send no more probes, and wait for the last acknowledgement."""
        self._ending.set()
        self.join(timeout_s)

    def run(self) -> None:
        """Send until `end` is called."""
        try:
            while not self._ending.is_set() and self.sent < MAX_PROBES:
                self._probe()
                self._ending.wait(PROBE_EVERY_S)
        except Exception as error:
            self.error = error
        finally:
            self.killed.set()

    def _probe(self) -> None:
        kill: Killed | None = None
        if self._wanted.is_set() and (kill := self._kill_master()) is not None:
            self._wanted.clear()
            self.kill = kill
            self.killed.set()
        self.sent += 1
        sent_s = time.monotonic()
        self._connection.send(PULSE, Probe(self.sent))
        answered_s = time.monotonic()
        self._timeline.probes.append((sent_s - self._start_s, (answered_s - sent_s) * 1000))
        if kill is not None:
            self.failover_ms = (answered_s - kill.at_s) * 1000


class Watch(threading.Thread):
    """Samples what is acknowledged, and ends a feed that makes no progress."""

    def __init__(
        self,
        connection: Connection,
        timeline: Timeline,
        start_s: float,
        progress: Callable[[int], None],
        failure: Callable[[], str | None],
    ) -> None:
        super().__init__(name="demo-watch", daemon=True)
        self._connection = connection
        self._timeline = timeline
        self._start_s = start_s
        self._progress = progress
        self._failure = failure
        self._ending = threading.Event()
        self.sent = 0
        """Flights sent so far; set by the thread that sends them."""
        self.stalled: str = ""
        """One sentence: why the feed was ended; "" if it was not."""

    def end(self) -> None:
        """Take a last sample and end."""
        self._ending.set()
        self.join(2 * SAMPLE_EVERY_S + 1)

    def run(self) -> None:
        """Sample until `end` is called."""
        last, moved_s = -1, time.monotonic()
        while True:
            ended = self._ending.wait(SAMPLE_EVERY_S)
            now_s, count = time.monotonic(), max(0, self.sent - self._connection.unacknowledged)
            self._timeline.samples.append((now_s - self._start_s, count))
            self._progress(count)
            if ended:
                return
            if count != last:
                last, moved_s = count, now_s
            reason = self._failure()
            if reason is None and now_s - moved_s > LOST_AFTER_S:
                reason = f"The cluster has acknowledged nothing for {LOST_AFTER_S:g} s. {ONE_AT_A_TIME}"
            if reason is not None:
                self.stalled = reason
                self._connection.close(0)
                return


def feed(
    connection: Connection,
    departures: Iterable[tuple[str, Departed]],
    watch: Watch,
    prober: Prober,
    kill_at: int | None,
) -> int:
    """Send every flight to its airport and wait until the cluster has them all; returns how many.

    Before flight number `kill_at` the master is killed. Raises Stalled when the cluster makes no progress.
    """
    try:
        for airport, note in departures:
            if watch.sent == kill_at:
                prober.kill_master()
                prober.killed.wait(KILL_WITHIN_S)
            connection.send_nowait(airport, note)
            watch.sent += 1
        connection.flush()
    except Exception as error:
        if watch.stalled:
            raise Stalled(watch.stalled) from error
        raise
    if watch.stalled:
        raise Stalled(watch.stalled)
    return watch.sent
