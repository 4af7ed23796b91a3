"""PySyncObj (Raft): three processes, journal in memory, ticked by hand in the thread of the load.

`--tuning prompt` sends every command at once, which is best for a small window; `--tuning batch` collects
commands for `--period` seconds, which is best for a large one. The table has the better of both in each cell.
"""

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from load import (
    START_S,
    ClosedLoop,
    arguments,
    collect_rarely,
    die_with_parent,
    free_ports,
    other_members,
    profiled,
)

try:
    from pysyncobj import SyncObj, SyncObjConf, replicated  # type: ignore[import-untyped]
except ImportError:
    print("pysyncobj is not installed: pip install -r benchmarks/requirements.txt", file=sys.stderr)
    raise SystemExit(3) from None


class Counter(SyncObj):  # type: ignore[misc]
    """The application: a counter of the messages."""

    def __init__(self, me: str, others: list[str], conf: Any) -> None:
        cast("Any", super()).__init__(me, others, conf)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator]
    def append(self, payload: bytes) -> None:
        """Count."""
        del payload
        self.count += 1

    @replicated  # type: ignore[untyped-decorator]
    def append_many(self, payloads: list[bytes]) -> None:
        """Count."""
        self.count += len(payloads)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this contender has."""
    parser.add_argument("--tuning", choices=("prompt", "batch"), default="prompt")
    parser.add_argument("--period", type=float, default=0.002)


def settings(options: Any) -> Any:
    """Return the fastest settings found: no threads, no journal file, rare compaction, big buffers."""
    prompt = options.tuning == "prompt"
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=not prompt,
        # With prompt sending the period is only the heartbeat.
        appendEntriesPeriod=0.05 if prompt else options.period,
        appendEntriesBatchSizeBytes=2**18,
        sendBufferSize=2**20,
        recvBufferSize=2**20,
        # Member 0 stands for election first; the load is there.
        raftMinTimeout=0.3 if options.member == 0 else 2.0,
        raftMaxTimeout=0.4 if options.member == 0 else 3.0,
        connectionRetryTime=0.1,
        logCompactionMinEntries=200_000,
        logCompactionMinTime=3600,
        commandsQueueSize=200_000,
    )


def load_of(options: Any, counter: Counter, pids: list[int]) -> None:
    """Run the cells one after the other, ticking."""
    wait = 0.05 if options.tuning == "prompt" else options.period / 4

    def submit(payloads: list[bytes], done: Callable[[float], None], started: float) -> None:
        callback = partial(_confirmed, done, started)
        if len(payloads) == 1:
            cast("Any", counter).append(payloads[0], callback=callback)
        else:
            cast("Any", counter).append_many(payloads, callback=callback)

    for cell in options.cells:
        results: list[dict[str, Any]] = []
        ClosedLoop(cell, submit, [os.getpid(), *pids], results.append).start()
        while not results:
            counter.doTick(wait)
        results[0]["tuning"] = options.tuning
        print(json.dumps(results[0]), flush=True)


def _confirmed(done: Callable[[float], None], started: float, result: object, error: int) -> None:
    del result
    if error:
        raise SystemExit(f"pysyncobj failed an operation with code {error}")
    done(started)


def main() -> None:
    """Run the member that the command line names."""
    options = arguments(add_options)
    collect_rarely()
    if options.member:
        die_with_parent()
    else:
        options.ports = free_ports(3)
    names = [f"127.0.0.1:{port}" for port in options.ports]
    me = names.pop(options.member)
    # PySyncObj warns of entries that it receives twice, in every run under load.
    logging.getLogger("pysyncobj").setLevel(logging.CRITICAL)
    counter = Counter(me, names, settings(options))
    if options.member:
        while True:
            counter.doTick(0.05)
    extra = ["--tuning", options.tuning, "--period", str(options.period)]
    with other_members(__file__, options.ports, extra) as pids:
        end = time.monotonic() + START_S
        while not cast("Any", counter)._isLeader() or not counter.isReady():
            counter.doTick(0.02)
            if time.monotonic() > end:
                raise SystemExit(f"this member did not lead within {START_S:g} s")
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            counter.doTick(0.02)
        with profiled(options.profile):
            load_of(options, counter, pids)


if __name__ == "__main__":
    main()
