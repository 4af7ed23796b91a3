"""Cost of a state transfer for the clients of a server with much state.

The sample cluster runs with real processes. One replica is killed and loses its disk; clients send all the
time, and what they send changes one agent after the other. For the time before, during and after the transfer
the program prints the notifications acknowledged in a second, the longest wait of a client, and the longest
time without any acknowledgement; then the memory of the two replicas.

In its first half minute a server with a disk is faster than later, because it has not made a large save yet.
So the program waits for `--warm` seconds before it measures.

    .venv/bin/python -m benchmarks.transfer [--megabytes 200] [--agent-bytes 100000] [--warm 45]
                                            [--seconds 30] [--durability memory]
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import attrs

from quorate import connect
from quorate.demo.ports import write_config
from quorate.server.admin.client import ServerAdmin
from quorate.server.admin.replica_status import gather
from quorate.server.cli.launcher import Launcher
from quorate.server.cli.supervisor import Supervisor
from quorate.server.config import Config, load

from .stock import Fill, Filled, Touch

ROOT = Path(__file__).parents[1]
BOUND_S = 600.0
FILL_BYTES = 10_000_000
"""State made by one notification."""


@attrs.frozen
class Phase:
    """Numbers of the clients over a period."""

    name: str
    seconds: float
    acknowledged: int
    longest_s: float
    gap_s: float

    @property
    def per_s(self) -> float:
        """Notifications acknowledged in a second."""
        return self.acknowledged / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.name:9} {self.seconds:6.1f} s  {self.per_s:8.0f} acknowledged/s  "
            f"longest wait {self.longest_s * 1000:6.0f} ms  longest gap {self.gap_s * 1000:6.0f} ms"
        )


class Clients:
    """Threads that each send, wait for the acknowledgement, and send again."""

    def __init__(self, urls: str, count: int) -> None:
        self._urls = urls
        self._ends: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(count)]

    def _run(self, first: int) -> None:
        number = first
        with connect(self._urls, user="root", password="root") as client:
            while not self._over.is_set():
                number += 1
                began = time.perf_counter()
                client.send("stock", Touch(number))
                now = time.perf_counter()
                self._ends.append((now, now - began))

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def phase(self, name: str, wait: Callable[[], None]) -> Phase:
        """Return the numbers of the time until `wait` returns."""
        first, began = len(self._ends), time.perf_counter()
        wait()
        seconds = time.perf_counter() - began
        ends = self._ends[first:]
        times = [began, *sorted(end for end, _ in ends), began + seconds]
        gap = max(after - before for before, after in pairwise(times))
        return Phase(name, seconds, len(ends), max((took for _, took in ends), default=seconds), gap)


def main() -> None:
    """Start the cluster and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--megabytes", type=int, default=200, help="state of the server")
    parser.add_argument("--agent-bytes", type=int, default=100_000, help="state of one agent")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--durability", choices=("disk", "memory"), default="disk")
    parser.add_argument("--warm", type=float, default=45.0, help="seconds that are not measured")
    parser.add_argument("--seconds", type=float, default=30.0, help="before and after the transfer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        xml = Path(directory, "a3servers.xml")
        write_config(ROOT / "a3servers.xml", xml)
        text = xml.read_text().replace("<cluster ", f'<cluster durability="{options.durability}" ')
        xml.write_text(text)
        data = Path(directory, "data")
        with Supervisor(xml, data, launcher=Launcher({"PYTHONPATH": str(ROOT)})) as servers:
            servers.wait_ready(BOUND_S)
            run(servers, load(xml), xml, data, options)


def run(servers: Supervisor, config: Config, xml: Path, data: Path, options: argparse.Namespace) -> None:
    """Fill the server, measure, start the replica again, and print the phases."""
    urls = config.client_urls("s0")
    deploy = ["deploy", str(xml), "--server", "s0", "benchmarks.stock:Stock", "--name", "stock"]
    command = [sys.executable, "-m", "quorate", *deploy]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    fill(urls, options.megabytes * 1_000_000, options.agent_bytes)
    lost = 2 if servers.master("s0") != 2 else 1
    servers.kill("s0", lost)
    with Clients(urls, options.clients) as clients:
        clients.phase("warm", lambda: time.sleep(options.warm))
        views = view(config)
        phases = [clients.phase("before", lambda: time.sleep(options.seconds))]
        shutil.rmtree(data / "s0" / str(lost))
        donor = servers.pid("s0", servers.master("s0") or 0)
        reset_peak(donor)
        servers.start_replica("s0", lost)
        phases.append(clients.phase("transfer", lambda: servers.wait_ready(BOUND_S)))
        peaks = [peak_mib(donor), peak_mib(servers.pid("s0", lost))]
        phases.append(clients.phase("after", lambda: time.sleep(options.seconds)))
    for phase in phases:
        print(phase)
    before, during, after = (phase.per_s for phase in phases)
    rest = statistics.mean((before, after))
    print(f"during the transfer {during / before:.0%} of before, {during / rest:.0%} of before and after")
    print(f"most memory during the transfer: donor {peaks[0]:.0f} MiB, learner {peaks[1]:.0f} MiB")
    print(f"views: {views} before, {view(config)} after; equal states: {equal(config)}")
    for line in Path(data, "s0", str(lost), "log").read_text().splitlines():
        if "the state after entry" in line or "is active from" in line:
            print(line)


def reset_peak(pid: int | None) -> None:
    """Reset the peak that `peak_mib` returns, on systems that can."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pid: int | None) -> float:
    """Return the peak of the resident memory of a process; 0 on systems that do not report it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def fill(urls: str, total: int, size: int) -> None:
    """Make agents of `size` bytes until they have `total` bytes."""
    with connect(urls, user="root", password="root") as client:
        left = -(-total // size)
        while left:
            count = min(left, max(1, FILL_BYTES // size), 10_000)
            client.request("stock", Fill(count, size), reply=Filled, timeout=BOUND_S)
            left -= count


def statuses(config: Config) -> list[dict[str, object]]:
    """Return the status of each replica that answers."""
    for _ in range(100):
        ((_, replicas),) = gather([ServerAdmin(config, config.server("s0"))])
        found = [replica.status for replica in replicas if replica.status is not None]
        if found:
            return found
        # The replicas are too busy to answer in time.
        time.sleep(0.1)
    raise SystemExit("no replica answered the request for its status")


def view(config: Config) -> object:
    """Return the number of the view."""
    return max(str(status["view"]) for status in statuses(config))


def equal(config: Config) -> bool:
    """Return whether all replicas have the same digest after the same entry."""
    for _ in range(100):
        if len({(status["applied"], status["digest"]) for status in statuses(config)}) == 1:
            return True
        time.sleep(0.1)
    return False


if __name__ == "__main__":
    main()
