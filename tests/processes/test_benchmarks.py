"""The benchmarks run; what they measure is for people to read."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--rounds", "1", "--seconds", "0.2"]
    return subprocess.run(
        [*command, "--sizes", "100", *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_every_contender_runs_and_the_table_has_a_row_for_each_cell(tmp_path: Path) -> None:
    done = run("--windows", "1", "20", "--json", str(tmp_path / "result.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert [(row["size"], row["window"], row["batch"]) for row in rows] == [
        (100, 1, 1),
        (100, 20, 1),
        (100, 20, 2),
    ]
    installed = importlib.util.find_spec("pysyncobj") is not None
    for row in rows:
        assert row["quorate"]["per_s"] > 0
        assert row["prototype"]["p50_us"] > 0
        assert bool(row["pysyncobj"]) == installed
    assert ("pysyncobj is not installed" in done.stderr) == (not installed)
    assert len([line for line in done.stdout.splitlines() if line.lstrip().startswith("100")]) == 3


def test_the_load_may_come_from_a_process_of_its_own() -> None:
    done = run("--windows", "5", "--client", "--only", "quorate", "prototype", "--reactor", "epoll")
    assert done.returncode == 0, done.stderr
    assert "100      5     1" in done.stdout


@pytest.mark.parametrize("slow", [[], ["--slow"]])
def test_the_memory_of_a_cluster_stays_flat(slow: list[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "memory.py"), "--entries", "30000", *slow]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [list(map(float, line.split())) for line in done.stdout.splitlines()[1:-1]]
    assert len(rows) == 10
    # Three logs of the present settings, in whatever state, and a window for each origin.
    assert max(row[1] for row in rows) < 3 * 22_000
    assert max(row[2] for row in rows) <= 3 * 1024
