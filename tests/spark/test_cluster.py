"""Jobs on a cluster of Spark: a master and two workers that know nothing of the sources."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from quorate.agents import Create, Note, Notification, encode, factory, outside
from quorate.engine import Engine, Posts, encode_batch
from quorate.replay import ReplayError
from quorate.replay.java import find_java, wrapper_home
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

from ..long import only_long

pytestmark = pytest.mark.spark

CODE = """
import attrs
from quorate import Agent, Context, Notification, reacts

@attrs.frozen
class Counted(Notification):
    by: int

@attrs.define
class Meter(Agent):
    total: int = 0

    @reacts
    def counted(self, ctx: Context, note: Counted) -> None:
        self.total += note.by
"""
TIMEOUT_S = 240


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Cluster:
    """A master and two workers from the pyspark package, each in its own directory."""

    def __init__(self, place: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        self.url = f"spark://127.0.0.1:{free_port()}"
        # Python without the directory of the sources: what the workers import of them was sent to them.
        python = place / "python"
        finder = "sys.meta_path[:] = [one for one in sys.meta_path if 'editable' not in repr(one).lower()]"
        (place / "site").mkdir()
        (place / "site" / "sitecustomize.py").write_text(f"import sys\n{finder}\n")
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self._environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(wrapper_home(find_java(), place / "java", place / "java.log")),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(place / "site"),
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._place = place
        self.python = python
        port, deploy = self.url.rpartition(":")[2], "org.apache.spark.deploy"
        page = str(free_port())
        self._page = f"http://127.0.0.1:{page}/json/"
        self._start(home, "master", f"{deploy}.master.Master", "--port", port, "--webui-port", page)
        for worker in ("one", "two"):
            options = ("--cores", "1", "--memory", "1g", "--webui-port", "0", self.url)
            self._start(home, worker, f"{deploy}.worker.Worker", *options)

    def _start(self, home: Path, name: str, cls: str, *options: str) -> None:
        place = self._place / name
        place.mkdir()
        environment = {**self._environment, "SPARK_WORKER_DIR": str(place / "work")}
        with (place / "log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), cls, "--host", "127.0.0.1", *options]
            self._processes.append(
                subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)
            )

    def wait(self) -> None:
        """Wait until both workers have said who they are."""
        until = time.monotonic() + TIMEOUT_S
        found: dict[str, Any] = {}
        while found.get("aliveworkers") != 2:
            assert time.monotonic() < until, found
            time.sleep(0.1)
            # The page is there before there is something on it.
            with contextlib.suppress(OSError, ValueError), urlopen(self._page, timeout=5) as answer:
                found = json.load(answer)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(TIMEOUT_S)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        find_java()
    except ReplayError as error:
        pytest.skip(str(error))
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The module of the agents, and the traces of three replicas."""
    place = tmp_path_factory.mktemp("metered")
    module = place / "metered_agents.py"
    module.write_text(CODE)
    sys.path.insert(0, str(place))
    try:
        import importlib

        counted: Any = importlib.import_module("metered_agents").Counted
        engine = Engine(0, {"s0": 0})
        rows: list[Any] = []

        def post(to: Any, message: Notification) -> None:
            note = Note(to, outside(0), message.type_name, encode(message))
            effects = engine.apply(engine.applied + 1, 10**18 + engine.applied, encode_batch([Posts([note])]))
            rows.extend(effects.trace)

        for name in range(6):
            post(factory(0), Create("metered_agents:Meter", name=f"meter{name}"))
        for turn in range(600):
            post(f"meter{turn % 6}", counted(turn))
    finally:
        sys.path.remove(str(place))
        sys.modules.pop("metered_agents", None)
    for replica in range(3):
        writer = TraceWriter(place / "data" / "s0" / str(replica) / "trace", Origin("s0", 0, replica, 1))
        writer.write(rows)
        writer.close()
    return module, place / "data"


def run(cluster: Cluster, *arguments: str) -> Any:
    """Run a command in a process of its own, in a directory of its own."""
    command = [sys.executable, "-m", "quorate", "replay", *arguments, "--master", cluster.url]
    environment = {**os.environ, "PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cluster.python.parent,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_agents_are_run_again_by_workers_that_were_sent_all_code(
    cluster: Cluster, traced: tuple[Path, Path]
) -> None:
    module, data = traced
    done = run(cluster, "verify", str(data), "--py-files", str(module), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["program"].startswith("Spark ")
    assert sum(agent["reactions"] for agent in found["rerun"]["agents"]) == 600
    assert {agent["skipped"] for agent in found["rerun"]["agents"]} == {""}


@only_long
def test_a_module_that_was_not_sent_is_one_sentence(cluster: Cluster, traced: tuple[Path, Path]) -> None:
    done = run(cluster, "verify", str(traced[1]))
    assert done.returncode == 3
    assert "module metered_agents cannot be found" in done.stdout


def test_a_file_to_send_that_there_is_not_is_one_sentence(
    cluster: Cluster, traced: tuple[Path, Path]
) -> None:
    done = run(cluster, "totals", str(traced[1]), "--py-files", "nowhere.zip")
    assert (done.returncode, done.stderr) == (
        3,
        "quorate: there is no file nowhere.zip to send to the workers.\n",
    )
