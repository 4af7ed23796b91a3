"""Celery on real servers: workers are processes of their own, and are killed, as the master is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="Celery is not installed: pip install celery quorate[celery]")

from celery import group

from quorate import Servers

from .celery_app import new_app
from .foreign_clients import cluster, running
from .running import BOUND_S, until

pytestmark = pytest.mark.processes
IDLE_S = 3
"""The time after which the server gives a client up that was killed."""


class Setting:
    """A server, and a program that sends tasks."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.broker = servers.url("s0").replace("quorate://", "quorate://anna:anna@")
        self.app = new_app(self.broker)

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def close(self) -> None:
        if self.app.backend.result_consumer._consumer is not None:
            self.app.backend.result_consumer.stop()
        self.app.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    text = cluster("StompService", "celery", "urgent", topics='<topic name="kombu" tree="true"/>')
    for port in (2560, 2570, 2580):
        text = text.replace(f'"TcpProxyService" args="{port}"', f'"TcpProxyService" args="{port} {IDLE_S}"')
    with running(tmp_path_factory.mktemp("celery"), text) as found:
        yield found


@pytest.fixture
def server(servers: Servers) -> Iterator[Setting]:
    setting = Setting(servers)
    yield setting
    setting.close()


class Worker:
    """A worker, with its own processes for tasks."""

    def __init__(self, server: Setting, log: Path, *options: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "celery", "-A", f"{__package__}.celery_app", "worker"]
        environment = {**os.environ, "BROKER": server.broker, "C_FORCE_ROOT": "1"}
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [
                    *command,
                    "--loglevel",
                    "INFO",
                    "--concurrency",
                    "1",
                    "--hostname",
                    f"{log.stem}@x",
                    *options,
                ],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
            )
        self.wait_for("ready.")

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.log.read_text(), f"{text} in {self.log}")

    def stop(self) -> int:
        """Stop it as an administrator does: it ends its tasks first. Return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(BOUND_S)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(BOUND_S)


@pytest.fixture
def worker(server: Setting, tmp_path: Path) -> Iterator[Worker]:
    found = Worker(server, tmp_path / "w1.log")
    yield found
    found.stop()


def lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_tasks_results_errors_retries_and_times(server: Setting, worker: Worker) -> None:
    assert server.task("add").delay(2, 3).get(timeout=BOUND_S) == 5
    numbers = group(server.task("add").s(number, 1) for number in range(30))().get(timeout=BOUND_S)
    assert numbers == list(range(1, 31))
    with pytest.raises(ValueError, match="no such order"):
        server.task("fail").delay().get(timeout=BOUND_S)
    assert server.task("third_time").delay().get(timeout=BOUND_S) == 2
    assert (server.task("add").s(1, 1) | server.task("add").s(5)).apply_async().get(timeout=BOUND_S) == 7
    begun = time.monotonic()
    assert server.task("add").apply_async((1, 1), countdown=1).get(timeout=BOUND_S) == 2
    assert time.monotonic() - begun >= 1
    assert worker.stop() == 0


def test_tasks_that_wait_for_their_time_do_not_hold_up_others(server: Setting, worker: Worker) -> None:
    waiting = [server.task("add").apply_async((number, 0), countdown=1000) for number in range(10)]
    assert server.task("add").delay(1, 1).get(timeout=BOUND_S) == 2
    for each in waiting:
        each.revoke()
    assert server.task("add").delay(1, 2).get(timeout=BOUND_S) == 3


def test_workers_answer_to_commands(server: Setting, worker: Worker) -> None:
    assert server.app.control.inspect(timeout=5, destination=["w1@x"]).ping() == {"w1@x": {"ok": "pong"}}
    server.app.control.add_consumer("urgent", destination=["w1@x"], reply=True)
    assert server.task("add").apply_async((1, 1), queue="urgent").get(timeout=BOUND_S) == 2


def test_the_more_urgent_task_is_done_first(server: Setting, tmp_path: Path) -> None:
    done = tmp_path / "done"
    for priority in (0, 3, 9, 6):
        server.task("early").apply_async((str(done), priority), priority=priority)
    worker = Worker(server, tmp_path / "w1.log", "--prefetch-multiplier", "1")
    until(lambda: len(lines(done)) == 4)
    worker.stop()
    assert lines(done) == [9, 6, 3, 0]


def test_a_task_of_a_killed_worker_is_done_again_if_it_acknowledges_late(
    server: Setting, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    first = Worker(server, tmp_path / "w1.log")
    results = [server.task("late").delay(str(done), number, 0 if number else 1000) for number in range(5)]
    until(lambda: lines(done) == [0])
    first.kill()
    second = Worker(server, tmp_path / "w2.log")
    assert [each.get(timeout=BOUND_S) for each in results] == [0, 1, 2, 3, 4]
    second.stop()
    # Those that only waited at the killed worker have run once.
    assert sorted(lines(done)) == [0, 0, 1, 2, 3, 4]


def test_a_task_of_a_killed_worker_is_not_done_again_if_it_acknowledges_early(
    server: Setting, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    first = Worker(server, tmp_path / "w1.log", "--prefetch-multiplier", "3")
    results = [server.task("early").delay(str(done), number, 0 if number else 1000) for number in range(3)]
    until(lambda: lines(done) == [0])
    first.kill()
    second = Worker(server, tmp_path / "w2.log")
    assert [each.get(timeout=BOUND_S) for each in results[1:]] == [1, 2]
    second.stop()
    assert sorted(lines(done)) == [0, 1, 2]


def test_a_worker_that_is_stopped_ends_its_task_first(server: Setting, tmp_path: Path) -> None:
    done = tmp_path / "done"
    worker = Worker(server, tmp_path / "w1.log")
    result = server.task("late").delay(str(done), 7, 1)
    until(lambda: lines(done) == [7])
    assert worker.stop() == 0
    assert result.get(timeout=BOUND_S) == 7
    second = Worker(server, tmp_path / "w2.log")
    assert server.task("add").delay(1, 1).get(timeout=BOUND_S) == 2
    second.stop()
    assert lines(done) == [7]


def test_every_task_is_done_once_though_the_master_is_killed(
    server: Setting, worker: Worker, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    results = []
    for number in range(200):
        results.append(server.task("early").delay(str(done), number))
        if number == 100:
            server.servers.kill_master("s0")
    assert [each.get(timeout=BOUND_S) for each in results] == list(range(200))
    assert sorted(lines(done)) == list(range(200))
