"""Networks between servers: FIFO and exactly once for each pair of servers, spoken by masters only.

One TCP connection for each direction. After the hello the sender's frames are `Data`, the receiver's `Ack`.
A sender finds the master of the other server by trying its replicas; a slave answers with the address of the
master. Unacknowledged notifications are in the replicated state of the sender's engine, from which a new
master continues. The receiver's engine drops notifications that it has already, and those after a gap. It
acknowledges notifications once they are committed.

Sequence numbers are valid for one incarnation of either server, which its birth identifies (`Engine.birth`):
a server that has lost its state begins a new incarnation. Both hellos contain the birth. The sender keeps the
birth of the other server in its replicated state before it sends anything, so it notices a lost state.

Frames of an earlier incarnation may arrive late. So when a server is heard with another birth than before,
every connection to or from another birth, and every attempt that is under way, is closed
(`NetworkHost.net_heard`). A connection made afterwards belongs to the later incarnation.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import msgspec

from ...agents import Note
from ...engine import StampedNote
from ...hachannel.transport.addresses import Address
from ...hachannel.transport.connection import Link, LinkSettings
from .hello import Hello, NotNow, ProtocolError
from .link_ordering import check_ordering, ordering_field

__all__ = ["Ack", "CausalData", "Data", "Incoming", "NetworkHost"]

MAX_LINKS = 256
"""Most connections accepted from other servers: one from each, and a few that are being replaced."""

MAX_REPLICAS_CHARS = 2000
"""A longer list of replicas does not fit into a hello and is left out; the other side uses its file."""


class Data(msgspec.Struct, array_like=True, frozen=True, tag="d"):
    """Notifications with consecutive numbers from `first_seq` on."""

    first_seq: int
    notes: list[Note]


class CausalData(msgspec.Struct, array_like=True, frozen=True, tag="c"):
    """`Data` in a domain with causal order, with the place of each notification in it."""

    first_seq: int
    settled: int
    """The count up to which lives of the receiver have acknowledged, see `engine.causal_order`."""
    notes: list[StampedNote]


class Ack(msgspec.Struct, array_like=True, frozen=True, tag="a"):
    """Acknowledgement: all notifications up to `upto` are in the receiver's replicated state."""

    upto: int


_encoder = msgspec.msgpack.Encoder()
_data_decoder = msgspec.msgpack.Decoder(Data)
_causal_decoder = msgspec.msgpack.Decoder(CausalData)


class NetworkHost(Protocol):
    """The operations of a replica for the networks."""

    @property
    def net_server(self) -> int:
        """The id of this server."""
        ...

    @property
    def net_birth(self) -> int:
        """The birth of this server; 0 before it begins."""
        ...

    def net_heard(self, server: int, birth: int) -> None:
        """Note that another server was heard just now, with that birth."""
        ...

    def net_peer(self, server: int, birth: int) -> None:
        """Replicate the birth of another server; `Outgoing.begin_incarnation` is called once that is done."""
        ...

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Put received notifications into the next batch."""
        ...

    def net_causal_input(
        self, server: int, birth: int, first_seq: int, settled: int, notes: list[StampedNote]
    ) -> None:
        """Put notifications received in a domain with causal order into the next batch."""
        ...

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        """Note that another server, in the incarnation of that birth, has everything up to `upto`."""
        ...

    def net_received(self, server: int, birth: int) -> int:
        """Return the highest number received from that incarnation of a server, in the replicated state."""
        ...

    def net_refusal(self) -> str | None:
        """Return why this replica does not serve other servers; None on a working master."""
        ...

    def net_master(self, server: int) -> Address | None:
        """Return where the master of this cluster listens for `server`; None if unknown or this replica."""
        ...

    def net_replicas(self, server: int) -> list[tuple[int, str, int]]:
        """Return (replica, host, port) of the replicas of this cluster, as `server` may reach them."""
        ...

    def net_is_causal(self, server: int) -> bool:
        """Return whether the domain that leads to another server has causal order."""
        ...

    def net_knows(self, server: int) -> bool:
        """Return whether the configuration has that other server."""
        ...

    @property
    def net_accepting(self) -> bool:
        """Whether input from other servers is accepted at present."""
        ...

    def when_net_accepting(self, callback: Callable[[], None]) -> None:
        """Call `callback` once input from other servers is accepted again."""
        ...


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
        self._links: dict[int, _From] = {}

    @property
    def connected(self) -> list[int]:
        """The servers whose master is connected."""
        return list(self._links)

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Return the fields of the answer to a hello. Raises ProtocolError to refuse."""
        server, birth = hello.integer("server"), hello.integer("birth")
        if birth <= 0:
            raise ProtocolError("The birth of a server is a number above 0.")
        if not self._host.net_knows(server):
            raise ProtocolError(f"Server {server} is not in the configuration of server {self._server}.")
        check_ordering(server, self._server, hello.fields, self._host.net_is_causal(server))
        address = self._host.net_master(server)
        if address is not None:
            return {"server": self._server, "redirect": list(address)}
        refusal = self._host.net_refusal()
        if refusal is not None:
            raise NotNow(refusal)
        if len(self._links) >= MAX_LINKS and server not in self._links:
            raise ProtocolError(f"At most {MAX_LINKS} servers may be connected, and this many are.")
        upto = self._host.net_received(server, birth)
        replicas = [list(each) for each in self._host.net_replicas(server)]
        if sum(len(str(each)) for each in replicas) > MAX_REPLICAS_CHARS:
            replicas = []
        fields = {"server": self._server, "birth": self._host.net_birth, "upto": upto, "replicas": replicas}
        return fields | ordering_field(self._host.net_is_causal(server))

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Serve a connection after the handshake."""
        server = hello.integer("server")
        if self._host.net_refusal() is not None:
            link.close()
            return
        former = self._links.pop(server, None)
        if former is not None:
            former.link.close()
        causal = self._host.net_is_causal(server)
        handler = self._links[server] = _From(self, link, server, hello.integer("birth"), causal)
        link.limit_frames(self._settings.max_frame_bytes)
        link.handler = handler
        link.keep_alive()
        if frames:
            self.received(handler, frames)

    def acknowledge(self, server: int, birth: int, upto: int) -> None:
        """Acknowledge to another server's master everything up to `upto` of the incarnation of that birth."""
        handler = self._links.get(server)
        # The numbers of another incarnation mean other notifications.
        if handler is not None and handler.birth == birth:
            handler.link.send([_encoder.encode(Ack(upto))])

    def keep_incarnation(self, server: int, birth: int) -> None:
        """Close the connection from a server unless it is from the incarnation of that birth."""
        handler = self._links.get(server)
        if handler is not None and handler.birth != birth:
            del self._links[server]
            handler.link.close()

    def drop(self, server: int) -> None:
        """Close the connection from a server, which connects again and sends what is not acknowledged."""
        handler = self._links.pop(server, None)
        if handler is not None:
            handler.link.close()

    def close(self) -> None:
        """Close all connections: this replica is no longer master."""
        handlers, self._links = list(self._links.values()), {}
        for handler in handlers:
            handler.link.close()

    def received(self, handler: "_From", bodies: list[bytes]) -> None:
        """Process notifications that arrived on a link."""
        server, birth, link = handler.server, handler.birth, handler.link
        self._host.net_heard(server, birth)
        try:
            if handler.causal:
                for placed in [_causal_decoder.decode(body) for body in bodies]:
                    self._host.net_causal_input(server, birth, placed.first_seq, placed.settled, placed.notes)
            else:
                for data in [_data_decoder.decode(body) for body in bodies]:
                    self._host.net_input(server, birth, data.first_seq, data.notes)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            link.drop("a frame is not a batch of notifications")
            return
        if not self._host.net_accepting:
            link.pause_reading()
            self._host.when_net_accepting(lambda: self._resume(link))

    def lost(self, handler: "_From", reason: str) -> None:
        """Forget a link that is lost."""
        if self._links.get(handler.server) is handler:
            del self._links[handler.server]
            self._log(f"connection from server {handler.server} lost: {reason}")

    def _resume(self, link: Link) -> None:
        if not link.closed:
            link.resume_reading()


@attrs.frozen(eq=False)
class _From:
    """Handler of the link from one server."""

    incoming: Incoming
    link: Link
    server: int
    birth: int
    causal: bool

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        del link
        self.incoming.received(self, bodies)

    def lost(self, link: Link, reason: str) -> None:
        del link
        self.incoming.lost(self, reason)
