"""The tour of README.md is true: every command in it is run, in order, and says what the page says."""

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

pytestmark = [pytest.mark.processes, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
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


def test_the_tour_of_the_readme_is_true(directory: Path, terminals: list[Foreground]) -> None:
    pytest.importorskip("pyspark")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"}
    run = 0
    for step in steps((ROOT / "README.md").read_text()):
        if step.command.startswith("pip install"):
            continue
        run += 1
        if step.command.startswith("quorate up"):
            terminals.append(Foreground(step.command, directory, env))
            terminals[-1].wait_for(r"ready, (master|slave)", 4)
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
    assert run == 12
