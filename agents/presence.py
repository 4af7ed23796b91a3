"""Notifications about where a client is connected, and whether it is suspected to have failed.

The proxy agent of a client is the authority on both. The replica that carries the TCP connection of a client
is its *home*; every handshake of the client has a higher number, its *attempt*, so that what an earlier home
says about an earlier attempt changes nothing. Used in servers with ``mode="group"``.
"""

import attrs
import msgspec

from .notification import Notification

__all__ = [
    "ClientMoved",
    "ClientSuspected",
    "ConnectionPresence",
    "DescribeHomes",
    "DrainHome",
    "ExpireCheck",
    "HomeBegun",
    "HomeDrained",
    "HomeLimits",
    "Homes",
    "HomesChanged",
    "Moved",
    "Suspect",
    "Trust",
    "Unwatch",
]


@attrs.frozen
class Suspect(Notification, name="quorate.connection.suspect"):
    """Notice to a proxy, of its home or of an agent that watches it: nothing is heard from the client."""

    attempt: int
    """The attempt that failed. The notice counts only if there was no later one."""
    expire_s: float
    """The connection expires if the client does not come back within this time and agents watch its presence;
    0: it does not expire."""


@attrs.frozen
class Trust(Notification, name="quorate.connection.trust"):
    """Notice of the home to a proxy: the client is heard again, on the same TCP connection."""

    attempt: int


@attrs.frozen
class ExpireCheck(Notification, name="quorate.connection.expire-check"):
    """Timer of a proxy, sent to itself when its client has been suspected for long enough."""

    suspicion: int


@attrs.frozen
class ConnectionPresence(Notification, name="quorate.connection.presence"):
    """Notice of a proxy to the agents that watch its presence: at once, and when something of it changes."""

    user: str
    home: int | None
    """The replica that has the TCP connection, or had the last one; None for a client in its process."""
    attempt: int
    suspected: bool


@attrs.frozen
class Unwatch(Notification, name="quorate.connection.unwatch"):
    """Order of an agent to a proxy: tell it no more about the presence of the client."""


@attrs.frozen
class Moved(Notification, name="quorate.connection.moved"):
    """Notice of a proxy to the connection manager: its client is connected to another replica."""

    home: int


@attrs.frozen
class HomeLimits:
    """How long the clients of a replica that has gone are waited for: properties of the same names."""

    rehome_s: float = 2.0
    """A client of a replica that has gone is suspected unless it connects again in this time."""
    expire_s: float = 30.0
    """The connection of a client that was suspected for so long ends."""
    hold_s: float = 3600.0
    """With ``context="local"``: a replica may be away for so long, and its clients stay members of groups."""
    hold_bytes: int = 256 * 1024 * 1024
    """With ``context="local"``: a group holds so many bytes for it."""


@attrs.frozen
class HomesChanged(Notification, name="quorate.connection.homes-changed"):
    """Notice of the master: the replicas that clients may be connected to, with the number of their view."""

    view: list[int]
    """Views are compared by these numbers, the first one first."""
    homes: list[int]
    limits: HomeLimits


@attrs.frozen
class HomeBegun(Notification, name="quorate.connection.home-begun"):
    """Notice of a replica: it serves clients from now on, and has none of those that it had before."""

    home: int
    limits: HomeLimits


class ClientSuspected(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a proxy: its client is suspected. If its home hears the client, it has to say so."""

    attempt: int


@attrs.frozen
class DescribeHomes(Notification, name="quorate.connection.describe-homes"):
    """Question to the connection manager. Answered with `Homes`."""


@attrs.frozen
class DrainHome(Notification, name="quorate.connection.drain-home"):
    """Order of an administrator to the connection manager: clients leave a replica, or may use it again.

    Answered with `Homes`.
    """

    home: int
    drained: bool


@attrs.frozen
class Homes(Notification, name="quorate.connection.homes"):
    """Answer to `DescribeHomes` and `DrainHome`."""

    view: list[int]
    """The number of the last view."""
    homes: list[int]
    """The replicas of that view."""
    loads: dict[int, int]
    """Connections by replica, also of one that has gone."""
    drained: list[int]
    problem: str = ""
    """Why an order was refused; "" if it was not."""


class HomeDrained(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by the connection manager: the clients of a replica are to leave it, or may use it again."""

    home: int
    drained: bool


class ClientMoved(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a proxy: its client has connected, so TCP connections of earlier attempts end."""

    home: int
    attempt: int
