"""The common part of the blocking, asyncio and Twisted connections: arguments, properties, error texts."""

import os
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Self
from weakref import WeakSet

import attrs

from ..agents.ids import AgentId
from .arguments import SendArguments, credential
from .driver import Driver
from .errors import ConnectionClosed, QuorateClientError, RequestTimeout
from .events import SessionSettings
from .extension import Extension, Loop
from .frames import ServerNote
from .listener import check_callback
from .local.registry import is_local, url_server
from .local.session import LocalSession
from .pending import PendingRequests, Received
from .session import Session
from .time_limits import LEAST_S, MAX_SECONDS, seconds, time_limit
from .url import parse_url, url_tls

__all__ = [
    "NOTHING_RECEIVED",
    "NOT_ACKNOWLEDGED",
    "NOT_ALL_ACKNOWLEDGED",
    "AsyncIteration",
    "ConnectionBase",
    "new_driver",
    "not_answered",
    "timed_out",
]

NOT_ACKNOWLEDGED: Final = "the cluster has not acknowledged the notification"
NOT_ALL_ACKNOWLEDGED: Final = "the cluster has not acknowledged all notifications"
NOTHING_RECEIVED: Final = "no notification was received"
OTHER_PROCESS: Final = (
    "the connection belongs to the process that opened it, and this process is a fork of it; "
    "open a connection in this process"
)


def not_answered(to: AgentId | str) -> str:
    """Return the error text for a request that is not answered in time."""
    return f"{to} has not answered"


def timed_out(what: str, timeout_s: float | None) -> RequestTimeout:
    """Return the error for an operation that took too long; `what` says what has not happened."""
    return RequestTimeout(what if timeout_s is None else f"{what} within {timeout_s:g} s")


def new_driver(
    url: str,
    user: str | None,
    password: str | None,
    timeout: float | None,
    reconnect_timeout: float,
    settings: SessionSettings | None,
) -> Driver:
    """Make a session and its driver from the arguments of ``connect``.

    Raises BadUrl, Unavailable if no such replica runs in this process, and TypeError or ValueError, naming
    the argument, for one that is not allowed.
    """
    local = isinstance(url, str) and is_local(url)  # pyright: ignore[reportUnnecessaryIsInstance]
    endpoints = () if local else parse_url(url)
    tls = None if local else url_tls(url)
    proven = "" if tls is None else tls.user
    # Code in the process of a server needs neither, and a client with a certificate has proven its user.
    user = proven if (local or proven) and user is None else credential("user", user)
    password = "" if (local or proven) and password is None else credential("password", password)
    reconnect_s = seconds("reconnect_timeout", reconnect_timeout, least_s=LEAST_S)
    if settings is not None and not isinstance(settings, SessionSettings):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"settings is {settings!r}; give a quorate.client.SessionSettings, or None")
    tuned = settings or SessionSettings(open_timeout_s=reconnect_s, reconnect_timeout_s=reconnect_s)
    if timeout is not None:
        tuned = attrs.evolve(tuned, open_timeout_s=seconds("timeout", timeout, least_s=LEAST_S))
    elif settings is None and local:
        tuned = attrs.evolve(tuned, open_timeout_s=MAX_SECONDS)
    if local:
        session: Session = LocalSession(url_server(url), user, random.random, tuned)
    else:
        session = Session(endpoints, user, password, random.random, tuned)
    driver = Driver(session, PendingRequests(tuned.inbox_notes))
    driver.tls = tls
    return driver


class ConnectionBase:
    """A connection to a server, across failures of its replicas.

    The blocking, the asyncio and the Twisted connection have the same operations:

    - ``send`` sends a notification, and is complete when the cluster has it, whatever fails meanwhile.
      Failures in the agent come to ``receive``.
    - ``send_nowait`` sends without waiting for the acknowledgement. It waits only while the window is full.
    - ``flush`` is complete when the cluster has everything that was sent so far.
    - ``request`` sends a notification and returns the agent's answer. `reply` is the class, or a tuple of
      classes, that the answer may have; without it, any class that this process has defined.
    - ``receive`` returns the next notification that answers no request. Iterating over the connection
      (``async for`` in asyncio and Twisted) returns one after the other, and ends when the connection is
      closed by this program; it raises what else ends the connection.
    - ``listen`` has a callback called with each notification that answers no request, one at a time and in
      order; ``stop_listening`` ends that. Meanwhile ``receive`` and iterations raise RuntimeError.
    - ``close`` flushes, for at most `timeout` seconds, and closes for good.

    All take a `timeout` in seconds and raise `RequestTimeout` after it; the notification may still arrive.
    All raise `ConnectionClosed` or what else has ended the connection, and TypeError or ValueError for an
    argument that is not allowed: the text names it, or the field of the notification. Nothing was sent then.
    What sends raises `FrameTooLarge`. ``request`` raises `UnknownAgentError`, `ReactionError`,
    `UnhandledTypeError` and `UnexpectedReply`, too.

    After a fork, the connection goes on in the parent process. In the child it is closed.
    """

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        _connections.add(self)
        self._driver = driver
        self._session = driver.session
        self._pending = driver.pending
        self._request_timeout_s = time_limit(request_timeout_s, "request_timeout")
        self._requests = 0
        self._listens = False

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
        """Number of notifications that the inbox did not keep: answers that came too late while it was full,
        and all if it is switched off."""
        return self._pending.dropped

    def extend(self, kinds: Collection[str], take: Callable[[ServerNote], bool]) -> Extension:
        """Handle notifications of some types beside the program. For packages that are built on connections.

        kinds: names of types. take: called in the loop of the connection with each notification of these
        types that answers no request; returns whether it has handled it.
        """
        return Extension(self._driver, self._loop_port(), kinds, take)

    def _loop_port(self) -> Loop:
        raise NotImplementedError

    def _abandon(self, error: QuorateClientError) -> None:
        """Close here only, without touching the socket and the event loop: another process uses them."""
        self._driver.abandon(error)

    def _request_limit_s(self, timeout: float | None) -> float | None:
        """Return the seconds that a request may take; None for no limit. Raises as `time_limit` does."""
        return self._request_timeout_s if timeout is None else time_limit(timeout)

    def _check_no_listener(self) -> None:
        """Raise RuntimeError if the connection has a listener."""
        if self._listens and not self._pending.ended:
            raise RuntimeError(
                "the connection has a listener, which gets all notifications; call stop_listening before"
            )

    def _begin_listening(self, callback: object, ended: object) -> None:
        """Check what the program gives to ``listen``. Raises TypeError, RuntimeError or ConnectionClosed."""
        check_callback(callback, ended)
        self._check_no_listener()
        if not self._session.settings.inbox_notes:
            raise RuntimeError(
                "the inbox of the connection is switched off: leave out inbox_notes=0 in its settings"
            )
        if self._pending.ended:
            raise self._pending.reason()
        self._listens = True

    def _next_request(self) -> int:
        """Return the number of a new request."""
        self._requests += 1
        return self._requests

    def _queue(self, arguments: SendArguments) -> int:
        """Queue a notification in the session and return its number. Raises what has ended the connection."""
        if self._pending.ended:
            raise self._pending.reason()
        return self._session.send(*arguments)

    def _all_acknowledged(self) -> bool:
        """Return whether the cluster has everything that was queued, and the connection has not ended."""
        box = self._session.outbox
        return box.acked >= box.last_seq and not self._pending.ended


class AsyncIteration(ConnectionBase):
    """``async for`` over the notifications that answer no request."""

    def receive(self, *, timeout: float | None = None) -> Awaitable[Received]:
        """Return the next notification that answers no request."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        try:
            return await self.receive()
        except ConnectionClosed:
            if self._pending.closed_in_order:
                raise StopAsyncIteration from None
            raise


_connections: "WeakSet[ConnectionBase]" = WeakSet()
"""The connections that this process has made, and those that it has from a parent process."""


def _abandon_all() -> None:
    for connection in list(_connections):
        connection._abandon(ConnectionClosed(OTHER_PROCESS))  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
