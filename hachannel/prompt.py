"""Writing at once. Twisted writes when the reactor comes round again: one more turn, two system calls more.

With one message under way at a time that turn is a good part of the cost; with large ones it is that a socket
gets no more than 128 KiB in a turn, and the rest is copied. Here the socket is tried first, with all there
is; what it does not take goes the usual way, and so does everything until that has gone.
"""

from collections.abc import Callable, Iterable
from typing import Any

from .link import CallPort

__all__ = ["PromptReactor"]

MOST_PARTS = 512
"""In one system call; systems take 1024."""


class _PromptTcp:
    """A TCP transport of Twisted that writes to the socket first, as much at once as that takes."""

    def __init__(self, tcp: Any) -> None:
        self._tcp = tcp
        self._behind = False
        """Twisted has something to write; nothing may overtake it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tcp, name)

    def write(self, data: bytes) -> None:
        """Send, now if the socket takes it."""
        if not self._free():
            self._tcp.write(data)
            return
        try:
            sent = self._tcp.socket.send(data)
        except OSError:
            # Full; or broken, and the reactor finds out by itself and tells.
            sent = 0
        if sent < len(data):
            self._leave([data[sent:] if sent else data])

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        """Send these one after the other, now if the socket takes them."""
        parts = list(data)
        if not self._free():
            self._tcp.writeSequence(parts)
            return
        try:
            sent = self._tcp.socket.sendmsg(parts[:MOST_PARTS])
        except OSError:
            sent = 0
        for number, part in enumerate(parts):
            if sent < len(part):
                self._leave([part[sent:] if sent else part, *parts[number + 1 :]])
                return
            sent -= len(part)

    def _leave(self, parts: list[bytes]) -> None:
        """The socket did not take these."""
        self._behind = True
        self._tcp.writeSequence(parts)

    def _free(self) -> bool:
        """Whether the socket may be tried."""
        tcp = self._tcp
        if self._behind:
            self._behind = tcp in tcp.reactor.getWriters()
        return not (self._behind or tcp.disconnecting) and bool(tcp.connected)


class _PromptFactory:
    """A factory whose protocols get such a transport."""

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._factory, name)

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        """Twisted: a connection."""
        protocol = self._factory.buildProtocol(addr)
        connect = protocol.makeConnection

        def make_connection(tcp: Any) -> None:
            # Other transports (TLS, tests) have no socket to try.
            connect(_PromptTcp(tcp) if hasattr(tcp, "socket") and hasattr(tcp, "reactor") else tcp)

        protocol.makeConnection = make_connection
        return protocol


class PromptReactor:
    """A reactor whose TCP connections write at once."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.seconds: Callable[[], float] = reactor.seconds
        self.callLater: Callable[..., CallPort] = reactor.callLater
        self.resolve: Callable[[str], Any] | None = getattr(reactor, "resolve", None)
        """The address of a name, later; a test's reactor may have none."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Open a TCP connection."""
        return self._reactor.connectTCP(host, port, _PromptFactory(factory), timeout)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:  # noqa: N802
        """Listen on a port."""
        return self._reactor.listenTCP(port, _PromptFactory(factory), backlog, interface)
