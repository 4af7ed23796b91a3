"""The transport of a client connection inside of the process: what a `ClientConnection` needs of TCP."""

from collections.abc import Iterable
from typing import Any, cast

import attrs
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from ..client.local.link import LinkEnd
from ..hachannel.transport.ports import ClockPort
from .client_connection import ClientConnection

__all__ = ["LocalAddress", "LocalTransport"]


@attrs.frozen
class LocalAddress:
    """The address of a client in this process."""

    host: str = "this process"
    port: str = "local"


class LocalTransport:
    """The server's end of a connection inside of the process, for one `ClientConnection`."""

    def __init__(self, end: LinkEnd, connection: ClientConnection, reactor: ClockPort) -> None:
        self._end = end
        self._connection = connection
        self._reactor = reactor
        self._producer: Any = None
        self._over = False
        end.received = connection.dataReceived
        end.lost = self._lost
        end.paused = self._pause
        end.resumed = self._resume

    def write(self, data: bytes) -> None:
        """Pass bytes to the client."""
        self._end.write(data)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        """Pass pieces to the client."""
        self._end.write(b"".join(data))

    def loseConnection(self) -> None:  # noqa: N802
        """Close the connection: the client reads what was written before."""
        self._end.close("the server has closed the connection")
        self._reactor.callLater(0, self._lost, "")

    def abortConnection(self) -> None:  # noqa: N802
        """Close the connection. Unlike with TCP, the client reads what was written before."""
        self.loseConnection()

    def pauseProducing(self) -> None:  # noqa: N802
        """Stop reading from the client."""
        self._end.pause_reading()

    def resumeProducing(self) -> None:  # noqa: N802
        """Read from the client again."""
        self._end.resume_reading()

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802, ARG002
        """Pause the producer while the client does not read."""
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802
        """Forget the producer."""
        self._producer = None

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Do nothing: there is no TCP."""

    def getPeer(self) -> Any:  # noqa: N802
        """Return the address of the client."""
        return LocalAddress()

    def _pause(self) -> None:
        if self._producer is not None:
            self._producer.pauseProducing()

    def _resume(self) -> None:
        if self._producer is not None:
            self._producer.resumeProducing()

    def _lost(self, _: str) -> None:
        if not self._over:
            self._over = True
            self._connection.connectionLost(cast("Any", Failure)(ConnectionDone()))
