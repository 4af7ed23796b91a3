"""The commands as a user types them, against real processes."""

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.server.processes.free_ports import free_ports

from .conftest import Start
from .running import BOUND_S, Running

pytestmark = pytest.mark.processes

BANK = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int


@attrs.define
class Account(Agent):
    balance: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount
        ctx.send(ctx.sender, Balance(self.balance))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a cluster s0 of three, a plain server s1, and the module of the agents."""
    ports = free_ports(4)

    def network(port: int) -> str:
        return f'<network domain="D1" port="{port}"/>'

    replicas = "".join(
        f'<server id="{number}" hostname="localhost">{network(ports[number])}</server>' for number in range(3)
    )
    (tmp_path / "a3servers.xml").write_text(
        '<config><property name="trace" value="false"/><domain name="D1"/>'
        f'<cluster id="0" name="s0">{replicas}</cluster>'
        f'<server id="1" name="s1" hostname="localhost">{network(ports[3])}</server></config>'
    )
    (tmp_path / "bank.py").write_text(BANK)
    return tmp_path


@pytest.fixture
def run(place: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a command to its end."""

    def run(command: str, *args: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "quorate", command, "a3servers.xml", *args],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def begin(place: Path, start: Start) -> Callable[..., Running]:
    """Begin a command that goes on; it is killed at the end of the test."""

    def begin(command: str, *args: str) -> Running:
        return start("-m", "quorate", command, "a3servers.xml", *args, cwd=place)

    return begin


Run = Callable[..., "subprocess.CompletedProcess[str]"]
Begin = Callable[..., Running]


def status_of(run: Run, server: str) -> dict[int, dict[str, Any]]:
    servers = json.loads(run("status", "--json").stdout)["servers"]
    (found,) = (each for each in servers if each["server"] == server)
    return {replica["replica"]: replica for replica in found["replicas"]}


def test_the_life_of_a_cluster(run: Run, begin: Begin, place: Path) -> None:
    up = begin("up")
    up.until_all("s0.0 ready, ", "s0.1 ready, ", "s0.2 ready, ", "s1.0 ready, master")

    shown = run("status")
    assert shown.returncode == 0, shown.stdout
    assert len(shown.stdout.splitlines()) == 5

    deployed = run("deploy", "--server", "s0", "bank:Account", "--name", "alice", "--state", '{"balance": 3}')
    assert (deployed.returncode, deployed.stdout) == (0, "#0.0.1025\n"), deployed.stderr
    again = run("deploy", "--server", "s0", "bank:Account", "--name", "alice")
    assert (again.returncode, again.stdout) == (1, "")
    assert "alice" in again.stderr
    deposit = ("--server", "s0", "alice", "bank:Deposit", '{"amount": 5}', "--request")
    assert run("send", *deposit).stdout == 'bank:Balance {"amount":8}\n'
    failed = run("send", "--server", "s0", "alice", "bank:Balance", '{"amount": 1}')
    assert failed.returncode == 1
    assert "#0.0.1025 failed on bank:Balance: Unhandled: " in failed.stderr
    unknown = run("send", "--server", "s0", "0.0.2", "quorate:Delete", '{"agent": "bob"}', "--request")
    assert unknown.returncode == 1
    assert "There is no agent bob on server s0; list its agents with: quorate agents" in unknown.stderr

    before = status_of(run, "s0")
    (master,) = (number for number, replica in before.items() if replica["role"] == "master")
    os.kill(before[master]["pid"], signal.SIGKILL)
    (died, _) = up.until_all(f"s0.{master} killed by SIGKILL", "slave -> master")
    assert run("send", *deposit).stdout == 'bank:Balance {"amount":13}\n'
    assert status_of(run, "s0")[master]["role"] == "down"

    command = shlex.split(died.partition("bring it back with: ")[2])
    assert command[:2] == ["quorate", "start"]
    back = begin("start", *command[3:])
    back.until(f"s0.{master} slave, network localhost:")
    inspected = run("inspect", "--server", "s0", "--replica", str(master), "alice")
    assert json.loads(inspected.stdout)["state"] == {"balance": 13}
    assert "bank:Account" in run("agents").stdout

    stopped = run("stop")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert len(stopped.stdout.splitlines()) == 4
    assert back.ended() == 0
    # One of its replicas was killed and brought back by another command.
    assert up.ended() == 1
    assert run("status").returncode == 1


def test_what_keeps_a_replica_from_starting_is_one_sentence(run: Run, begin: Begin, place: Path) -> None:
    first = begin("start", "--server", "s1")
    first.until("s1.0 master, network localhost:")
    second = run("start", "--server", "s1")
    assert (second.returncode, second.stderr.count("\n")) == (1, 1)
    assert f"s1.0 runs already as process {first.process.pid} " in second.stderr
    taken = run("start", "--server", "s1", "--data", "elsewhere")
    assert (taken.returncode, taken.stderr.count("\n")) == (1, 1)
    assert "Port " in taken.stderr
    first.process.terminate()
    assert first.ended() == 0


def test_a_service_that_cannot_start_is_told_and_started_later(begin: Begin, place: Path) -> None:
    path = place / "a3servers.xml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        services = (
            '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
            f'<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="{port}"/>'
        )
        path.write_text(path.read_text().replace("</server></config>", f"{services}</server></config>"))
        up = begin("up", "--server", "s1")
        line = up.until("cannot start")
        assert line.startswith(
            f"s1.0 service TcpProxyService cannot start: port {port} of localhost cannot be listened on ("
        )
        assert line.endswith("it is tried again while this replica serves")
    up.until("s1.0 service TcpProxyService has started now")


def test_a_replica_that_waits_for_the_others_says_so(begin: Begin) -> None:
    start = begin("start", "--server", "s0", "--replica", "1")
    line = start.until("waits for the others")
    assert line.endswith(": 1 of 3 expected are here, this replica hears none; start replicas 0, 2")


def test_ctrl_c_stops_all_that_up_has_started(run: Run, begin: Begin) -> None:
    up = begin("up", "--server", "s1")
    up.until("s1.0 ready, master")
    pid = status_of(run, "s1")[0]["pid"]
    up.process.send_signal(signal.SIGINT)
    assert up.ended() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_replicas_end_with_an_up_that_is_killed(run: Run, begin: Begin) -> None:
    up = begin("up", "--server", "s1")
    up.until("s1.0 ready, master")
    descriptor = os.pidfd_open(status_of(run, "s1")[0]["pid"])
    up.process.kill()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(BOUND_S * 1000)
    os.close(descriptor)


def test_replicas_stay_when_the_lines_of_up_cannot_be_printed(run: Run, place: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        up = subprocess.Popen(
            [sys.executable, "-m", "quorate", "up", "a3servers.xml", "--server", "s1"],
            cwd=place,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        assert up.stderr is not None
        assert "nothing more is printed; the replicas continue" in up.stderr.readline()
        assert run("status", "--server", "s1", "--wait", "30").returncode == 0
        assert up.poll() is None
    finally:
        up.send_signal(signal.SIGINT)
        assert up.stderr is not None
        left = up.stderr.read()
    assert (up.wait(BOUND_S), left) == (0, "")


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Processes heed a hang-up, also where these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_ups")
def test_a_server_is_administered_on_its_own_host_though_its_name_leads_elsewhere(
    run: Run, begin: Begin, place: Path
) -> None:
    # Without a secret, and at a port of all addresses.
    (place / "a3servers.xml").write_text(
        '<config><property name="insecure_network" value="true"/><domain name="D1"/>'
        f'<server id="0" name="s0" hostname="s0.invalid"><network domain="D1" port="{free_ports(1)[0]}"/>'
        "</server></config>"
    )
    server = begin("start", "--server", "s0")
    server.until("s0.0 master")
    assert run("status").returncode == 0
    assert run("stop").returncode == 0
    assert server.ended() == 0


def test_a_hang_up_ends_a_replica_in_order(begin: Begin, place: Path) -> None:
    start = begin("start", "--server", "s1")
    start.until("s1.0 master")
    start.process.send_signal(signal.SIGHUP)
    assert start.ended() == 0
    assert "stopping" in (place / "data/s1/0/log").read_text()


HELD = """
import pathlib
import time

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Work(Notification):
    pass


@attrs.define
class Worker(Agent):
    @reacts
    def work(self, ctx: Context, note: Work) -> None:
        while pathlib.Path("held").exists():
            time.sleep(0.01)
        ctx.send(ctx.sender, note)
"""


def test_a_replica_that_applies_again_for_long_says_so_and_stops_in_between(
    run: Run, begin: Begin, place: Path
) -> None:
    (place / "held.py").write_text(HELD, encoding="utf-8")
    #
    held = place / "held"
    first = begin("start", "--server", "s1")
    first.until("s1.0 master")
    assert run("deploy", "--server", "s1", "held:Worker", "--name", "worker").returncode == 0
    # That the last one was committed is not on the disk yet.
    for _ in range(3):
        assert run("send", "--server", "s1", "worker", "held:Work", "{}", "--request").returncode == 0
    first.process.kill()
    first.process.wait()
    held.touch()
    second = begin("start", "--server", "s1")
    line = second.until("s1.0 recovers: ")
    assert "entries committed after its saved state are applied again" in line
    second.until("has been running for")
    second.process.terminate()
    told = run("status", "--server", "s1").stderr
    assert "does not answer: entry" in told
    assert "agent #1.1.1025 'worker' (held:Worker) reacts to held:Work" in told
    held.unlink()
    assert second.ended() == 0
    assert "entries were applied again; the next start repeats that" in (place / "data/s1/0/log").read_text()
