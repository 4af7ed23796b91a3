"""The plugin, in runs of pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

AGENTS = """
import attrs
from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Numbers(Notification):
    numbers: list[int]


@attrs.define
class Ledger(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.numbers.append(note.number)
        ctx.send(ctx.sender, Numbers(self.numbers))


@attrs.define
class Names(Agent):
    names: set[str] = attrs.field(factory=lambda: {"ann", "bob", "cid", "dan", "eve", "fay"})

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        for name in self.names:
            ctx.send(ctx.sender, Add(len(name) + ord(name[0])))
"""
TESTS = """
import pytest
from ledger import Add, Ledger, Names, Numbers


@pytest.mark.quorate(replicas=3, seeds=3)
def test_passes(quorate_cluster):
    ledger = quorate_cluster.create(Ledger)
    client = quorate_cluster.client()
    quorate_cluster.inject_faults(10)
    for number in range(5):
        client.request(ledger, Add(number))
        quorate_cluster.run(2)


@pytest.mark.parametrize("word", ["a"])
def test_fails_under_one_seed(quorate_cluster, quorate_seed, word):
    quorate_cluster.kill_master()
    assert quorate_seed != 2


def test_breaks_an_invariant_at_the_end(quorate_cluster):
    quorate_cluster.invariant(lambda view: False, when="end")


def test_depends_on_an_order(quorate_cluster):
    quorate_cluster.client().send(quorate_cluster.create(Names), Add(1))
"""


def run(place: Path, *options: str) -> str:
    (place / "ledger.py").write_text(AGENTS)
    (place / "test_ledger.py").write_text(TESTS)
    plugin = ("-p", "no:quorate", "-p", "quorate.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", *plugin, *options, "test_ledger.py"]
    path = os.pathsep.join(each for each in sys.path if each)
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def test_tests_run_under_many_seeds_and_a_failure_says_how_it_is_run_again(tmp_path: Path) -> None:
    said = run(tmp_path, "--quorate-seeds=3", "-k", "passes or fails")
    assert "5 passed" in said
    assert "1 failed" in said
    assert "test_passes[seed2]" in said
    assert "pytest 'test_ledger.py::test_fails_under_one_seed[a]' --quorate-seed=2" in said
    assert "kill s0." in said
    again = run(tmp_path, "--quorate-seed=2", "-k", "fails")
    assert "1 failed" in again


def test_what_the_end_of_a_test_shows_is_a_failure_of_the_test(tmp_path: Path) -> None:
    said = run(tmp_path, "-k", "breaks or order", "--quorate-hash-seeds")
    assert "2 failed" in said
    assert "does not hold on replica 0 of s0" in said
    assert "Names.add uses an order or a value that differs between processes" in said
    assert "ledger.py:" in said


def test_markers_describe_themselves(tmp_path: Path) -> None:
    assert "@pytest.mark.quorate(seeds=N, **options)" in run(tmp_path, "--markers")
