"""Addresses: host and port of a TCP connection, as text and as one of this machine."""

import errno
import socket
from typing import TypeAlias

__all__ = ["Address", "host_port", "is_own_address"]

Address: TypeAlias = tuple[str, int]
"""(host, port)."""


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
