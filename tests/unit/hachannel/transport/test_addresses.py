"""Addresses as text, whether they belong to this machine, and the interfaces to listen on."""

import socket

import pytest

from quorate.hachannel.transport.addresses import (
    host_port,
    is_loopback_host,
    is_own_address,
    listening_interface,
    unmapped,
)

needs_ipv6 = pytest.mark.skipif(not is_own_address("::1"), reason="this machine has no IPv6")


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


@pytest.mark.parametrize(
    ("host", "interface"),
    [
        ("localhost", "127.0.0.1"),
        ("LocalHost.", "127.0.0.1"),
        ("s0.localhost", "127.0.0.1"),
        ("localhost.localdomain", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.3", "127.0.0.3"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("ip6-localhost", "::1"),
        ("localhost6", "::1"),
    ],
)
def test_a_loopback_host_is_listened_on_at_its_own_address_only(host: str, interface: str) -> None:
    assert is_loopback_host(host)
    assert listening_interface(host) == interface


@pytest.mark.parametrize(
    ("host", "interface"),
    [
        ("10.0.0.1", ""),
        ("2001:db8::1", "::"),
        ("fe80::1%eth0", "::"),
        pytest.param("localhost.example", "::", marks=needs_ipv6),
    ],
)
def test_any_other_host_is_listened_on_at_all_addresses(host: str, interface: str) -> None:
    assert not is_loopback_host(host)
    assert listening_interface(host) == interface


@needs_ipv6
def test_a_listener_for_a_host_name_accepts_both_ip_versions() -> None:
    interface = listening_interface("db.example")
    with socket.socket(socket.AF_INET6) as listening:
        listening.bind((interface, 0))
        listening.listen()
        port = listening.getsockname()[1]
        for address, expected in (("127.0.0.1", "127.0.0.1"), ("::1", "::1")):
            with socket.create_connection((address, port), 5):
                accepted, peer = listening.accept()
                accepted.close()
                assert unmapped(peer[0]) == expected


@pytest.mark.parametrize(
    ("host", "shown"), [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("::1", "::1")]
)
def test_a_peer_with_a_mapped_address_is_shown_with_its_ipv4_address(host: str, shown: str) -> None:
    assert unmapped(host) == shown
