"""The port of a service for clients."""

from typing import Any, Protocol, cast

from twisted.internet.error import CannotListenError

from ..hachannel.transport.ports import ListeningPort, ReactorPort
from .base import ServiceError

__all__ = ["listen"]


class _Place(Protocol):
    """The server as this function sees it: the context of a service or of a daemon."""

    @property
    def host(self) -> str: ...

    @property
    def client_reactor(self) -> ReactorPort: ...


def listen(place: _Place, port: int, factory: Any, interface: str) -> ListeningPort:
    """Listen on a port for clients, with TLS if the replica has certificates. Raises ServiceError."""
    try:
        return place.client_reactor.listenTCP(port, factory, interface=interface)
    except CannotListenError as error:
        cause: object = cast("Any", error).socketError
        reason = getattr(cause, "strerror", None) or cause
        raise ServiceError(
            f"port {port} of {place.host} cannot be listened on ({reason}); "
            "stop the program that uses it or change the port in the configuration"
        ) from None
