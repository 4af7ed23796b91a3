"""Events of a session for its driver, and the settings of a session."""

from collections.abc import Sequence
from typing import Final

import attrs

from .errors import QuorateClientError
from .frames import ServerNote, StreamItems
from .time_limits import LEAST_S, seconds
from .url import Endpoint

__all__ = [
    "Acknowledged",
    "Connect",
    "Delivered",
    "Disconnect",
    "Ended",
    "Event",
    "Interrupted",
    "Opened",
    "Resumed",
    "SessionSettings",
    "StillOpening",
    "Streamed",
]


@attrs.frozen
class SessionSettings:
    """Time limits in seconds, and bounds."""

    open_timeout_s: float = 120.0
    """Time to open the connection for the first time: a failover may be under way, as in a reconnection."""
    reconnect_timeout_s: float = 120.0
    """Time to reopen the connection, before the session ends with `ConnectionLost`."""
    attempt_timeout_s: float = 2.0
    """Time for the TCP connection to one replica."""
    handshake_first_s: float = 1.5
    """Time for the answer of one replica to the handshake, in the first round through the replicas. It
    doubles with every round, because a replica that does not answer may only be busy."""
    handshake_timeout_s: float = 6.0
    """Upper bound of the doubled time for the answer to the handshake."""
    close_timeout_s: float = 2.0
    """Time for the answer of the server to Close."""
    backoff_first_s: float = 0.05
    """Wait after the first round through all replicas; it doubles with every round."""
    backoff_cap_s: float = 0.5
    """Upper bound of the doubled wait."""
    ping_interval_s: float = 1.0
    """Time between keep-alives; a third of the idle timeout if that is less. After three intervals without
    any bytes from the replica, the session tries the other ones; by then they have replaced it."""
    ack_delay_s: float = 1.0
    """Time until received notifications are acknowledged, if nothing else is sent before."""
    ack_notes: int = 512
    """Received notifications that are acknowledged at once."""
    ack_bytes: int = 256 * 1024
    """Received bytes that are acknowledged at once."""
    window: int = 16384
    """Notifications that may be unacknowledged; the server may ask for fewer."""
    window_bytes: int = 16 * 1024 * 1024
    """Bytes that may be unacknowledged."""
    inbox_notes: int = 65536
    """Notifications that wait for `receive`; the server holds further ones. 0: for a program that never
    receives. Notifications that answer no request are then dropped, and counted."""
    inbox_bytes: int = 64 * 1024 * 1024
    """Bytes of payloads that wait for `receive`."""

    def __attrs_post_init__(self) -> None:
        """Raise TypeError or ValueError, naming the setting, for a value that is not allowed."""
        for field in attrs.fields(type(self)):
            value = getattr(self, field.name)
            if field.name.endswith("_s"):
                seconds(field.name, value, least_s=LEAST_S)
            elif type(value) is not int:
                raise TypeError(f"{field.name} is {value!r}; give a whole number")
            elif value < (field.name not in _MAY_BE_ZERO):
                raise ValueError(f"{field.name} is {value!r}; give a number above 0")


_MAY_BE_ZERO: Final = ("inbox_notes", "inbox_bytes", "ack_notes", "ack_bytes")


@attrs.frozen
class Connect:
    """Request to the driver: open a TCP connection, then call `connected` or `attempt_failed`."""

    endpoint: Endpoint


@attrs.frozen
class Disconnect:
    """Request to the driver: abort the TCP connection or the attempt, and report nothing more of it."""


@attrs.frozen
class Opened:
    """The connection is open for the first time; its identifier is that of its proxy agent."""

    connection: str


@attrs.frozen
class StillOpening:
    """No master was found for a while, and the connection was never open: `text` says why, for each
    replica."""

    text: str


@attrs.frozen
class Acknowledged:
    """The cluster has everything up to this number."""

    seq: int


@attrs.frozen
class Delivered:
    """Notifications from agents, each once and in order."""

    notes: Sequence[ServerNote]


@attrs.frozen
class Interrupted:
    """The TCP connection failed; the session is looking for the master."""

    reason: str


@attrs.frozen
class Resumed:
    """The connection is open again."""

    endpoint: Endpoint


@attrs.frozen
class Ended:
    """The session is over; `error` is None after an orderly close. Always the last event."""

    error: QuorateClientError | None


@attrs.frozen
class Streamed:
    """Items of a stream, perhaps some that came before."""

    frame: StreamItems


Event = (
    Connect
    | Disconnect
    | Opened
    | StillOpening
    | Acknowledged
    | Delivered
    | Streamed
    | Interrupted
    | Resumed
    | Ended
)
