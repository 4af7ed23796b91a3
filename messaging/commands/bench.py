"""`quorate bench`: load on a queue or topic, from producers and consumers in one process."""

import contextlib
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
from .driving import Drive
from .latencies import Counts, LoadRun, draw, percentile_ms

__all__ = ["bench"]

MAX_SHOWN: Final = 50_000
"""While so many messages were received, the median is shown as the load runs."""
HEAD_BYTES: Final = 24
"""At the begin of each body: the run, the time of sending, and zeros."""
CONFIRM_S: Final = 60.0
QUIET_S: Final = 2.0
"""After the producers have ended, consumers wait so long for one more message."""
_MODES: Final = ["auto", "client", "dups-ok", "individual", "transacted"]


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


class Run(LoadRun):
    """Producers and consumers that run, each in a thread with a connection of its own."""

    def __init__(self, load: Load, producers: int, consumers: int) -> None:
        super().__init__(producers + consumers)
        self._load = load
        self._id = random.randbytes(8)
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


@click.command(epilog="Exit status: 0, or 1 if a server could not be reached or refused something.")
@click.argument("url", metavar="quorate://HOST:PORT,...")
@click.option("--user", default="root", show_default=True, help="The user.")
@click.option(
    "--password", envvar="QUORATE_PASSWORD", default="root", help="Its password, or QUORATE_PASSWORD."
)
@click.option("--queue", metavar="NAME", help="The queue that is used.")
@click.option("--topic", metavar="NAME", help="The topic that is used, instead of a queue.")
@click.option(
    "--workload",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Instead: the recorded load in this file, of `quorate replay workload`.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Of a recorded load: how many times as fast; 0: as fast as it can.",
)
@click.option(
    "--on",
    "servers",
    metavar="SERVER",
    multiple=True,
    help="Of a recorded load: where its first server is, its second, and so on. Default: the one at the URL.",
)
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
    workload: Path | None,
    speed: float,
    servers: tuple[str, ...],
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

    Messages of other programs that the consumers get are taken, too: use a queue of its own. A recorded load
    is put on agents that stand for those of the recording, and are deleted at the end; the user must be an
    administrator of their servers.
    """
    if [queue, topic, workload].count(None) != 2:
        raise click.UsageError("Give --queue NAME, --topic NAME or --workload FILE.")
    if not producers and not consumers:
        raise click.UsageError("Without --producers and --consumers there is nothing to do.")

    def open_connection() -> Connection:
        return connect(url, user=user, password=password)

    run: Run | Drive
    if workload is not None:
        run, quiet_s = Drive(workload, open_connection, speed, servers), 0.0
    else:
        each = rate / producers if producers else 0.0
        destination = Queue(queue) if queue is not None else Topic(topic or "")
        load = Load(open_connection, destination, seconds, size, each, window, ack, batch, not non_persistent)
        run, quiet_s = Run(load, producers, consumers), QUIET_S if consumers else 0.0
    if as_json:
        took_s = run.go(lambda _: None)
    else:
        with Live(console=console(), refresh_per_second=4, transient=True) as live:
            took_s = run.go(lambda now: live.update(_progress(run, now)))
    if run.failures:
        raise CommandError(f"{run.failures[0]}")
    latencies = run.latencies_ns()
    busy_s = max(took_s if workload is not None else min(took_s, seconds), 0.001)
    result: dict[str, Any] = {
        "sent": run.sent,
        "received": run.received,
        "sent_per_s": round(run.sent / busy_s, 1),
        "received_per_s": round(run.received / max(took_s - quiet_s, busy_s), 1),
        "latency_ms": {
            str(percent): round(percentile_ms(latencies, percent), 3) for percent in (50, 90, 99, 99.9, 100)
        }
        if latencies
        else {},
        "other": sum([each.other for each in run.counts]),
        **({"late_ms": round(run.late_ns / 1e6, 3)} if isinstance(run, Drive) else {}),
    }
    if plot is not None:
        draw(run, latencies, plot)
    if as_json:
        click.echo(json_text(result))
        return
    click.echo(f"sent      {result['sent']:>10,}  {result['sent_per_s']:>10,.0f}/s")
    click.echo(f"received  {result['received']:>10,}  {result['received_per_s']:>10,.0f}/s")
    if latencies:
        shown = "  ".join(f"p{percent} {value:g} ms" for percent, value in result["latency_ms"].items())
        click.echo(f"latency   {shown.replace('p100', 'max')}")
    if "late_ms" in result and speed:
        click.echo(f"late      {result['late_ms']:g} ms: how far sending fell behind the recording at most")
    if result["other"]:
        click.echo(f"{result['other']} messages of other programs were taken, too.", err=True)


def _progress(run: LoadRun, now_s: float) -> Table:
    table = Table.grid(padding=(0, 2))
    before = next((each for each in reversed(run.series) if each[0] <= now_s - 1), (0.0, 0, 0))
    span_s = max(now_s - before[0], 0.1)
    latencies = run.latencies_ns() if run.received < MAX_SHOWN else []
    p50 = f"p50 {percentile_ms(latencies, 50):.2f} ms" if latencies else ""
    table.add_row(
        f"{now_s:.0f} s",
        f"sent {run.sent:,} ({(run.sent - before[1]) / span_s:,.0f}/s)",
        f"received {run.received:,} ({(run.received - before[2]) / span_s:,.0f}/s)",
        p50,
    )
    return table
