"""Real processes: three servers in two domains, one of which loses its state while another sends to it."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from quorate.agents import Notification
from quorate.client import connect
from quorate.server.config import load
from quorate.server.supervisor import Supervisor

pytestmark = pytest.mark.processes

BOUND_S = 60.0
BOOKS = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Ask(Notification):
    pass


@attrs.frozen
class Told(Notification):
    numbers: list[int]


@attrs.define
class Book(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.numbers.append(note.number)

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        ctx.send(ctx.sender, Told(self.numbers))
"""


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Ask(Notification):
    pass


@attrs.frozen
class Told(Notification):
    numbers: list[int]


for _cls in (Entry, Ask, Told):
    _cls.type_name = f"books:{_cls.__name__}"


class Site:
    """s0 and s2, which have only s1 in common; clients connect to s0."""

    def __init__(self, place: Path) -> None:
        self.place = place
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        self.xml = place / "a3servers.xml"
        self.xml.write_text(
            '<config><property name="trace" value="false"/><domain name="D1"/><domain name="D2"/>'
            '<server id="0" name="s0" hostname="localhost" durability="memory">'
            f'<network domain="D1" port="{ports[0]}"/>'
            '<service class="quorate.services.manager:ConnectionManager" args="root root"/>'
            f'<service class="quorate.services.tcp:TcpProxyService" args="{ports[1]}"/></server>'
            '<server id="1" name="s1" hostname="localhost" durability="memory">'
            f'<network domain="D1" port="{ports[2]}"/><network domain="D2" port="{ports[3]}"/></server>'
            '<server id="2" name="s2" hostname="localhost" durability="memory">'
            f'<network domain="D2" port="{ports[4]}"/></server></config>'
        )
        (place / "books.py").write_text(BOOKS)
        self.url = load(self.xml).client_urls("s0")
        self.supervisor = Supervisor(self.xml, place / "data", env={"PYTHONPATH": str(place)})

    def deploy(self, server: str) -> None:
        command = [sys.executable, "-m", "quorate", "deploy", str(self.xml), "--server", server]
        subprocess.run(
            [*command, "books:Book", "--name", "book"], cwd=self.place, check=True, timeout=BOUND_S
        )

    def log(self, server: str) -> str:
        return "".join(path.read_text() for path in (self.place / "data" / server).rglob("*log*"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    with site.supervisor:
        site.supervisor.wait_ready(BOUND_S)
        yield site


def until(ask: Callable[[], list[int]], done: Callable[[list[int]], bool]) -> list[int]:
    pause = threading.Event()
    for _ in range(200):
        numbers = ask()
        if done(numbers):
            return numbers
        pause.wait(0.1)
    raise AssertionError(f"it did not happen; the last of {len(numbers)} is {numbers[-1:]}")


def test_servers_of_two_domains_talk_and_one_that_lost_its_state_is_talked_to_again(site: Site) -> None:
    site.deploy("s2")
    with connect(site.url, user="root", password="root") as client:

        def ask() -> list[int]:
            return client.request("book@s2", Ask(), reply=Told, timeout=BOUND_S).numbers

        for number in range(1000):
            client.send_nowait("book@s2", Entry(number))
        assert until(ask, lambda numbers: len(numbers) >= 1000) == list(range(1000))
        for number in range(1000, 2000):
            client.send_nowait("book@s2", Entry(number))
            if number == 1300:
                site.supervisor.kill("s2", 0)
        client.flush(BOUND_S)
        site.supervisor.start_replica("s2", 0)
        site.supervisor.wait_ready(BOUND_S)
        site.deploy("s2")
        for number in range(2000, 3000):
            client.send_nowait("book@s2", Entry(number))
        numbers = until(ask, lambda numbers: numbers[-1:] == [2999])
        assert numbers == list(range(numbers[0], 3000))
        assert 1000 <= numbers[0] <= 2000
    assert site.log("s1").count("server 2 has begun a new life without its state") == 1
