"""``quorate certs``: the certificates of the replicas of a configuration."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.__main__ import cli
from quorate.tls import TlsFiles
from quorate.tls.authority import Authority
from quorate.tls.files import read_certificates
from quorate.tls.names import covers, user_of

XML = """<config><domain name="D1"/><property name="secret" value="hidden"/>
  <cluster id="0" name="s0">
    <server id="0" hostname="oslo.example"><network domain="D1" port="16301"/></server>
    <server id="1" hostname="10.0.0.7"><network domain="D1" port="16301"/></server>
  </cluster>
  <server id="1" name="s1" hostname="localhost"><network domain="D1" port="16302"/>
    <nat sname="s0" replica="1" hostname="outside.example" port="99"/></server>
</config>"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML)
    return path


def certs(config: Path, *options: str) -> str:
    result = CliRunner().invoke(cli, ["certs", str(config), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_each_replica_gets_a_certificate_for_its_hosts(config) -> None:
    output = certs(config)
    place = config.parent / "certs"
    assert output.splitlines()[0] == f"{place}: ca, s0-0, s0-1, s1-0."
    assert '<property name="tls_certificate" value="certs/{server}-{replica}.pem"/>' in output
    hosts = {"s0-0": "oslo.example", "s0-1": "10.0.0.7", "s1-0": "127.0.0.1"}
    for name, host in hosts.items():
        TlsFiles(place / f"{name}.pem", place / f"{name}.key", place / "ca.pem").check()
        (certificate,) = read_certificates(place / f"{name}.pem")
        assert covers(certificate, [host])
        assert not covers(certificate, set(hosts.values()) - {host})
        assert (place / f"{name}.key").stat().st_mode & 0o777 == 0o600
    assert covers(read_certificates(place / "s0-1.pem")[0], ["outside.example"])


def test_a_second_call_makes_what_needs_it_only(config) -> None:
    certs(config)
    place = config.parent / "certs"
    assert certs(config).splitlines()[0] == f"{place}: nothing to make."
    config.write_text(XML.replace("oslo.example", "bergen.example"))
    authority = Authority.load(place / "ca.pem", place / "ca.key")
    authority.server(place / "s1-0.pem", place / "s1-0.key", "s1", ["localhost", "127.0.0.1", "::1"], days=29)
    assert certs(config).splitlines()[0] == f"{place}: s0-0, s1-0."
    assert certs(config, "--renew").splitlines()[0] == f"{place}: s0-0, s0-1, s1-0."


def test_a_client_gets_a_certificate_with_its_name(config, tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere"
    output = certs(config, "--directory", str(elsewhere), "--client", "anna", "--days", "7")
    assert "client-anna" in output
    (certificate,) = read_certificates(elsewhere / "client-anna.pem")
    assert user_of(certificate) == "anna"
    assert not covers(certificate, ["anna", "localhost"])
    assert certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=8)


def test_a_configuration_that_has_tls_is_not_told_how(config) -> None:
    properties = "".join(
        f'<property name="{name}" value="certs/{file}"/>'
        for name, file in (("tls_certificate", "a.pem"), ("tls_key", "a.key"), ("tls_ca", "ca.pem"))
    )
    config.write_text(XML.replace("<config>", f"<config>{properties}"))
    assert "property" not in certs(config)


@pytest.mark.parametrize("user", ["", "an na", "../anna", "x" * 65])
def test_a_name_that_is_no_user_is_refused(config, user) -> None:
    result = CliRunner().invoke(cli, ["certs", str(config), "--client", user])
    assert result.exit_code == 2
    assert "is not the name of a user" in result.output


def test_an_authority_without_its_key_is_an_error_of_one_sentence(config) -> None:
    certs(config)
    (config.parent / "certs" / "ca.key").unlink()
    result = CliRunner().invoke(cli, ["certs", str(config), "--renew"])
    assert result.exit_code == 1
    assert (
        result.output
        == f"Error: {config.parent / 'certs' / 'ca.key'} cannot be used: No such file or directory.\n"
    )
