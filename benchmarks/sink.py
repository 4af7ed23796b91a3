"""Rows of a DataFrame sent to a cluster, beside the same notifications sent by plain clients.

A cluster of three replicas on this host has a counting agent for each of some partitions. In each round Spark
sends the rows first, with as many tasks as there are cores, and then as many client processes as tasks send
the same notifications without waiting for each. Rounds alternate; the start of Spark is part of nothing.

    PYTHONPATH=$PWD .venv/bin/python benchmarks/sink.py [--rows 200000] [--rounds 3]
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs

from quorate import Agent, Context, Notification, Servers, connect, reacts
from quorate.replay import spark_session

ROOT = Path(__file__).parent.parent
TASKS = 2
XML = ROOT / "a3servers.xml"


@attrs.frozen
class Add(Notification):
    """Adds a number."""

    number: int


@attrs.frozen
class Ask(Notification):
    """Asks for the count."""


@attrs.frozen
class Count(Notification):
    """How many numbers there were."""

    count: int


@attrs.define
class Counter(Agent):
    """Counts."""

    count: int = 0

    @reacts
    def add(self, _: Context, __: Add) -> None:
        """Count one."""
        self.count += 1

    @reacts
    def ask(self, ctx: Context, _: Ask) -> None:
        """Tell the count."""
        ctx.send(ctx.sender, Count(self.count))


def by_client(url: str, to: str, first: int, count: int) -> None:
    """Send numbers from one client."""
    with connect(url, user="root", password="root") as connection:
        for number in range(first, first + count):
            connection.send_nowait(to, Add(number))
        connection.flush(600)


def clients(url: str, to: str, rows: int) -> float:
    """Return the seconds of clients, their start not counted."""
    part = rows // TASKS
    workers = [
        multiprocessing.Process(target=by_client, args=(url, to, task * part, part)) for task in range(TASKS)
    ]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin


def by_spark(spark: Any, url: str, to: str, rows: int) -> float:
    """Return the seconds of Spark."""
    frame = spark.range(0, rows, 1, TASKS).withColumnRenamed("id", "number")
    writer = frame.write.format("quorate").mode("append").option("url", url).option("to", to)
    writer = writer.option("user", "root").option("password", "root").option("type", Add.type_name)
    begin = time.perf_counter()
    writer.save()
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = given.rows // TASKS * TASKS
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "a3servers.xml"
        text = XML.read_text().replace('<cluster id="0" name="s0">', '<cluster id="0" name="s0">\n{}')
        path.write_text(text.format('    <property name="administrators" value="root"/>'))
        with (
            Servers(path, free_ports=True, only=["s0"], pythonpath=[ROOT]) as servers,
            spark_session("benchmark", cores=TASKS) as spark,
        ):
            servers.create("benchmarks.sink:Counter", name="counter")
            url = servers.url("s0")
            by_spark(spark, url, "counter", 2000)
            times: dict[str, list[float]] = {"spark": [], "clients": []}
            for _ in range(given.rounds):
                times["spark"].append(by_spark(spark, url, "counter", rows))
                times["clients"].append(clients(url, "counter", rows))
            with servers.connect("s0") as connection:
                count = connection.request("counter", Ask()).count
    expected = 2000 + 2 * given.rounds * rows
    if count != expected:
        raise SystemExit(f"the agent has counted {count} instead of {expected}")
    middle = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in middle.items():
        print(f"{name:8} {rows / seconds:10,.0f} rows/s   {seconds:6.2f} s")
    print(f"ratio of the rates, Spark to clients: {middle['clients'] / middle['spark']:.2f}")


if __name__ == "__main__":
    from benchmarks.sink import main as named

    named()  # the classes have the names that the server knows
