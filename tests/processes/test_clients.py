"""Real clients against real processes, through the SIGKILL of the master."""

import asyncio
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from quorate.agents import Notification
from quorate.client import (
    AuthenticationError,
    ReactionError,
    UnhandledTypeError,
    UnknownAgentError,
    aconnect,
    connect,
)

pytestmark = pytest.mark.processes

BOUND_S = 60.0
BANK = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int
    deposits: int


@attrs.define
class Account(Agent):
    balance: int = 0
    deposits: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        if note.amount < 0:
            raise ValueError("no debts")
        self.balance += note.amount
        self.deposits += 1
        if ctx.request:
            ctx.send(ctx.sender, Balance(self.balance, self.deposits))
"""


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int
    deposits: int


@attrs.frozen
class Other(Notification):
    pass


# What the servers know as the module of the agents.
for _cls in (Deposit, Balance, Other):
    _cls.type_name = f"bank:{_cls.__name__}"


class Cluster:
    """Three replicas, each a process."""

    def __init__(self, place: Path):
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        self.url = "quorate://" + ",".join(f"localhost:{port}" for port in ports[3:])
        replicas = "".join(
            f'<server id="{n}" hostname="localhost"><network domain="D1" port="{ports[n]}"/>'
            '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
            '<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" '
            f'args="{ports[3 + n]}"/></server>'
            for n in range(3)
        )
        (place / "a3servers.xml").write_text(
            '<config><property name="trace" value="false"/><domain name="D1"/>'
            f'<cluster id="0" name="s0">{replicas}</cluster></config>'
        )
        (place / "bank.py").write_text(BANK)
        self.place = place
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for replica in range(3):
            self.start(replica)

    def start(self, replica: int) -> None:
        command = ["start", "a3servers.xml", "--server", "s0", "--replica", str(replica)]
        self.processes[replica] = subprocess.Popen(
            [sys.executable, "-m", "quorate", *command], cwd=self.place, stdout=subprocess.PIPE
        )

    def until_ready(self, replica: int) -> None:
        """Wait until a replica that was started has joined: it says so in its first line."""
        stdout = self.processes[replica].stdout
        assert stdout is not None
        stop = threading.Timer(BOUND_S, self.processes[replica].kill)
        stop.start()
        assert b" network " in stdout.readline()
        stop.cancel()

    def run(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "quorate", *args],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill_master(self) -> int:
        (server,) = json.loads(self.run("status", "a3servers.xml", "--json"))["servers"]
        (master,) = (r["replica"] for r in server["replicas"] if r["role"] == "master")
        os.kill(self.processes[master].pid, signal.SIGKILL)
        self.processes[master].wait(BOUND_S)
        return int(master)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        for replica in range(3):
            cluster.until_ready(replica)
        cluster.run("deploy", "a3servers.xml", "--server", "s0", "bank:Account", "--name", "alice")
        yield cluster
    finally:
        for process in cluster.processes.values():
            process.kill()
            process.wait(BOUND_S)
            if process.stdout is not None:
                process.stdout.close()


class Killer(threading.Thread):
    """Kills the master when told, and keeps what went wrong."""

    def __init__(self, cluster: Cluster):
        super().__init__()
        self.cluster = cluster
        self.master = -1

    def run(self) -> None:
        self.master = self.cluster.kill_master()


def test_clients_live_through_the_death_of_two_masters(cluster: Cluster) -> None:
    sent = 0
    with connect(cluster.url, user="root", password="root", timeout=BOUND_S) as connection:
        for _ in range(2):
            before = connection.reconnections
            killer = Killer(cluster)
            killer.start()
            while killer.is_alive() or connection.reconnections == before or not connection.is_open:
                connection.send("alice", Deposit(1), timeout=BOUND_S)
                for _ in range(50):
                    connection.send_nowait("alice", Deposit(1))
                sent += 51
            balance = connection.request("alice", Deposit(0), reply=Balance, timeout=BOUND_S)
            sent += 1
            assert balance.deposits == sent
            cluster.start(killer.master)
            cluster.until_ready(killer.master)

    async def many() -> list[Any]:
        async with aconnect(cluster.url, user="root", password="root", timeout=BOUND_S) as connection:
            killer = Killer(cluster)
            killer.start()
            replies: list[Any] = []
            while killer.is_alive() or not connection.reconnections or not connection.is_open:
                ask = functools.partial(connection.request, reply=Balance, timeout=BOUND_S)
                tasks = (ask("alice", Deposit(1)) for _ in range(20))
                replies += await asyncio.gather(*tasks)
            return replies

    replies = asyncio.run(many())
    assert [reply.deposits for reply in replies] == list(range(sent + 1, sent + 1 + len(replies)))


def test_failures_are_told_by_the_errors(cluster: Cluster) -> None:
    with pytest.raises(AuthenticationError):
        connect(cluster.url, user="root", password="guess", timeout=BOUND_S)
    with connect(cluster.url, user="root", password="root", timeout=BOUND_S) as connection:
        with pytest.raises(ReactionError, match="no debts"):
            connection.request("alice", Deposit(-1))
        with pytest.raises(UnhandledTypeError, match="does not react to bank:Other"):
            connection.request("alice", Other())
        with pytest.raises(UnknownAgentError):
            connection.request("nobody", Deposit(1))
        assert connection.request("alice", Deposit(2), reply=Balance) == Balance(2, 1)
