"""Listening for other machines needs a secret, or a property that permits to go without."""

from collections.abc import Callable

import pytest

from quorate.server.config import Config

Good = Callable[[str], Config]
Bad = Callable[[str], list[str]]

SECRET = '<property name="secret" value="x"/>'


def servers(*hosts: str, common: str = "", own: str = "") -> str:
    """Plain servers s0, s1, ... on lines 2, 3, ...; `own` is inside each of them."""
    lines = [
        f'<server id="{id}" hostname="{host}">{own}<network domain="A" port="{10 + id}"/></server>'
        for id, host in enumerate(hosts)
    ]
    return "\n".join([f'<config>{common}<domain name="A"/>', *lines, "</config>"])


def test_a_server_for_other_machines_is_refused_without_a_secret(bad: Bad) -> None:
    (problem,) = bad(servers("localhost", "one"))
    assert problem.startswith("3: s1 can be reached from other machines, and there is no property secret")
    assert '<property name="secret" value="..."/>' in problem
    assert '<property name="insecure_network" value="true"/>' in problem


def test_many_exposed_servers_are_one_problem(bad: Bad) -> None:
    (problem,) = bad(servers(*(f"h{number}" for number in range(8))))
    assert problem.startswith("2: s0, s1, s2, s3, s4 and 3 more can be reached")


@pytest.mark.parametrize(
    "properties",
    [SECRET, *(f'<property name="insecure_network" value="{value}"/>' for value in ("true", "YES", "1"))],
)
def test_a_secret_or_the_property_permits_other_machines(good: Good, properties: str) -> None:
    assert good(servers("one", "10.0.0.2", common=properties)).server("s1").domains == ("A",)
    assert good(servers("one", own=properties)).server("s0").domains == ("A",)


def test_the_property_set_to_false_permits_nothing(bad: Bad) -> None:
    assert bad(servers("one", common='<property name="insecure_network" value="false"/>'))


def test_a_secret_of_another_server_does_not_count(bad: Bad) -> None:
    text = servers("one", "two").replace('hostname="one">', f'hostname="one">{SECRET}')
    (problem,) = bad(text)
    assert problem.startswith("3: s1 can be reached")


def test_a_server_without_a_network_needs_no_secret(good: Good) -> None:
    assert good('<config><server id="0" hostname="one"/></config>').server("s0").name == "s0"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"])
def test_hosts_of_the_loopback_need_no_secret(good: Good, host: str) -> None:
    assert good(servers(host)).server("s0").domains == ("A",)
