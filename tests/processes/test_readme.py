"""The tours of README.md and of a new project are true: every command is run, and says what the page says."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from quorate.demo.ports import write_config

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
SET_UP = ("make venv", ". .venv")
"""How the commands begin that set up an environment: tests have one."""
BOUND_S = 600.0
"""How long one command may take: a Spark job takes minutes where other tests run beside it."""


@attrs.frozen
class Step:
    command: str
    said: str
    """What the page shows as its output; "" if nothing is shown."""


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, said = part.partition("\n")
            found.append(Step(command, said.strip()))
    return found


class Foreground:
    """A command that stays in the foreground of a terminal of its own."""

    def __init__(self, command: str, directory: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=directory,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def wait_for(self, pattern: str, count: int) -> None:
        def matching() -> int:
            return len([line for line in self.lines if re.search(pattern, line)])

        with self._changed:
            assert self._changed.wait_for(lambda: matching() >= count, BOUND_S), self.lines


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What the tour needs of the checkout, on ports that are free."""
    change = write_config(ROOT / "a3servers.xml", tmp_path / "a3servers.xml", free=lambda _port: False)
    (tmp_path / "examples").mkdir()
    bank = (ROOT / "examples" / "bank.py").read_text()
    for old, new in change.items():
        bank = bank.replace(f":{old}", f":{new}")
    (tmp_path / "examples" / "bank.py").write_text(bank)
    return tmp_path


@pytest.fixture
def terminals() -> Iterator[list[Foreground]]:
    opened: list[Foreground] = []
    yield opened
    for terminal in opened:
        terminal.process.terminate()
        terminal.process.wait(BOUND_S)


def run_tour(page: str, directory: Path, terminals: list[Foreground], replicas: int) -> int:
    """Run the commands of a page, but those of the set-up; return how many there were."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"}
    run = 0
    for step in steps(page):
        if step.command.startswith(SET_UP):
            continue
        run += 1
        if step.command.startswith("quorate up"):
            terminals.append(Foreground(step.command, directory, env))
            terminals[-1].wait_for(r"ready, (master|slave)", replicas)
        elif step.command.startswith("quorate start"):
            terminals.append(Foreground(step.command, directory, env))
            terminals[-1].wait_for(r"s0\.0 (master|slave), network", 1)
        else:
            done = subprocess.run(
                ["bash", "-c", step.command],
                cwd=directory,
                env=env,
                capture_output=True,
                text=True,
                timeout=BOUND_S,
                check=False,
            )
            assert done.returncode == 0, (step.command, done.stdout, done.stderr)
            if step.said:
                assert done.stdout.strip() == step.said, step.command
    return run


@pytest.mark.spark
def test_the_tour_of_the_readme_is_true(directory: Path, terminals: list[Foreground]) -> None:
    pytest.importorskip("pyspark")
    assert run_tour((ROOT / "README.md").read_text(), directory, terminals, replicas=4) == 12


def test_the_readme_of_a_new_project_is_true(tmp_path: Path, terminals: list[Foreground]) -> None:
    project = tmp_path / "my-orders"
    subprocess.run([sys.executable, "-m", "quorate", "new", project], check=True, timeout=BOUND_S)
    config = project / "a3servers.xml"
    change = write_config(config, config, free=lambda _port: False)
    client = (project / "client.py").read_text()
    for old, new in change.items():
        client = client.replace(f":{old}", f":{new}")
    (project / "client.py").write_text(client)
    assert run_tour((project / "README.md").read_text(), project, terminals, replicas=3) == 5
