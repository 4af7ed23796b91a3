"""Copies of configurations with every replica on this host."""

from pathlib import Path

import pytest

from quorate import Servers, ServersError
from quorate.server.config import ConfigError, load
from quorate.server.processes.local_copy import write_local_copy

XML = """<config>
  <property name="trace" value="false"/><property name="secret" value="hidden"/>
  <domain name="D1"/>
  <server id="0" name="s0" hostname="far.example">
    <network domain="D1" port="16301"/>
    <nat sname="s1" hostname="gate.example" port="9999"/>
    <service class="quorate.services.manager:ConnectionManager" args="root root"/>
    <service class="quorate.services.tcp:TcpProxyService" args="2560 30"/>
  </server>
  <server id="1" name="s1" hostname="other.example"><network domain="D1" port="16302"/></server>
</config>"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML)
    return path


def test_a_copy_has_other_hosts_and_ports_and_all_else(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.xml"
    write_local_copy(source, target)
    config = load(target)
    ports = [network.port for server in config.servers for network in server.replicas[0].networks]
    (replica,) = config.server("s0").replicas
    assert {server.replicas[0].host for server in config.servers} == {"localhost"}
    assert len({*ports, replica.client_port}) == 3
    assert not {*ports, replica.client_port} & {16301, 16302, 2560}
    assert [service.args.split()[1:] for service in replica.services] == [["root"], ["30"]]
    assert not replica.nats
    assert config.setting("trace") == "false"


def test_urls_in_arguments_of_services_lead_to_the_copy(source: Path, tmp_path: Path) -> None:
    bridge = '<service class="quorate.bridge.service:MeshBridge" args="quorate://far.example:2560,away:1 w"/>'
    text = XML.replace("</server>\n</config>", f"{bridge}</server>\n</config>")
    source.write_text(text)
    target = tmp_path / "copy.xml"
    write_local_copy(source, target)
    config = load(target, check_imports=False)
    port = config.server("s0").replicas[0].client_port
    (service,) = config.server("s1").replicas[0].services
    assert service.args == f"quorate://localhost:{port},away:1 w"


def test_a_configuration_that_is_not_valid_is_not_copied(source: Path, tmp_path: Path) -> None:
    source.write_text(XML.replace('port="16301"', 'port="many"'))
    with pytest.raises(ConfigError):
        write_local_copy(source, tmp_path / "copy.xml")
    assert not (tmp_path / "copy.xml").exists()


def test_servers_refuse_a_name_that_the_configuration_lacks(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ServersError, match="no server s7; there are: s0, s1"):
        Servers(source, data=tmp_path / "data", only=["s7"])
    servers = Servers(source, data=tmp_path / "data", free_ports=True)
    with pytest.raises(ServersError, match="no server s9"):
        servers.url("s9")
    servers.stop()
