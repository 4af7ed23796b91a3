"""Twisted transport of the channel: one TCP connection for each pair of replicas.

The replica with the lower id of a pair dials. The other one cannot dial, but it *calls*: it opens a short
connection whose hello asks to be dialed. Then the lower id dials at once instead of waiting for its next
attempt, and the caller learns quickly if no process listens there. So a pair never has two connections to
choose from, and a newer connection always replaces an older one.

The transport knows nothing of the channel: it moves opaque frames and reports to a `ChannelHost`. Its memory
is bounded: a peer that does not read is disconnected, and the protocol repairs the loss. Attempts to connect
have growing pauses with jitter.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import attrs

from ..codec.buffers import Body
from ..codec.framing import frame_parts
from . import process_liveness
from .addresses import Address, host_port
from .connection import Link, LinkSettings
from .connector import NOBODY_LISTENS, Handshake, connect
from .ports import DelayedCallPort, ReactorPort

__all__ = ["ChannelHost", "ChannelTransport"]


MAX_REASONS = 8
"""The first this many different reasons for failed attempts are logged at once, later ones now and then."""


class ChannelHost(Protocol):
    """The user of a transport, which gets its reports: the driver of a channel."""

    def peer_frames(self, peer: int, bodies: list[bytes]) -> None:
        """Frames arrived from a peer, in order."""
        ...

    def peer_alive(self, peer: int) -> None:
        """A part of a long frame of a peer has arrived: the peer lives."""
        ...

    def peer_up(self, peer: int, incarnation: int) -> None:
        """A connection to the peer is open. An older one, if any, was reported down before."""
        ...

    def peer_down(self, peer: int, reason: str) -> None:
        """The connection is gone."""
        ...

    def peer_unreachable(self, peer: int, reason: str) -> None:
        """An attempt to reach a peer without connection has failed."""
        ...


@attrs.define
class _Peer:
    id: int
    address: Address
    dials: bool
    """This side dials; otherwise it calls."""
    link: Link | None = None
    incarnation: int = 0
    asked: int = 0
    """The incarnation in the peer's last call."""
    nonce: str = ""
    """Identifies the connected life among lives with the same incarnation; "" if unknown."""
    process: str = ""
    """Description of the peer's process, see `process_liveness`; "" if it runs on another machine."""
    reached: tuple[Address, int] | None = None
    """An address at which a life of the peer has answered, and its incarnation."""
    refused: bool = False
    """The address at which the connected life had answered has refused a connection since."""
    check: Callable[[], None] | None = None
    """Gives up a call that only asks whether the connected life answers at its address."""
    give_up: Callable[[], None] | None = None
    retry: DelayedCallPort | None = None
    failures: int = 0
    logged: set[str] = attrs.field(factory=set[str])
    """The reasons of failed attempts that were logged since the last connection."""
    leaves: bool = False
    """The peer has left the cluster: an open connection stays, but no new one is opened."""


class ChannelTransport:
    """The connections of one replica to its peers.

    addresses: of all replicas of the cluster, this one included. handshake: makes the dialing side of a
    handshake from (peer, calls); calls: the connection only asks the peer to dial. The listening side is not
    part of the transport: a listener passes accepted connections to `accept`, and calls to `called`. Of the
    fields of the other side's hello, ``replica``, ``incarnation``, ``process`` and ``nonce`` are used.
    """

    def __init__(
        self,
        me: int,
        addresses: Mapping[int, Address],
        host: ChannelHost,
        reactor: ReactorPort,
        handshake: Callable[[int, bool], Handshake],
        log: Callable[[str], None],
        settings: LinkSettings | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._me = me
        self._host = host
        self._reactor = reactor
        self._handshake = handshake
        self._log = log
        self._settings = settings or LinkSettings()
        self._jitter = jitter or random.Random()
        self._running = False
        self._peers = {id: _Peer(id, address, me < id) for id, address in addresses.items() if id != me}

    @property
    def connected(self) -> list[int]:
        """The peers with a connection."""
        return [peer.id for peer in self._peers.values() if peer.link is not None]

    def ended(self, peer: int) -> bool:
        """Return whether the process that was last connected as this peer is known to have ended."""
        known = self._peers[peer]
        return known.refused or process_liveness.has_ended(known.process)

    def start(self) -> None:
        """Begin to connect to the peers."""
        self._running = True
        for peer in self._peers.values():
            self._connect(peer)

    def stop(self) -> None:
        """Close all connections and attempts; nothing is reported any more."""
        self._running = False
        for peer in self._peers.values():
            self._cancel_attempt(peer)
            self._end_check(peer)
            if peer.link is not None:
                link, peer.link = peer.link, None
                link.close()

    def knows(self, replica: int) -> bool:
        """Return whether a replica is a peer. One that has left is a peer while it is connected."""
        return replica in self._peers

    def life(self, replica: int) -> tuple[int, str]:
        """Return the incarnation and the nonce of a peer's last connection; (0, "") if it had none."""
        peer = self._peers.get(replica)
        return (0, "") if peer is None else (peer.incarnation, peer.nonce)

    def forget_life(self, replica: int) -> bool:
        """Let an earlier life of a peer connect again. Return False if the peer is connected at present."""
        peer = self._peers.get(replica)
        if peer is None or peer.link is not None:
            return False
        peer.incarnation = 0
        return True

    def follow(self, addresses: Mapping[int, Address]) -> None:
        """Replace the addresses of the replicas, this one's included.

        A peer without an address keeps its open connection until that breaks.
        """
        for id, address in addresses.items():
            if id == self._me:
                continue
            peer = self._peers.get(id)
            if peer is None:
                peer = self._peers[id] = _Peer(id, address, self._me < id)
                if self._running:
                    self._connect(peer)
            peer.leaves = False
            if peer.address != address:
                peer.address, peer.failures = address, 0
                peer.logged.clear()
                if self._running and peer.link is None:
                    self._cancel_attempt(peer)
                    self._connect(peer)
        for peer in list(self._peers.values()):
            if peer.id not in addresses:
                peer.leaves = True
                self._forget(peer)

    def _forget(self, peer: _Peer) -> None:
        """Remove a peer that leaves, once it has no connection."""
        if peer.leaves and peer.link is None:
            self._cancel_attempt(peer)
            self._end_check(peer)
            self._peers.pop(peer.id, None)

    def send(self, peers: Iterable[int], bodies: Sequence[Body]) -> None:
        """Send frames to peers, each in one write. Frames to a peer without connection are lost."""
        parts = frame_parts(bodies)
        for id in peers:
            peer = self._peers.get(id)
            if peer is not None and peer.link is not None:
                peer.link.write(parts)

    def drop(self, peer: int, reason: str) -> None:
        """Break the connection to a peer and try a new one."""
        link = self._peers[peer].link if peer in self._peers else None
        if link is not None:
            link.drop(reason)

    def accept(
        self, link: Link, replica: int, incarnation: int, frames: list[bytes], fields: Mapping[str, Any]
    ) -> None:
        """Use an accepted connection. fields: of its hello. frames: those that came with the hello."""
        peer = self._peers.get(replica)
        if peer is None or not self._running or incarnation < peer.incarnation:
            link.close()
            return
        self._adopt(peer, link, incarnation, frames, fields)

    def called(self, replica: int, incarnation: int) -> bool:
        """Dial a peer with a higher id, since it has called.

        Return False if an earlier life of the peer answered when it was dialed after an earlier call. Then
        both lives run, and the earlier one keeps the connection: to break it at each call would disturb the
        earlier life and not reach the later one.
        """
        peer = self._peers.get(replica)
        if peer is None or not self._running or not peer.dials:
            return True
        asked, peer.asked = peer.asked, incarnation
        if peer.link is not None:
            if peer.incarnation == incarnation:
                return True
            if peer.incarnation < incarnation == asked:
                return False
            peer.link.drop("the replica was started again")
        if peer.retry is not None:
            peer.failures = 0
            self._cancel_attempt(peer)
            self._connect(peer)
        return True

    def _connect(self, peer: _Peer) -> None:
        peer.retry = None
        if not self._running or peer.link is not None or peer.give_up is not None:
            return

        def opened(link: Link, fields: Mapping[str, Any], frames: list[bytes]) -> None:
            peer.give_up = None
            self._answered(peer, link, fields, frames)

        def failed(reason: str) -> None:
            peer.give_up = None
            peer.failures += 1
            new = reason not in peer.logged and len(peer.logged) < MAX_REASONS
            if new or peer.failures == 30 or peer.failures % 300 == 0:
                peer.logged.add(reason)
                self._log(f"replica {peer.id} at {host_port(*peer.address)} cannot be reached: {reason}")
            if NOBODY_LISTENS in reason and peer.reached == (peer.address, peer.incarnation):
                peer.refused = self._settings.refusal_ends
            self._retry(peer)
            self._host.peer_unreachable(peer.id, reason)

        handshake = self._handshake(peer.id, not peer.dials)
        peer.give_up = connect(self._reactor, peer.address, self._settings, handshake, opened, failed)

    def _answered(self, peer: _Peer, link: Link, fields: Mapping[str, Any], frames: list[bytes]) -> None:
        replica, incarnation = fields.get("replica"), fields.get("incarnation")
        if replica != peer.id or not isinstance(incarnation, int):
            link.close()
            peer.failures += 1
            self._log(
                f"{link.peer} should be replica {peer.id}, but says that it is {replica}; check the addresses"
            )
            self._retry(peer)
        elif peer.dials:
            peer.reached = (peer.address, incarnation)
            self._adopt(peer, link, incarnation, frames, fields)
        else:
            peer.reached = (peer.address, incarnation)
            # The peer dials now. If that fails, this side calls again.
            link.close()
            peer.failures = max(peer.failures, 3)
            self._retry(peer)

    def _retry(self, peer: _Peer) -> None:
        if self._running and peer.link is None and peer.retry is None:
            settings = self._settings
            delay = min(settings.max_delay_s, settings.first_delay_s * 2 ** min(peer.failures, 16))
            peer.retry = self._reactor.callLater(delay * self._jitter.uniform(0.6, 1.0), self._connect, peer)

    def _adopt(
        self, peer: _Peer, link: Link, incarnation: int, frames: list[bytes], fields: Mapping[str, Any]
    ) -> None:
        if peer.link is not None:
            peer.link.drop("a newer connection replaces this one")
            if not self._running or self._peers.get(peer.id) is not peer:
                # The report of the lost connection has stopped this side, or removed the peer.
                link.close()
                return
        self._cancel_attempt(peer)
        peer.link = link
        peer.incarnation = incarnation
        running, nonce = fields.get("process"), fields.get("nonce")
        peer.process = running if isinstance(running, str) and process_liveness.is_visible(running) else ""
        peer.nonce = nonce if isinstance(nonce, str) else ""
        peer.failures = 0
        peer.refused = False
        peer.logged.clear()
        link.limit_frames(self._settings.max_frame_bytes)
        link.handler = _PeerLink(self, self._host, peer)
        link.on_part = partial(self._host.peer_alive, peer.id)
        link.keep_alive()
        if self._settings.refusal_ends and peer.reached != (peer.address, incarnation):
            self._check(peer)
        self._host.peer_up(peer.id, incarnation)
        if frames and peer.link is link:
            self._host.peer_frames(peer.id, frames)

    def _check(self, peer: _Peer) -> None:
        """Find out whether a peer that has dialed answers at the address that this side knows."""
        self._end_check(peer)
        address = peer.address

        def opened(link: Link, fields: Mapping[str, Any], frames: list[bytes]) -> None:
            del frames
            peer.check = None
            link.close()
            incarnation = fields.get("incarnation")
            if fields.get("replica") == peer.id and isinstance(incarnation, int):
                peer.reached = (address, incarnation)

        def failed(_: str) -> None:
            peer.check = None

        handshake = self._handshake(peer.id, True)
        peer.check = connect(self._reactor, address, self._settings, handshake, opened, failed)

    def _end_check(self, peer: _Peer) -> None:
        if peer.check is not None:
            give_up, peer.check = peer.check, None
            give_up()

    def _cancel_attempt(self, peer: _Peer) -> None:
        if peer.retry is not None and peer.retry.active():
            peer.retry.cancel()
        peer.retry = None
        if peer.give_up is not None:
            give_up, peer.give_up = peer.give_up, None
            give_up()

    def link_lost(self, peer: _Peer, link: Link, reason: str) -> None:
        """Report the loss of a link in use, and connect again."""
        if peer.link is link:
            peer.link = None
            self._log(f"connection to replica {peer.id} lost: {reason}")
            self._host.peer_down(peer.id, reason)
            self._forget(peer)
            if peer.leaves:
                return
            # At once: a refused connection is the quickest proof that the peer has ended.
            if peer.retry is None and peer.link is None:
                peer.retry = self._reactor.callLater(0, self._connect, peer)


@attrs.frozen
class _PeerLink:
    transport: ChannelTransport
    host: ChannelHost
    peer: _Peer

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        if self.peer.link is link:
            self.host.peer_frames(self.peer.id, bodies)

    def lost(self, link: Link, reason: str) -> None:
        self.transport.link_lost(self.peer, link, reason)
