"""The requests by which destinations and their manager are made on a server. Pure."""

from collections.abc import Sequence

import msgspec

from ...agents import Agent, Create
from .destination import Destination
from .manager import MANAGER, MessagingManager
from .settings import DestinationSettings, Kind

__all__ = ["create_destination", "create_manager", "name_flaw", "peers_of"]


def name_flaw(kind: Kind, title: str) -> str:
    """Return why a destination cannot have this name, one sentence; "" if it can."""
    if title.isprintable() and "@" not in title and title.strip():
        return ""
    return f"{title!r} cannot be the name of a {kind.value}; give printable text without @."


def peers_of(title: str, server: str, cluster: Sequence[str]) -> tuple[str, ...] | None:
    """Return the other members of a clustered destination, for the one at a server: ``("orders@s2",)``.

    cluster: all servers that have a member, this one among them, each once and at least two; otherwise None.
    """
    if server not in cluster or len(cluster) < 2 or len({*cluster}) < len(cluster):
        return None
    return tuple(f"{title}@{each}" for each in cluster if each != server)


def create_destination(kind: Kind, title: str, settings: DestinationSettings, key: str) -> Create:
    """Return the request to the factory of a server that makes a queue or topic. key: see `Create`."""
    state = msgspec.msgpack.encode({"kind": kind.value, "title": title, "settings": settings})
    return Create(_location(Destination), f"{kind.value}:{title}", state, None, key)


def create_manager() -> Create:
    """Return the request that makes the manager of messaging on a server, unless it has one."""
    return Create(_location(MessagingManager), MANAGER, b"", None, MANAGER, once=True)


def _location(cls: type[Agent]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
