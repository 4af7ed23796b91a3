"""Real processes: a killed master, a frozen master, and notifications between servers meanwhile."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from quorate.agents import Notification
from quorate.client import connect
from quorate.server.admin_client import ServerAdmin, gather
from quorate.server.config import load
from quorate.server.supervisor import Supervisor

pytestmark = pytest.mark.processes

BOUND_S = 60.0
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


@attrs.define
class Forwarder(Agent):
    to: str = "ledger@s1"

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        ctx.send(self.to, note)
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
    """A cluster of three and a plain server, each replica a process."""

    def __init__(self, place: Path) -> None:
        self.place = place
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(8)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()

        def element(id: int, name: str, network: int, client: int) -> str:
            return (
                f'<server id="{id}" {name} hostname="localhost"><network domain="D1" port="{network}"/>'
                '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
                '<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" '
                f'args="{client}"/></server>'
            )

        replicas = "".join(element(id, "", ports[2 * id], ports[2 * id + 1]) for id in range(3))
        self.xml = place / "a3servers.xml"
        self.xml.write_text(
            '<config><property name="trace" value="false"/><property name="digest_every" value="10"/>'
            f'<domain name="D1"/><cluster id="0" name="s0">{replicas}</cluster>'
            + element(1, 'name="s1"', ports[6], ports[7])
            + "</config>"
        )
        (place / "ledger.py").write_text(LEDGER)
        self.config = load(self.xml)
        self.supervisor = Supervisor(self.xml, place / "data", env={"PYTHONPATH": str(place)})
        self.admin = ServerAdmin(self.config, self.config.server("s0"))

    def deploy(self, server: str, cls: str, name: str) -> None:
        command = [sys.executable, "-m", "quorate", "deploy", str(self.xml), "--server", server]
        subprocess.run(
            [*command, f"ledger:{cls}", "--name", name], cwd=self.place, check=True, timeout=BOUND_S
        )

    def statuses(self) -> list[dict[str, Any]]:
        """What the replicas of the cluster that answer say."""
        ((_, replicas),) = gather([self.admin])
        return [replica.status for replica in replicas if replica.status is not None]

    def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Ask for statuses until they fulfil the condition."""
        pause = threading.Event()
        for _ in range(int(BOUND_S / 0.1)):
            statuses = self.statuses()
            if condition(statuses):
                return statuses
            pause.wait(0.1)
        raise AssertionError(f"it did not happen: {self.statuses()}")

    def master(self) -> int:
        (master,) = [status["replica"] for status in self.until(one_master) if status["role"] == "master"]
        return int(master)

    def url(self, server: str) -> str:
        return self.config.client_urls(server)


def one_master(statuses: list[dict[str, Any]]) -> bool:
    return [status["role"] for status in statuses].count("master") == 1


def whole(statuses: list[dict[str, Any]]) -> bool:
    """All three in one view, with equal states at equal positions."""
    return (
        sorted(status["role"] for status in statuses) == ["master", "slave", "slave"]
        and len({(status["view"], status["applied"], status["digest"]) for status in statuses}) == 1
    )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.supervisor:
        site.supervisor.wait_ready(BOUND_S)
        yield site


def test_a_killed_master_loses_and_repeats_nothing_and_comes_back_in_the_same_state(site: Site) -> None:
    site.deploy("s0", "Ledger", "ledger")
    site.deploy("s0", "Forwarder", "forwarder")
    site.deploy("s1", "Ledger", "ledger")
    with connect(site.url("s0"), user="root", password="root") as client:
        for number in range(4000):
            client.send_nowait("ledger", Entry(number))
            client.send_nowait("forwarder", Entry(number))
            if number in (1000, 2500):
                killed = site.master()
                site.supervisor.kill("s0", killed)
            if number in (2000, 3500):
                site.until(lambda statuses: len(statuses) == 2 and one_master(statuses))
                site.supervisor.start_replica("s0", killed)
                site.until(whole)
        client.flush(BOUND_S)
        assert client.request("ledger", Ask(), reply=Sum, timeout=BOUND_S).numbers == list(range(4000))
    with connect(site.url("s1"), user="root", password="root") as client:
        pause = threading.Event()
        for _ in range(200):
            got = client.request("ledger", Ask(), reply=Sum, timeout=BOUND_S).numbers
            if len(got) >= 4000:
                break
            pause.wait(0.1)
        assert got == list(range(4000))
    site.until(whole)


def test_a_frozen_master_is_replaced_and_acknowledges_nothing_when_it_wakes(site: Site) -> None:
    site.deploy("s0", "Ledger", "ledger")
    with connect(site.url("s0"), user="root", password="root") as client:
        for number in range(500):
            client.send_nowait("ledger", Entry(number))
        client.flush(BOUND_S)
        frozen = site.master()
        site.supervisor.kill("s0", frozen, signal.SIGSTOP)
        for number in range(500, 1000):
            client.send_nowait("ledger", Entry(number))
        client.flush(BOUND_S)
        assert site.master() != frozen
        site.supervisor.kill("s0", frozen, signal.SIGCONT)
        for number in range(1000, 1500):
            client.send_nowait("ledger", Entry(number))
        client.flush(BOUND_S)
        assert client.request("ledger", Ask(), reply=Sum, timeout=BOUND_S).numbers == list(range(1500))
    site.until(whole)
