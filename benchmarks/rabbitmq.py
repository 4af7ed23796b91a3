"""A RabbitMQ cluster of three nodes on this machine, for benchmarks that compare with its quorum queues.

It needs the programs ``rabbitmq-server`` and ``rabbitmqctl``, and the module pika.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_S = 90.0


def missing() -> str:
    """Return what this machine lacks, "" if nothing."""
    if shutil.which("rabbitmq-server") is None:
        return "there is no rabbitmq-server here"
    if importlib.util.find_spec("pika") is None:
        return "the module pika is not installed: pip install -r benchmarks/requirements.txt"
    return ""


def _program(name: str) -> str:
    """Return a program of RabbitMQ: that of Debian's package without its change of user."""
    direct = Path("/usr/lib/rabbitmq/bin") / name
    return str(direct) if direct.exists() else name


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class RabbitCluster:
    """Three nodes, and a durable quorum queue with a replica on each."""

    def __init__(self, place: Path, *, foreign: bool = False) -> None:
        """foreign: whether the first node speaks STOMP, at `stomp_port`, and AMQP 1.0, too."""
        self._place = place
        self._foreign = foreign
        self.stomp_port = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self._names = [f"quorate{number}@localhost" for number in range(3)]
        self.ports: list[int] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def _start(self) -> None:
        *ports, self.stomp_port = _free_ports(7)
        self.ports = ports[:3]
        for name, port, dist in zip(self._names, ports[:3], ports[3:], strict=True):
            home = self._place / name
            home.mkdir()
            foreign = self._foreign and name == self._names[0]
            (home / "plugins").write_text(f"[{'rabbitmq_stomp,rabbitmq_amqp1_0' if foreign else ''}].")
            environment = {
                **self._environment(),
                "RABBITMQ_NODENAME": name,
                "RABBITMQ_NODE_PORT": str(port),
                "RABBITMQ_DIST_PORT": str(dist),
                "RABBITMQ_MNESIA_BASE": str(home),
                "RABBITMQ_LOG_BASE": str(home),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
                "RABBITMQ_PID_FILE": str(home / "pid"),
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-rabbitmq_stomp tcp_listeners [{self.stomp_port}]",
            }
            log = (home / "out").open("wb")
            self._processes.append(
                subprocess.Popen(
                    [_program("rabbitmq-server")],
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
            # The first one makes the cookie that all of them share.
            self._control(name, "wait", str(home / "pid"))
        for name in self._names[1:]:
            for words in (("stop_app",), ("join_cluster", self._names[0]), ("start_app",)):
                self._control(name, *words)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for name in self._names:
            subprocess.run(
                [_program("rabbitmqctl"), "-n", name, "shutdown"],
                env=self._environment(),
                capture_output=True,
                check=False,
            )
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()

    def _environment(self) -> dict[str, str]:
        # All nodes and the control program find the same cookie here.
        return {**os.environ, "HOME": str(self._place), "RABBITMQ_USE_LONGNAME": "false"}

    def _control(self, name: str, *words: str) -> None:
        subprocess.run(
            [_program("rabbitmqctl"), "-n", name, *words],
            env=self._environment(),
            capture_output=True,
            check=True,
            timeout=START_S,
        )

    def declare(self) -> None:
        """Make the queue."""
        self._channel().connection.close()

    def _channel(self) -> Any:
        pika: Any = importlib.import_module("pika")
        credentials = pika.PlainCredentials("guest", "guest")
        parameters = pika.ConnectionParameters("localhost", self.ports[0], credentials=credentials)
        channel = pika.BlockingConnection(parameters).channel()
        channel.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum"})
        return channel

    def round(self, size: int) -> Callable[[int, float], tuple[float, list[float]]]:
        """Return the function that measures, with a consumer that acknowledges each message."""
        pika: Any = importlib.import_module("pika")
        persistent = pika.BasicProperties(delivery_mode=2)

        def measure(window: int, seconds: float) -> tuple[float, list[float]]:
            room = threading.Semaphore(window)
            latencies: list[float] = []
            padding = b"x" * max(0, size - 8)

            def consume() -> None:
                channel = self._channel()
                channel.basic_qos(prefetch_count=max(window, 1))
                for method, _, body in channel.consume("work", inactivity_timeout=10):
                    if method is None:
                        break
                    channel.basic_ack(method.delivery_tag)
                    sent_ns = int.from_bytes(body[:8], "big")
                    if not sent_ns:
                        break
                    latencies.append((time.perf_counter_ns() - sent_ns) / 1e9)
                    room.release()
                channel.connection.close()

            thread = threading.Thread(target=consume, daemon=True)
            thread.start()
            channel = self._channel()
            begun = time.perf_counter()
            while time.perf_counter() - begun < seconds:
                room.acquire()
                body = time.perf_counter_ns().to_bytes(8, "big") + padding
                channel.basic_publish("", "work", body, persistent)
            channel.basic_publish("", "work", bytes(8), persistent)
            thread.join()
            took = time.perf_counter() - begun
            channel.connection.close()
            return len(latencies) / took, latencies

        return measure
