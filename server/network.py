"""Networks between servers: FIFO and exactly once for each pair of servers, spoken by masters only.

One TCP connection for each direction. After the hello the sender's frames are `Data`, the receiver's `Ack`.
A sender finds the master of the other server by trying its replicas; a slave answers where the master is.
What is not acknowledged is in the replicated state of the sender's engine, so a new master starts from there.
The receiver's engine drops what it has already and what does not follow; it acknowledges once committed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..agents import Note
from ..hachannel.link import Address, CallPort, Handshake, Link, LinkSettings, ReactorPort, connect
from .front import NotNow
from .hello import Hello, ProtocolError, as_address

__all__ = ["Ack", "Data", "Incoming", "NetworkHost", "Outgoing"]

WINDOW_BYTES = 4 * 1024 * 1024
"""What a sender may have unacknowledged on a connection."""
BATCH_BYTES = 256 * 1024
BATCH_NOTES = 512
MAX_LINKS = 256
"""Connections accepted from other servers; there is one from each, and a few that are being replaced."""
NOTE_BYTES = 96
"""Counted for each notification besides its payload."""
REDIRECTS = 4
"""Redirections followed in a row before the list of replicas is tried from its start."""


class Data(msgspec.Struct, array_like=True, frozen=True, tag="d"):
    """Notifications numbered without gap from `first_seq`."""

    first_seq: int
    notes: list[Note]


class Ack(msgspec.Struct, array_like=True, frozen=True, tag="a"):
    """Everything up to `upto` is in the receiver's replicated state."""

    upto: int


_encoder = msgspec.msgpack.Encoder()
_data_decoder = msgspec.msgpack.Decoder(Data)
_ack_decoder = msgspec.msgpack.Decoder(Ack)


class NetworkHost(Protocol):
    """What the networks need from the replica."""

    def net_input(self, server: int, first_seq: int, notes: list[Note]) -> None:
        """Put received notifications into the next batch."""
        ...

    def net_acked(self, server: int, upto: int) -> None:
        """Another server has everything up to `upto`."""
        ...

    def net_received(self, server: int) -> int:
        """Return the highest number that our replicated state has from a server."""
        ...

    def net_refusal(self) -> str | None:
        """Return why no connection of another server can be served here, or None on a working master."""
        ...

    def net_master(self, server: int) -> Address | None:
        """Return where the master of this cluster listens for `server`; None if unknown or this replica."""
        ...

    def net_knows(self, server: int) -> bool:
        """Say whether the configuration has that other server."""
        ...

    @property
    def net_accepting(self) -> bool:
        """False while input from other servers has to wait."""
        ...

    def when_net_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once input from other servers may go on."""
        ...


class Outgoing:
    """The way to one other server. Lives while this replica is master.

    `handshake` makes the dialing side of a network hello.
    """

    def __init__(
        self,
        server: int,
        addresses: Sequence[Address],
        host: NetworkHost,
        reactor: ReactorPort,
        handshake: Callable[[], Handshake],
        log: Callable[[str], None],
        settings: LinkSettings | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self.server = server
        self._addresses = list(addresses)
        self._host = host
        self._reactor = reactor
        self._handshake = handshake
        self._log = log
        self._settings = settings or LinkSettings()
        self._jitter = jitter or random.Random()
        self._notes: dict[int, Note] = {}
        self._acked = self._sent = self._last = 0
        self._unacked_bytes = 0
        self._link: Link | None = None
        self._give_up: Callable[[], None] | None = None
        self._retry: CallPort | None = None
        self._turn = 0
        self._redirect: Address | None = None
        self._redirects = 0
        self._failures = 0
        self._running = True

    @property
    def connected(self) -> bool:
        """True while there is a connection to the other master."""
        return self._link is not None

    @property
    def waiting(self) -> int:
        """Notifications the other server has not acknowledged."""
        return len(self._notes)

    def start(self, first_seq: int, notes: Sequence[Note]) -> None:
        """Begin with what the replicated state holds unacknowledged, and connect."""
        self._acked = self._sent = first_seq - 1
        self._last = first_seq - 1
        self.queue([(first_seq + offset, note) for offset, note in enumerate(notes)])
        self._dial()

    def stop(self) -> None:
        """Close the connection and forget what waits: it is in the replicated state."""
        self._running = False
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        if self._give_up is not None:
            self._give_up()
            self._give_up = None
        if self._link is not None:
            self._link.close()
            self._link = None
        self._notes.clear()

    def queue(self, items: Sequence[tuple[int, Note]]) -> None:
        """Send these numbered notifications, which follow what was queued before."""
        for seq, note in items:
            if seq > self._last:
                self._notes[seq] = note
                self._last = seq
        self._pump()

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        """Of the link: acknowledgements."""
        upto = 0
        try:
            for body in bodies:
                upto = max(upto, _ack_decoder.decode(body).upto)
        except msgspec.DecodeError:
            link.drop("what came was no acknowledgement")
            return
        self._acknowledge(upto)

    def lost(self, link: Link, reason: str) -> None:
        """Of the link: gone."""
        if link is self._link:
            self._link = None
            self._log(f"connection to server {self.server} lost: {reason}")
            self._again()

    def _acknowledge(self, upto: int) -> None:
        if upto <= self._acked:
            return
        upto = min(upto, self._last)
        for seq in range(self._acked + 1, upto + 1):
            note = self._notes.pop(seq)
            if seq <= self._sent:
                self._unacked_bytes -= NOTE_BYTES + len(note.payload)
        self._acked = upto
        self._sent = max(self._sent, upto)
        self._host.net_acked(self.server, upto)
        self._pump()

    def _pump(self) -> None:
        link = self._link
        if link is None:
            return
        bodies: list[bytes] = []
        while self._sent < self._last and self._unacked_bytes < WINDOW_BYTES:
            first = self._sent + 1
            batch: list[Note] = []
            size = 0
            while self._sent < self._last and size < BATCH_BYTES and len(batch) < BATCH_NOTES:
                self._sent += 1
                note = self._notes[self._sent]
                size += NOTE_BYTES + len(note.payload)
                batch.append(note)
            self._unacked_bytes += size
            bodies.append(_encoder.encode(Data(first, batch)))
        if bodies:
            link.send(bodies)

    def _dial(self) -> None:
        self._retry = None
        if not self._running or not self._addresses:
            return
        address = self._redirect or self._addresses[self._turn % len(self._addresses)]
        self._redirect = None
        self._give_up = connect(
            self._reactor, address, self._settings, self._handshake(), self._opened, self._failed
        )

    def _failed(self, reason: str) -> None:
        self._give_up = None
        self._turn += 1
        self._failures += 1
        if self._failures in (len(self._addresses), 100) or self._failures % 1000 == 0:
            self._log(f"server {self.server} cannot be reached yet, it is tried again: {reason}")
        self._again()

    def _again(self) -> None:
        if not self._running or self._retry is not None:
            return
        # A whole round over the replicas is quick; only then the delay grows.
        rounds = self._failures // max(1, len(self._addresses))
        settings = self._settings
        delay = min(settings.max_delay_s, settings.first_delay_s * 2 ** min(rounds, 16))
        self._retry = self._reactor.callLater(delay * self._jitter.uniform(0.6, 1.0), self._dial)

    def _opened(self, link: Link, fields: Mapping[str, Any], frames: list[bytes]) -> None:
        self._give_up = None
        try:
            if fields.get("redirect") is not None:
                self._redirected(link, as_address(fields["redirect"], "redirection"))
                return
        except ProtocolError as error:
            link.close()
            self._failed(str(error))
            return
        upto = fields.get("upto")
        if fields.get("server") != self.server or not isinstance(upto, int):
            link.close()
            self._failed(f"{link.peer} is not server {self.server}; check the configuration")
            return
        self._failures = self._redirects = 0
        self._link = link
        link.handler = self
        link.limit_frames(self._settings.max_frame_bytes)
        link.keep_alive()
        if upto > self._last:
            self._log(
                f"server {self.server} has {upto} notifications of an earlier life of this server, which "
                f"counts {self._last} now; restart that server too, or it takes new ones for repeated ones"
            )
        if upto < self._acked:
            self._log(
                f"server {self.server} has {upto} notifications of this server and once acknowledged "
                f"{self._acked}: it has lost its state; restart this server too, or it takes nothing more"
            )
        self._sent = self._acked
        self._unacked_bytes = 0
        self._acknowledge(upto)
        self._pump()
        if frames:
            self.frames(link, frames)

    def _redirected(self, link: Link, address: Address) -> None:
        link.close()
        self._turn += 1
        self._redirects += 1
        if self._redirects <= REDIRECTS:
            self._redirect = address
            self._dial()
        else:
            self._redirects = 0
            self._failed("its replicas do not agree on their master yet")


class Incoming:
    """The connections of other servers. Serves the purpose "network" of the listener."""

    def __init__(
        self,
        server: int,
        host: NetworkHost,
        log: Callable[[str], None],
        settings: LinkSettings | None = None,
    ) -> None:
        self._server = server
        self._host = host
        self._log = log
        self._settings = settings or LinkSettings()
        self._links: dict[int, Link] = {}

    @property
    def connected(self) -> list[int]:
        """The servers whose master is connected."""
        return list(self._links)

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Of the listener: what to answer a hello. Raises ProtocolError to refuse."""
        server = hello.integer("server")
        if not self._host.net_knows(server):
            raise ProtocolError(f"Server {server} is not in the configuration of server {self._server}.")
        address = self._host.net_master(server)
        if address is not None:
            return {"server": self._server, "redirect": list(address)}
        refusal = self._host.net_refusal()
        if refusal is not None:
            raise NotNow(refusal)
        if len(self._links) >= MAX_LINKS and server not in self._links:
            raise ProtocolError(f"{MAX_LINKS} servers are connected; that is the limit.")
        return {"server": self._server, "upto": self._host.net_received(server)}

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Of the listener: take over a connection."""
        server = hello.integer("server")
        if self._host.net_refusal() is not None:
            link.close()
            return
        former = self._links.pop(server, None)
        if former is not None:
            former.close()
        self._links[server] = link
        link.limit_frames(self._settings.max_frame_bytes)
        link.handler = _From(self, server)
        link.keep_alive()
        if frames:
            self.received(server, link, frames)

    def acknowledge(self, server: int, upto: int) -> None:
        """Tell another server's master that everything up to `upto` is committed here."""
        link = self._links.get(server)
        if link is not None:
            link.send([_encoder.encode(Ack(upto))])

    def close(self) -> None:
        """Close all connections: this replica is no longer master."""
        links, self._links = list(self._links.values()), {}
        for link in links:
            link.close()

    def received(self, server: int, link: Link, bodies: list[bytes]) -> None:
        """Of a link: notifications."""
        try:
            for body in bodies:
                data = _data_decoder.decode(body)
                self._host.net_input(server, data.first_seq, data.notes)
        except msgspec.DecodeError:
            link.drop("what came were no notifications")
            return
        if not self._host.net_accepting:
            link.pause_reading()
            self._host.when_net_accepting(lambda: self._resume(link))

    def lost(self, server: int, link: Link, reason: str) -> None:
        """Of a link: gone."""
        if self._links.get(server) is link:
            del self._links[server]
            self._log(f"connection from server {server} lost: {reason}")

    def _resume(self, link: Link) -> None:
        if not link.closed:
            link.resume_reading()


class _From:
    """Handler of the link from one server."""

    def __init__(self, incoming: Incoming, server: int) -> None:
        self._incoming = incoming
        self._server = server

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        self._incoming.received(self._server, link, bodies)

    def lost(self, link: Link, reason: str) -> None:
        self._incoming.lost(self._server, link, reason)
