"""Addresses as text, and whether they belong to this machine."""

import pytest

from quorate.hachannel.transport.addresses import host_port, is_own_address


@pytest.mark.parametrize(
    ("host", "text"), [("10.0.0.1", "10.0.0.1:7"), ("db.example", "db.example:7"), ("::1", "[::1]:7")]
)
def test_an_address_is_host_and_port_with_ipv6_in_brackets(host: str, text: str) -> None:
    assert host_port(host, 7) == text


@pytest.mark.parametrize(
    ("address", "own"), [("127.0.0.1", True), ("192.0.2.1", False), ("2001:db8::1", False)]
)
def test_only_addresses_of_this_machine_are_its_own(address: str, own: bool) -> None:
    assert is_own_address(address) is own
