"""A mesh with real processes: killed and stopped daemons, lost disks, clients that move, commands."""

import asyncio
import json
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate import Servers, connect
from quorate.__main__ import cli
from quorate.client import AuthenticationError, NotPermitted, ProtocolError, QuorateClientError
from quorate.mesh import Mesh, NoTopic, PublishTimeout, TopicExists, connect_async
from quorate.mesh import connect as connect_mesh

from .running import BOUND_S, ROOT, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with Servers(ROOT / "examples" / "mesh.xml", free_ports=True, data=tmp_path / "data") as running:
        yield running


def client(servers: Servers, daemon: int | None = None, user: str = "root") -> Mesh:
    """Connect to a daemon, or to any."""
    url = servers.url("m0")
    if daemon is not None:
        url = "quorate://" + url.removeprefix("quorate://").split(",")[daemon]
    return connect_mesh(url, user=user, password=user, timeout=BOUND_S)


def command(servers: Servers, *args: str) -> Result:
    name, *rest = args
    return CliRunner().invoke(cli, ["mesh", name, str(servers.config.path), *rest], catch_exceptions=False)


def test_nothing_is_lost_or_twice_while_daemons_are_killed(servers: Servers, tmp_path: Path) -> None:
    with client(servers) as mesh:
        mesh.create("prices")
        with mesh.subscribe("prices", name="audit", cursor=tmp_path / "audit.cursor") as reader:
            received: list[bytes] = []
            for number in range(300):
                mesh.publish("prices", b"%d" % number, timeout=BOUND_S)
                if number % 100 == 50:
                    killed = int(mesh.daemon)
                    servers.kill("m0", killed)
                    servers.start_replica("m0", killed)
            while len(received) < 300:
                received.append(reader.receive(BOUND_S).body)
                reader.acknowledge()
    assert received == [b"%d" % number for number in range(300)]


def test_a_daemon_alone_takes_and_delivers_messages(servers: Servers) -> None:
    with client(servers, 0) as mesh:
        mesh.create("prices")
        for other in (1, 2):
            servers.pause("m0", other)
        reader = mesh.subscribe("prices", name="audit")
        mesh.publish("prices", b"alone", timeout=BOUND_S)
        assert reader.receive(BOUND_S).body == b"alone"
        reader.acknowledge()
        for other in (1, 2):
            servers.resume("m0", other)
    with client(servers, 1) as mesh:
        # This daemon was stopped when the topic was created.
        while not mesh.topics():
            pass
        with mesh.subscribe("prices", name="audit") as reader:
            mesh.publish("prices", b"together", timeout=BOUND_S)
            # Without a cursor, what this daemon has not heard to be acknowledged comes again.
            while (message := reader.receive(BOUND_S)).redelivered:
                pass
            assert message.body == b"together"


def test_a_daemon_whose_disk_is_lost_gets_what_the_others_have(servers: Servers, tmp_path: Path) -> None:
    with client(servers, 0) as mesh:
        mesh.create("prices")
        mesh.subscribe("prices", name="audit").close()
        for number in range(50):
            mesh.publish("prices", b"%d" % number, timeout=BOUND_S)
    with client(servers, 2) as mesh, mesh.subscribe("prices", name="audit") as reader:
        assert [reader.receive(BOUND_S).body for _ in range(50)] == [b"%d" % n for n in range(50)]
    servers.kill("m0", 2)
    shutil.rmtree(tmp_path / "data" / "m0" / "2" / "mesh")
    servers.start_replica("m0", 2)
    with client(servers, 2) as mesh:
        while not mesh.topics():
            pass
        with mesh.subscribe("prices", name="audit") as reader:
            again = [reader.receive(BOUND_S) for _ in range(50)]
    assert [each.body for each in again] == [b"%d" % n for n in range(50)]
    assert all(each.redelivered for each in again)


def test_commands_show_and_change_a_mesh(servers: Servers) -> None:
    assert command(servers, "create", "prices", "--topic-bytes", "100000").output == (
        "topic prices is created\n"
    )
    again = command(servers, "create", "prices")
    assert (again.exit_code, again.output) == (
        1,
        "quorate: m0.0: There is a topic 'prices' already.\n",
    )
    with client(servers, 1) as mesh:
        while not mesh.topics():
            pass
        mesh.subscribe("prices", name="audit").close()
        mesh.publish("prices", b"x" * 100, timeout=BOUND_S)
    (topic,) = json.loads(command(servers, "topics", "--replica", "1", "--json").output)
    assert (topic["name"], topic["subscriptions"], topic["topic_bytes"]) == ("prices", 1, 100000)
    assert "audit" in command(servers, "subscriptions", "--replica", "1", "--slow").output
    assert "subscription audit is 1 behind" in command(servers, "explain", "prices", "--replica", "1").output
    # What one daemon knows reaches the others a moment later.
    until(lambda: command(servers, "status").exit_code == 0, "a mesh in which all reach all")
    status = command(servers, "status")
    assert status.exit_code == 0, status.output
    assert status.output.count("0,1,2") == 3
    assert command(servers, "unsubscribe", "prices", "audit", "--replica", "1").exit_code == 0
    general = CliRunner().invoke(cli, ["status", str(servers.config.path)])
    assert general.exit_code == 0, general.output
    assert "m0.1 MeshService: reaches 0, 1, 2" in general.output
    servers.kill("m0", 2)
    refused = command(servers, "forget", "2")
    assert refused.exit_code == 1
    assert "--accept-loss" in refused.output
    assert command(servers, "forget", "2", "--accept-loss").output == "daemon 2 is forgotten\n"
    assert command(servers, "add", "2").output == "daemon 2 is added\n"
    assert command(servers, "delete", "prices").exit_code == 0
    assert command(servers, "status").exit_code == 1


def test_clients_are_told_what_is_wrong(servers: Servers) -> None:
    url = servers.url("m0")
    with pytest.raises(AuthenticationError):
        connect_mesh(url, user="root", password="wrong")
    with pytest.raises(QuorateClientError, match="mesh"):
        connect(url, user="root", password="root", timeout=5)
    with client(servers, user="sensor") as mesh:
        with pytest.raises(NotPermitted, match="administrators"):
            mesh.create("prices")
        with pytest.raises(NoTopic, match="'prices'"):
            mesh.publish("prices", b"x", timeout=BOUND_S)
        with pytest.raises(NoTopic):
            mesh.subscribe("prices")
    with client(servers, 0) as mesh:
        mesh.create("prices")
        with pytest.raises(TopicExists):
            mesh.create("prices")
        servers.pause("m0", 0)
        with pytest.raises(PublishTimeout, match="it is sent until one does"):
            mesh.publish("prices", b"x", timeout=0.5)
        servers.resume("m0", 0)
        mesh.flush(BOUND_S)
    agents = CliRunner().invoke(cli, ["agents", str(servers.config.path), "--server", "m0"])
    assert agents.exit_code == 1
    assert "is a mesh, which has no agents" in agents.output


def test_garbage_of_a_stranger_ends_his_connection_only(servers: Servers) -> None:
    host, port = servers.url("m0").removeprefix("quorate://").split(",")[0].rsplit(":", 1)
    with client(servers, 0) as mesh:
        mesh.create("prices")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">I", 3) + b"\xc1\xc1\xc1", bytes(5000)):
            with socket.create_connection((host, int(port)), BOUND_S) as stranger:
                stranger.settimeout(BOUND_S)
                stranger.sendall(garbage)
                while stranger.recv(4096):
                    pass
        mesh.publish("prices", b"still here", timeout=BOUND_S)


def test_a_client_of_a_mesh_is_refused_by_a_server_with_agents(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        Servers(ROOT / "a3servers.xml", free_ports=True, data=data, only=["s0"]) as servers,
        pytest.raises(ProtocolError),
    ):
        connect_mesh(servers.url("s0"), user="root", password="root", timeout=BOUND_S)


def test_asyncio_clients_publish_and_receive(servers: Servers) -> None:
    found: list[bytes] = []

    async def run() -> None:
        async with connect_async(servers.url("m0"), user="root", password="root") as mesh:
            await mesh.create("prices")
            async with await mesh.subscribe("prices", name="audit") as reader:
                for number in range(10):
                    await mesh.publish_nowait("prices", b"%d" % number)
                await mesh.flush(BOUND_S)
                async for message in reader:
                    found.append(message.body)
                    await reader.acknowledge(message)
                    if len(found) == 10:
                        break

    asyncio.run(run())
    assert found == [b"%d" % number for number in range(10)]


def example(*arguments: object) -> "subprocess.Popen[str]":
    """Start an example."""
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_readings_of_a_ship_are_read_ashore_once(servers: Servers, tmp_path: Path) -> None:
    urls = ["quorate://" + each for each in servers.url("m0").removeprefix("quorate://").split(",")]
    assert command(servers, "create", "readings").exit_code == 0
    with client(servers, 2) as shore:
        while not shore.topics():
            pass
    lines: list[str] = []
    for _ in range(2):
        office = example("examples.sensors", "office", urls[2], 20, tmp_path / "office.cursor")
        assert office.stdout is not None
        assert office.stdout.readline() == "the office listens\n"
        while "office" not in command(servers, "subscriptions", "--replica", "0").output:
            pass
        ship = example("examples.sensors", "ship", urls[0], 20)
        assert "20 readings are on the disk of daemon 0" in ship.communicate(timeout=BOUND_S)[0]
        read, _ = office.communicate(timeout=BOUND_S)
        lines += read.splitlines()
    assert [int(line.split()[1]) for line in lines] == [*range(20), *range(20)]


def test_sites_chat_while_daemons_die(servers: Servers) -> None:
    assert command(servers, "create", "chat").exit_code == 0
    anna, bert = (example("examples.sites", name, servers.url("m0")) for name in ("anna", "bert"))
    for each in (anna, bert):
        assert each.stdout is not None
        assert " is at daemon " in each.stdout.readline()
    servers.kill("m0", 1)
    assert anna.stdin is not None
    assert bert.stdout is not None
    anna.stdin.write("hello\n")
    anna.stdin.flush()
    assert bert.stdout.readline() == "anna: hello\n"
    for each in (anna, bert):
        each.communicate(timeout=BOUND_S)
        assert each.returncode == 0
