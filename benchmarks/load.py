"""The common part of all contenders: the load, the measurement, and the processes.

A contender is a script that runs member 0, where the load is, and starts itself again for members 1 and 2.
It reads its cells from the command line as JSON and prints a JSON object for each of them.
"""

import argparse
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import attrs

MEMBERS = 3
WARM_SHARE = 0.25
"""Share of the time of a cell before the measurement begins."""
COLLECT_AFTER = 10_000
"""New objects; Python's default is 700."""
START_S = 20.0
"""Seconds that members may take to find each other."""

Submit = Callable[[list[bytes], Callable[[float], None], float], None]
"""Send payloads; call the function with the float when they are committed and delivered here."""


@attrs.frozen
class Cell:
    """One measurement: `window` operations of `size` bytes in flight, submitted `batch` at a time."""

    size: int
    window: int
    batch: int
    seconds: float

    @property
    def name(self) -> str:
        """The name in the table."""
        how = f"{self.batch} at a time" if self.batch > 1 else "one by one"
        return f"{self.size:>5} B  window {self.window:>4}  {how}"


def cpu_ns(pids: list[int]) -> int:
    """Return the processor time of these processes so far; 0 on systems that do not report it."""
    total = 0
    for pid in pids:
        try:
            for path in Path(f"/proc/{pid}/task").iterdir():
                total += int((path / "schedstat").read_text().split()[0])
        except OSError:
            return 0
    return total


class ClosedLoop:
    """Keeps the window full for the time of a cell, then reports."""

    def __init__(
        self, cell: Cell, submit: Submit, pids: list[int], finished: Callable[[dict[str, Any]], None]
    ) -> None:
        self.over = False
        self._cell = cell
        self._submit = submit
        self._pids = pids
        self._finished = finished
        self._payloads = [os.urandom(cell.size) for _ in range(cell.batch)]
        self._times: list[float] = []
        self._outstanding = 0
        self._measuring = False

    def start(self) -> None:
        """Fill the window."""
        gc.collect()
        self._begin = time.perf_counter() + self._cell.seconds * WARM_SHARE
        self._end = self._begin + self._cell.seconds * (1 - WARM_SHARE)
        self._outstanding = self._cell.window // self._cell.batch
        for _ in range(self._outstanding):
            self._submit(self._payloads, self._done, time.perf_counter())

    def _done(self, started: float) -> None:
        now = time.perf_counter()
        if self._measuring:
            self._times.append(now - started)
        elif now >= self._begin and not self.over:
            self._measuring = True
            self._begin = now
            self._cpu = cpu_ns(self._pids)
        if now < self._end:
            self._submit(self._payloads, self._done, now)
            return
        if self._measuring:
            self._measuring = False
            self.over = True
            self._result = self._sum_up(now)
        self._outstanding -= 1
        if not self._outstanding:
            self._finished(self._result)

    def _sum_up(self, now: float) -> dict[str, Any]:
        cpu = cpu_ns(self._pids) - self._cpu
        times = sorted(self._times) or [0.0]
        operations = len(self._times) * self._cell.batch
        return {
            "cell": attrs.asdict(self._cell),
            "operations": operations,
            "per_s": operations / (now - self._begin),
            "p50_us": times[len(times) // 2] * 1e6,
            "p99_us": times[min(len(times) - 1, len(times) * 99 // 100)] * 1e6,
            "cpu_us": cpu / 1e3 / max(operations, 1),
        }


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that are not in use."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def other_members(script: str, ports: list[int], extra: list[str]) -> Generator[list[int]]:
    """Run the script as members 1, 2... inside the block, which gets their process ids."""
    processes = [
        subprocess.Popen(
            [sys.executable, script, "--member", str(member), "--ports", *map(str, ports), *extra],
            stdin=subprocess.PIPE,
        )
        for member in range(1, MEMBERS)
    ]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def arguments(add: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """Read the command line of a contender."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--member", type=int, default=0)
    parser.add_argument("--ports", type=int, nargs="+", default=[])
    parser.add_argument("--cells", type=json.loads, default=[[100, 1, 1, 1.0], [100, 100, 1, 1.0]])
    parser.add_argument(
        "--reactor", choices=("default", "epoll", "poll", "select", "asyncio"), default="default"
    )
    parser.add_argument("--profile", help="write a cProfile of the load's process there")
    if add is not None:
        add(parser)
    options = parser.parse_args()
    options.cells = [Cell(*cell) for cell in options.cells]
    return options


def die_with_parent() -> None:
    """End this process when the one that started it does, however that ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def collect_rarely() -> None:
    """Let Python's collector look for cycles more rarely, in every process of every contender.

    With the default, collections over a thousand operations in flight take a fifth of the time and more.
    """
    gc.set_threshold(COLLECT_AFTER)


def install_reactor(name: str) -> Any:
    """Choose Twisted's reactor and return it."""
    if name != "default":
        import importlib

        importlib.import_module(f"twisted.internet.{name}reactor").install()
    from twisted.internet import reactor

    return reactor


def run_cells(
    options: argparse.Namespace, submit: Submit, pids: list[int], stop: Callable[[], None]
) -> Callable[[], None]:
    """Return a function that runs the cells one after the other, prints the results, and calls `stop`."""
    cells: list[Cell] = list(options.cells)

    def next_cell() -> None:
        if cells:
            ClosedLoop(cells.pop(0), submit, pids, finished).start()
        else:
            stop()

    def finished(result: dict[str, Any]) -> None:
        print(json.dumps(result), flush=True)
        from twisted.internet import reactor

        cast("Any", reactor).callLater(0.02, next_cell)

    return next_cell


@contextmanager
def profiled(path: str | None) -> Generator[None]:
    """Write a profile of what happens inside, if there is a path."""
    if path is None:
        yield
        return
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)
