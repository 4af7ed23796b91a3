"""Groups of clients: throughput against the number of members, as figure 8 of the JMSGroups paper has it.

Members run in several processes, divided among the replicas of one server; one publisher, which is no member,
casts as fast as its window allows. A message counts when the last member has it. Run it with::

    python benchmarks/groups.py --members 6,24,96,384 --kinds replicated-memory,local-disk
    python benchmarks/groups.py --failover 20
    python benchmarks/groups.py --members 6,12,24 --jgroups     # needs java and mvn

`--plot FILE.svg` draws messages/s against members. All figures are of this machine only.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from jgroups_peer import jgroups

from quorate import Servers, aconnect, connect
from quorate.groups import AsyncGroup, Group, Message, View

REPLICAS = 3
MOST_JVMS = 24
"""JGroups is measured up to so many members, each a process."""
PROCESSES = 6
CLOCK = os.sysconf("SC_CLK_TCK")


def configuration(durability: str, context: str) -> str:
    """Return the text of an a3servers.xml."""
    replicas = "".join(
        f'<server id="{id}" hostname="localhost"><network domain="D1" port="{16300 + id}"/>'
        f'<service class="ConnectionManager" args="root root"/>'
        f'<service class="TcpProxyService" args="{2560 + id}"/></server>'
        for id in range(REPLICAS)
    )
    properties = {"trace": "false", "balance": "rotate"}
    written = "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
    return (
        f'<config><domain name="D1"/>{written}'
        f'<cluster id="0" name="s0" mode="group" context="{context}" durability="{durability}">{replicas}'
        "</cluster></config>"
    )


# The processes of members


async def _member(url: str, name: str, count: int, joined: asyncio.Event, total: int) -> tuple[float, float]:
    """Be a member, and return when the first and the last of `count` messages came."""
    async with await aconnect(url, user="root", password="root") as connection:
        membership = await AsyncGroup(connection, name).join(timeout=120)
        first = last = 0.0
        seen = 0
        while seen < count:
            event = await membership.receive(timeout=None)
            if isinstance(event, Message):
                seen += 1
                first = first or time.time()
            elif isinstance(event, View) and len(event.members) == total:
                joined.set()
        last = time.time()
        await membership.leave()
        return first, last


async def members(url: str, name: str, here: int, total: int, count: int) -> None:
    """Run `here` members; say when all `total` have joined, and when the last message came."""
    joined = [asyncio.Event() for _ in range(here)]
    running = [asyncio.create_task(_member(url, name, count, each, total)) for each in joined]
    await asyncio.gather(*(each.wait() for each in joined))
    print("joined", flush=True)
    ends = await asyncio.gather(*running)
    times = os.times()
    print(json.dumps({"last": max(last for _, last in ends), "cpu": times.user + times.system}), flush=True)


# One measurement


def cpu_s(servers: Servers) -> list[float]:
    """Return the processor time of each replica so far, in seconds."""
    found = []
    for replica in range(REPLICAS):
        pid = servers.pid(replica=replica)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found.append((int(fields[11]) + int(fields[12])) / CLOCK)
    return found


def memory_mb(servers: Servers) -> float:
    """Return the largest resident set of a replica, in MB."""
    sizes = []
    for replica in range(REPLICAS):
        text = Path(f"/proc/{servers.pid(replica=replica)}/status").read_text()
        sizes.append(int(text.partition("VmRSS:")[2].split()[0]) / 1024)
    return max(sizes)


def measure(servers: Servers, number: int, size: int, payload: int, count: int) -> dict[str, float]:
    """Return messages/s, deliveries/s and processor time for one group of `size` members."""
    name = f"bench-{number}"
    shares = [size // PROCESSES + (at < size % PROCESSES) for at in range(PROCESSES)]
    started = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--member-process",
                servers.url(),
                name,
                str(here),
                str(size),
                str(count),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for here in shares
        if here
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "joined\n"
    before = cpu_s(servers)
    connection = connect(servers.url(), user="root", password="root")
    group = Group(connection, name, timeout=120)
    data = os.urandom(payload)
    waiting = threading.Semaphore(512)
    start = time.time()
    for _ in range(count):
        waiting.acquire()
        group.cast_nowait(data).add_done_callback(lambda _: waiting.release())
    ends = []
    clients_cpu = 0.0
    for each in started:
        assert each.stdout is not None
        found = json.loads(each.stdout.readline())
        ends.append(found["last"])
        clients_cpu += found["cpu"]
        each.wait()
    elapsed = max(ends) - start
    used = sum(after - first for after, first in zip(cpu_s(servers), before, strict=True))
    connection.close()
    return {
        "casts_per_s": count / elapsed,
        "deliveries_per_s": count * size / elapsed,
        "server_us_per_delivery": used / (count * size) * 1e6,
        "memory_mb": memory_mb(servers),
    }


def failover(servers: Servers, rounds: int) -> list[float]:
    """Return how long members of a killed home waited for the next message, in ms, one for each round."""
    pauses: list[float] = []
    for number in range(rounds):
        readers = [connect(servers.url(), user="root", password="root") for _ in range(REPLICAS)]
        name = f"failover-{number}"
        gaps: list[float] = []
        stop = threading.Event()

        def read(connection: object, name: str = name, gaps: list[float] = gaps) -> None:
            membership = Group(connection, name).join()  # type: ignore[arg-type]
            last = time.monotonic()
            for event in membership:
                now = time.monotonic()
                if isinstance(event, Message):
                    gaps.append(now - last)
                last = now

        for each in readers:
            threading.Thread(target=read, args=(each,), daemon=True).start()
        publisher = connect(servers.url(), user="root", password="root")
        group = Group(publisher, name, timeout=60)

        def publish(group: Group = group, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                group.cast(b"x" * 100)
                time.sleep(0.002)

        publishing = threading.Thread(target=publish)
        publishing.start()
        time.sleep(1.0)
        gaps.clear()
        victim = number % REPLICAS
        servers.kill(replica=victim)
        time.sleep(2.0)
        stop.set()
        publishing.join()
        pauses.append(max(gaps) * 1000)
        servers.start_replica(replica=victim)
        for each in (*readers, publisher):
            each.close(timeout=0)
    return pauses


def plot(rows: list[dict[str, object]], path: Path) -> None:
    """Draw messages/s against members, a curve for each kind."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind in dict.fromkeys(str(row["kind"]) for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        figure.add_trace(
            go.Scatter(x=[r["members"] for r in mine], y=[r["casts_per_s"] for r in mine], name=kind)
        )
    figure.update_xaxes(title="members", type="log")
    figure.update_yaxes(title="messages/s at the last member", type="log")
    path.write_text(figure.to_html(include_plotlyjs="cdn"))


def points(servers: Servers, kind: str, options: argparse.Namespace) -> list[dict[str, object]]:
    """Measure each number of members and payload; rounds of JGroups come between those of Quorate."""
    rows: list[dict[str, object]] = []
    number = 0
    for payload in map(int, options.payload.split(",")):
        for size in map(int, options.members.split(",")):
            count = max(1000, min(40_000, options.deliveries // size))
            found: dict[str, list[dict[str, float]]] = {}
            for _ in range(options.rounds):
                number += 1
                mine = measure(servers, number, size, payload, count)
                found.setdefault(f"quorate {kind} {payload} B", []).append(mine)
                if options.jgroups and size <= MOST_JVMS:
                    other = jgroups(size, payload, count)
                    found.setdefault(f"jgroups {payload} B", []).append(other)
            for name, each in found.items():
                row: dict[str, object] = {"kind": name, "members": size}
                row |= {key: round(statistics.median(one[key] for one in each), 1) for key in each[0]}
                rows.append(row)
                print(row, flush=True)
    return rows


def main() -> None:
    """Measure what the arguments ask for, and print a table."""
    if sys.argv[1:2] == ["--member-process"]:
        url, name, here, total, count = sys.argv[2:]
        asyncio.run(members(url, name, int(here), int(total), int(count)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="6,24,96")
    parser.add_argument("--kinds", default="replicated-memory,replicated-disk,local-disk")
    parser.add_argument("--payload", default="100")
    parser.add_argument("--deliveries", type=int, default=300_000, help="casts times members, in each point")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--failover", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--jgroups", action="store_true", help="measure JGroups beside it")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for kind in options.kinds.split(","):
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "a3servers.xml"
            context, _, durability = kind.partition("-")
            path.write_text(configuration(durability, context))
            with Servers(path, free_ports=True) as servers:
                if options.failover:
                    pauses = failover(servers, options.failover)
                    print(
                        f"{kind}: a killed home, longest pause at any member, of {len(pauses)}: median "
                        f"{statistics.median(pauses):.0f} ms, max {max(pauses):.0f} ms"
                    )
                    continue
                rows += points(servers, kind, options)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
