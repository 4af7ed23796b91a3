"""What TLS costs: three replicas with it and without it, by turns.

    .venv/bin/python benchmarks/tls.py [--rounds 3] [--count 20000]

Prints for each payload how many notifications a second a client sends with a full window, and how long one
request takes, as medians over the rounds, and the ratios.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from quorate import Connection, Servers, connect

SIZES = (100, 10_000)
USER = {"user": "root", "password": "root"}
AGENT = """
import attrs
from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Put(Notification):
    data: bytes
    answer: bool = False


@attrs.frozen
class Taken(Notification):
    count: int


@attrs.define
class Sink(Agent):
    count: int = 0

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.count += 1
        if note.answer:
            ctx.send(ctx.reply_to, Taken(self.count))
"""


def configuration(tls: bool) -> str:
    """Return a cluster of three with an agent that takes everything."""
    files = {"certificate": "{server}-{replica}.pem", "key": "{server}-{replica}.key", "ca": "ca.pem"}
    properties = [f'<property name="tls_{name}" value="certs/{file}"/>' for name, file in files.items()]
    replicas = [
        f'<server id="{id}" hostname="localhost"><network domain="D1" port="{17301 + id}"/>'
        '<service class="ConnectionManager" args="root root"/>'
        f'<service class="TcpProxyService" args="{2760 + id}"/></server>'
        for id in range(3)
    ]
    return (
        f'<config>{"".join(properties) if tls else ""}<property name="trace" value="false"/>'
        f'<domain name="D1"/><cluster id="0" name="s0">{"".join(replicas)}'
        '<agent class="sink:Sink" name="sink"/></cluster></config>'
    )


def measured(connection: Connection, sink: Any, size: int, count: int) -> tuple[float, float]:
    """Return notifications a second, and the median time of a request in microseconds."""
    put, asking = sink.Put(bytes(size)), sink.Put(bytes(size), True)
    begin = time.perf_counter()
    for _ in range(count):
        connection.send_nowait("sink", put)
    connection.flush()
    rate = count / (time.perf_counter() - begin)
    times: list[float] = []
    for _ in range(1000):
        begin = time.perf_counter()
        connection.request("sink", asking, reply=sink.Taken)
        times.append(time.perf_counter() - begin)
    return rate, statistics.median(times) * 1e6


def once(place: Path, tls: bool, count: int) -> dict[int, tuple[float, float]]:
    """Start the servers and measure all sizes."""
    config = place / "a3servers.xml"
    config.write_text(configuration(tls))
    command = [sys.executable, "-m", "quorate", "certs", config]
    subprocess.run(command, check=True, capture_output=True)
    import sink

    found: dict[int, tuple[float, float]] = {}
    data = place / ("secure" if tls else "clear")
    with (
        Servers(config, free_ports=True, data=data, pythonpath=[place]) as servers,
        connect(servers.url("s0"), **USER) as connection,
    ):
        for size in SIZES:
            few = count if size < 1000 else count // 10
            measured(connection, sink, size, few // 10)
            found[size] = measured(connection, sink, size, few)
    return found


def main() -> None:
    """Measure by turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    found: dict[bool, list[dict[int, tuple[float, float]]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as agents:
        (Path(agents) / "sink.py").write_text(AGENT)
        sys.path.insert(0, agents)
        for _ in range(options.rounds):
            for tls in found:
                with tempfile.TemporaryDirectory() as place:
                    (Path(place) / "sink.py").write_text(AGENT)
                    found[tls].append(once(Path(place), tls, options.count))
    for size in SIZES:
        for position, what in enumerate(("notifications a second", "request, microseconds")):
            clear, secure = (
                statistics.median(each[size][position] for each in rounds) for rounds in found.values()
            )
            print(
                f"{size:6} bytes, {what}: {clear:8.0f} without, {secure:8.0f} with TLS, {secure / clear:.2f}"
            )


if __name__ == "__main__":
    main()
