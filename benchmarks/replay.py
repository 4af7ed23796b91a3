"""The jobs of the replay beside a plain scan of the same Parquet files, and reruns beside the engine.

Each size has the traces of two replicas of a server with 50 counting agents. For each engine the rounds of
the jobs and of the scan alternate; the scan reads the columns that `verify` compares, of all rows, and adds
up their lengths. Rerun is set against the engine itself, which processes the same notifications in this
process, without replicas and without a trace. The start of Spark is shown, and part of nothing else.

    .venv/bin/python benchmarks/replay.py [--rows 100000 1000000] [--engines local spark] [--rounds 3]
                                        [--master spark://HOST:7077]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import attrs

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Note, encode, outside
from quorate.engine import Posts, Reaction, encode_batch
from quorate.replay import exactly_once, local_session, order, rerun, slowest, spark_session, totals, verify
from quorate.replay.frames import open_trace
from quorate.replay.queries import Queries, queries_of
from quorate.replay.schema import COLUMNS, CONTENT, Origin
from quorate.server.trace.writer import TraceWriter
from quorate.testing import Harness

AGENTS = 50
BATCH = 500
REPLICAS = 2


@attrs.frozen
class Tick(Notification):
    """Counts by one."""

    amount: int = 1


@attrs.define
class Counter(Agent):
    """Counts notifications, and tells every tenth to the next one."""

    total: int = 0
    told: int = 0

    @reacts
    def tick(self, ctx: Context, note: Tick) -> None:
        """Count one."""
        self.total += note.amount
        if not self.total % 10:
            self.told += 1
            ctx.send(f"counter{self.told % AGENTS}", Tick(1))


def write_traces(data: Path, rows: int) -> float:
    """Let a server react until its replicas have so many rows together; return its reactions a second."""
    harness = Harness()
    made: list[Reaction] = []
    apply = harness.engine.apply

    def kept(index: int, now_ns: int, payload: bytes) -> Any:
        effects = apply(index, now_ns, payload)
        made.extend(effects.trace)
        return effects

    harness.engine.apply = kept  # type: ignore[method-assign]
    for at in range(AGENTS):
        harness.deploy(Counter, name=f"counter{at}")
    writers = [TraceWriter(data / "s0" / str(at) / "trace", Origin("s0", 0, at, 1)) for at in range(REPLICAS)]
    payload = encode(Tick())
    notes = [Note(f"counter{at % AGENTS}", outside(0), Tick.type_name, payload) for at in range(BATCH)]
    batch = encode_batch([Posts(notes)])
    wanted, written, busy = rows // REPLICAS, 0, 0.0
    now_ns = time.time_ns()
    while written < wanted:
        now_ns += 1_000_000
        began = time.perf_counter()
        kept(harness.engine.applied + 1, now_ns, batch)
        busy += time.perf_counter() - began
        if len(made) >= 20_000 or written + len(made) >= wanted:
            for writer in writers:
                writer.write(made)
                while not writer.flush():
                    pass
            written += len(made)
            made.clear()
    for writer in writers:
        writer.close()
    return written / busy


READ = {"string": "sum(length({}))", "binary": "sum(octet_length({}))"}
"""What has a value of a type read; the highest one for numbers."""


def scan(queries: Queries, view: str) -> None:
    """Read the columns that are compared, of all rows."""
    read = ", ".join(READ.get(COLUMNS[name], "max({})").format(name) for name in CONTENT)
    queries.table(f"SELECT {read} FROM {view}")


def measure(name: str, session: Any, data: Path, rounds: int, engine_rate: float, cores: int) -> None:
    """Print how long the jobs took on one engine, and the ratios."""
    trace = open_trace([str(data)])
    report = verify(session, trace)
    jobs: dict[str, Callable[[], object]] = {
        "scan": lambda: trace.run(session, scan),
        "verify": lambda: verify(session, trace),
        "totals": lambda: totals(session, trace, report=report),
        "exactly-once": lambda: exactly_once(session, trace, report=report),
        "order": lambda: order(session, trace, report=report),
        "slowest": lambda: slowest(session, trace, report=report),
        "rerun": lambda: rerun(session, trace, report=report),
    }
    times: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in range(rounds):
        for job, run in jobs.items():
            began = time.perf_counter()
            run()
            times[job].append(time.perf_counter() - began)
    medians = {job: statistics.median(each) for job, each in times.items()}
    rows = report.rows
    for job, seconds in medians.items():
        if job == "rerun":
            rate = rows / REPLICAS / seconds
            share = rate / engine_rate / cores
            beside = f"{share:.2f} of the engine's {engine_rate:,.0f}/s times {cores} cores"
            print(f"  {name:6} {job:13} {seconds:8.2f} s  {rate:11,.0f} reactions/s, {beside}")
        else:
            print(
                f"  {name:6} {job:13} {seconds:8.2f} s  {rows / seconds:11,.0f} rows/s, "
                f"{seconds / medians['scan']:.2f} times the scan"
            )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", default=["local", "spark"], choices=["local", "spark"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--master", help="a cluster of Spark, which sees the same directories")
    options = parser.parse_args()
    for rows in options.rows:
        with tempfile.TemporaryDirectory(prefix="quorate-bench-") as place:
            rate = write_traces(Path(place) / "data", rows)
            code = Path(place) / "code.zip"
            with ZipFile(code, "w") as archive:
                archive.write(__file__, "benchmarks/replay.py")
            print(f"{rows:,} rows of {REPLICAS} replicas")
            for engine in options.engines:
                began = time.perf_counter()
                session: Any = (
                    local_session(cores=options.cores, memory="2g")
                    if engine == "local"
                    else spark_session(
                        "benchmark",
                        cores=options.cores,
                        memory="2g",
                        master=options.master,
                        py_files=[str(code)] if options.master else [],
                    )
                )
                print(f"  {queries_of(session).name} started in {time.perf_counter() - began:.1f} s")
                with session:
                    measure(engine, session, Path(place) / "data", options.rounds, rate, options.cores)


if __name__ == "__main__":
    main()
