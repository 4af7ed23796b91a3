"""Incidents of docs/incidents.md that no other test walks through: a lost machine, a clock set back."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.messaging import Session
from quorate.server.processes.free_ports import free_ports

from .commands import quorate, roles
from .conftest import Start
from .foreign_clients import cluster, running
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("StompService", "orders")) as found:
        with found.connect("s0") as connection, Session(connection) as session:
            session.send("orders", "before")
            session.sync(BOUND_S)
        yield found


def test_a_machine_is_gone_and_another_takes_its_place(
    servers: Servers, tmp_path: Path, start: Start
) -> None:
    config = servers.config.path
    gone = next(each for each in (1, 2) if each != servers.master())
    servers.kill(replica=gone)
    shutil.rmtree(tmp_path / "data" / "s0" / str(gone))
    (port,) = free_ports(1)
    declared = servers.config.server("s0").replicas[gone].networks[0].port
    edited = tmp_path / "edited.xml"
    edited.write_text(re.sub(rf'port="{declared}"', f'port="{port}"', config.read_text()))
    words = ("start", str(edited), "--server", "s0", "--replica", str(gone), "--join")
    replica = start("-m", "quorate", *words, "--data", str(tmp_path / "elsewhere"))
    replaced = quorate("replica", "replace", edited, "--server", "s0", "--replica", gone)
    assert replaced.exit_code == 0, replaced.output
    until(lambda: roles(edited)[gone] == "slave", "the new machine has the replica")
    found = json.loads(quorate("status", edited, "--json").stdout)["servers"][0]
    assert found["differences"] == []
    assert len({each["digest"] for each in found["replicas"]}) == 1
    replica.process.terminate()
    assert replica.ended() == 0


def test_a_replica_whose_clock_was_set_back_and_whose_disk_is_lost_joins_again(tmp_path: Path) -> None:
    # Its first life has begun a day from now.
    directory = tmp_path / "data" / "s0" / "2"
    directory.mkdir(parents=True)
    tomorrow_ms = time.time_ns() // 1_000_000 + 86_400_000
    (directory / "incarnation").write_text(f"{tomorrow_ms}\n")
    with running(tmp_path, cluster("StompService", "orders")) as servers:
        servers.kill(replica=2)
        shutil.rmtree(directory)
        servers.start_replica(replica=2)
        until(lambda: roles(servers.config.path)[2] in ("slave", "master"), "it has joined again")
