"""What the protocol asks of the service that carries it out. A token of 0: nobody waits for the outcome."""

from collections.abc import Mapping

import attrs

from ..requests import Close, Commit, Rollback

__all__ = [
    "Close",
    "Commit",
    "LogIn",
    "Publish",
    "Request",
    "Rollback",
    "Settle",
    "Subscribe",
    "Sync",
    "Unsubscribe",
]


@attrs.frozen
class LogIn:
    """Check a user and a password, then call `logged_in` or `refused`."""

    user: str
    password: str
    client_id: str = ""
    """To which durable subscriptions belong; empty: to the user."""


@attrs.frozen
class Publish:
    """Send a message. Done when the destination has it."""

    token: int
    destination: str
    headers: Mapping[str, str]
    body: bytes
    transaction: str
    """The name of an open transaction; empty: none."""


@attrs.frozen
class Subscribe:
    """Open a consumer, and call `deliver` for its messages. Done when it is open."""

    token: int
    subscription: str
    destination: str
    headers: Mapping[str, str]


@attrs.frozen
class Unsubscribe:
    """Close a consumer. Done when it is closed."""

    token: int
    subscription: str
    headers: Mapping[str, str]


@attrs.frozen
class Settle:
    """Acknowledge messages, or reject them. Done when the server has that."""

    token: int
    subscription: str
    numbers: tuple[int, ...]
    accepted: bool = True
    requeue: bool = True
    """Messages that are rejected come again; False: they go to the dead messages."""
    transaction: str = ""


@attrs.frozen
class Sync:
    """Done when the server has all that was settled before."""

    token: int


Request = LogIn | Publish | Subscribe | Unsubscribe | Settle | Commit | Rollback | Sync | Close
