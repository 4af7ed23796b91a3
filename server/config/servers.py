"""Servers, replicas, networks and services, as an ``a3servers.xml`` declares them: immutable records."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import attrs

CONNECTION_MANAGER = "quorate.services.manager:ConnectionManager"
TCP_PROXY_SERVICE = "quorate.services.tcp:TcpProxyService"
MESH_SERVICE = "quorate.mesh.service:MeshService"
STOMP_SERVICE = "quorate.gateways.stomp.service:StompService"
AMQP_SERVICE = "quorate.gateways.amqp.service:AmqpService"
HTTP_SERVICE = "quorate.server.http.service:HttpService"
CLIENT_SERVICES = (TCP_PROXY_SERVICE, MESH_SERVICE)
"""Services that clients of Quorate connect to; their arguments begin with the port."""
PORT_SERVICES = (*CLIENT_SERVICES, STOMP_SERVICE, AMQP_SERVICE, HTTP_SERVICE)
"""Services whose arguments begin with a port that they listen on."""
REPLICA_SERVICES = (HTTP_SERVICE,)
"""Services that every replica has, not the master alone."""

MAX_ID = 65535
"""The largest id of a server or replica: an AgentId has 16 bits for each."""

Ack = Literal["ALL", "MAJORITY"]
Durability = Literal["disk", "memory"]
Mode = Literal["ha", "group", "mesh"]
"""``ha``: clients connect to the master. ``group``: to every replica, and they may form groups. ``mesh``:
replicas are daemons without a master, which have topics and no agents."""


class Address(NamedTuple):
    """The address of a replica in a domain."""

    replica: int
    host: str
    port: int


@attrs.frozen
class Network:
    """A replica's listener in a domain."""

    domain: str
    host: str
    port: int
    line: int = attrs.field(default=0, eq=False)


@attrs.frozen
class ServiceSpec:
    """A service of the master: ``class_name`` is ``module:Class``, ``declared`` the class as in the file."""

    class_name: str
    args: str = ""
    line: int = attrs.field(default=0, eq=False)
    declared: str = attrs.field(default="", eq=False)

    @property
    def short_name(self) -> str:
        """The class without its module."""
        return self.class_name.rpartition(":")[2]


@attrs.frozen
class DeclaredAgent:
    """An agent that a server creates once: its class, ``module:Class``, its name, its attributes as JSON."""

    class_name: str
    name: str
    state: str = "{}"
    line: int = attrs.field(default=0, eq=False)


@attrs.frozen
class Nat:
    """The address of a replica of ``server``, ``host``:``port``, for the replica that declares it."""

    server: int
    replica: int
    host: str
    port: int
    line: int = attrs.field(default=0, eq=False)


@attrs.frozen
class Replica:
    """One process of a server. A plain server has one, number 0."""

    id: int
    host: str
    networks: tuple[Network, ...] = ()
    services: tuple[ServiceSpec, ...] = ()
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    nats: tuple[Nat, ...] = ()
    line: int = attrs.field(default=0, eq=False)
    witness: bool = False
    """Without agents and services: it only votes when the view changes, and grants leases."""

    def network(self, domain: str) -> Network | None:
        """Return the listener in a domain, or None if there is none."""
        return next((network for network in self.networks if network.domain == domain), None)

    def service(self, class_name: str) -> ServiceSpec | None:
        """Return the declaration of a service (``module:Class``), or None."""
        return next((service for service in self.services if service.class_name == class_name), None)

    @property
    def client_port(self) -> int | None:
        """The port that clients connect to, or None if none can connect here."""
        service = next((each for each in self.services if each.class_name in CLIENT_SERVICES), None)
        return int(service.args.split()[0]) if service else None


@attrs.frozen
class Server:
    """An agent server: a cluster with its replicas, or a plain server, which is a cluster of one.

    ``expected`` replicas, and all witnesses, must be connected before the very first start
    (nbClusterExpected). With fewer than ``min_copies`` replicas in its view the server accepts nothing new.
    ``properties`` are those of the <cluster> or plain <server> element.
    """

    id: int
    name: str
    clustered: bool
    replicas: tuple[Replica, ...]
    mode: Mode = "ha"
    context: Literal["replicated", "local"] = "replicated"
    """With mode ``group``: what a client has not got is on all replicas, or on the disk of its home."""
    ack: Ack = "ALL"
    durability: Durability = "memory"
    transient: bool = False
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    expected: int = 1
    min_copies: int = 1
    line: int = attrs.field(default=0, eq=False)
    agents: tuple[DeclaredAgent, ...] = ()
    """Agents that are created once."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the server, in the order of its first replica; all replicas are in the same ones."""
        return tuple(network.domain for network in self.replicas[0].networks) if self.replicas else ()

    @property
    def witness_ids(self) -> tuple[int, ...]:
        """The ids of its witnesses."""
        return tuple(replica.id for replica in self.replicas if replica.witness)

    @property
    def copies(self) -> int:
        """The number of replicas that are no witnesses."""
        return len(self.replicas) - len(self.witness_ids)

    def objection(self, expected: int) -> str:
        """Return why `expected` replicas cannot found the cluster, "" if they can.

        The text continues a sentence about the server: "has 3 replicas; give from 2 to 3 ...".
        """
        count = self.copies
        least = count // 2 + 1
        if least <= expected <= count:
            return ""
        allowed = str(count) if least == count else f"from {least} to {count}"
        beside = " with agents" if self.witness_ids else ""
        return (
            f"has {count} replica{'s' if count > 1 else ''}{beside}; give {allowed} "
            "(more than half, so that two halves cannot both start)"
        )

    @property
    def stops_together(self) -> bool:
        """Its replicas stop together when the whole server is stopped: it is a cluster with disks."""
        return self.clustered and self.durability == "disk"

    @property
    def replica_ids(self) -> tuple[int, ...]:
        """The ids of its replicas in the order of the file."""
        return tuple(replica.id for replica in self.replicas)
