"""Programs with Qpid Proton and Qpid JMS against real servers."""

import contextlib
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate import Servers, connect
from quorate.__main__ import cli
from quorate.messaging import Session, Topic
from quorate.server.config.servers import AMQP_SERVICE

from .foreign_clients import TLS, cluster, service_ports
from .running import BOUND_S

proton = pytest.importorskip("proton", reason="Qpid Proton is not installed: pip install quorate[amqp]")
utils = pytest.importorskip("proton.utils")
pytestmark = pytest.mark.processes

JMS = Path(__file__).parent / "jms"
QUEUES = (
    *("bodies", "headers", "selectors", "client", "again", "individual", "many", "in", "out", "lost"),
    *("requests", "browsed", "shared", "pulled", "listened", "timed", "orders", "bills"),
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(cluster("AmqpService", *QUEUES))
    return path


@pytest.fixture
def servers(config: Path, tmp_path: Path) -> Iterator[Servers]:
    with Servers(config, free_ports=True, data=tmp_path / "data") as running:
        yield running


def amqp_ports(servers: Servers) -> list[int]:
    return service_ports(servers, AMQP_SERVICE)


def opened(ports: list[int]) -> Any:
    """Return a connection to whichever server is master."""
    deadline = time.monotonic() + BOUND_S
    while True:
        for port in ports:
            with contextlib.suppress(proton.ConnectionException, proton.Timeout, OSError):
                return utils.BlockingConnection(
                    f"amqp://localhost:{port}",
                    timeout=BOUND_S,
                    allowed_mechs="PLAIN",
                    user="root",
                    password="root",
                    reconnect=False,
                )
        assert time.monotonic() < deadline
        time.sleep(0.1)


def taken(receiver: Any) -> Any:
    message = receiver.receive(timeout=BOUND_S)
    receiver.accept()
    return message.body


def test_programs_with_proton_and_of_quorate_exchange_messages(servers: Servers) -> None:
    client = opened(amqp_ports(servers))
    with (
        connect(servers.url("s0"), user="root", password="root") as own,
        Session(own, timeout=BOUND_S) as session,
    ):
        receiver = client.create_receiver("orders", credit=10)
        prices = client.create_receiver("topic://prices", credit=10)
        session.send("orders", {"id": 7, "name": "é"}, properties={"kind": "new"}, correlation_id="c")
        session.send(Topic("prices"), "42")
        message = receiver.receive(timeout=BOUND_S)
        assert (message.body, message.properties, message.correlation_id) == (
            {"id": 7, "name": "é"},
            {"kind": "new"},
            "c",
        )
        receiver.accept()
        assert taken(prices) == "42"
        sender = client.create_sender("bills")
        for body in ("text", b"bytes", {"a": [1, 2.5, None]}, ["x", True], proton.ulong(5)):
            sender.send(proton.Message(body=body, priority=9, properties={"n": proton.short(3)}))
        bills = session.consumer("bills")
        received = [bills.receive(timeout=BOUND_S) for _ in range(5)]
        assert [each.body for each in received[:4]] == ["text", b"bytes", {"a": [1, 2.5, None]}, ["x", True]]
        assert all((each.priority, each.properties["n"]) == (9, 3) for each in received)
    client.close()


def test_nothing_acknowledged_is_lost_when_the_master_is_killed(servers: Servers) -> None:
    ports = amqp_ports(servers)
    client = opened(ports)
    sender = client.create_sender("orders")
    for number in range(5):
        sender.send(proton.Message(body=number, durable=True))
    receiver = client.create_receiver("orders", credit=5)
    assert [taken(receiver) for _ in range(3)] == [0, 1, 2]
    # Its answer comes after what was accepted before has its effect.
    sender.send(proton.Message(body=5, durable=True))
    servers.kill_master("s0")
    again = opened(ports).create_receiver("orders", credit=5)
    messages = [again.receive(timeout=BOUND_S) for _ in range(3)]
    assert [each.body for each in messages] == [3, 4, 5]
    assert [each.delivery_count for each in messages[:2]] == [1, 1]


def test_what_is_wrong_is_an_error_of_one_sentence(servers: Servers) -> None:
    ports = amqp_ports(servers)
    client = opened(ports)
    with pytest.raises(utils.LinkDetached, match="there is no queue nowhere"):
        client.create_receiver("nowhere")
    with pytest.raises(utils.LinkDetached, match="there is no queue nowhere"):
        client.create_sender("nowhere").send(proton.Message(body="x"))
    sender = client.create_sender("orders")
    delivery = sender.send(proton.Message(body="x", properties={"bad": b"bytes"}), error_states=[])
    assert (
        delivery.remote.condition.description
        == "the property bad is no number of 64 bits, no text and no bool"
    )
    sender.send(proton.Message(body="the link goes on"))
    with pytest.raises(proton.ConnectionException):
        utils.BlockingConnection(
            f"amqp://localhost:{ports[0]}", user="root", password="no", allowed_mechs="PLAIN", reconnect=False
        )
    client.close()


def test_over_tls_with_a_certificate_and_within_the_rights_of_the_user(config: Path, tmp_path: Path) -> None:
    config.write_text(cluster("AmqpService", *QUEUES, **TLS, tls_client_ca="certs/ca.pem"))
    (tmp_path / "rights").write_text("user:anna queue:orders send\n")
    assert CliRunner().invoke(cli, ["certs", str(config), "--client", "anna"]).exit_code == 0
    certs = tmp_path / "certs"
    with Servers(config, free_ports=True, data=tmp_path / "data") as running:
        ports = amqp_ports(running)
        connect(running.url("s0"), user="root", password="root", timeout=BOUND_S).close()
        trusted = ssl.create_default_context(cafile=str(certs / "ca.pem"))
        assert trusted.verify_mode == ssl.CERT_REQUIRED
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(certs / "ca.pem"))
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
        (certificate,) = certs.glob("*anna*.pem")
        domain.set_credentials(str(certificate), str(certificate.with_suffix(".key")), None)
        deadline = time.monotonic() + BOUND_S
        client = None
        while client is None:
            for port in ports:
                with contextlib.suppress(proton.ConnectionException):
                    url = f"amqps://localhost:{port}"
                    client = client or utils.BlockingConnection(
                        url, ssl_domain=domain, allowed_mechs="EXTERNAL", timeout=BOUND_S, reconnect=False
                    )
            assert time.monotonic() < deadline
        client.create_sender("orders").send(proton.Message(body="one"))
        with pytest.raises(utils.LinkDetached, match="user anna has no right to send to queue:bills"):
            client.create_sender("bills")
        with pytest.raises(utils.LinkDetached, match="user anna has no right to receive from queue:orders"):
            client.create_receiver("orders")
        client.close()


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where Qpid JMS is, which maven fetches."""
    for program in ("mvn", "java"):
        if shutil.which(program) is None:
            pytest.skip(f"Qpid JMS needs {program}, which is not installed")
    file = tmp_path_factory.mktemp("jms") / "path"
    command = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={file}"]
    found = subprocess.run(command, cwd=JMS, capture_output=True, text=True, timeout=600, check=False)
    if found.returncode or not file.exists():
        pytest.skip(f"maven cannot fetch Qpid JMS: {found.stdout.strip().splitlines()[:1]}")
    return file.read_text()


def java(class_path: str, url: str, *method: str) -> "subprocess.Popen[str]":
    command = ["java", "-cp", class_path, str(JMS / "Rules.java"), url, *method]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_qpid_jms_keeps_to_the_rules_of_jms(servers: Servers, class_path: str) -> None:
    ports = amqp_ports(servers)
    opened(ports).close()
    url = ",".join(f"amqp://localhost:{port}" for port in ports)
    # Without a bound the client would try a wrong password for ever.
    program = java(class_path, f"failover:({url})?failover.maxReconnectAttempts=5")
    output, errors = program.communicate(timeout=10 * BOUND_S)
    lines = output.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == [], errors
    assert len(lines) >= 22


def test_qpid_jms_goes_on_with_the_new_master(servers: Servers, class_path: str) -> None:
    ports = amqp_ports(servers)
    url = ",".join(f"amqp://localhost:{port}" for port in ports)
    program = java(class_path, f"failover:({url})", "killedMasterLosesNothing")
    assert program.stdout is not None
    assert program.stdout.readline() == "sent some\n"
    servers.kill_master("s0")
    output, errors = program.communicate(timeout=10 * BOUND_S)
    assert output == "ok killedMasterLosesNothing\n", errors
