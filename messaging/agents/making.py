"""The requests by which destinations and their manager are made on a server. Pure."""

import msgspec

from ...agents import Agent, Create
from .destination import Destination
from .manager import MANAGER, MessagingManager
from .settings import DestinationSettings, Kind

__all__ = ["create_destination", "create_manager", "name_flaw"]


def name_flaw(kind: Kind, title: str) -> str:
    """Return why a destination cannot have this name, one sentence; "" if it can."""
    if title.isprintable() and "@" not in title and title.strip():
        return ""
    return f"{title!r} cannot be the name of a {kind.value}; give printable text without @."


def create_destination(kind: Kind, title: str, settings: DestinationSettings, key: str) -> Create:
    """Return the request to the factory of a server that makes a queue or topic. key: see `Create`."""
    state = msgspec.msgpack.encode({"kind": kind.value, "title": title, "settings": settings})
    return Create(_location(Destination), f"{kind.value}:{title}", state, None, key)


def create_manager() -> Create:
    """Return the request that makes the manager of messaging on a server, unless it has one."""
    return Create(_location(MessagingManager), MANAGER, b"", None, MANAGER, once=True)


def _location(cls: type[Agent]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
