"""`quorate restart`: replicas one after the other, while clients go on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate import QuorateClientError, Servers
from quorate.__main__ import cli
from quorate.messaging import Session

from .commands import quorate, roles
from .foreign_clients import cluster, running
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("StompService", "orders")) as found:
        yield found


def restart(servers: Servers, *options: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, ["restart", str(servers.config.path), *options])
    return result.exit_code, result.output.splitlines()


def test_all_replicas_are_restarted_while_a_client_sends(servers: Servers) -> None:
    stop = threading.Event()
    sent: list[int] = []

    def send() -> None:
        with servers.connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
            while not stop.is_set():
                session.send("orders", str(len(sent)))
                sent.append(len(sent))

    thread = threading.Thread(target=send)
    thread.start()
    until(lambda: len(sent) > 10)
    master = servers.master("s0")
    status, lines = restart(servers)
    assert status == 0, lines
    before = len(sent)
    until(lambda: len(sent) > before + 10)
    stop.set()
    thread.join(BOUND_S)
    assert sorted(line.split()[0] for line in lines) == ["s0.0", "s0.1", "s0.2"]
    assert lines[-1].startswith(f"s0.{master} restarted")
    assert "the master is" in lines[-1]
    with servers.connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
        bodies = [message.body for message in session.consumer("orders", timeout_s=1)]
    assert bodies == [str(number) for number in range(len(sent))]


def change(servers: Servers, before: str, after: str) -> None:
    """Change the file of the servers."""
    text = servers.config.path.read_text()
    assert before in text
    servers.config.path.write_text(text.replace(before, after))


def test_a_restart_applies_properties_that_have_changed_in_the_file(servers: Servers) -> None:
    def status() -> str:
        return quorate("status", servers.config.path).stderr

    servers.master("s0")
    until(lambda: status() == "", "nothing is wrong")
    change(servers, "<domain", '<property name="max_connections" value="2"/><domain')
    assert (
        "s0: replicas 0, 1, 2 run with other properties than the file has now; `quorate restart`" in status()
    )
    assert restart(servers, "--server", "s0", "--replica", "1")[0] == 0
    assert "s0: replicas 0, 2 run with other properties" in status(), "they go on together"
    code, lines = restart(servers)
    assert code == 0, lines
    until(lambda: status() == "", "nothing is wrong")
    with (
        servers.connect("s0"),
        servers.connect("s0"),
        pytest.raises(QuorateClientError, match="2 connections already"),
    ):
        servers.connect("s0", timeout=5)


def test_nothing_is_restarted_with_a_file_that_the_others_would_not_agree_with(servers: Servers) -> None:
    servers.master("s0")
    change(servers, "<domain", '<property name="max_turn" value="70000"/><domain')
    code, lines = restart(servers)
    assert code == 1
    assert "s0 is not restarted: the file differs from that of the running replicas" in " ".join(lines)
    assert "stop all and start all with it" in " ".join(lines)
    assert sum(role in ("master", "slave") for role in roles(servers.config.path).values()) == 3


def test_one_replica_is_restarted(servers: Servers) -> None:
    slave = (servers.master("s0") + 1) % 3
    assert restart(servers, "--server", "s0", "--replica", str(slave))[0] == 0


def test_nothing_is_restarted_while_a_replica_is_missing(servers: Servers) -> None:
    slave = (servers.master("s0") + 1) % 3
    servers.kill("s0", slave)
    status, lines = restart(servers)
    assert status == 1
    assert f"s0 is not restarted: replica {slave} is down" in " ".join(lines)


def test_a_server_that_would_lose_its_agents_is_not_restarted(tmp_path: Path) -> None:
    text = (
        '<config><domain name="D1"/><server id="0" name="s0" hostname="localhost" durability="memory">'
        '<network domain="D1" port="16301"/></server></config>'
    )
    with running(tmp_path, text) as servers:
        status, lines = restart(servers)
    assert status == 1
    assert "keeps its agents in memory" in " ".join(lines)
