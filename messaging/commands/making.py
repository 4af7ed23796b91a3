"""Making destinations from commands."""

import secrets

from ...server.admin.client import ServerAdmin
from ...server.cli.deploy import deploy
from ..agents.making import create_destination, create_manager
from ..agents.settings import DestinationSettings, Kind

__all__ = ["make_destination", "make_manager"]


def make_destination(
    admin: ServerAdmin, kind: Kind, title: str, settings: DestinationSettings, timeout_s: float
) -> str:
    """Make a queue or topic on a server; return the id of its agent as text. Raises CommandError, AdminError.

    timeout_s: the longest wait, for a master and its answer together.
    """
    return deploy(admin, create_destination(kind, title, settings, secrets.token_hex(16)), timeout_s)


def make_manager(admin: ServerAdmin, timeout_s: float) -> None:
    """Make the manager of messaging on a server, unless it has one. Raises CommandError, AdminError."""
    deploy(admin, create_manager(), timeout_s)
