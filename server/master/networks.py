"""The connections of a master with the other servers of the configuration."""

import random
from collections.abc import Callable
from functools import partial

from ...agents import Note
from ...engine import Effects, StampedNote, replaced
from ...hachannel.transport.addresses import Address
from ..config import NoRoute
from ..context import ReplicaContext
from ..network.addresses import Addresses
from ..network.hello import NETWORK
from ..network.incoming import Incoming
from ..network.link_handshake import LinkHandshake
from ..network.link_ordering import ordering_field
from ..network.outgoing import Outgoing
from ..network.sender_check import SenderCheck
from .node_port import NodePort

__all__ = ["Networks"]


class Networks:
    """The networks of a replica, idle while it is not master. Implements `NetworkHost`.

    One connection leads to each other server that is a neighbour; each of them also connects with this one.
    """

    def __init__(
        self, context: ReplicaContext, port: NodePort, addresses: Addresses, jitter: random.Random | None
    ) -> None:
        """`addresses` are those of the replicas of this server. `jitter` spreads the attempts to connect."""
        self.outgoing: dict[int, Outgoing] = {}
        """By server, the connection that leads to it."""
        self.incoming = Incoming(context.server.id, self, context.log, context.settings.link)
        self._context = context
        self._senders = SenderCheck(context.config, context.server.id, context.log, context.metrics.count)
        self._port = port
        self._addresses = addresses
        self._jitter = jitter
        self._active = False
        self._waiting: list[Callable[[], None]] = []
        """Callbacks of connections that are not read until the node accepts input again."""
        self._lives: dict[int, int] = {}
        """By server, the birth of the life in which it was heard last."""

    def start(self) -> None:
        """Connect with the other servers, and accept their connections."""
        self._active = True
        context, engine = self._context, self._port.node.engine
        replica = context.replica
        for other in context.config.servers:
            if other.id == context.server.id or other.mode == "mesh":
                continue
            try:
                domain = context.config.link_domain(context.server.id, other.id)
            except NoRoute:
                continue
            addresses = context.config.addresses(other.id, domain, seen_from=replica)
            connection = Outgoing(
                other.id,
                [(address.host, address.port) for address in addresses],
                self,
                context.peer_reactor,
                partial(self._handshake, domain in context.config.causal),
                context.log,
                context.settings.link,
                self._jitter,
                {nat.replica: (nat.host, nat.port) for nat in replica.nats if nat.server == other.id},
                causal=domain in context.config.causal,
            )
            self.outgoing[other.id] = connection
            connection.start(
                engine.peer_birth(other.id), *self._port.node.pending(other.id), engine.settled(other.id)
            )

    def stop(self) -> None:
        """Close all connections."""
        self._active = False
        outgoing, self.outgoing = self.outgoing, {}
        for connection in outgoing.values():
            connection.stop()
        self.incoming.close()
        self._waiting.clear()
        self._lives.clear()

    def send(self, effects: Effects) -> None:
        """Send the notifications and acknowledgements of a committed entry to the other servers."""
        for server, birth in effects.births.items():
            connection = self.outgoing.get(server)
            if connection is not None:
                node = self._port.node
                connection.begin_incarnation(birth, *node.pending(server), node.engine.settled(server))
        for server, items in effects.network.items():
            connection = self.outgoing.get(server)
            if connection is not None:
                connection.queue(items)
        for server, (birth, upto) in effects.net_acks.items():
            self.incoming.acknowledge(server, birth, upto)
        for server in effects.overfull:
            self.incoming.drop(server)

    def resume(self) -> None:
        """Read again from connections that wait, if the node accepts input."""
        if self._waiting and self.net_accepting:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    def reported_hosts(self, server: int) -> set[str]:
        """Return the hosts of another server as this replica reaches them; none while it is not master."""
        connection = self.outgoing.get(server)
        return set() if connection is None else connection.hosts

    def master_in(self, domain: str | None) -> Address | None:
        """Return where the master listens in a domain (None: the first); None if unknown or this replica."""
        master = self._port.node.channel.master
        if master is None or master == self._context.replica.id:
            return None
        return self._addresses.in_domain(domain, nat=False).get(master)

    def _handshake(self, causal: bool) -> LinkHandshake:
        context = self._context
        fields = {"server": context.server.id, "birth": self.net_birth, **ordering_field(causal)}
        return LinkHandshake(NETWORK, fields, context.settings.secret)

    # The interface NetworkHost

    @property
    def net_server(self) -> int:
        """The id of this server."""
        return self._context.server.id

    @property
    def net_birth(self) -> int:
        """The birth of this server in its present life; 0 before that begins."""
        return self._port.node.engine.birth

    def net_heard(self, server: int, birth: int) -> None:
        """Record that another server was heard in that life; drop its connections of another life."""
        if self._lives.get(server) != birth:
            self._lives[server] = birth
            self.incoming.keep_incarnation(server, birth)
            connection = self.outgoing.get(server)
            if connection is not None:
                connection.keep_incarnation(birth)

    def net_peer(self, server: int, birth: int) -> None:
        """Have the present life of another server recorded in the replicated state."""
        self._port.node.net_peer(server, birth)
        self._port.flush_soon()

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Put notifications of another server into the next batch, except those that it must not send."""
        notes = self._senders.screened(self._context.reactor.seconds(), server, notes)
        self._port.node.net_input(server, birth, first_seq, notes)
        self._port.flush_soon()

    def net_causal_input(
        self, server: int, birth: int, first_seq: int, settled: int, notes: list[StampedNote]
    ) -> None:
        """Do as `net_input` does, in a domain with causal order."""
        screened = self._senders.screened(self._context.reactor.seconds(), server, [*notes])
        self._port.node.net_causal_input(server, birth, first_seq, settled, replaced(notes, screened))
        self._port.flush_soon()

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        """Have recorded that another server holds what was sent up to a number."""
        self._port.node.net_acked(server, birth, upto)
        self._port.flush_soon()

    def net_received(self, server: int, birth: int) -> int:
        """Return the highest number that the replicated state holds from a life of another server."""
        return self._port.node.engine.received(server, birth)

    def net_refusal(self) -> str | None:
        """Return why no other server can be served here, None if it can."""
        node, server = self._port.node, self._context.server
        if self._active and node.serving:
            return None if node.engine.birth else f"Server {server.name} is about to begin."
        return f"Replica {self._context.replica.id} of {server.name} is {node.role}, not the master."

    def net_master(self, server: int) -> Address | None:
        """Return where another server finds the master of this one, None if that is this replica."""
        return self.master_in(self._context.config.link_domain(server, self._context.server.id))

    def net_replicas(self, server: int) -> list[tuple[int, str, int]]:
        """Return (replica, host, port) of the listeners of this server for another one."""
        domain = self._context.config.link_domain(server, self._context.server.id)
        addresses = self._addresses.in_domain(domain, nat=False)
        return [(replica, host, port) for replica, (host, port) in addresses.items()]

    def net_is_causal(self, server: int) -> bool:
        """Return whether the domain that leads to another server has causal order."""
        config = self._context.config
        return config.link_domain(server, self._context.server.id) in config.causal

    def net_knows(self, server: int) -> bool:
        """Return whether there is a route to that server."""
        try:
            self._context.config.link_domain(server, self._context.server.id)
        except LookupError:
            return False
        return server != self._context.server.id

    @property
    def net_accepting(self) -> bool:
        """False while other servers must not send more."""
        return self._port.node.net_accepting

    def when_net_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once other servers may send again."""
        self._waiting.append(callback)
