"""Meshes in a configuration: what is read, and what is refused."""

from pathlib import Path

import pytest

from quorate.server.config import ConfigError, load

from .config_texts import CM, cluster, mesh

WRONG = {
    "ack": (mesh('ack="ALL"'), "2: ack means nothing in a mesh"),
    "memory": (mesh('durability="memory"'), "2: a mesh keeps what it takes on the disks"),
    "an agent": (
        mesh(extra="<agent class='examples.bank:Account' name='alice'/>"),
        "3: a mesh has no agents, queues or topics",
    ),
    "a queue": (mesh(extra="<queue name='orders'/>"), "3: a mesh has no agents, queues or topics"),
    "a service of a master": (
        mesh(service="<service class='json:loads'/>"),
        "5: json:loads is not a service",
    ),
    "a port for agents": (
        mesh(service="<service class='TcpProxyService' args='2561'/>"),
        "5: a mesh has no master, so it cannot run TcpProxyService",
    ),
    "the service elsewhere": (
        cluster().replace("</server>", f"{CM}<service class='MeshService' args='2560'/></server>", 1),
        '4: MeshService needs a <cluster> with mode="mesh"',
    ),
    "two arguments": (
        mesh().replace('args="2560"', 'args="2560 60"', 1),
        "4: MeshService takes a port, no more",
    ),
    "a share above 1": (
        mesh(extra="<property name='repair_share' value='2'/>"),
        "3: the property repair_share",
    ),
}


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "a3servers.xml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(path)
    return [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()]


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_mesh_cannot_have_is_refused_with_its_line(kind: str, tmp_path: Path) -> None:
    text, expected = WRONG[kind]
    found = problems(tmp_path, text)
    assert any(each.startswith(expected) for each in found), found


def test_a_mesh_needs_its_service_and_users(tmp_path: Path) -> None:
    found = problems(tmp_path, cluster('mode="mesh"', replicas=1))
    assert len(found) == 2
    assert "needs the service that clients connect to" in found[0]
    assert "needs a ConnectionManager" in found[1]


def test_a_mesh_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    path.write_text(mesh())
    config = load(path)
    server = config.server("m0")
    assert (server.mode, server.durability) == ("mesh", "disk")
    assert config.client_urls("m0") == "quorate://h0:2560,h1:2560"
