"""Handlers of the inbound connections of peers and administrators."""

from collections.abc import Mapping
from typing import Any, Protocol

from ...hachannel.transport.connection import Link
from ...hachannel.transport.ports import ClockPort, DelayedCallPort
from ...hachannel.transport.process_liveness import this_process
from ...hachannel.transport.transport import ChannelTransport
from ..admin import wire
from ..admin.protocol import AdminProtocol, AdminTarget, serve_admin
from ..config import Config, Server
from ..config import Replica as ReplicaConfig
from ..metrics import Metrics
from ..network.addresses import Addresses
from ..network.hello import Hello, NotNow, ProtocolError
from ..network.listener import DISCARD_FRAMES

ADMIN_IDLE_S = 60.0
"""An administrator's connection is closed after this many seconds without a call or an answer."""

__all__ = ["AdminHandler", "ChannelHandler", "InboundHost"]


STRANGER = "does not belong to"
"""Part of the reason with which a cluster turns away a replica that does not belong to it."""
OTHER_FILE = "has another configuration than"
"""Part of the reason with which replicas turn each other away that were started with different files."""


class InboundHost(Protocol):
    """The replica, as the handlers need it."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def server(self) -> Server:
        """The server."""
        ...

    @property
    def replica(self) -> ReplicaConfig:
        """The replica."""
        ...

    @property
    def incarnation(self) -> int:
        """The incarnation of the replica."""
        ...

    @property
    def transport(self) -> ChannelTransport | None:
        """The connections to the peers."""
        ...

    @property
    def addresses(self) -> Addresses:
        """Where the replicas are, as far as is known."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Counters."""
        ...

    @property
    def reactor(self) -> ClockPort:
        """The reactor."""
        ...

    def may_come_back(self, replica: int, incarnation: int) -> bool:
        """Return whether this incarnation of a replica has a vote and a disk: see `Channel.may_come_back`."""
        ...

    def peer_called(self, replica: int) -> None:
        """A replica asks to be connected with."""
        ...

    def log(self, line: str) -> None:
        """Write a line."""
        ...


SET_BACK = "comes as an earlier life of itself than was here before"
"""Part of the reason with which a replica is turned away that may have lost what it promised."""


class ChannelHandler:
    """Connections of other replicas of the cluster."""

    def __init__(self, host: InboundHost) -> None:
        self._host = host

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Answer a peer's hello. Raises ProtocolError for a stranger."""
        host = self._host
        replica = hello.integer("replica")
        if hello.text("cluster") != host.config.digest:
            raise ProtocolError(
                f"Replica {replica} {OTHER_FILE} replica {host.replica.id} of "
                f"{host.server.name}; start both with the same file."
            )
        if replica == host.replica.id:
            raise ProtocolError(f"Replica {replica} of {host.server.name} is this one; give another id.")
        if host.transport is None:
            raise NotNow(f"Replica {host.replica.id} is about to join again.")
        if not host.transport.knows(replica):
            name, ids = host.server.name, ", ".join(map(str, host.addresses.ids))
            if not host.addresses.agreed:
                raise NotNow(f"{name} has the replicas {ids} here; start all with the same file.")
            raise NotNow(
                f"Replica {replica} {STRANGER} {name}, which has {ids}: run "
                f"`quorate replica add FILE --server {name} --replica {replica}`, or end it."
            )
        if not self._follows(host.transport, replica, hello.integer("incarnation")):
            raise NotNow(
                f"Replica {replica} {SET_BACK}: another process runs as this replica, its directory is an "
                "old copy, or its clock was set back. Unless another one runs, remove its directory and "
                "start it again, it joins as a new one."
            )
        return {
            "replica": host.replica.id,
            "incarnation": host.incarnation,
            "cluster": host.config.digest,
            "process": this_process(),
        }

    def _follows(self, transport: ChannelTransport, replica: int, incarnation: int) -> bool:
        """Return whether this incarnation of a replica may follow those that were connected before."""
        if incarnation >= transport.life(replica)[0]:
            return True
        # A later incarnation may have run without the directory of this one, and was never let in.
        return self._host.may_come_back(replica, incarnation) and transport.forget_life(replica)

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Hand the connection to the transport."""
        transport = self._host.transport
        replica, incarnation = hello.integer("replica"), hello.integer("incarnation")
        if transport is None:
            link.close()
        elif hello.fields.get("calls"):
            link.handler = DISCARD_FRAMES
            link.close()
            self._host.peer_called(replica)
            transport.called(replica, incarnation)
        else:
            transport.accept(link, replica, incarnation, frames, hello.fields)


class _AdminLink:
    """Handler of one administrator's connection."""

    def __init__(self, host: InboundHost, target: AdminTarget, link: Link) -> None:
        self._host = host
        self._protocol: AdminProtocol = serve_admin(target, lambda frame: link.send([frame]))
        self._timer: DelayedCallPort = host.reactor.callLater(ADMIN_IDLE_S, self._check_idle, link)
        self._used = True

    def _check_idle(self, link: Link) -> None:
        if not (self._used or self._protocol.busy):
            link.drop("nothing was asked for too long")
            return
        self._used = False
        self._timer = self._host.reactor.callLater(ADMIN_IDLE_S / 2, self._check_idle, link)

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        self._used = True
        for body in bodies:
            try:
                self._protocol.frame_received(body)
            except ProtocolError as error:
                self._host.metrics.count("garbage")
                self._host.log(f"administrator {link.peer} was turned away: {error}")
                self._protocol.connection_lost()
                link.close()
                return

    def lost(self, link: Link, reason: str) -> None:
        del link, reason
        if self._timer.active():
            self._timer.cancel()
        self._protocol.connection_lost()


class AdminHandler:
    """Connections of administrators."""

    def __init__(self, host: InboundHost, target: AdminTarget) -> None:
        """`target` does what they ask for."""
        self._host = host
        self._target = target

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Answer an administrator's hello."""
        del hello
        return {"server": self._host.server.id, "replica": self._host.replica.id}

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Serve the connection."""
        del hello
        link.limit_frames(wire.MAX_FRAME_BYTES)
        handler = _AdminLink(self._host, self._target, link)
        link.handler = handler
        if frames:
            handler.frames(link, frames)
