"""Handlers of the inbound connections of peers and administrators."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...engine import rules
from ...hachannel.transport.connection import Link
from ...hachannel.transport.ports import DelayedCallPort
from ...hachannel.transport.process_liveness import this_process
from ...hachannel.transport.transport import ChannelTransport
from ..admin import wire
from ..admin.audit import Act, AuditLog
from ..admin.protocol import AdminProtocol, AdminTarget, serve_admin
from ..context import ReplicaContext
from ..network.hello import Hello, NotNow, ProtocolError
from ..network.listener import DISCARD_FRAMES
from .driver import Driver
from .peer_connections import OTHER_FILE, OTHER_RULES, STRANGER, PeerConnections

ADMIN_IDLE_S = 60.0
"""An administrator's connection is closed after this many seconds without a call or an answer."""

__all__ = ["AdminHandler", "ChannelHandler"]

SET_BACK = "comes as an earlier life of itself than was here before"
"""Part of the reason with which a replica is turned away that may have lost what it promised."""


class ChannelHandler:
    """Connections of other replicas of the cluster."""

    def __init__(self, context: ReplicaContext, driver: Driver, peers: PeerConnections) -> None:
        self._context = context
        self._driver = driver
        self._peers = peers

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Answer a peer's hello. Raises ProtocolError for a stranger."""
        context, peers = self._context, self._peers
        server, me = context.server, context.replica.id
        replica = hello.integer("replica")
        if hello.text("cluster") != context.config.digest:
            raise ProtocolError(
                f"Replica {replica} {OTHER_FILE} replica {me} of {server.name}; "
                "start both with the same file."
            )
        if hello.fields.get("rules", rules.RULES) != rules.RULES:
            raise NotNow(
                f"Replica {replica} {OTHER_RULES} replica {me} of {server.name}: their releases of Quorate "
                "do not fit, and their states would differ; stop all, and start all with one release."
            )
        if replica == me:
            raise ProtocolError(f"Replica {replica} of {server.name} is this one; give another id.")
        if peers.transport is None:
            raise NotNow(f"Replica {me} is about to join again.")
        if not peers.transport.knows(replica):
            name, ids = server.name, ", ".join(map(str, peers.addresses.ids))
            if not peers.addresses.agreed:
                raise NotNow(f"{name} has the replicas {ids} here; start all with the same file.")
            raise NotNow(
                f"Replica {replica} {STRANGER} {name}, which has {ids}: run "
                f"`quorate replica add FILE --server {name} --replica {replica}`, or end it."
            )
        if not self._follows(peers.transport, replica, hello.integer("incarnation")):
            raise NotNow(
                f"Replica {replica} {SET_BACK}: another process runs as this replica, its directory is an "
                "old copy, or its clock was set back. Unless another one runs, remove its directory and "
                "start it again, it joins as a new one."
            )
        return {
            "replica": me,
            "incarnation": peers.incarnation,
            "cluster": context.config.digest,
            "process": this_process(),
            "rules": rules.RULES,
        }

    def _follows(self, transport: ChannelTransport, replica: int, incarnation: int) -> bool:
        """Return whether this incarnation of a replica may connect after those that were connected before."""
        if incarnation >= transport.life(replica)[0]:
            return True
        # A later incarnation may have run without the directory of this one, and was never admitted.
        may_come_back = self._driver.node.channel.may_come_back(replica, incarnation)
        return may_come_back and transport.forget_life(replica)

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Hand the connection to the transport."""
        transport = self._peers.transport
        replica, incarnation = hello.integer("replica"), hello.integer("incarnation")
        if transport is None:
            link.close()
        elif hello.fields.get("calls"):
            link.handler = DISCARD_FRAMES
            link.close()
            self._peers.called(replica)
            transport.called(replica, incarnation)
        else:
            transport.accept(link, replica, incarnation, frames, hello.fields)


class _AdminLink:
    """Handler of one administrator's connection."""

    def __init__(
        self, context: ReplicaContext, target: AdminTarget, link: Link, audit: Callable[[Act, str], None]
    ) -> None:
        self._context = context
        self._protocol: AdminProtocol = serve_admin(target, lambda frame: link.send([frame]), audit)
        self._timer: DelayedCallPort = context.reactor.callLater(ADMIN_IDLE_S, self._check_idle, link)
        self._used = True

    def _check_idle(self, link: Link) -> None:
        if not (self._used or self._protocol.busy):
            link.drop("nothing was asked for too long")
            return
        self._used = False
        self._timer = self._context.reactor.callLater(ADMIN_IDLE_S / 2, self._check_idle, link)

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        self._used = True
        for body in bodies:
            try:
                self._protocol.frame_received(body)
            except ProtocolError as error:
                self._context.metrics.count("garbage")
                self._context.log(f"administrator {link.peer} was turned away: {error}")
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

    def __init__(self, context: ReplicaContext, target: AdminTarget) -> None:
        """`target` does what they ask for."""
        self._context = context
        self._target = target
        self._audit = AuditLog(context.directory, context.wall_ns, context.log)

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Answer an administrator's hello."""
        del hello
        replica = self._context.replica
        listening = replica.networks[0]
        return {
            "server": self._context.server.id,
            "replica": replica.id,
            "address": [listening.host, listening.port],
        }

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Serve the connection."""
        user = hello.fields.get("user")
        audit = partial(self._audit.write, link.peer, user if isinstance(user, str) else "")
        link.limit_frames(wire.MAX_FRAME_BYTES)
        handler = _AdminLink(self._context, self._target, link, audit)
        link.handler = handler
        if frames:
            handler.frames(link, frames)
