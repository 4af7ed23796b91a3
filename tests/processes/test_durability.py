"""Real processes and disks: SIGKILL for all that hold the state, under load: nothing acknowledged is lost."""

import contextlib
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as parquet
import pytest

from quorate.agents import Notification
from quorate.client import connect
from quorate.client.errors import RequestTimeout
from quorate.server.config import load
from quorate.server.supervisor import Supervisor

pytestmark = pytest.mark.processes

BOUND_S = 60.0
ROUNDS = 3
PART = 800
LEDGER = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Ask(Notification):
    pass


@attrs.frozen
class Sum(Notification):
    numbers: list[int]


@attrs.define
class Ledger(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.numbers.append(note.number)

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        ctx.send(ctx.sender, Sum(self.numbers))
"""


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Ask(Notification):
    pass


@attrs.frozen
class Sum(Notification):
    numbers: list[int]


for _cls in (Entry, Ask, Sum):
    _cls.type_name = f"ledger:{_cls.__name__}"


class Site:
    """One server, plain or a cluster of three, each replica a process."""

    def __init__(self, place: Path, replicas: int, *, properties: str = "", trace: bool = False) -> None:
        self.place = place
        self.replicas = range(replicas)
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2 * replicas)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        elements = "".join(
            f'<server id="{id}" {"" if replicas > 1 else "name=" + chr(34) + "s0" + chr(34)} '
            f'hostname="localhost"><network domain="D1" port="{ports[2 * id]}"/>'
            '<service class="quorate.services.manager:ConnectionManager" args="root root"/>'
            f'<service class="quorate.services.tcp:TcpProxyService" args="{ports[2 * id + 1]}"/></server>'
            for id in self.replicas
        )
        if replicas > 1:
            elements = f'<cluster id="0" name="s0">{elements}</cluster>'
        self.xml = place / "a3servers.xml"
        self.xml.write_text(
            f'<config><property name="trace" value="{"true" if trace else "false"}"/>{properties}'
            f'<domain name="D1"/>{elements}</config>'
        )
        (place / "ledger.py").write_text(LEDGER)
        self.config = load(self.xml)
        self.supervisor = Supervisor(self.xml, place / "data", env={"PYTHONPATH": str(place)})

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "quorate", *command],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    def deploy(self) -> None:
        done = self.run("deploy", str(self.xml), "--server", "s0", "ledger:Ledger", "--name", "ledger")
        assert done.returncode == 0, done.stderr

    def directory(self, replica: int = 0) -> Path:
        return self.place / "data" / "s0" / str(replica)

    def kill(self, *replicas: int) -> None:
        for replica in replicas:
            self.supervisor.kill("s0", replica, signal.SIGKILL)
        pause = threading.Event()
        for replica in replicas:
            while self.supervisor.pid("s0", replica) is not None:
                pause.wait(0.005)

    def restart_all(self) -> None:
        for replica in self.replicas:
            self.supervisor.start_replica("s0", replica)

    def log(self, replica: int = 0) -> str:
        return (self.directory(replica) / "log").read_text()


MakeSite = Callable[..., Site]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[MakeSite]:
    sites: list[Site] = []

    def make(replicas: int, **options: object) -> Site:
        site = Site(tmp_path, replicas, **options)  # type: ignore[arg-type]
        site.supervisor.start()
        sites.append(site)
        site.supervisor.wait_ready(BOUND_S)
        return site

    yield make
    for site in sites:
        site.supervisor.stop()


def feed_through_kills(site: Site, rounds: int) -> None:
    """Send numbers; kill all replicas again and again; all numbers must be there, once and in order."""
    sent = threading.Semaphore(0)
    total = PART * rounds

    def feed() -> None:
        with connect(site.config.client_urls("s0"), user="root", password="root") as client:
            for number in range(total):
                client.send_nowait("ledger", Entry(number))
                if number % PART == PART // 2:
                    sent.release()
                elif number % PART == PART - 50:
                    # Nobody runs ahead of the servers: each round has its kill under load.
                    client.flush(BOUND_S)
            client.flush(BOUND_S)
            numbers.extend(client.request("ledger", Ask(), reply=Sum, timeout=BOUND_S).numbers)

    numbers: list[int] = []
    feeding = threading.Thread(target=feed)
    feeding.start()
    for _ in range(rounds):
        assert sent.acquire(timeout=BOUND_S)
        site.kill(*site.replicas)
        site.restart_all()
    feeding.join(BOUND_S)
    assert numbers == list(range(total))


def test_a_plain_server_killed_again_and_again_under_load_loses_and_repeats_nothing(
    make_site: MakeSite,
) -> None:
    # A state is saved often, so that kills meet that, too.
    site = make_site(1, properties='<property name="snapshot_entries" value="10"/>', trace=True)
    site.deploy()
    feed_through_kills(site, ROUNDS)
    log = site.log()
    assert log.count("recovered: the state after entry") == ROUNDS
    assert len(set(re.findall(r"starts, incarnation (\d+)", log))) == 1
    site.supervisor.stop()
    rows = [
        (row["incarnation"], row["position"])
        for path in (site.directory() / "trace").glob("*.parquet")
        for row in parquet.read_table(path, columns=["incarnation", "position"]).to_pylist()
    ]
    assert len(rows) == len(set(rows)), "one life recorded a position twice"
    positions = sorted({position for _, position in rows})
    assert positions == list(range(1, len(positions) + 1)), "the trace has a hole"
    assert len(positions) > PART * ROUNDS


def test_a_cluster_killed_as_a_whole_under_load_loses_and_repeats_nothing(make_site: MakeSite) -> None:
    site = make_site(3)
    site.deploy()
    feed_through_kills(site, 2)
    for replica in site.replicas:
        assert len(set(re.findall(r"starts, incarnation (\d+)", site.log(replica)))) == 1


def test_a_damaged_journal_is_refused_by_a_plain_server_and_repaired_from_the_others_in_a_cluster(
    make_site: MakeSite,
) -> None:
    site = make_site(3)
    site.deploy()
    with connect(site.config.client_urls("s0"), user="root", password="root") as client:
        for number in range(100):
            client.send_nowait("ledger", Entry(number))
        client.flush(BOUND_S)
    victim = next(id for id in site.replicas if site.supervisor.role("s0", id) == "slave")
    site.kill(victim)
    damage(site.directory(victim))
    site.supervisor.start_replica("s0", victim)
    site.supervisor.wait_ready(BOUND_S)
    log = site.log(victim)
    assert "entry 1 is not what was written. It is kept as aside-" in log
    assert len(set(re.findall(r"starts, incarnation (\d+)", log))) == 2
    shown = site.run("inspect", str(site.xml), "--server", "s0", "--replica", str(victim), "ledger")
    assert json.loads(shown.stdout)["state"] == {"numbers": list(range(100))}, shown.stderr


def test_a_plain_server_with_a_damaged_journal_ends_with_status_1(make_site: MakeSite) -> None:
    site = make_site(1)
    site.deploy()
    site.supervisor.stop()
    damage(site.directory())
    done = site.run("start", str(site.xml), "--server", "s0", "--data", str(site.place / "data"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is damaged: entry 1 is not what was written. Restore" in done.stderr


def test_a_disk_that_refuses_ends_the_replica_and_loses_nothing_acknowledged(make_site: MakeSite) -> None:
    site = make_site(1)
    site.deploy()
    site.kill(0)
    # Files may not grow beyond a megabyte: what the disk says then is as good as no space.
    start = [sys.executable, "-m", "quorate", "start", str(site.xml), "--server", "s0"]
    limited = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 2048; exec "$@"', "sh", *start, "--data", str(site.place / "data")],
        cwd=site.place,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert limited.stderr is not None
    number = 0
    with connect(site.config.client_urls("s0"), user="root", password="root") as client:
        while limited.poll() is None:
            client.send_nowait("ledger", Entry(number))
            with contextlib.suppress(RequestTimeout):
                client.flush(0.5)
            number += 1
        said = limited.stderr.read()
        assert limited.returncode == 1
        assert said.count("\n") == 1
        assert "journal.db cannot be written: " in said
        site.supervisor.start_replica("s0", 0)
        client.flush(BOUND_S)
        numbers = client.request("ledger", Ask(), reply=Sum, timeout=BOUND_S).numbers
    assert numbers == list(range(number))


def damage(directory: Path) -> None:
    connection = sqlite3.connect(directory / "journal.db")
    with connection:
        assert connection.execute("UPDATE entries SET payload = x'00' WHERE idx = 1").rowcount == 1
    connection.close()
