"""The properties of TLS: which belong together, and the files that they name."""

from pathlib import Path

import pytest

from quorate.server.config import ConfigError, load
from quorate.server.config.tls import tls_paths

ALL = {"tls_certificate": "certs/{server}-{replica}.pem", "tls_key": "k.pem", "tls_ca": "ca.pem"}


def written(path: Path, common: dict[str, str], second: dict[str, str] | None = None) -> Path:
    def text(properties: dict[str, str]) -> str:
        return "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())

    (path / "a3servers.xml").write_text(
        f'<config>{text(common)}<domain name="D1"/>'
        '<server id="0" name="s0" hostname="localhost"><network domain="D1" port="16301"/>'
        '<service class="ConnectionManager" args="root root"/><service class="TcpProxyService" args="2560"/>'
        "</server>"
        '<server id="1" name="s1" hostname="localhost"><network domain="D1" port="16302"/>'
        f"{text(second or {})}</server></config>"
    )
    return path / "a3servers.xml"


def test_files_are_beside_the_configuration_and_may_be_those_of_a_replica(tmp_path) -> None:
    config = load(written(tmp_path, {**ALL, "tls_client_ca": "/etc/clients.pem"}))
    paths = tls_paths(config, config.server("s0"), config.replica("s0", 0))
    assert paths is not None
    assert paths.certificate == tmp_path / "certs" / "s0-0.pem"
    assert (paths.authority, paths.client_authority) == (tmp_path / "ca.pem", Path("/etc/clients.pem"))
    assert config.client_urls("s0") == f"quorates://localhost:2560?ca={tmp_path / 'ca.pem'}"


def test_without_the_properties_there_is_no_tls(tmp_path) -> None:
    config = load(written(tmp_path, {}))
    assert tls_paths(config, config.server("s0"), config.replica("s0", 0)) is None
    assert config.client_urls("s0") == "quorate://localhost:2560"


def test_places_of_files_do_not_divide_servers_but_other_properties_do(tmp_path) -> None:
    digest = load(written(tmp_path, ALL)).digest
    assert load(written(tmp_path, {**ALL, "tls_ca": "other.pem", "tls": "preferred"})).digest == digest
    assert load(written(tmp_path, {})).digest == digest


@pytest.mark.parametrize("missing", list(ALL))
def test_a_part_of_the_properties_is_refused(tmp_path, missing) -> None:
    some = {name: value for name, value in ALL.items() if name != missing}
    with pytest.raises(ConfigError, match=f"lacks the property {missing}; give tls_certificate"):
        load(written(tmp_path, some))


def test_servers_that_could_not_connect_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="s0 has no TLS and other servers have"):
        load(written(tmp_path, {}, ALL))


def test_an_unknown_mode_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="tls must be required, preferred or accepted, not 'on'"):
        load(written(tmp_path, {**ALL, "tls": "on"}))
