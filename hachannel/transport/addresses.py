"""Addresses: host and port of a TCP connection, as text, as one of this machine, and as one to listen on."""

import errno
import ipaddress
import socket
from functools import cache
from typing import Final, TypeAlias

__all__ = ["Address", "host_port", "is_loopback_host", "is_own_address", "listening_interface", "unmapped"]

Address: TypeAlias = tuple[str, int]
"""(host, port)."""

_LOOPBACK: Final = "127.0.0.1"
_LOOPBACK_NAMES: Final = {
    **dict.fromkeys(("localhost", "localhost.localdomain", "localhost4"), _LOOPBACK),
    **dict.fromkeys(("localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"), "::1"),
}
"""The names that systems give to their loopback addresses, and the address."""
_MAPPED: Final = "::ffff:"


def host_port(host: str, port: object) -> str:
    """Return an address as text: host:port, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_own_address(address: str) -> bool:
    """Return whether a numeric IP address belongs to this machine; True if the system cannot tell."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # The system allows binding only to its own addresses.
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EINVAL, errno.EAFNOSUPPORT)
    return True


def unmapped(host: str) -> str:
    """Return the address of a peer, which is IPv4 if it came as an IPv6 address that stands for IPv4.

    A socket that accepts both IP versions shows 10.0.0.1 as ::ffff:10.0.0.1.
    """
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine reaches the host: a loopback address, or a name of one."""
    return _loopback_address(host) is not None


def listening_interface(host: str) -> str:
    """Return the interface to listen on, so that others reach this machine at `host`, its name or address.

    A loopback address or name gives that address. Any other host gives all addresses: of IPv4 ("") for an
    IPv4 address, of both IP versions ("::") else, as far as the system has them. No name is looked up: what
    a name means here may differ from what it means to others, and a lookup may take long.
    """
    loopback = _loopback_address(host)
    if loopback is not None:
        return loopback
    try:
        version = ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return "::" if _has_dual_stack() else ""
    return "::" if version == 6 else ""


def _loopback_address(host: str) -> str | None:
    name = host.lower().rstrip(".")
    if name.endswith(".localhost"):
        return _LOOPBACK
    try:
        return name if ipaddress.ip_address(name).is_loopback else None
    except ValueError:
        return _LOOPBACK_NAMES.get(name)


@cache
def _has_dual_stack() -> bool:
    """Return whether a socket of IPv6 accepts IPv4 here too, unless told otherwise."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            if probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
                return False
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
