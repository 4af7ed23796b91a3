"""Links: TCP connections that carry frames. Twisted.

A link knows no protocol above frames.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import attrs
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ..codec.buffers import Body
from ..codec.framing import MAX_FRAME_BYTES, FrameError, FrameReader, frame_parts
from .addresses import host_port, unmapped
from .ports import ClockPort, DelayedCallPort, TcpPort

__all__ = ["Link", "LinkHandler", "LinkSettings"]

SILENCE = "nothing was heard"
"""Part of the reason of a dropped connection: the peer is frozen, or cut off."""


@attrs.frozen
class LinkSettings:
    """Limits of a connection and of its reopening. Times in seconds."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    buffer_bytes: int = 64 * 1024 * 1024
    """Bytes that may wait for a peer that does not read; with more the connection is dropped."""
    ping_s: float = 1.0
    """Pause after which an idle side sends an empty frame."""
    silence_s: float = 4.0
    """Silence after which a connection is dropped: TCP itself would wait for minutes."""
    connect_timeout_s: float = 2.0
    hello_timeout_s: float = 5.0
    first_delay_s: float = 0.05
    max_delay_s: float = 1.0
    refusal_ends: bool = False
    """Whether a refused connection proves that the process has ended that listened at this address."""


class LinkHandler(Protocol):
    """The user of a `Link`, which gets its frames."""

    def frames(self, link: "Link", bodies: list[bytes]) -> None:
        """Frames arrived, in order."""
        ...

    def lost(self, link: "Link", reason: str) -> None:
        """The connection is lost. Called once, and not after `Link.abandon`."""
        ...


class Link(TwistedProtocol):
    """One TCP connection that carries frames. A listener hands it over by replacing the handler.

    It is both a protocol of Twisted and the producer of its transport, so it has more methods than most
    classes here: Twisted calls seven of them.
    """

    transport: Any
    """The connection of Twisted, a `TcpPort`; None before it is open."""

    def __init__(self, reactor: ClockPort, settings: LinkSettings, handler: LinkHandler) -> None:
        self.handler = handler
        self.peer = "?"
        """Address of the other side, for the log."""
        self.peer_host = ""
        self.closed = False
        self.heard_anything = False
        self.on_part: Callable[[], None] | None = None
        """Called when a part of a long frame has arrived."""
        self._reactor = reactor
        self._settings = settings
        self._reader = FrameReader(settings.max_frame_bytes)
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._writable = True
        self._reason = ""
        self._heard = self._sent = self._checked = 0.0
        self._check: DelayedCallPort | None = None
        """The next check for silence; while the link closes, its abortion in case the peer does not read."""
        self._gone = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait here for the peer to read; the operating system holds more."""
        return self._held_bytes

    @property
    def dropped(self) -> bool:
        """Whether this side has broken the connection."""
        return bool(self._reason)

    def limit_frames(self, max_bytes: int) -> None:
        """Accept frames up to `max_bytes` from now on."""
        self._reader.max_bytes = max_bytes

    def connectionMade(self) -> None:  # noqa: N802
        """Twisted: the connection is open."""
        self._tcp = cast("TcpPort", self.transport)
        self._tcp.setTcpNoDelay(True)
        self._tcp.registerProducer(self, True)
        address = self._tcp.getPeer()
        self.peer_host = unmapped(str(getattr(address, "host", "")))
        self.peer = host_port(self.peer_host, getattr(address, "port", "?"))

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Twisted: bytes arrived."""
        if self.closed:
            return
        self._heard = self._reactor.seconds()
        self.heard_anything = True
        try:
            bodies = self._reader.feed(data)
        except FrameError as error:
            self.drop(str(error))
            return
        if b"" in bodies:
            bodies = [body for body in bodies if body]
        if bodies:
            self.handler.frames(self, bodies)
        elif self.on_part is not None and self._reader.pending:
            self.on_part()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Twisted: the connection is gone."""
        self._gone = True
        self._stop_check()
        self._end(self._reason or reason.getErrorMessage())

    def send(self, bodies: Sequence[Body]) -> None:
        """Send frames in one write. If too many bytes wait already, drop the connection."""
        self.write(frame_parts(bodies))

    def write(self, parts: list[bytes]) -> None:
        """Send the bytes of frames, as `frame_parts` returns them, in one write."""
        if self.closed:
            return
        if self._writable:
            self._sent = self._reactor.seconds()
            if len(parts) == 1:
                self._tcp.write(parts[0])
            elif parts:
                self._tcp.writeSequence(parts)
            return
        self._held += parts
        self._held_bytes += sum(map(len, parts))
        if self._held_bytes > self._settings.buffer_bytes:
            self.drop(f"{self._held_bytes} bytes wait for a peer that does not read")

    def pauseProducing(self) -> None:  # noqa: N802
        """Twisted: the socket is full."""
        self._writable = False

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted: the socket has room again."""
        self._writable = True
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._sent = self._reactor.seconds()
            self._tcp.writeSequence(held)

    def stopProducing(self) -> None:  # noqa: N802
        """Twisted: the socket is closing."""
        self._writable = False

    def pause_reading(self) -> None:
        """Stop reading, as back-pressure to the peer. Its silence does not count meanwhile."""
        self._tcp.pauseProducing()
        self._heard = float("inf")

    def resume_reading(self) -> None:
        """Read again after `pause_reading`."""
        self._heard = self._reactor.seconds()
        self._tcp.resumeProducing()

    def keep_alive(self) -> None:
        """Begin to send pings when idle, and to drop the connection when the peer is silent too long."""
        self._heard = self._sent = self._checked = self._reactor.seconds()
        self._check = self._reactor.callLater(self._settings.ping_s, self._check_silence)

    def close(self) -> None:
        """Close once everything is written. The handler gets no more calls."""
        self.abandon()
        if self.transport is None or self._gone:
            return
        tcp = self._tcp
        if self._held:
            tcp.writeSequence(self._held)
            self._held = []
        # Twisted does not close a connection while a paused producer is registered.
        tcp.unregisterProducer()
        tcp.loseConnection()
        # A peer that reads nothing would keep the connection open, too.
        self._check = self._reactor.callLater(self._settings.hello_timeout_s, tcp.abortConnection)

    def drop(self, reason: str) -> None:
        """Break the connection now; bytes that wait are lost. Calls `lost` of the handler at once."""
        if self.closed:
            return
        self._reason = reason
        self._tcp.abortConnection()
        self._end(reason)

    def abort(self) -> None:
        """Break the connection now, also while it is being closed. The handler gets no more calls."""
        self.abandon()
        if self.transport is not None and not self._gone:
            self._tcp.abortConnection()

    def abandon(self) -> None:
        """Ignore everything that arrives; the handler gets no more calls."""
        self.closed = True
        self._stop_check()

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.abandon()
        self._held.clear()
        self._held_bytes = 0
        self.handler.lost(self, reason)

    def _stop_check(self) -> None:
        if self._check is not None and self._check.active():
            self._check.cancel()
        self._check = None

    def _check_silence(self) -> None:
        now = self._reactor.seconds()
        settings = self._settings
        late = now - self._checked > 2 * settings.ping_s
        self._checked = now
        self._check = self._reactor.callLater(settings.ping_s, self._check_silence)
        # After a stop of this process, bytes that arrived meanwhile must be read before the peer is judged.
        if now - self._heard > settings.silence_s and not late:
            self.drop(f"{SILENCE} for {settings.silence_s:g} s")
        elif now - self._sent >= settings.ping_s * 0.9 and self._writable:
            self.send([b""])
