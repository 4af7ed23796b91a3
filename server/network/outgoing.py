"""The connecting half of the networks between servers: see `incoming`."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from ...agents import Note
from ...engine import StampedNote
from ...hachannel.transport.addresses import Address
from ...hachannel.transport.connection import Link, LinkSettings
from ...hachannel.transport.connector import Handshake, connect
from ...hachannel.transport.ports import DelayedCallPort, ReactorPort
from .hello import ProtocolError, as_address
from .incoming import Ack, CausalData, Data, NetworkHost
from .link_ordering import check_ordering

__all__ = ["Outgoing"]

WINDOW_BYTES = 4 * 1024 * 1024
"""Most bytes that may be sent and not acknowledged on a connection."""
BATCH_BYTES = 256 * 1024
BATCH_NOTES = 512
NOTE_BYTES = 96
"""Bytes that are counted for each notification besides its payload."""
SENT_BYTES = 16
"""Bytes that are counted for each cell of a clock that a notification carries."""
MAX_ADDRESSES = 64
"""Most replicas of one server; a longer list is ignored."""
REDIRECTS = 4
"""Redirections followed in a row before the list of replicas is tried from its start."""

_encoder = msgspec.msgpack.Encoder()
_ack_decoder = msgspec.msgpack.Decoder(Ack)


def _size(note: Note) -> int:
    size = NOTE_BYTES + len(note.payload)
    return size + SENT_BYTES * len(note.past) if type(note) is StampedNote else size


class Outgoing:
    """The connection to one other server, made again when it is lost. Exists while this replica is master.

    `handshake` makes the connecting side of a handshake. `nats` replaces addresses of replicas of the other
    server, by replica id.
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
        causal: bool = False,
    ) -> None:
        self._nats: Mapping[int, Address] = {} if nats is None else nats
        self._causal = causal
        self._settled = 0
        """In a domain with causal order, see `CausalData.settled`."""
        self._announced = False
        """Whether a frame on this connection has told the other server `_settled`."""
        self.server = server
        self._addresses = list(addresses)
        self._host = host
        self._reactor = reactor
        self._handshake = handshake
        self._log = log
        self._settings = settings or LinkSettings()
        self._jitter = jitter or random.Random()
        self._known = 0
        """The birth of the other server in our replicated state; the sequence numbers are valid for it."""
        self._met = 0
        """The birth that the other server sent on this connection."""
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
        """Whether there is a connection to the other master."""
        return self._link is not None

    @property
    def hosts(self) -> set[str]:
        """Hosts of the replicas of the other server, as the file has them or as it has reported itself."""
        return {host for host, _ in self._addresses}

    @property
    def waiting(self) -> int:
        """Number of notifications that the other server has not acknowledged."""
        return len(self._notes)

    def start(self, birth: int, first_seq: int, notes: Sequence[Note], settled: int = 0) -> None:
        """Connect, and send `notes`, the unacknowledged notifications from `first_seq` on.

        All arguments are from the replicated state; `birth` is that of the other server. `settled`: see
        `CausalData`.
        """
        self._load(birth, first_seq, notes, settled)
        self._dial()

    def begin_incarnation(self, birth: int, first_seq: int, notes: Sequence[Note], settled: int = 0) -> None:
        """Replace the notifications to send: the replicated state has another birth of the other server."""
        self._load(birth, first_seq, notes, settled)
        self._pump()

    def keep_incarnation(self, birth: int) -> None:
        """Close a connection to another birth of the other server, and an attempt that may lead to one."""
        if self._give_up is not None:
            self._give_up()
            self._give_up = None
            self._retry_later()
        if self._link is not None and self._met != birth:
            self._link.close()
            self._link = None
            self._retry_later()

    def _load(self, birth: int, first_seq: int, notes: Sequence[Note], settled: int) -> None:
        self._known = birth
        self._settled, self._announced = settled, False
        self._notes.clear()
        self._unacked_bytes = 0
        self._acked = self._sent = self._last = first_seq - 1
        self._add([(first_seq + offset, note) for offset, note in enumerate(notes)])

    def stop(self) -> None:
        """Close the connection. Unacknowledged notifications stay in the replicated state."""
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
        """Send these numbered notifications, which follow those queued before."""
        self._add(items)
        self._pump()

    def _add(self, items: Sequence[tuple[int, Note]]) -> None:
        for seq, note in items:
            if seq > self._last:
                self._notes[seq] = note
                self._last = seq

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        """Process acknowledgements that arrived on the link."""
        upto = 0
        try:
            for body in bodies:
                upto = max(upto, _ack_decoder.decode(body).upto)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            link.drop("a frame is not an acknowledgement")
            return
        if self._met == self._known:
            self._acknowledge(upto)

    def lost(self, link: Link, reason: str) -> None:
        """Connect again, to another replica first: the link is lost."""
        if link is self._link:
            self._link = None
            self._log(f"connection to server {self.server} lost: {reason}")
            # A frozen replica still accepts connections; any other replica knows the present master.
            self._turn += 1
            self._retry_later()

    def _acknowledge(self, upto: int) -> None:
        if upto <= self._acked:
            return
        upto = min(upto, self._last)
        for seq in range(self._acked + 1, upto + 1):
            note = self._notes.pop(seq)
            if seq <= self._sent:
                self._unacked_bytes -= _size(note)
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
                size += _size(note)
                batch.append(note)
            self._unacked_bytes += size
            bodies.append(self._encoded(first, batch))
        if self._causal and not (bodies or self._announced):
            bodies.append(self._encoded(self._sent + 1, []))
        if bodies:
            link.send(bodies)

    def _encoded(self, first_seq: int, notes: list[Note]) -> bytes:
        if not self._causal:
            return _encoder.encode(Data(first_seq, notes))
        self._announced = True
        return _encoder.encode(CausalData(first_seq, self._settled, cast("list[StampedNote]", notes)))

    def _dial(self) -> None:
        self._retry = None
        if not self._running or not self._addresses:
            return
        if self._host.net_refusal() is not None:
            # This replica is not a working master yet, so it has no birth to send.
            self._retry_later()
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
            self._log(f"server {self.server} cannot be reached yet, retrying: {reason}")
        self._retry_later()

    def _retry_later(self) -> None:
        if not self._running or self._retry is not None:
            return
        # The delay grows only after all replicas were tried.
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
        self._update_addresses(fields.get("replicas"))
        self._host.net_heard(self.server, birth)
        try:
            check_ordering(self.server, self._host.net_server, fields, self._causal)
        except ProtocolError as error:
            link.close()
            self._failed(str(error))
            return
        self._link = link
        self._announced = False
        self._met = birth
        link.handler = self
        link.limit_frames(self._settings.max_frame_bytes)
        link.keep_alive()
        if birth == self._known:
            self._resume(upto)
        else:
            self._host.net_peer(self.server, birth)
        if frames:
            self.frames(link, frames)

    def _update_addresses(self, replicas: object) -> None:
        """Use the replicas that the other server reports, which may differ from those in our file."""
        found: list[Address] = []
        for each in cast("list[object]", replicas) if isinstance(replicas, list) else []:
            try:
                replica, host, port = msgspec.convert(each, tuple[int, str, int])
                found.append(self._nats.get(replica) or as_address([host, port], "replica in the hello"))
            except (msgspec.ValidationError, ProtocolError):
                continue
        if found and len(found) <= MAX_ADDRESSES:
            self._addresses = found

    def _resume(self, upto: int) -> None:
        """Send on: the other server has the known birth, and the notifications up to `upto`."""
        if not self._acked <= upto <= self._last:
            self._log(
                f"server {self.server} has {upto} notifications of this server, which counts {self._acked} "
                f"acknowledged and {self._last} sent: one of the two runs with an older copy of its state, "
                "and notifications are lost; start that one with an empty directory instead"
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
