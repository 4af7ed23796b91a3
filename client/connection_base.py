"""The common part of the blocking, asyncio and Twisted connections: arguments, properties, error texts."""

import random
from typing import Final

from ..agents.envelope import ReplyTo, check_address
from ..agents.ids import AgentId
from ..agents.notification import Notification, encode
from .driver import Driver
from .events import SessionSettings
from .pending import PendingRequests, ReplyTypes
from .session import Session
from .url import parse_url

__all__ = [
    "NOTHING_CAME",
    "NOT_ACKNOWLEDGED",
    "NOT_ALL_ACKNOWLEDGED",
    "ConnectionBase",
    "encoded",
    "new_driver",
    "no_answer",
    "reply_types",
]

NOT_ACKNOWLEDGED: Final = "the cluster has not acknowledged the notification"
NOT_ALL_ACKNOWLEDGED: Final = "not everything is acknowledged"
NOTHING_CAME: Final = "nothing was received"


def no_answer(to: AgentId | str) -> str:
    """Return the error text for a request that is not answered in time."""
    return f"{to} has not answered"


def encoded(
    to: AgentId | ReplyTo | str, notification: Notification, request: int
) -> tuple[AgentId | str, str, bytes, int]:
    """Return the arguments of `Session.send`. A `ReplyTo` as `to` gives both the address and the request.

    Raises TypeError or ValueError if `to` is no address or the notification cannot be encoded.
    """
    payload = encode(notification)
    if isinstance(to, ReplyTo):
        check_address(to.agent, to.request)
        return to.agent, notification.type_name, payload, to.request
    check_address(to, request)
    return to, notification.type_name, payload, request


def reply_types(reply: type[Notification] | ReplyTypes | None) -> ReplyTypes:
    """Return the classes that a caller accepts, as a tuple."""
    if reply is None:
        return ()
    return reply if isinstance(reply, tuple) else (reply,)


def new_driver(
    url: str,
    user: str,
    password: str,
    timeout: float,
    reconnect_timeout: float,
    settings: SessionSettings | None,
) -> Driver:
    """Make a session and its driver from the arguments of ``connect``. Raises BadUrl."""
    tuned = settings or SessionSettings(open_timeout_s=timeout, reconnect_timeout_s=reconnect_timeout)
    return Driver(Session(parse_url(url), user, password, random.random, tuned), PendingRequests())


class ConnectionBase:
    """A connection as its user sees it, whether threads, coroutines or Deferreds wait for it."""

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        self._driver = driver
        self._session = driver.session
        self._pending = driver.pending
        self._request_timeout_s = request_timeout_s
        self._requests = 0

    @property
    def id(self) -> str:
        """The identifier of the connection: the id of its proxy agent."""
        return self._pending.connection or ""

    @property
    def is_open(self) -> bool:
        """Whether the connection is open at this moment. If not, it is looking for the master, or closed."""
        return self._session.is_open

    @property
    def reconnections(self) -> int:
        """Number of times that the connection was opened again."""
        return self._session.reconnections

    @property
    def unacknowledged(self) -> int:
        """Number of notifications that the cluster has not acknowledged."""
        return self._session.outbox.last_seq - self._session.outbox.acked

    @property
    def inbox_dropped(self) -> int:
        """Number of notifications that were dropped from the full inbox."""
        return self._pending.dropped

    def _limit_of_request(self, timeout: float | None) -> float | None:
        return self._request_timeout_s if timeout is None else timeout
