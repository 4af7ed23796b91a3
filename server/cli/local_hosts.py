"""Host names of a configuration that mean this machine."""

import ipaddress
import socket

from ...hachannel.transport.addresses import is_own_address


def is_local(host: str) -> bool:
    """Return whether `host`, a name or an address, is this machine.

    localhost, 127.* and the host names of this machine are; any other name is if one of its addresses belongs
    to this machine.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    own = socket.gethostname().lower()
    if name in (own, own.partition(".")[0]):
        return True
    return any(_is_own(address) for address in _addresses(name))


def _addresses(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(item[4][0]) for item in found]


def _is_own(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback:
        return True
    if address.is_unspecified or address.is_multicast:
        return False
    return is_own_address(text)
