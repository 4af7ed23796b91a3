"""The dialing half of the networks between servers: see `network`."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from ...agents import Note
from ...hachannel.transport.addresses import Address
from ...hachannel.transport.connection import Link, LinkSettings
from ...hachannel.transport.connector import Handshake, connect
from ...hachannel.transport.ports import DelayedCallPort, ReactorPort
from .hello import ProtocolError, as_address
from .incoming import Ack, Data, NetworkHost

__all__ = ["Outgoing"]

WINDOW_BYTES = 4 * 1024 * 1024
"""What a sender may have unacknowledged on a connection."""
BATCH_BYTES = 256 * 1024
BATCH_NOTES = 512
NOTE_BYTES = 96
"""Counted for each notification besides its payload."""
MAX_ADDRESSES = 64
"""Of one server; a longer list is not believed."""
REDIRECTS = 4
"""Redirections followed in a row before the list of replicas is tried from its start."""

_encoder = msgspec.msgpack.Encoder()
_ack_decoder = msgspec.msgpack.Decoder(Ack)


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
        nats: Mapping[int, Address] | None = None,
    ) -> None:
        self._nats = {} if nats is None else nats
        self.server = server
        self._addresses = list(addresses)
        self._host = host
        self._reactor = reactor
        self._handshake = handshake
        self._log = log
        self._settings = settings or LinkSettings()
        self._jitter = jitter or random.Random()
        self._known = 0
        """The life of the other server that our replicated state knows; the numbers are for that one."""
        self._met = 0
        """The life of the other server that the connection leads to."""
        self._notes: dict[int, Note] = {}
        self._acked = self._sent = self._last = 0
        self._unacked_bytes = 0
        self._link: Link | None = None
        self._give_up: Callable[[], None] | None = None
        self._retry: DelayedCallPort | None = None
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

    def start(self, birth: int, first_seq: int, notes: Sequence[Note]) -> None:
        """Begin with what the replicated state holds: the known life, what waits for it; and connect."""
        self._load(birth, first_seq, notes)
        self._dial()

    def begin_life(self, birth: int, first_seq: int, notes: Sequence[Note]) -> None:
        """The replicated state knows another life of the other server now, and what waits is for that one."""
        self._load(birth, first_seq, notes)
        self._pump()

    def keep_life(self, birth: int) -> None:
        """Give up a connection to another life of the other server, and an attempt that may come to one."""
        if self._give_up is not None:
            self._give_up()
            self._give_up = None
            self._again()
        if self._link is not None and self._met != birth:
            self._link.close()
            self._link = None
            self._again()

    def _load(self, birth: int, first_seq: int, notes: Sequence[Note]) -> None:
        self._known = birth
        self._notes.clear()
        self._unacked_bytes = 0
        self._acked = self._sent = self._last = first_seq - 1
        self._add([(first_seq + offset, note) for offset, note in enumerate(notes)])

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
        self._add(items)
        self._pump()

    def _add(self, items: Sequence[tuple[int, Note]]) -> None:
        for seq, note in items:
            if seq > self._last:
                self._notes[seq] = note
                self._last = seq

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        """Of the link: acknowledgements."""
        upto = 0
        try:
            for body in bodies:
                upto = max(upto, _ack_decoder.decode(body).upto)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            link.drop("what came was no acknowledgement")
            return
        if self._met == self._known:
            self._acknowledge(upto)

    def lost(self, link: Link, reason: str) -> None:
        """Of the link: gone."""
        if link is self._link:
            self._link = None
            self._log(f"connection to server {self.server} lost: {reason}")
            # It may be frozen and still take connections; any other replica knows who is master now.
            self._turn += 1
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
        self._host.net_acked(self.server, self._known, upto)
        self._pump()

    def _pump(self) -> None:
        link = self._link
        if link is None or self._met != self._known:
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
        if self._host.net_refusal() is not None:
            # Our own life has not begun.
            self._again()
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
        birth, upto = fields.get("birth"), fields.get("upto")
        if fields.get("server") != self.server or not isinstance(birth, int) or not isinstance(upto, int):
            link.close()
            self._failed(f"{link.peer} is not server {self.server}; check the configuration")
            return
        self._failures = self._redirects = 0
        self._learn(fields.get("replicas"))
        self._host.net_heard(self.server, birth)
        self._link = link
        self._met = birth
        link.handler = self
        link.limit_frames(self._settings.max_frame_bytes)
        link.keep_alive()
        if birth == self._known:
            self._go_on(upto)
        else:
            self._host.net_peer(self.server, birth)
        if frames:
            self.frames(link, frames)

    def _learn(self, replicas: object) -> None:
        """The other server says which replicas it has now: replicas come and go without our file."""
        found: list[Address] = []
        for each in cast("list[object]", replicas) if isinstance(replicas, list) else []:
            try:
                replica, host, port = msgspec.convert(each, tuple[int, str, int])
                found.append(self._nats.get(replica) or as_address([host, port], "replica in the hello"))
            except (msgspec.ValidationError, ProtocolError):
                continue
        if found and len(found) <= MAX_ADDRESSES:
            self._addresses = found

    def _go_on(self, upto: int) -> None:
        """The other server is in the life that is known, and has what was sent up to a number."""
        if not self._acked <= upto <= self._last:
            self._log(
                f"server {self.server} has {upto} notifications of this server, which counts {self._acked} "
                f"acknowledged and {self._last} sent: one of the two was given an older state of its own and "
                "some of what is sent is lost; start that one with nothing instead"
            )
        self._sent = self._acked
        self._unacked_bytes = 0
        self._acknowledge(upto)
        self._pump()

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
