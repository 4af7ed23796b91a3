"""The HTTP port of every replica: what Prometheus, Kubernetes and load balancers ask."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate import Servers
from quorate.messaging import Session
from quorate.server.config.servers import HTTP_SERVICE

from .foreign_clients import cluster, running, service_ports
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("HttpService", "orders")) as found:
        yield found


def get(port: int, page: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{page}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(port: int) -> dict[str, float]:
    """Return the metrics without labels of their own, and those of the queue orders."""
    code, text = get(port, "/metrics")
    assert code == 200
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if set(sample.labels) <= {"server", "replica"} or sample.labels.get("name") == "orders":
                found[sample.name] = sample.value
    return found


def test_every_replica_has_the_figures_of_the_queues(servers: Servers) -> None:
    with servers.connect("s0") as connection, Session(connection) as session:
        for number in range(5):
            session.send("orders", str(number))
        session.consumer("orders", window=1).receive(BOUND_S)
        session.sync(BOUND_S)
    for port in service_ports(servers, HTTP_SERVICE):
        until(lambda port=port: metrics(port)["quorate_destination_messages"] == 4)
        found = metrics(port)
        assert found["quorate_destination_received_messages_total"] == 5
        assert found["quorate_destination_accepted_messages_total"] == 1
        assert found["process_resident_memory_bytes"] > 0
    assert sum(metrics(port)["quorate_serving"] for port in service_ports(servers, HTTP_SERVICE)) == 1


def test_probes_follow_the_role(servers: Servers) -> None:
    ports = service_ports(servers, HTTP_SERVICE)
    master = servers.master("s0")
    for number, port in enumerate(ports):
        assert get(port, "/health/live") == (200, "ok\n")
        assert get(port, "/health/ready") == (200, "ok\n")
        assert get(port, "/health/master")[0] == (200 if number == master else 503)
    left = [number for number in range(3) if number != master]
    servers.kill("s0", master)
    until(lambda: any(get(ports[number], "/health/master")[0] == 200 for number in left))
    servers.kill("s0", servers.master("s0"))
    (last,) = [number for number in left if get_or_none(ports[number])]
    # Alone it has no majority: it lives, and is not ready.
    until(lambda: get(ports[last], "/health/ready")[0] == 503)
    assert get(ports[last], "/health/live") == (200, "ok\n")
    assert "start replica" in get(ports[last], "/health/ready")[1]


def get_or_none(port: int) -> bool:
    try:
        return get(port, "/health/live")[0] == 200
    except urllib.error.URLError:
        return False


def test_what_is_not_there_is_said(servers: Servers) -> None:
    port = service_ports(servers, HTTP_SERVICE)[0]
    assert "/metrics" in get(port, "/")[1]
    assert get(port, "/admin")[0] == 404
    assert get(port, "/metrics", "POST")[0] == 405
    assert get(port, "/metrics", "HEAD") == (200, "")
