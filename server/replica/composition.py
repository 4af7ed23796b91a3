"""Making a replica with its administration."""

from pathlib import Path
from typing import Any

from ..config import Config, Server
from ..config import Replica as ReplicaConfig
from ..network.hello import ADMIN
from .administration import Administration
from .inbound import AdminHandler
from .replica import Replica

__all__ = ["make_replica"]


def make_replica(
    config: Config,
    server: Server,
    replica: ReplicaConfig,
    *,
    data: Path,
    expected: int | None,
    incarnation: int,
    reactor: Any,
    join: bool = False,
) -> Replica:
    """Return a replica that has not started, and that administrators can reach. See `Replica`."""
    made = Replica(
        config,
        server,
        replica,
        data=data,
        expected=expected,
        incarnation=incarnation,
        reactor=reactor,
        join=join,
    )
    made.handlers[ADMIN] = AdminHandler(made, Administration(made))
    return made
