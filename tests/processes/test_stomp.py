"""Programs with stomp.py against real servers."""

import contextlib
import queue
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate import Servers, connect
from quorate.__main__ import cli
from quorate.messaging import Session
from quorate.server.config.servers import STOMP_SERVICE

from .foreign_clients import TLS, cluster, service_ports
from .running import BOUND_S

stomp = pytest.importorskip("stomp", reason="stomp.py is not installed: pip install quorate[test]")
pytestmark = pytest.mark.processes


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """What a client has heard."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[str] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame.headers["message"])


class Client:
    """A connection of stomp.py, whose sends wait for their receipts."""

    def __init__(
        self, ports: list[int], version: Any = stomp.Connection12, user: str = "root", **headers: str
    ):
        self.heard = Heard()
        self.connection = version([("127.0.0.1", port) for port in ports], reconnect_attempts_max=1)
        self.connection.set_listener("", self.heard)
        deadline = time.monotonic() + BOUND_S
        while not self.connection.is_connected():
            # A master that has just begun may not listen yet.
            with contextlib.suppress(stomp.exception.ConnectFailedException):
                self.connection.connect(user, user, wait=True, headers=headers)
            assert self.heard.errors.empty()
            assert time.monotonic() < deadline
        self._receipts = 0

    def receipt(self) -> str:
        self._receipts += 1
        return f"receipt {self._receipts}"

    def send(self, destination: str, body: str, **headers: str) -> None:
        receipt = self.receipt()
        self.connection.send(destination, body, headers={**headers, "receipt": receipt})
        assert self.heard.receipts.get(timeout=BOUND_S) == receipt

    def subscribe(
        self, destination: str, id: str = "1", ack: str = "client-individual", **headers: str
    ) -> None:
        receipt = self.receipt()
        self.connection.subscribe(destination, id=id, ack=ack, headers={**headers, "receipt": receipt})
        assert self.heard.receipts.get(timeout=BOUND_S) == receipt

    def message(self) -> Any:
        return self.heard.messages.get(timeout=BOUND_S)

    def ack(self, message: Any) -> None:
        receipt = self.receipt()
        if "ack" in message.headers:
            self.connection.ack(message.headers["ack"], receipt=receipt)
        else:
            self.connection.ack(message.headers["message-id"], "1", receipt=receipt)
        assert self.heard.receipts.get(timeout=BOUND_S) == receipt

    def close(self) -> None:
        if self.connection.is_connected():
            self.connection.disconnect()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(cluster("StompService", "orders", "bills"))
    return path


@pytest.fixture
def servers(config: Path, tmp_path: Path) -> Iterator[Servers]:
    with Servers(config, free_ports=True, data=tmp_path / "data") as running:
        yield running


def stomp_ports(servers: Servers) -> list[int]:
    return service_ports(servers, STOMP_SERVICE)


def test_programs_of_all_versions_and_of_quorate_exchange_messages(servers: Servers) -> None:
    ports = stomp_ports(servers)
    with (
        connect(servers.url("s0"), user="root", password="root") as own,
        Session(own, timeout=BOUND_S) as session,
    ):
        bills = session.consumer("bills")
        for version in (stomp.Connection11, stomp.Connection12):
            client = Client(ports, version)
            client.subscribe("/queue/orders", selector="kind = 'new'")
            session.send("orders", "from Python", properties={"kind": "new"}, correlation_id="7")
            session.send("orders", "not wanted", properties={"kind": "old"})
            message = client.message()
            assert message.body == "from Python"
            assert (message.headers["kind"], message.headers["correlation-id"]) == ("new", "7")
            client.ack(message)
            headers = {"content-type": "text/plain", "kind": "a:b\nc", "priority": "9"}
            client.send("/queue/bills", "from STOMP: é", **headers)
            received = bills.receive(timeout=BOUND_S)
            assert (received.body, received.priority) == ("from STOMP: é", 9)
            assert received.properties["kind"] == "a:b\nc"
            client.close()


def test_nothing_acknowledged_is_lost_when_the_master_is_killed(servers: Servers) -> None:
    ports = stomp_ports(servers)
    client = Client(ports)
    client.subscribe("/queue/orders")
    for number in range(5):
        client.send("/queue/orders", str(number))
    messages = [client.message() for _ in range(5)]
    for message in messages[:3]:
        client.ack(message)
    servers.kill_master("s0")
    other = Client(ports)
    other.subscribe("/queue/orders")
    again = [other.message() for _ in range(2)]
    assert [message.body for message in again] == ["3", "4"]
    for message in again:
        other.ack(message)
    other.close()


def test_transactions_and_a_durable_subscription(servers: Servers) -> None:
    ports = stomp_ports(servers)
    auditor = {"client-id": "auditor"}
    client = Client(ports, **auditor)
    client.subscribe("/topic/prices", id="audit", durable="true")
    client.close()
    client = Client(ports)
    client.subscribe("/queue/orders")
    transaction = client.connection.begin()
    client.connection.send("/topic/prices", "42", transaction=transaction)
    client.connection.send("/queue/orders", "one", transaction=transaction)
    client.connection.abort(transaction)
    transaction = client.connection.begin()
    client.connection.send("/topic/prices", "43", transaction=transaction)
    client.connection.send("/queue/orders", "two", transaction=transaction)
    client.connection.commit(transaction)
    assert client.message().body == "two"
    client.close()
    client = Client(ports, **auditor)
    client.subscribe("/topic/prices", id="audit", durable="true")
    assert client.message().body == "43"
    client.connection.unsubscribe("audit", headers={"durable": "true"})
    client.close()


def test_an_answer_comes_over_a_temporary_queue(servers: Servers) -> None:
    asking, answering = Client(stomp_ports(servers)), Client(stomp_ports(servers))
    asking.subscribe("/temp-queue/answers", ack="auto")
    asking.send("/queue/orders", "how many?", **{"reply-to": "/temp-queue/answers"})
    # The first request that names a queue waits until it is made, and the next ones behind it.
    for number in range(3):
        asking.connection.send("/queue/bills", str(number), headers={"reply-to": "/temp-queue/more"})
    answering.subscribe("/queue/bills", id="2", ack="auto")
    assert [answering.message().body for _ in range(3)] == ["0", "1", "2"]
    answering.subscribe("/queue/orders", ack="auto")
    question = answering.message()
    answering.send(question.headers["reply-to"], "seven")
    answer = asking.message()
    assert (answer.body, answer.headers["destination"]) == ("seven", "/temp-queue/answers")
    # It belongs to the connection that has made it.
    answering.connection.subscribe(question.headers["reply-to"], id="3")
    assert "belongs to" in answering.heard.errors.get(timeout=BOUND_S)
    asking.close()


def test_what_is_wrong_is_an_error_of_one_sentence(servers: Servers) -> None:
    ports = stomp_ports(servers)
    selector = {"selector": "= 1"}
    for wrong, sentence in (
        (lambda to: to.send("/nowhere", "x"), "'/nowhere' is not a destination"),
        (lambda to: to.send("/queue/none", "x"), "there is no queue none"),
        (lambda to: to.subscribe("/queue/orders", "9", headers=selector), "the selector is wrong"),
    ):
        client = Client(ports)
        wrong(client.connection)
        assert sentence in client.heard.errors.get(timeout=BOUND_S)
    with pytest.raises(AssertionError):
        Client(ports, user="nobody")


def test_over_tls_and_within_the_rights_of_the_user(config: Path, tmp_path: Path) -> None:
    config.write_text(cluster("StompService", "orders", "bills", **TLS))
    (tmp_path / "rights").write_text("user:anna queue:orders send\n")
    assert CliRunner().invoke(cli, ["certs", str(config)]).exit_code == 0
    with Servers(config, free_ports=True, data=tmp_path / "data") as running:
        addresses = [("127.0.0.1", port) for port in stomp_ports(running)]
        connection, heard = stomp.Connection12(addresses, reconnect_attempts_max=1), Heard()
        ca = str(tmp_path / "certs" / "ca.pem")
        connection.set_ssl(for_hosts=addresses, ca_certs=ca, ssl_version=ssl.PROTOCOL_TLS_CLIENT)
        connection.set_listener("", heard)
        connect(running.url("s0"), user="anna", password="anna", timeout=BOUND_S).close()
        connection.connect("anna", "anna", wait=True)
        connection.send("/queue/orders", "one", headers={"receipt": "r"})
        assert heard.receipts.get(timeout=BOUND_S) == "r"
        connection.send("/queue/bills", "two")
        assert heard.errors.get(timeout=BOUND_S) == "user anna has no right to send to queue:bills"
