"""Real processes: activities at an HTTP endpoint and a database, while the master is killed."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from examples.payments import Bought, Buy, NotBought
from quorate.client import connect

from . import postgres
from .conftest import MakeSite
from .replicas import Part
from .running import BOUND_S

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(postgres.unavailable()), reason=postgres.unavailable() or "it is there"),
]

FOLLOWING = """
from pathlib import Path

from quorate.services import Service


class Following(Service):
    @classmethod
    def on_replica(cls, replica):
        place = Path(replica.args)

        def follow(role):
            with (place / f"roles.{replica.replica}").open("a") as file:
                file.write(f"{role} ")

        return follow

    def init(self, ctx, args, first_time):
        raise RuntimeError("it is not needed")
"""
"""The module `following`: a service that writes down the roles of its replica, and cannot start."""


class Endpoint(BaseHTTPRequestHandler):
    """Charges each key once; the first time that it sees a key, it says that it is busy."""

    seen: dict[str, str]
    lock: threading.Lock

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["order"]
        key = self.headers["Idempotency-Key"]
        with self.lock:
            status = 503 if key not in self.seen else 400 if order == "stolen" else 200
            self.seen[key] = order
        body = json.dumps({"receipt": key[:8]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[str]:
    Endpoint.seen, Endpoint.lock = {}, threading.Lock()
    server = ThreadingHTTPServer(("localhost", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/charge"
    server.shutdown()
    server.server_close()


def test_each_order_is_charged_and_recorded_once_though_the_master_is_killed(
    endpoint: str, make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with postgres.running() as database:
        services = (
            f'<service class="following:Following" args="{tmp_path}"/>'
            f'<service class="examples.payments:Payments" args="{endpoint} {database}"/>'
        )
        site = make_site(Part("s0", 3, services=services), modules={"following": FOLLOWING})
        ready = "examples.payments:Payments"
        site.until(lambda statuses: any(status["services"].get(ready) == "ready" for status in statuses))
        site.deploy("examples.payments:Shop")
        first = site.master()
        orders = [f"order{number}" for number in range(30)]
        with connect(site.url(), user="root", password="root") as client:
            for order in orders:
                client.send_nowait("shop", Buy(order, 5))
            client.flush(BOUND_S)
            site.kill(first)
            refused = client.request("shop", Buy("stolen", 5), timeout=BOUND_S)
            assert isinstance(refused, NotBought)
            assert "the endpoint refuses: 400" in refused.reason
            bought = [client.receive(BOUND_S).notification for _ in orders]
        assert sorted(each.order for each in bought if isinstance(each, Bought)) == sorted(orders)
        assert sorted(Endpoint.seen.values()) == sorted([*orders, "stolen"]), "a key for each order"
        found = postgres.rows(database, "select buyer_order from payments")
        assert sorted(found) == sorted(orders)
        receipts = postgres.rows(database, "select receipt from payments")
        assert sorted(receipts) == sorted(
            key[:8] for key, order in Endpoint.seen.items() if order != "stolen"
        )
        site.start(first)
        site.whole()
        second = site.master()
    roles = {number: (tmp_path / f"roles.{number}").read_text().split() for number in site.replicas}
    assert roles[first][0] == "joining"
    assert roles[first][-1] == "slave"
    assert "master" in roles[first]
    assert roles[second][-1] == "master"
    assert "slave" in roles[second]
