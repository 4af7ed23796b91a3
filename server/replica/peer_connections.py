"""The connections of a replica with the other replicas of its cluster."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ...hachannel import Message, ProtocolError, Seat, decode_message
from ...hachannel.transport.connection import NO_ADDRESS, NOBODY_LISTENS, SILENCE
from ...hachannel.transport.direct_write import DirectWriteReactor
from ...hachannel.transport.process_liveness import this_process
from ...hachannel.transport.sending import send_messages
from ...hachannel.transport.transport import ChannelTransport
from ..config import Config, Replica, Server
from ..metrics import Metrics
from ..network.addresses import Addresses
from ..network.handshake import SECRET
from ..network.hello import CHANNEL
from ..network.hello import ProtocolError as HelloError
from ..network.link_handshake import LinkHandshake
from ..node.node import Node
from ..settings import ReplicaSettings
from .inbound import OTHER_FILE, STRANGER

__all__ = ["PeerConnections", "PeerHost"]

CALLED_S = 10.0
"""Seconds after a call of a peer in which it is assumed to run."""


class PeerHost(Protocol):
    """The replica, as its peer connections need it."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def server(self) -> Server:
        """The server."""
        ...

    @property
    def replica(self) -> Replica:
        """The replica."""
        ...

    @property
    def settings(self) -> ReplicaSettings:
        """The settings of the replica."""
        ...

    @property
    def incarnation(self) -> int:
        """The voter that the replica is at present."""
        ...

    @property
    def node(self) -> Node:
        """The node of the replica's present incarnation."""
        ...

    @property
    def reactor(self) -> Any:
        """The reactor."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Counters and gauges."""
        ...

    def give(self, call: Callable[..., None], *args: Any) -> None:
        """Call an input of the node with the present time and these arguments, and act on what follows."""
        ...

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def tell(self, line: str) -> None:
        """Write a line to the log, and to whoever has started the replica."""
        ...


class _PeerShaking(LinkHandshake):
    """The hello to a peer; `refused` gets the sentence with which it ends, whichever side says it.

    A hello that only asks the peer to connect ends with `asked`, if that is not "".
    """

    def __init__(
        self, fields: Mapping[str, Any], secret: str | None, refused: Callable[[str], None], asked: str
    ) -> None:
        super().__init__(CHANNEL, fields, secret)
        self._refused = refused
        self._asked = asked

    def receive(self, frame: bytes) -> list[bytes]:
        """See `LinkHandshake`."""
        try:
            answers = super().receive(frame)
        except HelloError as error:
            self._refused(str(error))
            raise
        if self.done and self._asked:
            # Until it comes: that takes no time where all is well.
            self._refused(self._asked)
        return answers


class PeerConnections:
    """Connections to the peers: `start` and `stop` for each incarnation. A plain server has none.

    It is the `ChannelHost` of its transport.
    """

    def __init__(self, host: PeerHost) -> None:
        self._host = host
        self.addresses = Addresses(host.server, host.replica)
        """Where the replicas are, as far as is known."""
        self.transport: ChannelTransport | None = None
        """The connections; None in a plain server, or before joining again."""
        self._refusals: dict[int, str] = {}
        """By peer, the reason for which it or this replica refused the connection."""
        self._calling: dict[int, float] = {}
        """By peer, when it last asked this replica to connect, in seconds of the reactor."""
        self._told: dict[int, str] = {}
        """By peer, the reason that the user who started this replica has read."""
        self.mute: set[int] = set()
        """Peers that cannot be reached, and not because nobody listens where they should be."""
        self.astray: set[int] = set()
        """Those of them whose host names do not resolve."""

    @property
    def turned_away(self) -> str:
        """Why there is no connection with other replicas, in one sentence; "" if none refuses another."""
        reasons = {
            reason: [other for other in sorted(self._refusals) if self._refusals[other] == reason]
            for _, reason in sorted(self._refusals.items())
        }
        chosen = next((reason for reason in reasons if STRANGER in reason), next(iter(reasons), ""))
        return _without(reasons.get(chosen, []), chosen)

    def start(self) -> None:
        """Begin to reach the others."""
        host = self._host
        if not host.server.clustered:
            return
        self.transport = ChannelTransport(
            host.replica.id,
            self.addresses.in_domain(),
            self,
            DirectWriteReactor(host.reactor),
            self._handshake,
            host.log,
            host.settings.link,
        )
        self.transport.start()

    def stop(self) -> None:
        """Close all connections, without reports to the node."""
        if self.transport is not None:
            self.transport.stop()
            self.transport = None

    def send(self, messages: list[tuple[int, Message]]) -> None:
        """Send messages to peers, as far as there are connections."""
        if self.transport is not None:
            send_messages(self.transport, messages)

    def follow(self, seats: tuple[Seat, ...]) -> None:
        """Connect with these replicas from now on: they, or their addresses, have changed."""
        self.addresses.update(seats)
        if self.transport is not None:
            self.transport.follow(self.addresses.in_domain())
        names = ", ".join(f"{replica} at {place}" for replica, place in self.addresses.items())
        self._host.log(f"{self._host.server.name} has the replicas {names}")
        difference = self.addresses.difference()
        if difference:
            self._host.log(difference)

    def _handshake(self, peer: int, calls: bool) -> LinkHandshake:
        host = self._host
        fields = {
            "replica": host.replica.id,
            "incarnation": host.incarnation,
            "cluster": host.config.digest,
            "calls": calls,
            "process": this_process(),
        }
        here = self.addresses.in_domain(nat=False).get(host.replica.id)
        where = "" if here is None else f" at {here[0]}:{here[1]}"
        asked = (
            f"an answer comes, but no connection to this replica{where}; "
            "give all replicas the same file, or mend the network"
        )
        refused = partial(self._refused, peer)
        return _PeerShaking(fields, host.settings.secret, refused, asked if calls else "")

    def called(self, peer: int) -> None:
        """A peer has asked to be connected with: it runs, and is reached if it is where it should be."""
        self._calling[peer] = self._host.reactor.seconds()

    def _refused(self, peer: int, reason: str) -> None:
        """Record why a hello ended, whichever side ended it."""
        self._refusals[peer] = reason
        # A replica that waits for the others gives this as the reason, in its status.
        settled = self._host.node.role in ("master", "slave", "witness")
        if settled and self._told.get(peer) != reason and (SECRET in reason or OTHER_FILE in reason):
            self._told[peer] = reason
            self._host.tell(_without([peer], reason))

    # What the transport reports

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Frames of a peer."""
        host = self._host
        try:
            messages = [decode_message(body) for body in bodies]
        except ProtocolError as error:
            host.metrics.count("garbage")
            host.log(f"replica {peer} sent garbage: {error}")
            if self.transport is not None:
                self.transport.drop(peer, "it sent garbage")
            return
        host.give(host.node.receive, peer, messages)

    def peer_alive(self, peer: int) -> None:
        """Some of a long frame of a peer has arrived."""
        self._host.give(self._host.node.partial_received, peer)

    def peer_up(self, peer: int, incarnation: int) -> None:
        """A connection to a peer."""
        self._refusals.pop(peer, None)
        self._told.pop(peer, None)
        self._calling.pop(peer, None)
        self.mute.discard(peer)
        self.astray.discard(peer)
        self._host.give(self._host.node.connected, peer, incarnation)

    def peer_down(self, peer: int, reason: str) -> None:
        """No connection to a peer any more."""
        if SILENCE in reason:
            self.mute.add(peer)
        ended = self.transport is not None and self.transport.ended(peer)
        self._host.give(self._host.node.disconnected, peer, ended)

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """A peer without connection cannot be reached."""
        if STRANGER in reason:
            # Somebody lives in a cluster without this replica: it must not found another one.
            self._host.node.channel.bar_founding()
        if self._refusals.get(peer) != reason:
            self._refusals.pop(peer, None)
        if NOBODY_LISTENS in reason and self._runs(peer):
            self._refusals[peer] = self._elsewhere(peer)
        if NOBODY_LISTENS in reason or peer in self._refusals:
            self.mute.discard(peer)
        else:
            self.mute.add(peer)
        if NO_ADDRESS in reason:
            self.astray.add(peer)
        else:
            self.astray.discard(peer)
        self.peer_down(peer, reason)

    def _runs(self, peer: int) -> bool:
        """Return whether the peer has called so lately that it must be running."""
        called = self._calling.get(peer)
        return called is not None and self._host.reactor.seconds() - called < CALLED_S

    def _elsewhere(self, peer: int) -> str:
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
