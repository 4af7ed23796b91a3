"""The demo with few flights, on real processes; the whole of it is `make demo`."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.demo.story import SAMPLE
from quorate.server.config import load

from ..long import only_long

pytestmark = pytest.mark.processes

LONG_S = 600.0
READY = re.compile(r"s\d\.\d (?:master|slave) \(pid (\d+)\)")


class Demo:
    """A running demo: its lines on the standard error, and the processes it has announced."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "quorate", "demo", "--json", "--report", str(directory / "r.html")]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=directory,
            env=os.environ | {"TMPDIR": str(directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that runs the tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[str] = []
        self.pids: dict[str, int] = {}
        self.all_announced = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := READY.search(line):
                self.pids[match[0][:4]] = int(match[1])
                if len(self.pids) == 4:
                    self.all_announced.set()
        self.all_announced.set()

    def wait(self) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        status = self.process.wait(LONG_S)
        self._reader.join(LONG_S)
        assert self.process.stdout is not None
        return status, self.process.stdout.read(), "".join(self.lines)


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[Demo]:
    running = Demo(directory, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.spark
def test_a_killed_master_loses_nothing_and_all_totals_are_equal(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with demo(tmp_path, "--rows", "3000") as running:
        status, out, err = running.wait()

    assert status == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["failover_ms"] > 0
    assert {name: result[name] for name in ("rows", "notifications", "lost", "duplicated")} == {
        "rows": 3000,
        "notifications": 6000,
        "lost": 0,
        "duplicated": 0,
    }
    assert result["totals_equal"]
    assert result["replicas_agree"]
    assert "to the last digit" in Path(result["report"]).read_text()
    assert "killed by SIGKILL" in err
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("quorate-demo")]


def test_ctrl_c_stops_every_process_and_cleans_up(tmp_path: Path) -> None:
    with demo(tmp_path, "--rows", "300000") as running:
        assert running.all_announced.wait(LONG_S)
        running.process.send_signal(signal.SIGINT)
        status, out, err = running.wait()

    assert status == 130, err
    assert out == ""
    assert len(running.pids) == 4
    assert not [name for name, pid in running.pids.items() if alive(pid)]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("quorate-demo")]


@pytest.mark.spark
@pytest.mark.skipif(
    load(SAMPLE).server("s1").durability == "memory", reason="the server would come back without its agents"
)
@only_long
def test_servers_killed_by_hand_come_back_with_their_agents(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with demo(tmp_path, "--rows", "20000") as running:
        assert running.all_announced.wait(LONG_S)
        for name in ("s1.0", "s0.1", "s0.2"):
            os.kill(running.pids[name], signal.SIGKILL)
        status, out, err = running.wait()

    assert status == 0, err
    result = json.loads(out.splitlines()[-1])
    assert (result["lost"], result["duplicated"], result["totals_equal"]) == (0, 0, True)
    assert not [name for name, pid in running.pids.items() if alive(pid)]
