"""Places of the connections on a port whose handshake is not complete. Pure.

There are few places, and a new connection always gets one: the oldest connection of its kind loses its place.
A handshake takes one or two round trips, so one that is served in time loses nothing, however many silent
connections a stranger opens.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = [
    "MAX_KNOWN",
    "MAX_KNOWN_PER_ADDRESS",
    "MAX_UNKNOWN",
    "MAX_UNKNOWN_PER_ADDRESS",
    "PendingConnections",
]

MAX_KNOWN: Final = 64
MAX_KNOWN_PER_ADDRESS: Final = 32
"""Places that are kept for the hosts of the configuration, and those of one address of them. Many replicas of
one machine may connect at the same moment."""
MAX_UNKNOWN: Final = 32
MAX_UNKNOWN_PER_ADDRESS: Final = 8
"""Places for all other addresses, and those of one of them."""

T = TypeVar("T", bound=Hashable)


class _Places(Generic[T]):
    """The places of one kind, known or unknown: connections in the order of arrival, with their addresses."""

    def __init__(self, places: int, per_address: int) -> None:
        self._limits = places, per_address
        self.all: OrderedDict[T, str] = OrderedDict()
        self._by_address: dict[str, OrderedDict[T, None]] = {}

    def add(self, connection: T, address: str) -> T | None:
        """Add a connection; return the one that loses its place, which is removed."""
        own = self._by_address.setdefault(address, OrderedDict())
        places, per_address = self._limits
        oldest: T | None = None
        if len(own) >= per_address:
            oldest = next(iter(own))
        elif len(self.all) >= places:
            oldest = next(iter(self.all))
        self.all[connection] = address
        own[connection] = None
        if oldest is not None:
            self.remove(oldest)
        return oldest

    def remove(self, connection: T) -> None:
        address = self.all.pop(connection, None)
        if address is not None:
            own = self._by_address[address]
            del own[connection]
            if not own:
                del self._by_address[address]


class PendingConnections(Generic[T]):
    """The connections of a port from their arrival until their handshake is complete or they are closed."""

    def __init__(self) -> None:
        self._known: _Places[T] = _Places(MAX_KNOWN, MAX_KNOWN_PER_ADDRESS)
        self._unknown: _Places[T] = _Places(MAX_UNKNOWN, MAX_UNKNOWN_PER_ADDRESS)

    def __len__(self) -> int:
        return len(self._known.all) + len(self._unknown.all)

    def add(self, connection: T, address: str, *, known: bool) -> T | None:
        """Give a place to a connection from `address`. Return the one to close for it, or None.

        known: the address is one of the configuration.
        """
        return (self._known if known else self._unknown).add(connection, address)

    def remove(self, connection: T) -> None:
        """Free the place of a connection, if it has one."""
        self._known.remove(connection)
        self._unknown.remove(connection)
