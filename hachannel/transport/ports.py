"""The parts of Twisted that this project uses, each as a small protocol for type checkers.

Twisted declares them as zope interfaces, which strict type checkers refuse in annotations. A reactor of
Twisted, that of a simulation and the doubles of tests all conform to these protocols.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress

__all__ = ["ClockPort", "DelayedCallPort", "ListeningPort", "ReactorPort", "TcpPort"]


class DelayedCallPort(Protocol):
    """A scheduled call (`IDelayedCall`)."""

    def cancel(self) -> None:
        """Cancel the call. Raises an exception if it is not active."""
        ...

    def active(self) -> bool:
        """Return whether the call is neither made nor cancelled."""
        ...


class ListeningPort(Protocol):
    """An open server socket (`IListeningPort`)."""

    def stopListening(self) -> "Deferred[Any] | None":  # noqa: N802
        """Close the port."""
        ...

    def getHost(self) -> Any:  # noqa: N802
        """Return the address that is listened on."""
        ...


class ClockPort(Protocol):
    """The clock of a reactor, and its timers (`IReactorTime`)."""

    def seconds(self) -> float:
        """Return the time in seconds; only differences have a meaning."""
        ...

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any) -> DelayedCallPort:  # noqa: N802
        """Call the function after `delay` seconds."""
        ...


class ReactorPort(ClockPort, Protocol):
    """A reactor: its clock, and TCP (`IReactorTime` and `IReactorTCP`)."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Open a TCP connection; give up after `timeout` seconds."""
        ...

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> ListeningPort:  # noqa: N802
        """Listen on a TCP port, at all addresses or at that of `interface`. Raises CannotListenError."""
        ...


class TcpPort(Protocol):
    """A TCP connection, and the flow control of what is written to it (`ITCPTransport`)."""

    def write(self, data: bytes) -> None:
        """Send bytes; those that the socket does not accept are kept and sent later."""
        ...

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        """Send pieces one after the other."""
        ...

    def loseConnection(self) -> None:  # noqa: N802
        """Close the connection once all bytes are sent and no streaming producer is registered."""
        ...

    def abortConnection(self) -> None:  # noqa: N802
        """Close the connection at once; unsent bytes are lost."""
        ...

    def pauseProducing(self) -> None:  # noqa: N802
        """Stop reading from the socket."""
        ...

    def resumeProducing(self) -> None:  # noqa: N802
        """Read from the socket again."""
        ...

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802
        """Pause the producer while the socket is full, and resume it when there is room again."""
        ...

    def unregisterProducer(self) -> None:  # noqa: N802
        """Forget the producer."""
        ...

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        """Send small packets without waiting for more bytes."""
        ...

    def getPeer(self) -> IAddress:  # noqa: N802
        """Return the address of the other side."""
        ...
