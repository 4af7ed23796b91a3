"""Making destinations from commands."""

import secrets

import msgspec

from ...agents import Agent, Create
from ...server.admin.client import ServerAdmin
from ...server.cli.deploy import deploy
from ..agents.destination import Destination
from ..agents.manager import MANAGER, MessagingManager
from ..agents.settings import DestinationSettings, Kind

__all__ = ["make_destination", "make_manager", "name_flaw"]


def name_flaw(kind: Kind, title: str) -> str:
    """Return why a destination cannot have this name, one sentence; "" if it can."""
    if title.isprintable() and "@" not in title and title.strip():
        return ""
    return f"{title!r} cannot be the name of a {kind.value}; give printable text without @."


def make_destination(
    admin: ServerAdmin, kind: Kind, title: str, settings: DestinationSettings, timeout_s: float
) -> str:
    """Make a queue or topic on a server; return the id of its agent as text. Raises CommandError, AdminError.

    timeout_s: the longest wait, for a master and its answer together.
    """
    state = msgspec.msgpack.encode({"kind": kind.value, "title": title, "settings": settings})
    create = Create(_location(Destination), f"{kind.value}:{title}", state, None, secrets.token_hex(16))
    return deploy(admin, create, timeout_s)


def make_manager(admin: ServerAdmin, timeout_s: float) -> None:
    """Make the manager of messaging on a server, unless it has one. Raises CommandError, AdminError."""
    create = Create(_location(MessagingManager), MANAGER, b"", None, MANAGER, once=True)
    deploy(admin, create, timeout_s)


def _location(cls: type[Agent]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
