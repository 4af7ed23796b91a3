"""Direct writes: bytes go to the socket at once, instead of in the reactor's next turn.

Twisted writes in the next turn of the reactor, which costs that turn and two system calls. With one message
in flight at a time this is a good part of the whole cost. With large messages, Twisted writes at most 128 KiB
to a socket in a turn, and copies the rest. A direct write passes all bytes to the socket first. Twisted gets
as much of the rest as it writes in one turn; after that the socket is tried again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from .ports import DelayedCallPort, ListeningPort

__all__ = ["DirectWriteReactor"]

MOST_PARTS = 512
"""Pieces in one system call; operating systems allow 1024."""
TURN_BYTES = 128 * 1024
"""Bytes that Twisted writes in a turn. If more than half as many wait, it pauses its producer."""


class _DirectTcp:
    """A TCP transport of Twisted that first writes as many bytes to the socket as that accepts."""

    def __init__(self, tcp: Any) -> None:
        self._tcp = tcp
        self._behind = False
        """Twisted has bytes to write, so a direct write would overtake them."""
        self._rest: deque[bytes | memoryview] = deque()
        """Bytes to send after those that Twisted has."""
        self._has_producer = False
        """A streaming producer is registered, so Twisted reports when its bytes are written."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tcp, name)

    def write(self, data: bytes) -> None:
        """Send bytes: directly if the socket has room, else through Twisted."""
        tcp = self._tcp
        if self._rest:
            self._rest.append(data)
        elif not self._free():
            tcp.write(data)
        else:
            try:
                sent = tcp.socket.send(data)
            except OSError:
                # The socket is full, or broken; a broken one is found and reported by the reactor.
                sent = 0
            if sent < len(data):
                self._keep_rest(deque([data]), sent)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        """Send pieces one after the other: directly if the socket has room, else through Twisted."""
        if self._rest:
            self._rest.extend(data)
        elif not self._free():
            self._tcp.writeSequence(list(data))
        else:
            self._push(deque(data))

    def _free(self) -> bool:
        """Return whether a direct write may be tried."""
        tcp = self._tcp
        if self._behind:
            self._behind = tcp in tcp.reactor.getWriters()
        return not (self._behind or tcp.disconnecting) and bool(tcp.connected)

    def _push(self, parts: deque[bytes | memoryview]) -> None:
        try:
            sent = self._tcp.socket.sendmsg(list(islice(parts, MOST_PARTS)))
        except OSError:
            sent = 0
        self._keep_rest(parts, sent)

    def _keep_rest(self, parts: deque[bytes | memoryview], sent: int) -> None:
        """Keep what the socket did not accept of `parts`; it accepted `sent` bytes."""
        while parts and sent >= len(parts[0]):
            sent -= len(parts.popleft())
        if not parts:
            return
        if sent:
            parts[0] = memoryview(parts[0])[sent:]
        self._behind = True
        self._rest = parts
        self._give_to_twisted(TURN_BYTES if self._has_producer else None)

    def _give_to_twisted(self, most_bytes: int | None) -> None:
        """Pass the rest to Twisted; at most `most_bytes` of it unless that is None."""
        rest = self._rest
        parts: list[bytes] = []
        while rest and most_bytes != 0:
            part = rest.popleft()
            if most_bytes is not None:
                if len(part) > most_bytes:
                    part = memoryview(part)
                    rest.appendleft(part[most_bytes:])
                    part = part[:most_bytes]
                most_bytes -= len(part)
            parts.append(bytes(part))
        self._tcp.writeSequence(parts)

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802
        """Register a producer, to pause and resume it. streaming: it writes without being asked."""
        self._has_producer = streaming
        self._tcp.registerProducer(_ProducerRelay(self, producer) if streaming else producer, streaming)

    def unregisterProducer(self) -> None:  # noqa: N802
        """Forget the producer; Twisted gets all bytes that wait."""
        self._has_producer = False
        self._tcp.unregisterProducer()
        self._give_to_twisted(None)

    def resume_direct(self) -> None:
        """Write directly again: Twisted has written all that it had."""
        rest, self._rest = self._rest, deque()
        if rest:
            self._push(rest)

    def forget(self) -> None:
        """Drop all bytes that wait: the connection is lost."""
        self._rest.clear()


class _ProducerRelay:
    """A producer between Twisted and the real one: it writes directly before the real one resumes."""

    def __init__(self, tcp: _DirectTcp, producer: Any) -> None:
        self._tcp = tcp
        self._producer = producer
        self._paused = False

    def pauseProducing(self) -> None:  # noqa: N802
        """Twisted: the socket is full."""
        self._paused = True
        self._producer.pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted: everything is written."""
        self._paused = False
        self._tcp.resume_direct()
        if not self._paused:
            self._producer.resumeProducing()

    def stopProducing(self) -> None:  # noqa: N802
        """Twisted: the connection is lost."""
        self._tcp.forget()
        self._producer.stopProducing()


class _DirectFactory:
    """A factory whose protocols write directly."""

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._factory, name)

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        """Twisted: make the protocol of a connection."""
        protocol = self._factory.buildProtocol(addr)
        connect = protocol.makeConnection

        def make_connection(tcp: Any) -> None:
            # Other transports have no socket, or expose that of the transport which they wrap (TLS).
            connect(_DirectTcp(tcp) if "socket" in getattr(tcp, "__dict__", ()) else tcp)

        protocol.makeConnection = make_connection
        return protocol


class DirectWriteReactor:
    """A `ReactorPort` whose TCP connections write directly."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.seconds: Callable[[], float] = reactor.seconds
        self.callLater: Callable[..., DelayedCallPort] = reactor.callLater
        self.nameResolver: Any = getattr(reactor, "nameResolver", None)
        """Resolver of host names (`IHostnameResolver`); None if the reactor has none, as in a test."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Open a TCP connection."""
        return self._reactor.connectTCP(host, port, _DirectFactory(factory), timeout)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> ListeningPort:  # noqa: N802
        """Listen on a port."""
        listening: ListeningPort = self._reactor.listenTCP(port, _DirectFactory(factory), backlog, interface)
        return listening
