"""Users whose passwords are hashed in a file, with real servers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate import Servers, connect
from quorate.__main__ import cli
from quorate.client import AuthenticationError
from quorate.mesh import connect as connect_mesh

from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="secret" file="secret"/>
  <property name="users_file" value="users"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16301"/>
    <service class="ConnectionManager"/><service class="TcpProxyService" args="2560"/></server>
  <cluster id="1" name="m1" mode="mesh">
    <server id="0" hostname="localhost"><network domain="D1" port="16302"/>
      <service class="ConnectionManager"/><service class="MeshService" args="2561"/></server>
    <server id="1" hostname="localhost"><network domain="D1" port="16303"/>
      <service class="ConnectionManager"/><service class="MeshService" args="2562"/></server>
  </cluster>
</config>"""


def passwd(file: Path, user: str, password: str) -> None:
    result = CliRunner().invoke(cli, ["passwd", str(file), user], input=password + "\n")
    assert result.exit_code == 0, result.output


def test_users_of_a_file_log_in_and_a_new_password_counts_at_once(tmp_path: Path) -> None:
    config, users = tmp_path / "a3servers.xml", tmp_path / "users"
    config.write_text(XML)
    (tmp_path / "secret").write_text("hidden\n")
    passwd(users, "alice", "wonder")
    with Servers(config, free_ports=True, data=tmp_path / "data") as servers:
        connect(servers.url("s0"), user="alice", password="wonder", timeout=BOUND_S).close()
        connect_mesh(servers.url("m1"), user="alice", password="wonder", timeout=BOUND_S).close()
        passwd(users, "alice", "land")
        connect(servers.url("s0"), user="alice", password="land", timeout=BOUND_S).close()
        with pytest.raises(AuthenticationError):
            connect(servers.url("s0"), user="alice", password="wonder", timeout=BOUND_S)
        with pytest.raises(AuthenticationError):
            connect_mesh(servers.url("m1"), user="alice", password="wonder", timeout=BOUND_S)
