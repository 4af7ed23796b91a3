"""The states of a session, one class each."""

import attrs

from .errors import QuorateClientError
from .url import Endpoint

__all__ = ["Closing", "Connecting", "Greeting", "New", "Open", "Over", "State", "Waiting"]


@attrs.frozen
class New:
    """Not started."""


@attrs.frozen
class Waiting:
    """Between two rounds through the replicas."""

    until: float


@attrs.frozen
class Connecting:
    """A TCP connection is being opened."""

    endpoint: Endpoint
    deadline: float


@attrs.frozen
class Greeting:
    """The handshake is under way."""

    endpoint: Endpoint
    deadline: float


@attrs.define
class Open:
    """Notifications flow."""

    endpoint: Endpoint
    heard: float
    ping_at: float
    since: float
    ack_at: float | None = None


@attrs.frozen
class Closing:
    """The client has said its last word."""

    deadline: float


@attrs.frozen
class Over:
    """Over."""

    error: QuorateClientError | None


State = New | Waiting | Connecting | Greeting | Open | Closing | Over
