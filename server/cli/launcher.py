"""Replicas as child processes: how they are started and stopped, and what their exit status means.

Each process is a `quorate start` in a session of its own, so that Ctrl-C reaches the supervisor only, which
then stops them in order. The processes hold the reading end of a pipe, the lifeline, whose writing end
belongs to the supervisor: when the supervisor ends in any way, they read the end of the pipe and stop.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = [
    "LIFELINE",
    "STOP_TIMEOUT_S",
    "STOP_TOGETHER",
    "Launcher",
    "exit_text",
    "stop_processes",
]

STOP_TIMEOUT_S = 10.0
"""A process that has not ended this long after SIGTERM gets SIGKILL."""

STOP_TOGETHER = signal.SIGUSR1
"""Makes a `quorate start` stop in order, and says that all other replicas of its server are stopped, too."""

LIFELINE = "QUORATE_LIFELINE"
"""Environment variable with the descriptor whose end of file says that the supervisor has ended."""


class Launcher:
    """Starts the processes of one supervisor; they end with it, or when the launcher is closed.

    `env` is added to the environment of this process; `python` is the interpreter that runs them. A process
    that is stopped has `stop_timeout_s` seconds to end in order.
    """

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        self.stop_timeout_s = stop_timeout_s
        self._python = python
        self._env = dict(env or {})
        self._lifeline = os.pipe()

    def command(self, config: Path, data: Path | None, server: str, replica: int) -> list[str]:
        """Return the command line of a replica; the words after the third are those of `quorate`."""
        command = [self._python, "-m", "quorate", "start", str(config)]
        command += ["--server", server, "--replica", str(replica)]
        if data is not None:
            command += ["--data", str(data)]
        return command

    def launch(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a process, with pipes for its standard output and errors. Raises OSError."""
        reading = self._lifeline[0]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self._env, LIFELINE: str(reading)},
            pass_fds=(reading,),
            start_new_session=True,
        )

    def close(self) -> None:
        """Close the lifeline: processes that still run stop. Idempotent."""
        for end in self._lifeline:
            with contextlib.suppress(OSError):
                os.close(end)
        self._lifeline = (-1, -1)


def stop_processes(
    processes: Sequence["subprocess.Popen[str]"],
    signal_number: int = signal.SIGTERM,
    timeout_s: float = STOP_TIMEOUT_S,
) -> None:
    """Send a signal to all of them, wait until they have ended, and kill those that take longer."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal_number)
            # A suspended process would not handle the signal.
            process.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + timeout_s
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def exit_text(status: int, *, stopped: bool = False) -> str:
    """Say how a process ended, from its exit status (negative: a signal).

    `stopped`: it was asked to stop. A process that the stop signal ends at once had only begun to start.
    """
    if status == 0 or (stopped and -status in (signal.SIGTERM, STOP_TOGETHER)):
        return "stopped"
    if status > 0:
        return f"ended with status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
