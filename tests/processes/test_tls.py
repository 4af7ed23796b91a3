"""Servers and clients that speak TLS, with real processes."""

import asyncio
import contextlib
import http.client
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate import Servers, aconnect, connect
from quorate.__main__ import cli
from quorate.client import AuthenticationError, BadUrl, ProtocolError, Unavailable
from quorate.mesh import connect as connect_mesh
from quorate.messaging import Session
from quorate.server.config import load
from quorate.server.config.servers import HTTP_SERVICE

from .running import BOUND_S

pytestmark = pytest.mark.processes


def services(port: int, name: str = "TcpProxyService") -> str:
    """Users, and the service for clients on a port."""
    return f'<service class="ConnectionManager" args="root root"/><service class="{name}" args="{port}"/>'


XML = f"""<config>
  <property name="trace" value="false"/><property name="secret" value="hidden"/>
  <property name="administrators" value="root"/>
  <property name="tls_certificate" value="certs/{{server}}-{{replica}}.pem"/>
  <property name="tls_key" value="certs/{{server}}-{{replica}}.key"/>
  <property name="tls_ca" value="certs/ca.pem"/><property name="tls_client_ca" value="certs/ca.pem"/>
  <domain name="D1"/>
  <cluster id="0" name="s0">
    <server id="0" hostname="localhost"><network domain="D1" port="16301"/>{services(2560)}</server>
    <server id="1" hostname="localhost"><network domain="D1" port="16302"/>{services(2561)}</server>
    <server id="2" hostname="localhost"><network domain="D1" port="16303"/>{services(2562)}</server>
    <queue name="orders"/>
  </cluster>
  <server id="1" name="s1" hostname="localhost"><network domain="D1" port="16304"/>{services(2563)}</server>
  <cluster id="2" name="m0" mode="mesh">
    <server id="0" hostname="localhost"><network domain="D1" port="16305"/>
      {services(2564, "MeshService")}</server>
    <server id="1" hostname="localhost"><network domain="D1" port="16306"/>
      {services(2565, "MeshService")}</server>
  </cluster>
</config>"""
USER = {"user": "root", "password": "root"}


def command(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML)
    command("certs", path)
    return path


def test_everything_goes_on_over_a_failover_and_new_certificates(config: Path, tmp_path: Path) -> None:
    async def asyncio_client(url: str) -> None:
        async with aconnect(url, **USER, timeout=BOUND_S) as connection:
            await connection.flush(timeout=BOUND_S)

    with Servers(config, free_ports=True, data=tmp_path / "data") as servers:
        url = servers.url("s0")
        assert url.startswith("quorates://")
        with connect(url, **USER) as connection, Session(connection, timeout=BOUND_S) as session:
            producer, consumer = session.producer("orders"), session.consumer("orders")
            for number in range(20):
                producer.send(f"order {number}")
                if number == 10:
                    command("certs", config, "--renew")
                    servers.kill_master("s0")
            assert [consumer.receive(timeout=BOUND_S).body for _ in range(20)] == [
                f"order {n}" for n in range(20)
            ]
        asyncio.run(asyncio_client(url))
        with connect_mesh(servers.url("m0"), **USER, timeout=BOUND_S) as mesh:
            mesh.create("prices")
            with mesh.subscribe("prices", name="audit") as reader:
                mesh.publish("prices", b"42", timeout=BOUND_S)
                assert reader.receive(BOUND_S).body == b"42"
        shown = command("status", servers.config.path)
        assert [word for word in ("master", "slave", "daemon") if word not in shown] == []


def test_clients_without_tls_or_without_the_authority_learn_why(config: Path, tmp_path: Path) -> None:
    with Servers(config, free_ports=True, data=tmp_path / "data", only=["s1"]) as servers:
        url = servers.url("s1")
        address = url.removeprefix("quorates://").partition("?")[0]
        with pytest.raises(ProtocolError, match="this server speaks TLS; write the URL as quorates://"):
            connect(f"quorate://{address}", **USER, timeout=BOUND_S)
        with pytest.raises(Unavailable, match="authority that is not among those believed here"):
            connect(f"quorates://{address}", **USER, timeout=1)
        with pytest.raises(BadUrl, match="cannot be read"):
            connect(f"quorates://{address}?ca=nowhere.pem", **USER, timeout=1)


def test_a_certificate_is_as_good_as_a_password_for_its_user_only(config: Path, tmp_path: Path) -> None:
    command("certs", config, "--client", "anna")
    files = "&certificate={0}/client-anna.pem&key={0}/client-anna.key".format(tmp_path / "certs")
    with Servers(config, free_ports=True, data=tmp_path / "data", only=["s1", "m0"]) as servers:
        connect(servers.url("s1") + files, timeout=BOUND_S).close()
        connect_mesh(servers.url("m0") + files, timeout=BOUND_S).close()
        connect(servers.url("s1") + files, **USER, timeout=BOUND_S).close()
        with pytest.raises(AuthenticationError):
            connect(servers.url("s1") + files, user="root", password="", timeout=BOUND_S)
        with pytest.raises(AuthenticationError):
            connect_mesh(servers.url("m0"), user="anna", timeout=BOUND_S)


def test_the_http_port_takes_a_certificate_for_a_password(config: Path, tmp_path: Path) -> None:
    for user in ("root", "anna"):
        command("certs", config, "--client", user)
    port = 9464
    declared = f'port="16304"/><service class="HttpService" args="{port}"/>'
    config.write_text(config.read_text().replace('port="16304"/>', declared))

    def log_in(certificate: str, **body: str) -> tuple[int, dict[str, str]]:
        context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
        if certificate:
            files = [tmp_path / "certs" / f"client-{certificate}.{end}" for end in ("pem", "key")]
            context.load_cert_chain(*files)
        client = http.client.HTTPSConnection("localhost", port, timeout=BOUND_S, context=context)
        with contextlib.closing(client):
            client.request("POST", "/api/v1/session", json.dumps(body), {"Content-Type": "application/json"})
            answer = client.getresponse()
            return answer.status, json.loads(answer.read())

    with Servers(config, free_ports=True, data=tmp_path / "data", only=["s1"]) as servers:
        service = load(servers.config.path).server("s1").replicas[0].service(HTTP_SERVICE)
        assert service is not None
        port = int(service.args)
        code, session = log_in("root", user="root")
        assert (code, session["user"]) == (200, "root")
        assert log_in("root", **USER)[0] == 200
        assert log_in("", **USER)[0] == 200
        assert log_in("", user="root")[0] == 401
        assert log_in("anna", user="root")[0] == 401, "it is for its user only"
        code, refused = log_in("anna", user="anna")
        assert (code, refused["detail"].partition(";")[0]) == (403, "anna is no administrator")


def test_a_cluster_changes_to_tls_without_a_stop(config: Path, tmp_path: Path) -> None:
    lines = [line for line in XML.splitlines() if '"tls_' not in line]
    config.write_text("\n".join(lines))
    with Servers(config, free_ports=True, data=tmp_path / "data", only=["s0"]) as servers:
        used = servers.config.path
        plain = used.read_text()
        properties = "".join(
            f'<property name="{name}" value="{tmp_path}/certs/{file}"/>'
            for name, file in (
                ("tls_certificate", "{server}-{replica}.pem"),
                ("tls_key", "{server}-{replica}.key"),
                ("tls_ca", "ca.pem"),
            )
        )
        url = servers.url("s0")
        with (
            connect(url, **USER) as connection,
            Session(connection, timeout=BOUND_S) as session,
        ):
            producer, consumer = session.producer("orders"), session.consumer("orders")
            for mode in ("accepted", "preferred"):
                with_tls = properties + f'<property name="tls" value="{mode}"/>'
                used.write_text(plain.replace("<config>", f"<config>{with_tls}"))
                for replica in (0, 1, 2):
                    servers.kill("s0", replica)
                    servers.start_replica("s0", replica)
                    producer.send(f"{mode} {replica}")
            received = [consumer.receive(timeout=BOUND_S).body for _ in range(6)]
        assert received == [
            f"{mode} {replica}" for mode in ("accepted", "preferred") for replica in (0, 1, 2)
        ]
        used.write_text(plain.replace("<config>", f"<config>{properties}"))
        for replica in (0, 1, 2):
            servers.kill("s0", replica)
            servers.start_replica("s0", replica)
        secure = url.replace("quorate://", "quorates://") + f"?ca={tmp_path}/certs/ca.pem"
        with connect(secure, **USER, timeout=BOUND_S) as connection:
            connection.flush(timeout=BOUND_S)


def test_the_command_refuses_files_that_are_missing(config: Path, tmp_path: Path) -> None:
    (tmp_path / "certs" / "s1-0.key").unlink()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "quorate",
            "start",
            str(config),
            "--server",
            "s1",
            "--data",
            str(tmp_path / "d"),
        ],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 1
    key = tmp_path / "certs" / "s1-0.key"
    assert done.stderr == f"quorate: TLS cannot start: {key} cannot be read: No such file or directory.\n"
