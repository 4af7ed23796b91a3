"""The class that Kombu calls for URLs with the scheme ``quorate``."""

import itertools
from typing import Any, Final
from urllib.parse import unquote

import attrs

from ...client import ConnectionClosed, NotPermitted, Unavailable
from ...messaging.client.errors import ConsumerEnded, MessagingError, SessionClosed
from .broker import Broker, BrokerOptions
from .channel import Channel, KombuConnection
from .facade import BaseTransport, ChannelError

__all__ = ["Transport"]

DEFAULT_PORT: Final = 2560
AT_ONCE: Final = 20
"""Messages that are given to consumers before the event loop of a worker goes on."""


class Transport(BaseTransport):  # type: ignore[misc]  # pyright: ignore[reportUntypedBaseClass]
    """The transport of one `kombu.Connection`."""

    can_parse_url = True
    default_port = DEFAULT_PORT
    driver_type = "quorate"
    driver_name = "quorate"
    connection_errors = (ConnectionError, ConnectionClosed, Unavailable, ConsumerEnded, SessionClosed)
    recoverable_connection_errors = connection_errors
    channel_errors = (ChannelError, MessagingError, NotPermitted)
    recoverable_channel_errors: tuple[type[Exception], ...] = ()
    implements = BaseTransport.implements.extend(
        asynchronous=True, exchange_type=frozenset(("direct", "topic", "fanout")), heartbeats=False
    )

    def __init__(self, client: Any, **_: Any) -> None:
        self.client = client
        self._numbers = itertools.count(1)

    def establish_connection(self) -> KombuConnection:
        """Connect to the master of the server that the URL names."""
        client = self.client
        url, user, password = _url(client)
        given = dict(client.transport_options or {})
        options = BrokerOptions(
            **{name: given[name] for name in attrs.fields_dict(BrokerOptions) if name in given}
        )
        return KombuConnection(Broker(url, user, password, client.connect_timeout or None, options), client)

    def close_connection(self, connection: KombuConnection) -> None:
        """End the connection."""
        connection.broker.close()

    def create_channel(self, connection: KombuConnection) -> Channel:
        """Return a new channel."""
        return Channel(connection, next(self._numbers))

    def close_channel(self, channel: Channel) -> None:
        """End a channel."""
        channel.close()

    def drain_events(self, connection: KombuConnection, timeout: float | None = None, **_: Any) -> None:
        """Wait for one message, and give it to its consumer. Raises TimeoutError if none comes."""
        found = connection.broker.next(timeout)
        if found is None:
            raise TimeoutError("no message has come")
        connection.give(*found)

    def verify_connection(self, connection: KombuConnection) -> bool:
        """Return whether a connection can be used."""
        return connection.broker.connected

    def register_with_event_loop(self, connection: KombuConnection, loop: Any) -> None:
        """Have the event loop of a worker give what has come to its consumers."""
        loop.add_reader(connection.broker.fileno(), self.on_readable, connection, loop)

    def on_readable(self, connection: KombuConnection, loop: Any) -> None:
        """Give messages that have come to their consumers. The loop calls it again if there are more."""
        del loop
        for _ in range(AT_ONCE):
            found = connection.broker.next(0)
            if found is None:
                return
            connection.give(*found)

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return a URL to show."""
        scheme, _, rest = uri.partition("://")
        login, at, hosts = rest.rpartition("@")
        user, colon, _ = login.partition(":")
        return (
            uri if include_password or not at else f"{scheme}://{user}{colon}{mask if colon else ''}@{hosts}"
        )


def _url(client: Any) -> tuple[str, str | None, str | None]:
    """Return the URL of a server, the user and the password that a Kombu connection names."""
    user: str | None = client.userid
    password: Any = client.password
    if callable(password):
        password = password()
    text: str = client.hostname or "localhost"
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "quorate", f"{text}:{client.port or DEFAULT_PORT}"
    login, at, hosts = rest.rpartition("@")
    if at:
        name, _, secret = login.partition(":")
        user, password = unquote(name), unquote(secret)
    hosts, question, files = hosts.partition("?")
    return f"{scheme}://{hosts.rstrip('/')}{question}{files}", user, password
