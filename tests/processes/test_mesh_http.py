"""The HTTP port of daemons: metrics, probes and the API of a mesh."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers, mesh
from quorate.server.config.servers import HTTP_SERVICE

from .api_client import ApiClient
from .foreign_clients import daemons, running, service_ports
from .running import BOUND_S, until
from .test_http import get, metrics

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, daemons()) as found:
        yield found


@pytest.fixture
def ports(servers: Servers) -> list[int]:
    return service_ports(servers, HTTP_SERVICE, "m0")


def test_each_daemon_has_its_figures_and_says_whom_it_reaches(servers: Servers, ports: list[int]) -> None:
    with mesh.connect(servers.url("m0"), user="root", password="root", timeout=BOUND_S) as client:
        client.create("prices")
        with client.subscribe("prices", name="audit"):
            client.publish("prices", b"1.25", timeout=BOUND_S)
            for port in ports:
                until(lambda port=port: metrics(port)["quorate_mesh_subscriptions"] == 1)
                assert metrics(port)["quorate_mesh_topics"] == 1
    assert sum(metrics(port)["quorate_client_connections"] for port in ports) <= 1
    code, text = get(ports[0], "/metrics")
    assert code == 200
    assert 'quorate_role{replica="0",role="daemon",server="m0"} 1.0' in text
    servers.kill("m0", 2)
    lost = 'quorate_mesh_daemon_reached{daemon="2",replica="0",server="m0"} 0.0'
    until(lambda: lost in get(ports[0], "/metrics")[1])
    for page in ("/health/live", "/health/ready", "/health/master"):
        assert get(ports[0], page) == (200, "ok\n"), "a daemon serves alone, too"


def test_topics_and_subscriptions_are_made_and_ended(servers: Servers, ports: list[int]) -> None:
    api, other = ApiClient(ports[0]).login(), ApiClient(ports[1]).login()
    assert api.ask("POST", "/mesh/topics", {"name": "prices", "on_full": "end"}) == (204, None)
    code, again = api.ask("POST", "/mesh/topics", {"name": "prices"})
    assert (code, again["detail"]) == (409, "There is a topic 'prices' already.")
    until(lambda: other.ask("GET", "/mesh/topics")[1]["topics"])
    (topic,) = other.ask("GET", "/mesh/topics")[1]["topics"]
    assert (topic["name"], topic["on_full"], topic["creations"]) == ("prices", "end", 1)
    with mesh.connect(servers.url("m0"), user="root", password="root", timeout=BOUND_S) as client:
        until(client.topics)
        client.subscribe("prices", name="audit").close()
    until(lambda: api.ask("GET", "/mesh/subscriptions")[1]["subscriptions"])
    (found,) = api.ask("GET", "/mesh/subscriptions")[1]["subscriptions"]
    assert (found["topic"], found["name"], found["user"], found["attached"]) == (
        "prices",
        "audit",
        "root",
        False,
    )
    assert api.ask("DELETE", "/mesh/topics/prices/subscriptions/audit") == (200, {"ended": 1})
    assert api.ask("DELETE", "/mesh/topics/prices") == (204, None)
    code, gone = api.ask("DELETE", "/mesh/topics/prices")
    assert (code, gone["detail"]) == (409, "There is no topic 'prices' at daemon 0.")
    code, replica = api.ask("GET", "/replica")
    assert (code, replica["role"], replica["mode"]) == (200, "daemon", "mesh")


def test_what_a_mesh_does_not_have_is_said(ports: list[int]) -> None:
    api = ApiClient(ports[0]).login()
    code, refused = api.ask("GET", "/agents")
    assert code == 409
    assert "is a mesh, which has no agents" in refused["detail"]


def test_another_server_has_no_topics_of_a_mesh(tmp_path: Path) -> None:
    text = daemons().replace(' mode="mesh"', "").replace("MeshService", "TcpProxyService")
    with running(tmp_path, text) as servers:
        servers.master("m0")
        api = ApiClient(service_ports(servers, HTTP_SERVICE, "m0")[0]).login()
        code, refused = api.ask("GET", "/mesh/topics")
        assert code == 409
        assert "mesh" in refused["detail"]
