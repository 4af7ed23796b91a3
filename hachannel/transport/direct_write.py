"""Writing at once. Twisted writes when the reactor comes round again: one more turn, two system calls more.

With one message under way at a time that turn is a good part of the cost; with large ones it is that a socket
gets no more than 128 KiB in a turn, and the rest is copied. Here the socket is tried first, with all there
is. Of what it does not take Twisted gets as much as it writes in one turn; then the socket is tried again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from .ports import DelayedCallPort, ListeningPort

__all__ = ["DirectWriteReactor"]

MOST_PARTS = 512
"""In one system call; systems take 1024."""
TURN_BYTES = 128 * 1024
"""What Twisted writes in a turn. Above half of it, it tells its producer to pause."""


class _PromptTcp:
    """A TCP transport of Twisted that writes to the socket first, as much at once as that takes."""

    def __init__(self, tcp: Any) -> None:
        self._tcp = tcp
        self._behind = False
        """Twisted has something to write; nothing may overtake it."""
        self._rest: deque[bytes | memoryview] = deque()
        """What comes after that."""
        self._told = False
        """Somebody is told when Twisted has written what it has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tcp, name)

    def write(self, data: bytes) -> None:
        """Send, now if the socket takes it."""
        tcp = self._tcp
        if self._rest:
            self._rest.append(data)
        elif not self._free():
            tcp.write(data)
        else:
            try:
                sent = tcp.socket.send(data)
            except OSError:
                # Full; or broken, and the reactor finds out by itself and tells.
                sent = 0
            if sent < len(data):
                self._leave(deque([data]), sent)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        """Send these one after the other, now if the socket takes them."""
        if self._rest:
            self._rest.extend(data)
        elif not self._free():
            self._tcp.writeSequence(list(data))
        else:
            self._push(deque(data))

    def _free(self) -> bool:
        """Whether the socket may be tried."""
        tcp = self._tcp
        if self._behind:
            self._behind = tcp in tcp.reactor.getWriters()
        return not (self._behind or tcp.disconnecting) and bool(tcp.connected)

    def _push(self, parts: deque[bytes | memoryview]) -> None:
        try:
            sent = self._tcp.socket.sendmsg(list(islice(parts, MOST_PARTS)))
        except OSError:
            sent = 0
        self._leave(parts, sent)

    def _leave(self, parts: deque[bytes | memoryview], sent: int) -> None:
        """The socket took so many bytes of these."""
        while parts and sent >= len(parts[0]):
            sent -= len(parts.popleft())
        if not parts:
            return
        if sent:
            parts[0] = memoryview(parts[0])[sent:]
        self._behind = True
        self._rest = parts
        self._hand_over(TURN_BYTES if self._told else None)

    def _hand_over(self, most_bytes: int | None) -> None:
        """Leave the rest to Twisted, or so much of it."""
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
        """Tell this one when to pause, and when to go on. streaming: it writes without being asked."""
        self._told = streaming
        self._tcp.registerProducer(_Between(self, producer) if streaming else producer, streaming)

    def unregisterProducer(self) -> None:  # noqa: N802
        """There is nobody to tell any more."""
        self._told = False
        self._tcp.unregisterProducer()
        self._hand_over(None)

    def go_on(self) -> None:
        """Twisted has written what it had."""
        rest, self._rest = self._rest, deque()
        if rest:
            self._push(rest)

    def forget(self) -> None:
        """The connection is gone."""
        self._rest.clear()


class _Between:
    """What Twisted takes for the producer: it hears first when the socket takes more."""

    def __init__(self, tcp: _PromptTcp, producer: Any) -> None:
        self._tcp = tcp
        self._producer = producer
        self._paused = False

    def pauseProducing(self) -> None:  # noqa: N802
        """Twisted has enough."""
        self._paused = True
        self._producer.pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted has nothing more."""
        self._paused = False
        self._tcp.go_on()
        if not self._paused:
            self._producer.resumeProducing()

    def stopProducing(self) -> None:  # noqa: N802
        """The connection is gone."""
        self._tcp.forget()
        self._producer.stopProducing()


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
            # Other transports have no socket to try, or show that of the one which they wrap (TLS).
            connect(_PromptTcp(tcp) if "socket" in getattr(tcp, "__dict__", ()) else tcp)

        protocol.makeConnection = make_connection
        return protocol


class DirectWriteReactor:
    """A reactor whose TCP connections write at once."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.seconds: Callable[[], float] = reactor.seconds
        self.callLater: Callable[..., DelayedCallPort] = reactor.callLater
        self.resolve: Callable[[str], Any] | None = getattr(reactor, "resolve", None)
        """The address of a name, later; a test's reactor may have none."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Open a TCP connection."""
        return self._reactor.connectTCP(host, port, _PromptFactory(factory), timeout)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> ListeningPort:  # noqa: N802
        """Listen on a port."""
        listening: ListeningPort = self._reactor.listenTCP(port, _PromptFactory(factory), backlog, interface)
        return listening
