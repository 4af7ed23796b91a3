"""Messages from a producer through a queue to a consumer that acknowledges, while both run.

Three replicas of a server run as processes of this machine, with journals on disk or in memory; the producer
and the consumer are threads with connections of their own. `--window` is the most messages that are sent and
not received. RabbitMQ's quorum queue runs beside it, three nodes on this machine, if `rabbitmq-server` and
pika are installed; the rounds alternate, and ratios are those of the medians.

    .venv/bin/python benchmarks/messaging.py [--seconds 3] [--rounds 3] [--windows 1 100 1000] [--size 100]
"""

import argparse
import contextlib
import tempfile
import threading
import time
from pathlib import Path

from rabbitmq import RabbitCluster, missing
from rounds import Round, compare

from quorate import Servers
from quorate.messaging import Session

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <cluster id="0" name="s0" durability="{durability}">{replicas}<queue name="work"/></cluster>
</config>"""
REPLICA = """<server id="{id}" hostname="localhost"><network domain="D1" port="1630{id}"/>
  <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
  <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="256{id}"/></server>"""


def quorate_round(servers: Servers, size: int) -> Round:
    """Return the function that measures Quorate."""

    def measure(window: int, seconds: float) -> tuple[float, list[float]]:
        room = threading.Semaphore(window)
        latencies: list[float] = []
        ended = threading.Event()
        padding = b"x" * max(0, size - 8)

        def consume() -> None:
            with servers.connect("s0") as connection, Session(connection, timeout=60) as session:
                with session.consumer("work") as consumer:
                    while True:
                        sent_ns = int.from_bytes(consumer.receive(60).data[:8], "big")
                        if not sent_ns:
                            break
                        latencies.append((time.perf_counter_ns() - sent_ns) / 1e9)
                        room.release()
                session.sync(60)
            ended.set()

        thread = threading.Thread(target=consume, daemon=True)
        thread.start()
        with servers.connect("s0") as connection, Session(connection, timeout=60) as session:
            producer = session.producer("work")
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds:
                room.acquire()
                producer.send_nowait(time.perf_counter_ns().to_bytes(8, "big") + padding)
            producer.send_nowait(bytes(8))
            producer.flush(60)
            ended.wait(60)
            took = time.perf_counter() - begun
        thread.join()
        return len(latencies) / took, latencies

    return measure


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--size", type=int, default=100, help="bytes of a message, 8 at least")
    parser.add_argument("--durability", choices=["disk", "memory"], default="disk")
    arguments = parser.parse_args()
    lacking = missing()
    if lacking:
        print(f"RabbitMQ is not measured: {lacking}.")
    with contextlib.ExitStack() as opened:
        place = opened.enter_context(tempfile.TemporaryDirectory())
        path = Path(place) / "a3servers.xml"
        replicas = "".join(REPLICA.format(id=id) for id in range(3))
        path.write_text(XML.format(replicas=replicas, durability=arguments.durability))
        servers = opened.enter_context(Servers(path, free_ports=True))
        peers = {"quorate": quorate_round(servers, arguments.size)}
        if not lacking:
            cluster = opened.enter_context(RabbitCluster(Path(place)))
            peers["rabbitmq"] = cluster.round(arguments.size)
        for measure in peers.values():
            measure(100, 1.0)
        compare(peers, arguments.windows, arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    main()
