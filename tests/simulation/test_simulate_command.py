"""`quorate simulate`: output and exit status."""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

import pytest
from click.testing import CliRunner

from quorate.hachannel.replication import normal_case
from quorate.testing import draw, simulate
from quorate.testing.schedules.command import command
from quorate.testing.schedules.schedule import Schedule

BOUND_S = 60.0
"""Longer than anything takes that happens at all."""


def run(*arguments):
    result = CliRunner().invoke(command, arguments)
    lines = result.output.splitlines()
    summary = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    return result.exit_code, result.output, summary


@pytest.fixture
def one_ack_short(monkeypatch):
    """An entry is committed with one acknowledgement less."""

    def held(self, current):
        matches = sorted((slave.match for slave in self._slaves.values()), reverse=True)
        others = max(current.k - 2, 0)
        return min(self._synced, matches[others - 1]) if others else self._synced

    monkeypatch.setattr(normal_case.Replication, "held", held)


def test_the_last_line_is_one_json_object_with_the_counts():
    status, _, summary = run("--seeds", "0:3")
    assert status == 0
    assert summary["runs"] == 3
    assert summary["violations"] == 0
    assert summary["failures"] == []
    assert min(summary[name] for name in ("steps", "views", "commits", "delivered", "messages")) > 0
    assert {"I1", "I13", "L1"} <= set(summary["invariants"])


def test_with_json_nothing_but_the_object_is_printed():
    status, output, summary = run("--seeds", "4", "--json")
    assert (status, summary["runs"]) == (0, 1)
    assert output.count("\n") == 1


def test_the_same_seeds_in_several_processes_are_the_same_runs():
    _, _, alone = run("--seeds", "0:6", "--json")
    _, _, together = run("--seeds", "0:6", "--json", "--jobs", "2")
    del alone["seconds"], together["seconds"]
    assert alone == together


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for the processes in /proc")
def test_an_interrupt_ends_all_processes_at_once(tmp_path):
    path = tmp_path / "schedule.json"
    # Whoever waits for the runs that have begun waits for minutes.
    path.write_bytes(Schedule(seconds=3600.0, load=1000.0).to_json(1))
    words = ["-m", "quorate", "simulate", "--schedule", path, "--seeds", "0:1000", "--jobs", "2"]
    with Popen(
        [sys.executable, *words],
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
        preexec_fn=_heed_interrupts,
    ) as process:
        try:
            jobs = _two_that_work(process.pid)
            process.send_signal(signal.SIGINT)
            # Its output ends with the last of the processes.
            output, _ = process.communicate(timeout=BOUND_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert b"Traceback" not in output
    assert not any(Path(f"/proc/{job}").exists() for job in jobs)


def _heed_interrupts():
    """Whoever runs the tests in the background of a script has them ignored, and what they start, too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _two_that_work(parent):
    """The jobs of a command, once two have computed for longer than it takes to start."""
    give_up = time.monotonic() + BOUND_S
    while time.monotonic() < give_up:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        busy = [child for child in children if _computed_s(child) > 2]
        if len(busy) >= 2:
            return busy
        time.sleep(0.05)
    raise AssertionError("no two jobs work")


def _computed_s(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_a_violation_is_printed_with_the_commands_that_repeat_it(one_ack_short, tmp_path):
    saved = tmp_path / "shorter.json"
    status, output, summary = run("--seeds", "0:3", "--save", str(saved))
    assert status == 1
    assert summary["violations"] == 1
    [failure] = summary["failures"]
    assert failure["invariant"] == "I13"
    assert f"run it again: {failure['rerun']} --trace" in output
    words = failure.get("rerun_minimised", failure["rerun"]).split()
    assert words[:2] == ["quorate", "simulate"]
    status, _, again = run(*words[2:], "--no-minimise")
    assert (status, again["failures"][0]["invariant"]) == (1, "I13")
    status, _, played = run("--schedule", str(saved))
    assert (status, played["failures"][0]["seed"]) == (1, failure["seed"])


def test_with_keep_going_all_seeds_are_run(one_ack_short):
    status, _, summary = run("--seeds", "4:7", "--keep-going", "--no-minimise", "--json")
    assert (status, summary["runs"]) == (1, 3)
    assert summary["violations"] == len(summary["failures"]) >= 1


def test_with_trace_the_trace_is_printed():
    _, output, _ = run("--seeds", "4", "--trace")
    assert "is active from 0: start-up" in output
    assert "Heartbeat(" not in output
    _, output, _ = run("--seeds", "4", "--messages")
    assert "Heartbeat(" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "x"], "write it as 17 or 0:1000"),
        (["--seeds", "5:5"], "contains no seed"),
        (["--seeds", "-1"], "seeds are whole numbers from 0"),
        (["--seeds", "-5:5"], "seeds are whole numbers from 0"),
        (["--faults", ""], "name at least one. There are: crash,"),
        (["--faults", ","], "name at least one"),
        (
            ["--faults", "torn-write,lose-disk", "--memory"],
            "lose-disk can happen only with disks",
        ),
        (["--faults", "crash,flood"], "there is no fault flood. There are: crash,"),
        (["--faults", "crash,,pause"], "a name is missing in 'crash,,pause'. There are: crash,"),
        (["--profile", "flood"], "'founding'"),
        (["--drop", "a"], "numbers separated by commas"),
        (["--schedule", "nowhere.json"], "does not exist"),
        (["--trace", "--jobs", "2"], "--jobs 1 only"),
        (["--disk", "--memory"], "exclude each other"),
        (["--seeds", "4", "--drop", "0,9999"], "there is no fault 9999 in the schedule of seed 4"),
        (["--seeds", "4", "--drop=-1"], "there is no fault -1"),
        (["--save", "/nonexist/x.json"], "there is no directory /nonexist"),
    ],
)
def test_wrong_usage_ends_with_status_2_and_a_sentence(arguments, sentence):
    status, output, _ = run(*arguments)
    assert status == 2
    assert sentence in output


def test_with_a_profile_all_seeds_have_it():
    _, _, by_seed = run("--seeds", "1:3", "--json")
    _, _, founding = run("--seeds", "1:3", "--profile", "founding", "--json")
    assert founding["steps"] != by_seed["steps"]
    expected = [simulate(draw(seed, profile="founding"), seed=seed).steps for seed in (1, 2)]
    assert founding["steps"] == sum(expected)


def test_a_failure_of_a_profile_is_repeated_with_the_profile(one_ack_short):
    _, _, summary = run("--seeds", "0:20", "--profile", "crash", "--no-minimise", "--json")
    [failure] = summary["failures"]
    assert failure["rerun"] == f"quorate simulate --seeds {failure['seed']} --profile crash"
    status, _, again = run(*failure["rerun"].split()[2:], "--no-minimise", "--json")
    assert (status, again["failures"][0]["reason"]) == (1, failure["reason"])


def test_faults_of_disks_without_disks_are_reported():
    arguments = ["--faults", "torn-write", "--seeds", "0", "--json"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["faults"] == {}
    assert "No fault happens: torn-write can happen only with disks" in result.stderr
    assert "No fault happens" not in CliRunner().invoke(command, [*arguments, "--disk"]).stderr


@pytest.mark.parametrize("option", ["--disk", "--memory", "--faults=crash", "--profile=lag"])
def test_a_schedule_excludes_options_for_faults_and_disks(option, tmp_path):
    path = tmp_path / "schedule.json"
    path.write_bytes(Schedule(seconds=1.0).to_json(1))
    status, output, _ = run("--schedule", str(path), option)
    assert status == 2
    assert "A schedule has its own faults and disks" in output


def test_the_counts_include_a_failed_run(one_ack_short):
    status, _, summary = run("--seeds", "0:3", "--no-minimise", "--json")
    assert (status, summary["violations"]) == (1, 1)
    status, _, alone = run("--seeds", str(summary["failures"][0]["seed"]), "--no-minimise", "--json")
    assert (status, alone["runs"]) == (1, 1)
    assert min(alone[name] for name in ("steps", "messages", "views")) > 0


def test_the_object_is_printed_also_if_the_schedule_cannot_be_saved(one_ack_short, tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    status, output, summary = run("--seeds", "0:3", "--no-minimise", "--save", str(tmp_path / "x.json"))
    assert (status, summary["violations"]) == (1, 1)
    assert "cannot be written: No space left on device" in output
