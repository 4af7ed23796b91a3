"""The same client library with Quorate and with RabbitMQ: stomp.py, Qpid JMS, and Kombu.

A producer and a consumer that acknowledges each message have connections of their own; `--window` is the most
messages that are sent and not received. Sends do not wait for a confirmation. Quorate has three replicas with
journals, RabbitMQ three nodes and a quorum queue. The rounds alternate, and ratios are those of the medians.
Qpid JMS needs maven and java.

    .venv/bin/python benchmarks/foreign.py [--seconds 3] [--rounds 3] [--windows 1 100] [--only stomp]
"""

import argparse
import contextlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kombu
import stomp
from rabbitmq import RabbitCluster, missing
from rounds import Round, compare

import quorate.gateways.kombu  # noqa: F401  it makes the scheme of the URL known
from quorate import Servers
from quorate.server.config import load
from quorate.server.config.servers import AMQP_SERVICE, STOMP_SERVICE

HERE = Path(__file__).parent
XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <cluster id="0" name="s0">{replicas}<queue name="work"/><topic name="kombu" tree="true"/></cluster>
</config>"""
REPLICA = """<server id="{id}" hostname="localhost"><network domain="D1" port="1630{id}"/>
  <service class="ConnectionManager" args="root root"/><service class="TcpProxyService" args="256{id}"/>
  <service class="StompService" args="6161{id}"/><service class="AmqpService" args="567{id}"/></server>"""
END = b"end"


def stomp_round(port: int, user: str, destination: str, size: int) -> Round:
    """Return the function that measures with stomp.py."""

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def __init__(self, connection: Any, room: threading.Semaphore) -> None:
            self.connection = connection
            self.room = room
            self.latencies: list[float] = []
            self.ended = threading.Event()

        def on_message(self, frame: Any) -> None:
            self.connection.ack(frame.headers["ack"])
            if frame.body == END.decode():
                self.ended.set()
                return
            self.latencies.append((time.perf_counter_ns() - int(frame.headers["sent"])) / 1e9)
            self.room.release()

    def measure(window: int, seconds: float) -> tuple[float, list[float]]:
        room = threading.Semaphore(window)
        sending, receiving = (stomp.Connection12([("127.0.0.1", port)], vhost="/") for _ in range(2))
        for each in (sending, receiving):
            each.connect(user, user, wait=True)
        listener = Listener(receiving, room)
        receiving.set_listener("", listener)
        receiving.subscribe(destination, id="1", ack="client-individual", headers={"prefetch-count": window})
        body = "x" * size
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            room.acquire()
            headers = {"persistent": "true", "sent": str(time.perf_counter_ns())}
            sending.send(destination, body, headers=headers)
        sending.send(destination, END.decode(), headers={"persistent": "true"})
        listener.ended.wait(60)
        took = time.perf_counter() - begun
        for each in (sending, receiving):
            each.disconnect()
        return len(listener.latencies) / took, listener.latencies

    return measure


def kombu_round(url: str, size: int, **options: Any) -> Round:
    """Return the function that measures with Kombu."""
    queue = kombu.Queue("work", queue_arguments={"x-queue-type": "quorum"})

    def measure(window: int, seconds: float) -> tuple[float, list[float]]:
        room = threading.Semaphore(window)
        latencies: list[float] = []
        ended = threading.Event()

        def take(message: Any) -> None:
            message.ack()
            if message.body in (END, END.decode()):
                ended.set()
                return
            latencies.append((time.perf_counter_ns() - message.headers["sent"]) / 1e9)
            room.release()

        def consume() -> None:
            with kombu.Connection(url, transport_options=options) as connection:
                consumer = connection.Consumer([queue], on_message=take, accept=["application/data"])
                consumer.qos(prefetch_count=window)
                with consumer:
                    while not ended.is_set():
                        connection.drain_events(timeout=60)

        thread = threading.Thread(target=consume, daemon=True)
        with kombu.Connection(url, transport_options=options) as connection:
            queue(connection.default_channel).declare()
            thread.start()
            producer = connection.Producer()
            raw = {"content_type": "application/data", "content_encoding": "binary", "routing_key": "work"}
            body = b"x" * size
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds:
                room.acquire()
                producer.publish(body, headers={"sent": time.perf_counter_ns()}, **raw)
            producer.publish(END, **raw)
            ended.wait(60)
            took = time.perf_counter() - begun
        thread.join()
        return len(latencies) / took, latencies

    return measure


class Jms:
    """The program with Qpid JMS, compiled."""

    def __init__(self, place: Path) -> None:
        paths = place / "classpath"
        maven = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
        subprocess.run(maven, cwd=HERE / "jms", check=True, stdout=subprocess.DEVNULL)
        self._classpath = f"{paths.read_text().strip()}:{place}"
        compile_it = ["javac", "-cp", self._classpath, "-d", str(place), str(HERE / "jms" / "Load.java")]
        subprocess.run(compile_it, check=True)

    def round(self, port: int, user: str, queue: str, size: int) -> Round:
        """Return the function that measures."""
        command = [
            "java",
            "-cp",
            self._classpath,
            "Load",
            f"amqp://127.0.0.1:{port}?jms.forceAsyncSend=true",
            user,
            user,
            queue,
        ]

        def measure(window: int, seconds: float) -> tuple[float, list[float]]:
            words = [*command, str(window), str(seconds), str(size)]
            limit_s = seconds + 120
            out = subprocess.run(words, check=True, capture_output=True, text=True, timeout=limit_s).stdout
            rate, *latencies = out.split()
            return float(rate), [int(each) / 1e6 for each in latencies]

        return measure


def service_port(servers: Servers, service: str) -> int:
    """Return the port of a service of the master."""
    replica = load(servers.config.path).server("s0").replicas[servers.master("s0")]
    found = replica.service(service)
    assert found is not None
    return int(found.args)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--only", nargs="+", default=["stomp", "jms", "kombu"])
    arguments = parser.parse_args()
    size = arguments.size
    lacking = missing()
    if lacking:
        print(f"RabbitMQ is not measured: {lacking}.")
    wanted = list(arguments.only)
    if "jms" in wanted and not (shutil.which("mvn") and shutil.which("javac")):
        print("Qpid JMS is not measured: there is no maven, or no java.")
        wanted.remove("jms")
    with contextlib.ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        path = place / "a3servers.xml"
        path.write_text(XML.format(replicas="".join(REPLICA.format(id=id) for id in range(3))))
        servers = opened.enter_context(Servers(path, free_ports=True))
        cluster = None if lacking else opened.enter_context(RabbitCluster(place, foreign=True))
        made: dict[str, Callable[[], dict[str, Round]]] = {}

        def stomp_peers() -> dict[str, Round]:
            peers = {
                "quorate": stomp_round(service_port(servers, STOMP_SERVICE), "root", "/queue/work", size)
            }
            if cluster is not None:
                peers["rabbitmq"] = stomp_round(cluster.stomp_port, "guest", "/amq/queue/work", size)
            return peers

        def jms_peers() -> dict[str, Round]:
            jms = Jms(place)
            peers = {"quorate": jms.round(service_port(servers, AMQP_SERVICE), "root", "work", size)}
            if cluster is not None:
                peers["rabbitmq"] = jms.round(cluster.ports[0], "guest", "/amq/queue/work", size)
            return peers

        def kombu_peers() -> dict[str, Round]:
            url = servers.url("s0").replace("quorate://", "quorate://root:root@")
            peers = {"quorate": kombu_round(url, size, confirm=False)}
            if cluster is not None:
                peers["rabbitmq"] = kombu_round(f"pyamqp://guest:guest@localhost:{cluster.ports[0]}//", size)
            return peers

        made = {"stomp": stomp_peers, "jms": jms_peers, "kombu": kombu_peers}
        if cluster is not None:
            cluster.declare()
        for name in wanted:
            peers = made[name]()
            for measure in peers.values():
                measure(10, 1.0)
            print(name)
            compare(peers, arguments.windows, arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    main()
