"""The networks to other servers, the services and the requests of administrators, which only a master has."""

import random
import time
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from ...agents import Note
from ...engine import Effects
from ...hachannel.transport.connection import Address
from ...hachannel.transport.direct_write import DirectWriteReactor
from ..config import Config, NoRoute, Replica, Server
from ..metrics import Metrics
from ..network.addresses import Addresses
from ..network.hello import NETWORK
from ..network.incoming import Incoming
from ..network.link_handshake import LinkHandshake
from ..network.outgoing import Outgoing
from ..node.node import Node
from ..settings import ReplicaSettings
from .requests import NotServing, Requests
from .service_host import Services

__all__ = ["MasterHost", "MasterSide"]


class MasterHost(Protocol):
    """The replica, as the master's side needs it."""

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

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def tell(self, line: str) -> None:
        """Write a line to the log, and to the user who started the replica."""
        ...

    @property
    def addresses(self) -> Addresses:
        """The replicas of this server."""
        ...

    def flush_soon(self) -> None:
        """Submit what was posted to the node, soon."""
        ...


class MasterSide:
    """Networks and services of a replica, idle while it is not master.

    Networks are started first, then the services in the order of the XML.
    """

    def __init__(
        self,
        config: Config,
        server: Server,
        replica: Replica,
        settings: ReplicaSettings,
        host: MasterHost,
        incarnation: int,
        jitter: random.Random | None = None,
    ) -> None:
        """`jitter` spreads the attempts to connect; a test gives its own to repeat a run."""
        self.outgoing: dict[int, Outgoing] = {}
        self.incoming = Incoming(server.id, self, host.log, settings.link)
        self.services = Services(config, server, replica, self)
        self.active = False
        self._config = config
        self._server = server
        self._replica = replica
        self._settings = settings
        self._host = host
        self._requests = Requests(host.reactor, incarnation)
        self._posting: dict[int, Deferred[None]] = {}
        self._post_token = 0
        self._net_waiting: list[Callable[[], None]] = []
        self._lives: dict[int, int] = {}
        self._jitter = jitter

    # Life

    def start(self, first_time: bool) -> None:
        """Start networks and services: this replica is master now."""
        self.active = True
        self._start_networks()
        self.services.start(first_time).addErrback(self._broken, "starting the services")

    def stop(self, reason: str) -> "Deferred[None]":
        """Stop networks and services. Fires when the services have stopped; never fails."""
        self.active = False
        outgoing, self.outgoing = self.outgoing, {}
        for way in outgoing.values():
            way.stop()
        self.incoming.close()
        self._net_waiting.clear()
        self._lives.clear()
        # Before: a service that waits for a reply while it starts has not failed.
        self.services.give_up()
        self._requests.fail(reason)
        posting, self._posting = self._posting, {}
        for posted in posting.values():
            posted.errback(NotServing(reason))
        return self.services.stop().addErrback(self._broken, "stopping the services")

    def carry_out(self, effects: Effects) -> None:
        """Act on the effects of a committed entry."""
        # Replies first: the reply that reopens a connection comes before what is emitted on it afterwards.
        for note in effects.replies:
            self._requests.answer(note)
        if effects.emissions:
            self.services.emit(effects)
        for server, birth in effects.births.items():
            way = self.outgoing.get(server)
            if way is not None:
                way.begin_life(birth, *self._host.node.engine.pending(server))
        for server, items in effects.network.items():
            way = self.outgoing.get(server)
            if way is not None:
                way.queue(items)
        for server, (birth, upto) in effects.net_acks.items():
            self.incoming.acknowledge(server, birth, upto)

    def committed(self, token: int) -> None:
        """Fire the deferred of what was posted with a token: it is committed."""
        posted = self._posting.pop(token, None)
        if posted is not None:
            posted.callback(None)

    def call_waiting(self) -> None:
        """Call those who wait until input is accepted, if it is."""
        node = self._host.node
        if self.services.waiting and node.accepting:
            self.services.accept_again()
        if self._net_waiting and node.net_accepting:
            waiting, self._net_waiting = self._net_waiting, []
            for callback in waiting:
                callback()

    def _start_networks(self) -> None:
        engine = self._host.node.engine
        for other in self._config.servers:
            if other.id == self._server.id:
                continue
            try:
                domain = self._config.link_domain(self._server.id, other.id)
            except NoRoute:
                continue
            places = self._config.addresses(other.id, domain, seen_from=self._replica)
            way = Outgoing(
                other.id,
                [(place.host, place.port) for place in places],
                self,
                DirectWriteReactor(self.reactor),
                self._shaking,
                self._host.log,
                self._settings.link,
                self._jitter,
                {nat.replica: (nat.host, nat.port) for nat in self._replica.nats if nat.server == other.id},
            )
            self.outgoing[other.id] = way
            way.start(engine.peer_birth(other.id), *engine.pending(other.id))

    def _shaking(self) -> LinkHandshake:
        fields = {"server": self._server.id, "birth": self.net_birth}
        return LinkHandshake(NETWORK, fields, self._settings.secret)

    def _broken(self, failure: Failure, what: str) -> None:
        self._host.log(f"{what} failed: {failure.getErrorMessage()}")

    # For the networks

    @property
    def net_birth(self) -> int:
        """The birth of this server in its present life; 0 before that begins."""
        return self._host.node.engine.birth

    def net_heard(self, server: int, birth: int) -> None:
        """Another server was heard in that life."""
        if self._lives.get(server) != birth:
            self._lives[server] = birth
            self.incoming.keep_life(server, birth)
            way = self.outgoing.get(server)
            if way is not None:
                way.keep_life(birth)

    def net_peer(self, server: int, birth: int) -> None:
        """Record which life another server lives."""
        self._host.node.net_peer(server, birth)
        self._host.flush_soon()

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Notifications of another server."""
        self._host.node.net_input(server, birth, first_seq, notes)
        self._host.flush_soon()

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        """Another server has what was sent up to a number."""
        self._host.node.net_acked(server, birth, upto)
        self._host.flush_soon()

    def net_received(self, server: int, birth: int) -> int:
        """Return the highest number that our state has from a life of another server."""
        return self._host.node.engine.received(server, birth)

    def net_refusal(self) -> str | None:
        """Return why no other server can be served here, None if it can."""
        if self.active and self._host.node.serving:
            return None if self.net_birth else f"Server {self._server.name} is about to begin."
        return f"Replica {self._replica.id} of {self._server.name} is {self._host.node.role}, not the master."

    def net_master(self, server: int) -> Address | None:
        """Where another server finds our master, if that is not this replica."""
        return self.master_in(self._config.link_domain(server, self._server.id))

    def net_replicas(self, server: int) -> list[tuple[int, str, int]]:
        """Where our replicas listen for another server."""
        domain = self._config.link_domain(server, self._server.id)
        places = self._host.addresses.in_domain(domain, nat=False)
        return [(replica, host, port) for replica, (host, port) in places.items()]

    def net_knows(self, server: int) -> bool:
        """Return whether there is a route to that server."""
        try:
            self._config.link_domain(server, self._server.id)
        except LookupError:
            return False
        return server != self._server.id

    @property
    def net_accepting(self) -> bool:
        """False while other servers should wait."""
        return self._host.node.net_accepting

    def when_net_accepting(self, callback: Callable[[], None]) -> None:
        """Call back once other servers may go on."""
        self._net_waiting.append(callback)

    def master_in(self, domain: str | None) -> Address | None:
        """Where the master listens in a domain (None: the first), if it is known and another replica."""
        master = self._host.node.channel.master
        if master == self._replica.id:
            return None
        return None if master is None else self._host.addresses.in_domain(domain, nat=False).get(master)

    # For services and administrators

    def service_peers(self, class_name: str) -> list[tuple[int, str, str]]:
        """(replica, host, arguments) of a service on each replica."""
        return self._host.addresses.service_peers(class_name)

    @property
    def reactor(self) -> Any:
        """The reactor."""
        return self._host.reactor

    @property
    def metrics(self) -> Metrics:
        """Counters and gauges."""
        return self._host.metrics

    @property
    def accepting(self) -> bool:
        """False while clients should wait."""
        return self._host.node.accepting

    @property
    def may_act(self) -> bool:
        """Whether services may act: the replica serves, and holds the lease at this moment."""
        node = self._host.node
        return node.serving and node.channel.holds_lease(time.monotonic())

    def log(self, line: str) -> None:
        """Write a line to the log."""
        self._host.log(line)

    def tell(self, line: str) -> None:
        """Write a line to the log, and to the user who started the replica."""
        self._host.tell(line)

    def post_notes(self, notes: list[Note]) -> None:
        """Put notifications into the next batch; dropped when not master."""
        if self._host.node.post(notes):
            self._host.flush_soon()

    def post_note(self, note: Note) -> "Deferred[None]":
        """Put a notification into the next batch; fires once it is committed. Raises NotServing."""
        self._post_token += 1
        if not self._host.node.post([note], self._post_token):
            raise NotServing("this replica is not the master")
        posted: Deferred[None] = Deferred()
        self._posting[self._post_token] = posted
        self._host.flush_soon()
        return posted

    def request_note(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for the reply. Raises NotServing."""
        if not self._host.node.serving:
            raise NotServing("this replica is not the master")
        token, reply = self._requests.new(timeout_s)
        self.post_notes([Note(note.to, note.sender, note.type, note.payload, token)])
        return reply
