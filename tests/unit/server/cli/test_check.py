"""The summary that ``quorate check`` prints."""

from pathlib import Path

from click.testing import CliRunner

from quorate.__main__ import cli

XML = """<config><domain name="D1"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16301"/>
    <service class="ConnectionManager" args="root hidden"/>
    <service class="TcpProxyService" args="2560 30"/><service class="StompService" args="61613"/>
  </server></config>"""


def test_services_are_shown_with_their_ports_and_without_other_arguments(tmp_path: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text(XML)
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["check", str(config)])
    assert result.exit_code == 0, result.output
    assert "ConnectionManager, TcpProxyService 2560, StompService 61613" in result.output
    assert "hidden" not in result.output
