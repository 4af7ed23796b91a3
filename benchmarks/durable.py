"""Cost of durable mode, end to end: a cluster with journals, one without, and plain synced writes, in turns.

Clients keep a sample cluster of real processes busy: each sends `waiting` notifications and waits until they
are acknowledged. Then as many processes as there are replicas append batches to plain files, and sync each
batch. A batch has the size that the replica with the fewest syncs writes at a time. Two bounds hold for the
notifications that a cluster with journals acknowledges in a second:

- of the disk: the batches that are synced in a second;
- of the round trip: the time that it takes without a disk, plus one sync on all replicas at the same time.
  With few notifications waiting the two cannot overlap.

`ratio` is the measured rate divided by the lower bound; `of each` is the measured rate divided by the lower
one of the rates of the disk alone and of the cluster without a disk.

    .venv/bin/python -m benchmarks.durable [--seconds 5] [--rounds 3] [--sizes 200 4096] [--waiting 1 500]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs

from quorate import connect
from quorate.client import Connection
from quorate.demo.ports import write_config
from quorate.server.cli.launcher import Launcher
from quorate.server.cli.supervisor import Supervisor
from quorate.server.config import Config, load

from .stock import Touch
from .transfer import BOUND_S, ROOT, statuses

REPLICAS = 3
CLIENTS = 4

RAW = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
data, end, count = os.urandom(int(sys.argv[2])), time.perf_counter() + float(sys.argv[3]), 0
while time.perf_counter() < end:
    os.write(file, data)
    os.fsync(file)
    count += 1
print(count)
"""


@attrs.frozen
class Busy:
    """Rates of the cluster over a period."""

    acknowledged_s: float
    syncs_s: float

    @property
    def batch(self) -> float:
        """Notifications written with one sync."""
        return self.acknowledged_s / max(self.syncs_s, 1e-9)


def main() -> None:
    """Print a line for every size and number of waiting notifications."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 4096], help="bytes of a notification")
    parser.add_argument("--waiting", type=int, nargs="+", default=[1, 500], help="of each of 4 clients")
    parser.add_argument("--directory", type=Path, help="on the disk to measure; default: the temporary one")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.directory) as directory,
        cluster(Path(directory, "disk"), "disk") as disk,
        cluster(Path(directory, "memory"), "memory") as memory,
    ):
        print(
            "    size  waiting   durable/s   syncs/s   per sync   memory/s   plain syncs/s   bound/s   ratio"
            "  of each"
        )
        for size in options.sizes:
            for waiting in options.waiting:
                line(disk, memory, Path(directory), size, waiting, options)


@contextmanager
def cluster(directory: Path, durability: str) -> Generator[Config]:
    """Run the sample cluster, with an agent."""
    directory.mkdir()
    xml = directory / "a3servers.xml"
    write_config(ROOT / "a3servers.xml", xml)
    xml.write_text(xml.read_text().replace("<cluster ", f'<cluster durability="{durability}" '))
    env = {"PYTHONPATH": str(ROOT)}
    with Supervisor(xml, directory / "data", launcher=Launcher(env), servers=["s0"]) as servers:
        servers.wait_ready(BOUND_S)
        deploy = ["deploy", str(xml), "--server", "s0", "benchmarks.stock:Stock", "--name", "stock"]
        command = [sys.executable, "-m", "quorate", *deploy]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        yield load(xml)


def line(
    disk: Config, memory: Config, directory: Path, size: int, waiting: int, options: argparse.Namespace
) -> None:
    """Measure in turns, and print the medians."""
    turns: list[tuple[float, ...]] = []
    for _ in range(options.rounds):
        busy = measured(disk, size, waiting, options.seconds)
        without = measured(memory, size, waiting, options.seconds).acknowledged_s
        raw = plain(directory, max(1, round(busy.batch * size)), options.seconds)
        rate, disk_s, sent = busy.acknowledged_s, raw * busy.batch, CLIENTS * waiting
        bound = min(disk_s, sent / (sent / without + 1 / raw))
        turns.append(
            (rate, busy.syncs_s, busy.batch, without, raw, bound, rate / bound, rate / min(without, disk_s))
        )
    rate, syncs_s, batch, without, raw, bound, ratio, of_each = map(
        statistics.median, zip(*turns, strict=True)
    )
    print(
        f"{size:>8,} {waiting:>8} {rate:>11,.0f} {syncs_s:>9,.0f} {batch:>10.1f} {without:>10,.0f}"
        f" {raw:>15,.0f} {bound:>9,.0f} {ratio:>7.2f} {of_each:>8.2f}",
        flush=True,
    )


def measured(config: Config, size: int, waiting: int, seconds: float) -> Busy:
    """Keep the cluster busy, and return its rates."""
    over = threading.Event()
    counts = [0] * CLIENTS
    text = "x" * size

    def feed(number: int, client: Connection) -> None:
        while not over.is_set():
            for _ in range(waiting):
                client.send_nowait("stock", Touch(counts[number], text))
            client.flush(BOUND_S)
            counts[number] += waiting

    clients = [connect(config.client_urls("s0"), user="root", password="root") for _ in range(CLIENTS)]
    threads = [threading.Thread(target=feed, args=each, daemon=True) for each in enumerate(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)
    before, began, first = syncs(config), time.perf_counter(), sum(counts)
    time.sleep(seconds)
    after, took, last = syncs(config), time.perf_counter() - began, sum(counts)
    over.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    fewest = min(after[replica] - before[replica] for replica in after)
    return Busy((last - first) / took, fewest / took)


def syncs(config: Config) -> dict[int, int]:
    """Return the number of syncs that each replica has made."""
    return {int(str(status["replica"])): int(str(status["syncs"] or 0)) for status in statuses(config)}


def plain(directory: Path, size: int, seconds: float) -> float:
    """Return the synced appends of `size` bytes in a second, of the slowest of `REPLICAS` processes."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RAW, str(directory / f"plain{number}"), str(size), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(REPLICAS)
    ]
    counts = [int(process.communicate()[0]) for process in processes]
    for number in range(REPLICAS):
        (directory / f"plain{number}").unlink()
    return min(counts) / seconds


if __name__ == "__main__":
    main()
