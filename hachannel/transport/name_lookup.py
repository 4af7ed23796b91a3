"""Lookup of host names: every numeric address of a host, of both IP versions.

Twisted's own connections to a host name try one IPv4 address only, so they never reach a host that has none.
"""

from typing import Any

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import DNSLookupError

__all__ = ["resolve"]


class _Receiver:
    """The receiver of one lookup (`IResolutionReceiver`); `found` fires when the lookup is complete."""

    def __init__(self, host: str) -> None:
        self.found: Deferred[list[str]] = Deferred()
        self._host = host
        self._addresses: list[str] = []

    def resolutionBegan(self, resolution: object) -> None:  # noqa: N802
        """Twisted: the lookup begins."""

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        """Twisted: the host has this address."""
        if address.host not in self._addresses:
            self._addresses.append(address.host)

    def resolutionComplete(self) -> None:  # noqa: N802
        """Twisted: there are no more addresses."""
        if self._addresses:
            self.found.callback(sorted(self._addresses, key=isIPv6Address))
        else:
            self.found.errback(_unknown(self._host))


def _unknown(host: str) -> Exception:
    error: Exception = DNSLookupError(f"{host} has no address")
    return error


def resolve(reactor: object, host: str) -> "Deferred[list[str]]":
    """Return the numeric addresses of a host, IPv4 before IPv6. The Deferred fails with DNSLookupError.

    An address is its own result. So is a name with a reactor that cannot resolve, such as that of a test.
    """
    resolver: Any = getattr(reactor, "nameResolver", None)
    if resolver is None or isIPAddress(host) or isIPv6Address(host):
        return succeed([host])
    receiver = _Receiver(host)
    try:
        resolver.resolveHostName(receiver, host)
    except UnicodeError:
        return fail(_unknown(host))
    return receiver.found
