"""Processes that a supervisor starts and stops, with small programs in the place of replicas."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.server.cli.launcher import LIFELINE, STOP_TOGETHER, Launcher, exit_text, stop_processes

BOUND_S = 20.0


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher({"COLOUR": "red"})
    yield made
    made.close()


def run(launcher: Launcher, program: str) -> "subprocess.Popen[str]":
    return launcher.launch([sys.executable, "-c", program])


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "stopped"),
        (3, "ended with status 3"),
        (-signal.SIGKILL, "killed by SIGKILL"),
        (-signal.SIGTERM, "killed by SIGTERM"),
        (-250, "killed by signal 250"),
    ],
)
def test_an_exit_status_becomes_words(status: int, text: str) -> None:
    assert exit_text(status) == text


def test_a_stop_signal_ends_a_process_in_order_if_it_was_to_stop() -> None:
    for number in (signal.SIGTERM, STOP_TOGETHER):
        assert exit_text(-number, stopped=True) == "stopped"
    assert exit_text(-signal.SIGKILL, stopped=True) == "killed by SIGKILL"
    assert exit_text(1, stopped=True) == "ended with status 1"


def test_a_command_line_names_the_replica_and_its_data_directory_if_there_is_one() -> None:
    launcher = Launcher(python="py")
    start = ["py", "-m", "quorate", "start", "a.xml", "--server", "s0", "--replica", "1"]
    assert launcher.command(Path("a.xml"), None, "s0", 1) == start
    assert launcher.command(Path("a.xml"), Path("d"), "s0", 1) == [*start, "--data", "d"]
    launcher.close()


def test_a_process_has_the_environment_and_a_session_of_its_own(launcher: Launcher) -> None:
    process = run(launcher, "import os; print(os.environ['COLOUR'], os.getsid(0) == os.getpid())")
    assert process.communicate(timeout=BOUND_S)[0] == "red True\n"


def test_a_closed_launcher_ends_the_lifeline_of_its_processes(launcher: Launcher) -> None:
    process = run(launcher, f"import os; print(os.read(int(os.environ['{LIFELINE}']), 1))")
    launcher.close()
    launcher.close()
    assert process.communicate(timeout=BOUND_S)[0] == "b''\n"


def test_processes_are_stopped_by_their_signal_and_killed_when_they_ignore_it(launcher: Launcher) -> None:
    ready = "print(1, flush=True); signal.pause()"
    obedient = run(launcher, f"import signal; {ready}")
    stubborn = run(launcher, f"import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); {ready}")
    suspended = run(launcher, f"import signal; {ready}")
    ended = run(launcher, "")
    ended.wait(BOUND_S)
    processes = [obedient, stubborn, suspended, ended]
    for process in processes[:3]:
        assert process.stdout is not None
        process.stdout.readline()
    os.kill(suspended.pid, signal.SIGSTOP)
    stop_processes(processes, STOP_TOGETHER, timeout_s=1.0)
    assert [process.returncode for process in processes] == [
        *(-STOP_TOGETHER, -signal.SIGKILL, -STOP_TOGETHER, 0)
    ]
