"""`quorate top` on real servers: printed once, as JSON, and on a terminal."""

import fcntl
import json
import os
import pty
import selectors
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.messaging import Session

from .foreign_clients import cluster, running
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("StompService", "orders", "done")) as found:
        with found.connect("s0") as connection, Session(connection) as session:
            for number in range(3):
                session.send("orders", str(number))
            session.sync(BOUND_S)
        yield found


def top(servers: Servers, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "quorate", "top", str(servers.config.path), "--every", "0.5", *options]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=BOUND_S)


def test_it_is_printed_once_or_as_json(servers: Servers) -> None:
    printed = top(servers, "--once")
    assert printed.returncode == 0, printed.stderr
    assert sum(line.startswith("s0.") for line in printed.stdout.splitlines()) == 3
    orders = next(line for line in printed.stdout.splitlines() if line.startswith("queue orders"))
    assert orders.split()[3] == "3"
    slave = (servers.master() + 1) % 3
    servers.kill(replica=slave)
    found = json.loads(top(servers, "--json").stdout)
    roles = {each["replica"]: each["role"] for each in found["replicas"]}
    assert roles[slave] == "down"
    assert {each["name"]: each["messages"] for each in found["destinations"]} == {
        "orders": 3,
        "done": 0,
        "prices": 0,
    }
    refused = top(servers)
    assert (refused.returncode, refused.stderr) == (
        1,
        "quorate: This is no terminal: give --once or --json.\n",
    )


def test_keys_order_pause_and_quit_on_a_terminal(servers: Servers) -> None:
    process, terminal = pty.fork()
    if not process:
        words = [sys.executable, "-m", "quorate", "top", str(servers.config.path), "--every", "0.5"]
        os.execve(sys.executable, words, {**os.environ, "TERM": "xterm", "COLUMNS": "180", "LINES": "40"})
    waiting = selectors.DefaultSelector()
    waiting.register(terminal, selectors.EVENT_READ)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 180, 0, 0))
        shown = b""

        def shows(text: bytes) -> bool:
            nonlocal shown
            while waiting.select(0):
                shown += os.read(terminal, 65536)
            return text in shown

        until(lambda: shows(b"messages v"), "it is ordered by messages")
        os.write(terminal, b"o")
        until(lambda: shows(b"in/s v"), "it is ordered by what comes in")
        os.write(terminal, b"p")
        until(lambda: shows(b"paused"), "it is paused")
        os.write(terminal, b"q")
        _, status = os.waitpid(process, 0)
        process = 0
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        waiting.close()
        os.close(terminal)
        if process:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
