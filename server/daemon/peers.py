"""The connections of a daemon with the other daemons of its mesh."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...hachannel.transport.addresses import Address
from ...hachannel.transport.connection import Link
from ...hachannel.transport.process_liveness import this_process
from ...hachannel.transport.transport import ChannelTransport
from ...services.daemon_base import DaemonService
from ..context import ReplicaContext
from ..network.hello import CHANNEL, Hello, NotNow, ProtocolError
from ..network.link_handshake import LinkHandshake
from ..network.listener import DISCARD_FRAMES

__all__ = ["DaemonPeers"]


class DaemonPeers:
    """The connections to the other daemons: both an `InboundHandler` and a `ChannelHost`."""

    def __init__(self, context: ReplicaContext, addresses: Mapping[int, Address]) -> None:
        """Connect with the daemons at `addresses`, this one included, once `start` is called."""
        self._context = context
        self._service: DaemonService | None = None
        self._transport = ChannelTransport(
            context.replica.id,
            addresses,
            self,
            context.peer_reactor,
            self._handshake,
            context.log,
            context.settings.link,
            context.jitter,
        )

    def start(self, service: DaemonService) -> None:
        """Begin to connect, for the service."""
        self._service = service
        self._transport.start()

    def stop(self) -> None:
        """Close all connections."""
        self._service = None
        self._transport.stop()

    @property
    def connected(self) -> list[int]:
        """The daemons with a connection."""
        return self._transport.connected

    def follow(self, addresses: Mapping[int, Address]) -> None:
        """Connect with these daemons from now on."""
        self._transport.follow(addresses)

    def send(self, daemons: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send frames to daemons. What goes to one without connection is lost."""
        self._transport.send(daemons, frames)

    def drop(self, daemon: int, reason: str) -> None:
        """Break the connection to a daemon."""
        self._transport.drop(daemon, reason)

    @property
    def _fields(self) -> dict[str, Any]:
        context = self._context
        return {
            "replica": context.replica.id,
            "incarnation": context.incarnation,
            "cluster": context.config.digest,
            "process": this_process(),
        }

    def _handshake(self, peer: int, calls: bool) -> LinkHandshake:
        del peer
        return LinkHandshake(CHANNEL, {**self._fields, "calls": calls}, self._context.settings.secret)

    # The interface InboundHandler

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Answer a daemon's hello. Raises ProtocolError for a stranger."""
        context, other = self._context, hello.integer("replica")
        name, me = context.server.name, context.replica.id
        if hello.text("cluster") != context.config.digest:
            raise ProtocolError(
                f"Daemon {other} has another configuration than daemon {me} of {name}; "
                "start both with the same file."
            )
        if other == me:
            raise ProtocolError(f"Daemon {other} of {name} is this one; give another id.")
        if self._service is None or not self._transport.knows(other):
            raise NotNow(f"Daemon {other} does not belong to {name} here: run `quorate mesh add`, or end it.")
        hello.integer("incarnation")
        return self._fields

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Hand the connection to the transport."""
        other, incarnation = hello.integer("replica"), hello.integer("incarnation")
        # A daemon whose disk was set back, or whose clock, comes as an earlier incarnation.
        if incarnation < self._transport.life(other)[0]:
            self._transport.forget_life(other)
        if hello.fields.get("calls"):
            link.handler = DISCARD_FRAMES
            link.close()
            self._transport.called(other, incarnation)
        else:
            self._transport.accept(link, other, incarnation, frames, hello.fields)

    # The interface ChannelHost

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Give frames to the service."""
        if self._service is None:
            return
        try:
            self._service.peer_frames(peer, bodies)
        except ValueError as error:
            self._context.metrics.count("garbage")
            self._context.log(f"daemon {peer} sent garbage: {error}")
            self._transport.drop(peer, "it sent garbage")

    def peer_alive(self, peer: int) -> None:
        """Part of a long frame has arrived: nothing depends on it."""

    def peer_up(self, peer: int, incarnation: int) -> None:
        """Report a new connection."""
        del incarnation
        if self._service is not None:
            self._service.peer_up(peer)

    def peer_down(self, peer: int, reason: str) -> None:
        """Report the end of a connection."""
        del reason
        if self._service is not None:
            self._service.peer_down(peer)

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """An attempt has failed: the transport has logged it."""
