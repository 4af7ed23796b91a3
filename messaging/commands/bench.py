"""`quorate bench`: load on a queue or topic, from producers and consumers in one process."""

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import click
from rich.live import Live
from rich.table import Table

from ...client import Connection, QuorateClientError, connect
from ...server.cli.common import CommandError, json_option, json_text
from ...server.cli.terminal import console
from ..client.blocking import Consumer, Session
from ..client.destinations import Destination, Queue, Topic
from ..client.session_base import Ack

__all__ = ["bench"]

MAX_SAMPLES: Final = 200_000
"""Latencies that are kept; of more, a random choice of that size."""
HEAD_BYTES: Final = 24
"""At the begin of each body: the run, the time of sending, and zeros."""
CONFIRM_S: Final = 60.0
QUIET_S: Final = 2.0
"""After the producers have ended, consumers wait so long for one more message."""
_MODES: Final = ["auto", "client", "dups-ok", "individual", "transacted"]


@attrs.define
class Counts:
    """What has happened so far; each thread has its own."""

    sent: int = 0
    received: int = 0
    other: int = 0
    """Messages that another program had sent."""
    samples: list[int] = attrs.field(factory=list[int])
    """Latencies in nanoseconds."""

    def add(self, latency_ns: int) -> None:
        """Count a message that was received."""
        self.received += 1
        if len(self.samples) < MAX_SAMPLES:
            self.samples.append(latency_ns)
        else:
            place = random.randrange(self.received)
            if place < MAX_SAMPLES:
                self.samples[place] = latency_ns


@attrs.frozen
class Load:
    """What is to be done."""

    open: Callable[[], Connection]
    destination: Destination
    seconds: float
    size: int
    rate: float
    """Messages a second of one producer, 0: as fast as it can."""
    window: int
    mode: str
    batch: int
    """Messages of a transaction."""
    persistent: bool


class Run:
    """Producers and consumers that run, each in a thread with a connection of its own."""

    def __init__(self, load: Load, producers: int, consumers: int) -> None:
        self._load = load
        self._id = random.randbytes(8)
        self.counts = [Counts() for _ in range(producers + consumers)]
        self.failures: list[BaseException] = []
        self.series: list[tuple[float, int, int]] = []
        """Seconds since the begin, messages sent and received until then."""
        self._ready = threading.Barrier(producers + consumers + 1)
        self._sent_all = threading.Event()
        self._produce = self.counts[:producers]
        self._threads = [
            *(self._thread(self._producer, each) for each in self.counts[:producers]),
            *(self._thread(self._consumer, each) for each in self.counts[producers:]),
        ]
        self._senders = self._threads[:producers]

    def _thread(self, work: Callable[[Counts], None], counts: Counts) -> threading.Thread:
        def run() -> None:
            try:
                work(counts)
            except threading.BrokenBarrierError:
                pass
            except (QuorateClientError, ValueError, OSError) as error:
                self.failures.append(error)
                self._ready.abort()

        return threading.Thread(target=run, daemon=True)

    def go(self, show: Callable[[float], None]) -> float:
        """Run the load, calling `show` with the seconds so far; return how many seconds it took."""
        for thread in self._threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            self._ready.wait(60)
        began = time.monotonic()
        while any(thread.is_alive() for thread in self._threads) and not self.failures:
            time.sleep(0.1)
            now = time.monotonic() - began
            self.series.append((now, self.sent, self.received))
            show(now)
            if not any(thread.is_alive() for thread in self._senders):
                self._sent_all.set()
        self._sent_all.set()
        return time.monotonic() - began

    @property
    def sent(self) -> int:
        """Messages that were sent."""
        return sum([each.sent for each in self.counts])

    @property
    def received(self) -> int:
        """Messages of this run that were received."""
        return sum([each.received for each in self.counts])

    def latencies_ns(self) -> list[int]:
        """Return the latencies that were kept, sorted."""
        return sorted(sample for each in self.counts for sample in each.samples)

    def _session(self, connection: Connection) -> Session:
        mode = self._load.mode
        if mode == "transacted":
            return Session(connection, transacted=True, timeout=CONFIRM_S)
        return Session(connection, ack=Ack(mode), timeout=CONFIRM_S)

    def _producer(self, counts: Counts) -> None:
        load = self._load
        padding = bytes(max(0, load.size - HEAD_BYTES))
        with load.open() as connection, self._session(connection) as session:
            producer = session.producer(load.destination)
            self._ready.wait(60)
            began = time.monotonic()
            while (now := time.monotonic() - began) < load.seconds and not self.failures:
                if load.rate and counts.sent >= load.rate * now:
                    # What was sent within a pause travels together.
                    time.sleep(min(1 / load.rate, 0.01))
                    continue
                head = self._id + time.monotonic_ns().to_bytes(8, "big") + bytes(8)
                producer.send_nowait(head + padding, persistent=load.persistent)
                counts.sent += 1
                if session.transacted and counts.sent % load.batch == 0:
                    session.commit()
            if session.transacted:
                session.commit()
            producer.flush(CONFIRM_S)

    def _consumer(self, counts: Counts) -> None:
        with self._load.open() as connection, self._session(connection) as session:
            with session.consumer(self._load.destination, window=self._load.window) as consumer:
                self._ready.wait(60)
                self._consume(session, consumer, counts)
                if session.transacted:
                    session.commit()
                session.acknowledge()
            session.sync(CONFIRM_S)

    def _consume(self, session: Session, consumer: Consumer, counts: Counts) -> None:
        ready_at = time.monotonic()
        taken = 0
        while not self.failures:
            message = consumer.receive_nowait()
            if message is None:
                if self._sent_all.is_set() and time.monotonic() > ready_at + QUIET_S:
                    return
                try:
                    message = consumer.receive(0.2)
                except QuorateClientError:
                    if consumer.core.error is not None:
                        raise
                    continue
            ready_at = time.monotonic()
            taken += 1
            data = message.data
            if data[:8] == self._id:
                counts.add(time.monotonic_ns() - int.from_bytes(data[8:16], "big"))
            else:
                counts.other += 1
            if self._load.mode == "individual" or (
                self._load.mode == "client" and taken % self._load.batch == 0
            ):
                message.ack()
            elif session.transacted and taken % self._load.batch == 0:
                session.commit()


def percentile_ms(latencies_ns: list[int], percent: float) -> float:
    """Return a percentile of sorted latencies in milliseconds, NaN if there are none."""
    if not latencies_ns:
        return math.nan
    return latencies_ns[min(len(latencies_ns) - 1, int(len(latencies_ns) * percent / 100))] / 1e6


@click.command(epilog="Exit status: 0, or 1 if a server could not be reached or refused something.")
@click.argument("url", metavar="quorate://HOST:PORT,...")
@click.option("--user", default="root", show_default=True, help="The user.")
@click.option(
    "--password", envvar="QUORATE_PASSWORD", default="root", help="Its password, or QUORATE_PASSWORD."
)
@click.option("--queue", metavar="NAME", help="The queue that is used.")
@click.option("--topic", metavar="NAME", help="The topic that is used, instead of a queue.")
@click.option("--producers", type=click.IntRange(0, 1000), default=1, show_default=True, help="How many.")
@click.option("--consumers", type=click.IntRange(0, 1000), default=1, show_default=True, help="How many.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="How long.")
@click.option(
    "--size", type=click.IntRange(HEAD_BYTES), default=100, show_default=True, help="Bytes of a body."
)
@click.option(
    "--rate", type=click.FloatRange(0), default=0.0, help="Messages a second of all producers; 0: no limit."
)
@click.option("--window", type=click.IntRange(1), default=1000, show_default=True, help="Of each consumer.")
@click.option(
    "--ack", type=click.Choice(_MODES), default="auto", show_default=True, help="The acknowledge mode."
)
@click.option(
    "--batch", type=click.IntRange(1), default=100, show_default=True, help="Messages of a transaction."
)
@click.option("--non-persistent", is_flag=True, help="Send messages that are not persistent.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the run into this file, .png or .svg.")
@json_option
def bench(
    url: str,
    user: str,
    password: str,
    queue: str | None,
    topic: str | None,
    producers: int,
    consumers: int,
    seconds: float,
    size: int,
    rate: float,
    window: int,
    ack: str,
    batch: int,
    non_persistent: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Put load on a queue or topic: show how many messages a second it takes, and how long each is under way.

    Messages of other programs that the consumers get are taken, too: use a queue of its own.
    """
    if (queue is None) == (topic is None):
        raise click.UsageError("Give --queue NAME or --topic NAME.")
    if not producers and not consumers:
        raise click.UsageError("Without --producers and --consumers there is nothing to do.")
    destination = Queue(queue) if queue is not None else Topic(topic or "")

    def open_connection() -> Connection:
        return connect(url, user=user, password=password)

    each = rate / producers if producers else 0.0
    load = Load(open_connection, destination, seconds, size, each, window, ack, batch, not non_persistent)
    run = Run(load, producers, consumers)
    if as_json:
        took_s = run.go(lambda _: None)
    else:
        with Live(console=console(), refresh_per_second=4, transient=True) as live:
            took_s = run.go(lambda now: live.update(_progress(run, now)))
    if run.failures:
        raise CommandError(f"{run.failures[0]}")
    latencies = run.latencies_ns()
    busy_s = max(min(took_s, seconds), 0.001)
    result: dict[str, Any] = {
        "sent": run.sent,
        "received": run.received,
        "sent_per_s": round(run.sent / busy_s, 1),
        "received_per_s": round(run.received / max(took_s - (QUIET_S if consumers else 0), busy_s), 1),
        "latency_ms": {
            str(percent): round(percentile_ms(latencies, percent), 3) for percent in (50, 90, 99, 99.9, 100)
        }
        if latencies
        else {},
        "other": sum([each.other for each in run.counts]),
    }
    if plot is not None:
        _draw(run, latencies, plot)
    if as_json:
        click.echo(json_text(result))
        return
    click.echo(f"sent      {result['sent']:>10,}  {result['sent_per_s']:>10,.0f}/s")
    click.echo(f"received  {result['received']:>10,}  {result['received_per_s']:>10,.0f}/s")
    if latencies:
        shown = "  ".join(f"p{percent} {value:g} ms" for percent, value in result["latency_ms"].items())
        click.echo(f"latency   {shown.replace('p100', 'max')}")
    if result["other"]:
        click.echo(f"{result['other']} messages of other programs were taken, too.", err=True)


def _progress(run: Run, now_s: float) -> Table:
    table = Table.grid(padding=(0, 2))
    before = next((each for each in reversed(run.series) if each[0] <= now_s - 1), (0.0, 0, 0))
    span_s = max(now_s - before[0], 0.1)
    latencies = run.latencies_ns() if run.received < MAX_SAMPLES // 4 else []
    p50 = f"p50 {percentile_ms(latencies, 50):.2f} ms" if latencies else ""
    table.add_row(
        f"{now_s:.0f} s",
        f"sent {run.sent:,} ({(run.sent - before[1]) / span_s:,.0f}/s)",
        f"received {run.received:,} ({(run.received - before[2]) / span_s:,.0f}/s)",
        p50,
    )
    return table


def _draw(run: Run, latencies_ns: list[int], path: Path) -> None:
    """Draw rates over time, and the distribution of latencies."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError("A plot needs matplotlib: pip install 'quorate[replay]'.") from None
    figure: Any = Figure(figsize=(9, 4), layout="constrained")
    rates, spread = figure.subplots(1, 2)
    times = [each[0] for each in run.series]
    for name, place in (("sent", 1), ("received", 2)):
        values = [0, *(each[place] for each in run.series)]
        steps = [0.0, *times]
        points = range(1, len(steps))
        rates.plot(
            times,
            [(values[at] - values[at - 1]) / max(steps[at] - steps[at - 1], 1e-3) for at in points],
            label=name,
        )
    rates.set(xlabel="seconds", ylabel="messages a second", ylim=(0, None))
    rates.legend()
    if latencies_ns:
        percents = [each / 10 for each in range(1000)]
        spread.plot(percents, [percentile_ms(latencies_ns, each) for each in percents])
        spread.set(xlabel="percent of the messages", ylabel="at most so many milliseconds", yscale="log")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be written: {error}.") from error
