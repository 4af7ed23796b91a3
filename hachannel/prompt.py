"""Writing at once. Twisted writes when the reactor comes round again: one more turn, two system calls more.

With one message under way at a time that turn is a good part of the cost. Here the socket is tried first;
what it does not take goes the usual way, and so does everything until that has gone.
"""

from collections.abc import Callable
from typing import Any

from .link import CallPort

__all__ = ["PromptReactor"]


class _PromptTcp:
    """A TCP transport of Twisted whose `write` tries the socket first."""

    def __init__(self, tcp: Any) -> None:
        self._tcp = tcp
        self._behind = False
        """Twisted has something to write; nothing may overtake it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tcp, name)

    def write(self, data: bytes) -> None:
        """Send, now if the socket takes it."""
        tcp = self._tcp
        if self._behind:
            if tcp in tcp.reactor.getWriters():
                tcp.write(data)
                return
            self._behind = False
        if not tcp.connected or tcp.disconnecting:
            return
        sent = tcp.writeSomeData(data)
        if sent == len(data):
            return
        # A broken connection shows as an exception here; the reactor finds out by itself and tells.
        self._behind = True
        tcp.write(data[sent:] if isinstance(sent, int) and sent > 0 else data)


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
            connect(_PromptTcp(tcp) if hasattr(tcp, "writeSomeData") and hasattr(tcp, "reactor") else tcp)

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
