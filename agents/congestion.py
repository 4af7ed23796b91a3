"""Congestion of the way to another server, as the services of this server are told of it."""

from typing import Final

import msgspec

__all__ = ["CONGESTION_TOPIC", "Congested", "Uncongested"]

CONGESTION_TOPIC: Final = "congestion"
"""Topic of `Congested` and `Uncongested`. A service holds back the input that causes congestion."""


class Congested(msgspec.Struct, array_like=True, frozen=True):
    """A notification that a service has posted led to one for a server for which too many wait.

    It is emitted in the name of the agent to which the service has posted.
    """

    server: int
    """The neighbour on the way to that server."""


class Uncongested(msgspec.Struct, array_like=True, frozen=True):
    """No longer do too many notifications wait for a server."""

    server: int
