"""The number of client connections that the open files of this process allow.

A replica that has no descriptor left can neither be administered nor find its peers again: clients are to be
refused before that.
"""

import contextlib
import resource
import sys
from typing import Final

import attrs

from ...agents.manager import DEFAULT_MAX_CONNECTIONS
from ..config import Config, Replica, Server
from ..network.listener import MAX_ADMINISTRATORS, MAX_CONNECTIONS
from ..network.pending_connections import MAX_KNOWN, MAX_UNKNOWN

__all__ = ["Room", "make_room"]

RESERVE: Final = 64 + MAX_KNOWN + MAX_UNKNOWN + MAX_ADMINISTRATORS
"""Descriptors for files, listeners, the reactor, clients that are being refused, administrators, and
connections whose handshake is not complete."""
RESERVE_PER_REPLICA: Final = 4
"""For another replica of the server: both call, and anew before a former call is given up."""
RESERVE_PER_SERVER: Final = 4
"""For another server, likewise."""
PER_CLIENT: Final = 2
"""A client that reconnects needs a second file until its former connection is found dead."""
LEAST_SHARE: Final = 4
"""At least 1 / `LEAST_SHARE` of the descriptors is for clients, even where the reserve would take all."""


@attrs.frozen
class Room:
    """The division of this process's open files between clients and everything else."""

    limit: int
    """Open files, at most."""
    reserve: int
    """Open files that are not for clients."""
    wanted: int
    """Client connections that the configuration allows."""

    @property
    def connections(self) -> int:
        """Client connections that are accepted at a time."""
        left = max(self.limit - self.reserve, self.limit // LEAST_SHARE)
        return min(self.wanted, max(1, left // PER_CLIENT))

    @property
    def sentence(self) -> str:
        """A sentence for the log if fewer connections are accepted than configured; "" otherwise."""
        if self.connections == self.wanted:
            return ""
        rest = self.limit - PER_CLIENT * self.connections
        return (
            f"takes {self.connections} client connections at most, and not the {self.wanted} of "
            f"max_connections: this process may have {self.limit} open files, {PER_CLIENT} are for each "
            f"client and {rest} for everything else; raise its hard limit (ulimit -n) or lower "
            "max_connections"
        )


def make_room(config: Config, server: Server, replica: Replica) -> Room:
    """Raise the limit of open files of this process to what `replica` may need, as far as that is allowed."""
    wanted = 0
    if replica.client_port is not None:
        configured = config.setting("max_connections", None, server=server.id, replica=replica.id)
        wanted = DEFAULT_MAX_CONNECTIONS if configured is None else int(configured)
    reserve = (
        RESERVE
        + RESERVE_PER_REPLICA * (len(server.replicas) - 1)
        + RESERVE_PER_SERVER * (len(config.servers) - 1)
    )
    # Each network listener accepts this many connections by itself.
    listeners = MAX_CONNECTIONS * len(replica.networks)
    return Room(_raised(PER_CLIENT * wanted + reserve + listeners), reserve, wanted)


def _raised(files: int) -> int:
    """Raise the limit to `files` open files, or as far as allowed; return the limit that holds then."""
    soft, hard = (sys.maxsize if each == resource.RLIM_INFINITY else each for each in _limits())
    if soft < files:
        most = min(files, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, _limits()[1]))
            return most
    return soft


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
