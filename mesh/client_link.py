"""The daemon's end of the TCP connection of a client of a mesh. Twisted."""

from typing import Any, Final, Protocol, cast

import msgspec
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ..client.errors import ProtocolError
from ..client.frames import MAX_HELLO, Bye, ByeCode, FrameBuffer, Hello, Ping, Pong
from ..hachannel.transport.addresses import host_port, unmapped
from ..hachannel.transport.ports import ClockPort, DelayedCallPort, TcpPort
from .frames import MAGIC, MAX_CLIENT_FRAME, ClientFrame, ServerFrame, decode_client_frame, encode_frame
from .requests import User

__all__ = ["ClientLink", "LinkOwner"]

HELLO_TIMEOUT_S: Final = 5.0
IDLE_TIMEOUT_S: Final = 60.0
"""A client that sends nothing for this long is disconnected; it pings more often."""
MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Most bytes held for a client that does not read; with more it is disconnected."""
BYE_TIMEOUT_S: Final = 5.0


class LinkOwner(Protocol):
    """The service, as a connection sees it."""

    def link_made(self, link: "ClientLink") -> None:
        """A TCP connection was made."""
        ...

    def link_lost(self, link: "ClientLink") -> None:
        """A TCP connection has ended."""
        ...

    def hello(self, link: "ClientLink", hello: Hello) -> None:
        """The first frame of a client has arrived."""
        ...

    def frames(self, link: "ClientLink", frames: list[ClientFrame]) -> None:
        """Frames of a client that was let in have arrived."""
        ...

    def violated(self, link: "ClientLink", reason: str) -> None:
        """The client does not follow the protocol."""
        ...


class ClientLink(TwistedProtocol):
    """One TCP connection of a client. Set `user` to let the client in."""

    transport: Any

    def __init__(self, number: int, owner: LinkOwner, reactor: ClockPort) -> None:
        self.number = number
        """Identifies the connection to the daemon."""
        self.user: User | None = None
        self.peer = "?"
        self.host = ""
        self.closed = False
        self._owner = owner
        self._reactor = reactor
        self._buffer = FrameBuffer(MAX_HELLO)
        self._greeted = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._writable = True
        self._heard = 0.0
        self._timer: DelayedCallPort | None = None

    def connectionMade(self) -> None:  # noqa: N802
        """Twisted: the connection is open."""
        self._tcp = cast("TcpPort", self.transport)
        self._tcp.setTcpNoDelay(True)
        self._tcp.registerProducer(self, True)
        address = self._tcp.getPeer()
        self.host = unmapped(str(getattr(address, "host", "")))
        self.peer = host_port(self.host, getattr(address, "port", "?"))
        self._heard = self._reactor.seconds()
        self._timer = self._reactor.callLater(HELLO_TIMEOUT_S, self._check)
        self._owner.link_made(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Twisted: bytes arrived."""
        if self.closed:
            return
        self._heard = self._reactor.seconds()
        self._buffer.feed(data)
        frames: list[ClientFrame] = []
        try:
            while (body := self._buffer.next()) is not None:
                frame = decode_client_frame(body)
                if isinstance(frame, Hello):
                    self._greet(frame)
                    if self.closed:
                        return
                elif not self._greeted:
                    raise ProtocolError("the first frame is no Hello")
                elif isinstance(frame, Ping):
                    self.send([Pong(frame.token)])
                else:
                    frames.append(frame)
        except (ProtocolError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._owner.violated(self, str(error))
            self.bye(ByeCode.PROTOCOL, f"this cannot be understood: {error}")
            return
        if frames and self.user is not None:
            self._owner.frames(self, frames)

    def _greet(self, hello: Hello) -> None:
        if self._greeted:
            raise ProtocolError("a second Hello")
        self._greeted = True
        if hello.magic != MAGIC:
            self._owner.violated(self, "it is a client of agents")
            self.bye(
                ByeCode.PROTOCOL,
                "this port is that of a mesh, which has topics and no agents; use quorate.mesh.connect",
            )
            return
        self._buffer.max_frame = MAX_CLIENT_FRAME
        self._owner.hello(self, hello)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Twisted: the connection is gone."""
        del reason
        self.closed = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._owner.link_lost(self)

    def _check(self) -> None:
        silent_s = self._reactor.seconds() - self._heard
        if self.user is None or silent_s >= IDLE_TIMEOUT_S:
            self.abort()
            return
        self._timer = self._reactor.callLater(IDLE_TIMEOUT_S - silent_s, self._check)

    # Writing

    def send(self, frames: list[ServerFrame]) -> None:
        """Send frames."""
        if self.closed:
            return
        data = b"".join(map(encode_frame, frames)) if len(frames) > 1 else encode_frame(frames[0])
        if self._writable:
            self._tcp.write(data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > MAX_HELD_BYTES:
            self._owner.violated(self, f"{self._held_bytes} bytes wait for it, and it does not read")
            self.abort()

    def bye(self, code: str, text: str) -> None:
        """Send a last frame, and close the connection."""
        if self.closed:
            return
        self.send([Bye(code, text)])
        self.closed = True
        self._tcp.unregisterProducer()
        self._tcp.loseConnection()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._reactor.callLater(BYE_TIMEOUT_S, self._tcp.abortConnection)

    def abort(self) -> None:
        """Break the connection."""
        self.closed = True
        self._tcp.abortConnection()

    def pauseProducing(self) -> None:  # noqa: N802
        """Twisted: the socket is full."""
        self._writable = False

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted: the socket has room again."""
        self._writable = True
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._tcp.writeSequence(held)

    def stopProducing(self) -> None:  # noqa: N802
        """Twisted: the socket is closing."""
        self._writable = False

    def pause_reading(self) -> None:
        """Read no more from the client for now."""
        self._tcp.pauseProducing()

    def resume_reading(self) -> None:
        """Read from the client again."""
        self._tcp.resumeProducing()
