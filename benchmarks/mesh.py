"""A mesh: messages a second, latency, the minority side of a cut, and the merge after one.

Publishers and subscribers are processes of their own. Run it with::

    python benchmarks/mesh.py                              # 3 daemons, 100 B, copies 1 and 2
    python benchmarks/mesh.py --daemons 5 --bytes 10240
    python benchmarks/mesh.py --merge-mb 200               # time to merge after a cut, idle and under load
    MESH_TRACE=false python benchmarks/mesh.py             # without the traces of daemons
    python benchmarks/mesh.py --nats /path/to/nats-server  # the same load on NATS JetStream, three replicas

A cut is made by stopping the other daemons (SIGSTOP). All figures are of this machine only.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorate import Servers
from quorate import mesh as quorate_mesh

WARM = 2000
WINDOW_BYTES = 1024 * 1024
"""What a subscriber may have unacknowledged, unless it asks for more."""
TRACE = os.environ.get("MESH_TRACE", "true")
"""The property `trace` of the daemons."""


def configuration(daemons: int, copies: int) -> str:
    """Return the text of an a3servers.xml."""
    servers = "".join(
        f'<server id="{id}" hostname="localhost"><network domain="D1" port="{16700 + id}"/>'
        f'<service class="ConnectionManager" args="root root"/>'
        f'<service class="MeshService" args="{2700 + id}"/></server>'
        for id in range(daemons)
    )
    return (
        '<config><domain name="D1"/><property name="administrators" value="root"/>'
        f'<property name="copies" value="{copies}"/><property name="topic_bytes" value="8000000000"/>'
        f'<property name="trace" value="{TRACE}"/>'
        f'<cluster id="0" name="m0" mode="mesh">{servers}</cluster></config>'
    )


@contextlib.contextmanager
def running(daemons: int, copies: int) -> Iterator[Servers]:
    """Run a mesh with a topic."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a3servers.xml"
        path.write_text(configuration(daemons, copies))
        with Servers(path, free_ports=True, data=Path(directory) / "data") as servers:
            with connect(servers, 0) as mesh:
                mesh.create("load")
            for id in range(1, daemons):
                with connect(servers, id) as mesh:
                    while not mesh.topics():
                        time.sleep(0.05)
            yield servers


def url(servers: Servers, daemon: int) -> str:
    """Return the URL of one daemon."""
    return "quorate://" + servers.url("m0").removeprefix("quorate://").split(",")[daemon]


def connect(servers: Servers, daemon: int) -> quorate_mesh.Mesh:
    """Connect to one daemon."""
    return quorate_mesh.connect(url(servers, daemon), user="root", password="root")


# The processes of clients


async def publish(where: str, count: int, size: int) -> None:
    """Publish as fast as the window allows; print when the first and the last were acknowledged."""
    async with quorate_mesh.connect_async(where, user="root", password="root") as mesh:
        body = bytes(size)
        for _ in range(WARM):
            await mesh.publish_nowait("load", body)
        await mesh.flush(60)
        began = time.time()
        for _ in range(count):
            await mesh.publish_nowait("load", body)
        await mesh.flush(600)
        print(json.dumps([began, time.time()]), flush=True)


async def receive(where: str, name: str, count: int) -> None:
    """Receive and acknowledge; print when the last of `count` came."""
    async with quorate_mesh.connect_async(where, user="root", password="root") as mesh:
        reader = await mesh.subscribe("load", name=name)
        print("ready", flush=True)
        for number in range(count):
            message = await reader.receive()
            # More than the window may not be unacknowledged.
            every = max(1, min(500, WINDOW_BYTES // 2 // max(1, len(message.body))))
            if number % every == every - 1:
                await reader.acknowledge()
        await reader.acknowledge()
        print(json.dumps(time.time()), flush=True)
        await asyncio.sleep(0.5)


def start(*arguments: object) -> "subprocess.Popen[str]":
    """Start a process of a client."""
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def said(process: "subprocess.Popen[str]") -> Any:
    """Read a line of a client."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line != "ready\n" else None


# Measurements


def throughput(daemons: int, copies: int, size: int, count: int) -> dict[str, float]:
    """One publisher at daemon 0, a persistent subscriber at every daemon."""
    with running(daemons, copies) as servers:
        readers = [start("receive", url(servers, id), f"r{id}", count + WARM) for id in range(daemons)]
        for reader in readers:
            said(reader)
        time.sleep(0.5)
        began, acknowledged = said(start("publish", url(servers, 0), count, size))
        last = max(said(reader) for reader in readers)
        for reader in readers:
            reader.wait()
        time.sleep(2.0)
        with connect(servers, 0) as mesh:
            kept = mesh.status()["bytes"]
    return {
        "publish/s": count / (acknowledged - began),
        "delivered at all/s": count / (last - began),
        "bytes left": kept,
    }


def alone(daemons: int, size: int, count: int) -> dict[str, float]:
    """One publisher, no subscriber, with all daemons and with all others stopped."""
    found: dict[str, float] = {}
    with running(daemons, 1) as servers:
        for name in ("whole", "cut"):
            if name == "cut":
                for id in range(1, daemons):
                    servers.pause("m0", id)
                time.sleep(0.2)
            began, ended = said(start("publish", url(servers, 0), count, size))
            found[f"publish/s, {name}"] = count / (ended - began)
        for id in range(1, daemons):
            servers.resume("m0", id)
    return found


def latency(daemons: int, copies: int, size: int, count: int = 500) -> dict[str, float]:
    """One message at a time: acknowledged, received at the same daemon, received at another one."""
    times: dict[str, list[float]] = {"acknowledged": [], "local": [], "remote": []}
    with running(daemons, copies) as servers, connect(servers, 0) as one, connect(servers, 1) as other:
        local, remote = one.subscribe("load"), other.subscribe("load")
        for number in range(count + 50):
            began = time.perf_counter()
            one.publish("load", bytes(size))
            done = time.perf_counter()
            local.receive(10)
            here = time.perf_counter()
            remote.receive(10)
            if number >= 50:
                times["acknowledged"].append(done - began)
                times["local"].append(here - began)
                times["remote"].append(time.perf_counter() - began)
    found: dict[str, float] = {}
    for name, each in times.items():
        ordered = sorted(each)
        found[f"{name} p50 ms"] = statistics.median(each) * 1000
        found[f"{name} p99 ms"] = ordered[int(0.99 * len(ordered))] * 1000
    return found


def merge(megabytes: int, size: int) -> dict[str, float]:
    """Publish while the others are stopped, let them go on, and wait until they have it; then under load."""
    found: dict[str, float] = {}
    count = megabytes * 1_000_000 // size
    for busy in (False, True):
        with running(3, 1) as servers, connect(servers, 0) as mesh, connect(servers, 1) as other:
            mesh.subscribe("load", name="slow").close()
            time.sleep(0.5)
            servers.kill("m0", 2)
            said(start("publish", url(servers, 0), count, size))
            waits: list[float] = []
            servers.start_replica("m0", 2)
            began = time.perf_counter()
            with connect(servers, 2) as third:
                while third.status()["records"] < count:
                    if busy:
                        at = time.perf_counter()
                        other.publish("load", bytes(100))
                        waits.append(time.perf_counter() - at)
                    else:
                        time.sleep(0.05)
            name = "busy" if busy else "idle"
            found[f"merge MB/s, {name}"] = megabytes / (time.perf_counter() - began)
            if busy:
                waits.sort()
                found["publish p50 ms, merging"] = statistics.median(waits) * 1000
                found["publish p99 ms, merging"] = waits[int(0.99 * len(waits))] * 1000
    return found


def nats(server: str, size: int, count: int) -> dict[str, float]:
    """Publish asynchronously to a JetStream stream with three replicas, on disk."""
    import nats as client  # the package nats-py

    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        ports = [_free_port() for _ in range(6)]
        routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports[3:])
        for id in range(3):
            command = [
                *(server, "-js", "-sd", f"{directory}/{id}", "-p", str(ports[id]), "-n", f"n{id}"),
                *(
                    "--cluster",
                    f"nats://127.0.0.1:{ports[3 + id]}",
                    "--cluster_name",
                    "c",
                    "--routes",
                    routes,
                ),
            ]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(5)

        async def run() -> float:
            connection = await client.connect(f"nats://127.0.0.1:{ports[0]}")
            stream = connection.jetstream(publish_async_max_pending=4096)
            for _ in range(20):
                # The cluster needs a while to choose its leader.
                with contextlib.suppress(Exception):
                    await stream.add_stream(name="load", subjects=["load"], num_replicas=3)
                    break
                await asyncio.sleep(0.5)
            body = bytes(size)
            for total in (WARM, count):
                began = time.perf_counter()
                for _ in range(total):
                    await stream.publish_async("load", body)
                await stream.publish_async_completed()
            spent = time.perf_counter() - began
            await connection.close()
            return total / spent

        return {"NATS JetStream R3 publish/s": asyncio.run(run())}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def show(title: str, found: dict[str, float]) -> None:
    """Print the figures of one measurement."""
    print(f"{title}: " + ", ".join(f"{name} {value:,.2f}" for name, value in found.items()), flush=True)


def main() -> None:
    """Measure what the arguments ask for."""
    if sys.argv[1:2] == ["publish"]:
        asyncio.run(publish(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
        return
    if sys.argv[1:2] == ["receive"]:
        asyncio.run(receive(sys.argv[2], sys.argv[3], int(sys.argv[4])))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--daemons", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--merge-mb", type=int, default=0)
    parser.add_argument("--nats", metavar="SERVER", default="")
    options = parser.parse_args()
    if options.merge_mb:
        show(f"merge of {options.merge_mb} MB", merge(options.merge_mb, max(options.bytes, 1000)))
        return
    for copies in (1, 2):
        title = f"{options.daemons} daemons, {options.bytes} B, copies {copies}"
        show(title, throughput(options.daemons, copies, options.bytes, options.count))
        show(title, latency(options.daemons, copies, options.bytes))
    show("no subscriber", alone(options.daemons, options.bytes, options.count))
    if options.nats:
        show("peer", nats(options.nats, options.bytes, options.count))


if __name__ == "__main__":
    main()
