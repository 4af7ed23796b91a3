"""The states of a session, one class each."""

import attrs

from .errors import QuorateClientError
from .keep_alive import KeepAlive
from .url import Endpoint

__all__ = ["Closed", "Closing", "Connecting", "Handshaking", "New", "Open", "State", "Waiting"]


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
class Handshaking:
    """The TCP connection is open, and the handshake is sent but not answered."""

    endpoint: Endpoint
    deadline: float


@attrs.frozen
class Open:
    """Notifications flow, since the time `since`."""

    endpoint: Endpoint
    since: float
    keep_alive: KeepAlive


@attrs.frozen
class Closing:
    """The user has closed the session: the rest of the queue and a Close frame are being sent."""

    deadline: float


@attrs.frozen
class Closed:
    """The session has ended; `error` is None after an orderly close."""

    error: QuorateClientError | None


State = New | Waiting | Connecting | Handshaking | Open | Closing | Closed
