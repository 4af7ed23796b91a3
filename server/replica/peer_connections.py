"""The connections of a replica with the other replicas of its cluster."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...engine import rules
from ...hachannel import Message, ProtocolError, Seat, decode_message
from ...hachannel.transport.connection import SILENCE
from ...hachannel.transport.connector import NO_ADDRESS, NOBODY_LISTENS
from ...hachannel.transport.process_liveness import this_process
from ...hachannel.transport.sending import send_messages
from ...hachannel.transport.transport import ChannelTransport
from ..context import ReplicaContext
from ..network.addresses import Addresses
from ..network.handshake import SECRET
from ..network.hello import CHANNEL
from ..network.hello import ProtocolError as HelloError
from ..network.link_handshake import LinkHandshake
from .driver import Driver

__all__ = ["OTHER_FILE", "OTHER_RULES", "STRANGER", "PeerConnections"]

STRANGER = "does not belong to"
"""Part of the reason with which a cluster turns away a replica that does not belong to it."""
OTHER_FILE = "has another configuration than"
"""Part of the reason with which replicas turn each other away that were started with different files."""
OTHER_RULES = "works by other rules than"
"""Part of the reason with which replicas turn each other away that run releases which do not fit."""
CALLED_S = 10.0
"""Seconds for which a peer that has asked for a connection is assumed to run."""


class _PeerHandshake(LinkHandshake):
    """The dialing side of a hello to a peer. `refused` is called with the reason if no connection follows.

    `asked` is the reason for a hello that only asks the peer to connect; "" for any other hello.
    """

    def __init__(
        self, fields: Mapping[str, Any], secret: str | None, refused: Callable[[str], None], asked: str
    ) -> None:
        super().__init__(CHANNEL, fields, secret)
        self._refused = refused
        self._asked = asked

    def receive(self, frame: bytes) -> list[bytes]:
        """Process a frame of the peer, and report a hello that ends without a connection."""
        try:
            answers = super().receive(frame)
        except HelloError as error:
            self._refused(str(error))
            raise
        if self.done and self._asked:
            # The reason holds until the peer connects, which it does at once if nothing is wrong.
            self._refused(self._asked)
        return answers


class PeerConnections:
    """Connections to the peers: `start` and `stop` for each incarnation. A plain server has none.

    Implements `ChannelHost`.
    """

    def __init__(self, context: ReplicaContext, driver: Driver) -> None:
        self._context = context
        self._driver = driver
        self.incarnation = context.incarnation
        """The voter that the replica is at present."""
        self.addresses = Addresses(context.server, context.replica)
        """The known addresses of the replicas."""
        self.transport: ChannelTransport | None = None
        """The connections; None in a plain server, and before the replica joins again."""
        self._refusals: dict[int, str] = {}
        """By peer, the reason for which it or this replica refused the connection."""
        self._calling: dict[int, float] = {}
        """By peer, when it last asked this replica to connect, in seconds of the reactor."""
        self._announced: dict[int, str] = {}
        """By peer, the reason that was announced last."""
        self.mute: set[int] = set()
        """Peers that cannot be reached, and not because nobody listens where they should be."""
        self.astray: set[int] = set()
        """Those peers in `mute` whose host names do not resolve."""

    @property
    def turned_away(self) -> str:
        """The reason for which replicas refuse each other's connections, in one sentence; "" if none does."""
        reasons = {
            reason: [other for other in sorted(self._refusals) if self._refusals[other] == reason]
            for _, reason in sorted(self._refusals.items())
        }
        chosen = next((reason for reason in reasons if STRANGER in reason), next(iter(reasons), ""))
        return _without(reasons.get(chosen, []), chosen)

    def start(self, incarnation: int) -> None:
        """Connect with the others, as this incarnation."""
        self.incarnation = incarnation
        context = self._context
        if not context.server.clustered:
            return
        self.transport = ChannelTransport(
            context.replica.id,
            self.addresses.in_domain(),
            self,
            context.peer_reactor,
            self._handshake,
            context.log,
            context.settings.link,
            context.jitter,
        )
        self.transport.start()

    def stop(self) -> None:
        """Close all connections, without reports to the node."""
        if self.transport is not None:
            self.transport.stop()
            self.transport = None

    def send(self, messages: list[tuple[int, Message]]) -> None:
        """Send messages to the peers that are connected."""
        if self.transport is not None:
            send_messages(self.transport, messages)

    def follow(self, seats: tuple[Seat, ...]) -> None:
        """Connect with these replicas from now on: the replicas or their addresses have changed."""
        self.addresses.update(seats)
        if self.transport is not None:
            self.transport.follow(self.addresses.in_domain())
        names = ", ".join(f"{replica} at {address}" for replica, address in self.addresses.items())
        self._context.log(f"{self._context.server.name} has the replicas {names}")
        difference = self.addresses.difference()
        if difference:
            self._context.log(difference)

    def _handshake(self, peer: int, calls: bool) -> LinkHandshake:
        context = self._context
        fields = {
            "replica": context.replica.id,
            "incarnation": self.incarnation,
            "cluster": context.config.digest,
            "calls": calls,
            "process": this_process(),
            "rules": rules.RULES,
        }
        here = self.addresses.in_domain(nat=False).get(context.replica.id)
        where = "" if here is None else f" at {here[0]}:{here[1]}"
        asked = (
            f"an answer comes, but no connection to this replica{where}; "
            "give all replicas the same file, or mend the network"
        )
        refused = partial(self._refused, peer)
        return _PeerHandshake(fields, context.settings.secret, refused, asked if calls else "")

    def called(self, peer: int) -> None:
        """Record that a peer without connection asked this replica to connect: the peer runs."""
        if self.transport is not None and peer in self.transport.connected:
            # It only asks whether this replica answers.
            return
        self._calling[peer] = self._context.reactor.seconds()

    def _refused(self, peer: int, reason: str) -> None:
        """Record the reason with which one of the two sides ended a hello."""
        self._refusals[peer] = reason
        # A replica that waits for the others shows the reason in its status instead.
        settled = self._driver.node.role in ("master", "slave", "witness")
        lasting = any(part in reason for part in (SECRET, OTHER_FILE, OTHER_RULES))
        if settled and lasting and self._announced.get(peer) != reason:
            self._announced[peer] = reason
            self._context.announce(_without([peer], reason))

    # The interface ChannelHost

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Decode the frames of a peer, and pass the messages to the node."""
        context = self._context
        try:
            messages = [decode_message(body) for body in bodies]
        except ProtocolError as error:
            context.metrics.count("garbage")
            context.log(f"replica {peer} sent garbage: {error}")
            if self.transport is not None:
                self.transport.drop(peer, "it sent garbage")
            return
        self._driver.call(self._driver.node.receive, peer, messages)

    def peer_alive(self, peer: int) -> None:
        """Report that part of a long frame of a peer has arrived."""
        self._driver.call(self._driver.node.partial_received, peer)

    def peer_up(self, peer: int, incarnation: int) -> None:
        """Report a new connection to a peer."""
        self._refusals.pop(peer, None)
        self._announced.pop(peer, None)
        self._calling.pop(peer, None)
        self.mute.discard(peer)
        self.astray.discard(peer)
        self._driver.call(self._driver.node.connected, peer, incarnation)

    def peer_down(self, peer: int, reason: str) -> None:
        """Report that the connection to a peer is lost."""
        if SILENCE in reason:
            self.mute.add(peer)
        ended = self.transport is not None and self.transport.ended(peer)
        self._driver.call(self._driver.node.disconnected, peer, ended)

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """Report that a peer without connection cannot be reached."""
        if STRANGER in reason:
            # A cluster exists without this replica, which must not found another one.
            self._driver.node.channel.bar_founding()
        if self._refusals.get(peer) != reason:
            self._refusals.pop(peer, None)
        if NOBODY_LISTENS in reason and self._is_running(peer):
            self._refusals[peer] = self._wrong_address(peer)
        if NOBODY_LISTENS in reason or peer in self._refusals:
            self.mute.discard(peer)
        else:
            self.mute.add(peer)
        if NO_ADDRESS in reason:
            self.astray.add(peer)
        else:
            self.astray.discard(peer)
        self.peer_down(peer, reason)

    def _is_running(self, peer: int) -> bool:
        """Return whether the peer asked for a connection within the last `CALLED_S` seconds."""
        called = self._calling.get(peer)
        return called is not None and self._context.reactor.seconds() - called < CALLED_S

    def _wrong_address(self, peer: int) -> str:
        at = self.addresses.in_domain().get(peer)
        where = "" if at is None else f" at {at[0]}:{at[1]}"
        remedy = (
            "run `quorate apply` with the file that says where it is"
            if self.addresses.agreed
            else "give all replicas the same file, and start what runs with another one again"
        )
        return f"it runs, and nobody listens{where}, where this replica looks for it; {remedy}"


def _without(peers: Sequence[int], reason: str) -> str:
    if not reason or STRANGER in reason:
        return reason.rstrip(".")
    names = ", ".join(map(str, peers))
    return f"no connection with replica{'s' if len(peers) > 1 else ''} {names}: {reason.rstrip('.')}"
