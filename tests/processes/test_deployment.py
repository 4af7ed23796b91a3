"""The files of examples/deployment, and what a replica tells systemd: what this machine can check."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.server.config import load

from .running import BOUND_S, until

pytestmark = pytest.mark.processes
DEPLOYMENT = Path(__file__).parents[2] / "examples" / "deployment"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, with a user and a secret."""
    for each in DEPLOYMENT.iterdir():
        shutil.copy(each, tmp_path)
    (tmp_path / "users").write_text("")
    monkeypatch.setenv("QUORATE_SECRET", "a long random text")
    return tmp_path


def documents(path: Path) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def test_the_configuration_names_what_the_containers_run(files: Path) -> None:
    server = load(files / "a3servers.xml").server("s0")
    (compose,) = documents(files / "compose.yml")
    services = compose["services"]
    assert sorted(each["hostname"] for each in services.values()) == [each.host for each in server.replicas]
    assert [each["command"][-1] for each in services.values()] == [str(id) for id in server.replica_ids]
    headless, budget, replicas = documents(files / "kubernetes.yml")
    assert replicas["spec"]["replicas"] == len(server.replicas)
    assert budget["spec"]["maxUnavailable"] == 1
    name, domain = replicas["metadata"]["name"], headless["metadata"]["name"]
    assert [each.host for each in server.replicas] == [f"{name}-{id}.{domain}" for id in server.replica_ids]
    ports = {each["port"] for each in headless["spec"]["ports"]}
    assert ports == {server.replicas[0].client_port, server.replicas[0].networks[0].port, 9464}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(files: Path) -> None:
    unit = files / "quorate@s0.1.service"
    unit.write_text((files / "quorate@.service").read_text())
    found = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    if "Failed to initialize manager" in found.stderr:
        pytest.skip("systemd-analyze cannot work here")
    assert found.stderr == ""
    assert found.returncode == 0


def test_a_replica_tells_systemd_what_it_does(tmp_path: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text('<config><server id="0" name="s0" hostname="localhost"/></config>')
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(BOUND_S)

        def hear(text: str) -> bool:
            heard.extend(listening.recv(1000).decode().split("\n"))
            return text in heard

        process = subprocess.Popen(
            [sys.executable, "-m", "quorate", "start", str(config), "--server", "s0"],
            env={**os.environ, "NOTIFY_SOCKET": listening.getsockname(), "WATCHDOG_USEC": "200000"},
            stdout=subprocess.DEVNULL,
        )
        until(lambda: hear("READY=1"), "READY")
        until(lambda: hear("STATUS=master"), "STATUS")
        until(lambda: hear("WATCHDOG=1"), "WATCHDOG")
        process.terminate()
        until(lambda: hear("STOPPING=1"), "STOPPING")
        assert process.wait(BOUND_S) == 0
