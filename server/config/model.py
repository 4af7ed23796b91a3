"""What an ``a3servers.xml`` declares: immutable values, names resolved, defaults filled in."""

from collections import deque
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

import attrs
import msgspec

CONNECTION_MANAGER = "quorate.services.manager:ConnectionManager"
TCP_PROXY_SERVICE = "quorate.services.tcp:TcpProxyService"

MAX_ID = 65535
"""Server and replica ids are part of an AgentId, which keeps 16 bits for each."""

MAX_PROBLEMS = 100
"""Problems listed for one file; the rest are counted."""

SECRET_PROPERTY = "secret"  # the name of a property, not its value  # noqa: S105

AGENT_MODULES_PROPERTY = "agent_modules"

REPLICATED_PROPERTIES = ("digest_every", "high_water", "max_turn", "max_waiting", "stop_on_exception")
"""Properties that decide how a replica reacts: replicas with other values would drift apart."""

Ack = Literal["ALL", "MAJORITY"]
Durability = Literal["disk", "memory"]


@attrs.frozen
class Problem:
    """One thing wrong (or worth knowing) in a file. ``line`` 0 speaks of the file itself."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.message}"


class ConfigError(Exception):
    """The file cannot be used. ``problems`` has everything found wrong in it, in the order of the lines."""

    exit_code = 1

    def __init__(self, problems: list[Problem]) -> None:
        if len(problems) > MAX_PROBLEMS:
            rest = len(problems) - MAX_PROBLEMS
            last = Problem(problems[0].file, 0, f"{rest} more problems are not shown; mend these first.")
            problems = [*problems[:MAX_PROBLEMS], last]
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class UnknownName(LookupError):
    """A server or replica was asked for that the configuration does not have; the text names those it has."""

    exit_code = 1

    def __str__(self) -> str:
        return str(self.args[0])


class NoRoute(LookupError):
    """Two servers share no domain, directly or through other servers."""

    exit_code = 1

    def __str__(self) -> str:
        return str(self.args[0])


class Address(NamedTuple):
    """Where a replica is reached in some domain."""

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
    """A service of the master: ``class_name`` is ``module:Class``, ``declared`` the text of the file."""

    class_name: str
    args: str = ""
    line: int = attrs.field(default=0, eq=False)
    declared: str = attrs.field(default="", eq=False)

    @property
    def short_name(self) -> str:
        """The class without its module."""
        return self.class_name.rpartition(":")[2]


@attrs.frozen
class Nat:
    """As seen from the replica that declares it, a replica of ``server`` is at ``host``:``port``."""

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
    """It votes when the view changes and grants leases; it has no agents and no services."""

    def network(self, domain: str) -> Network | None:
        """The listener in a domain, or None where there is none."""
        return next((network for network in self.networks if network.domain == domain), None)

    def service(self, class_name: str) -> ServiceSpec | None:
        """The declaration of a service (``module:Class``), or None."""
        return next((service for service in self.services if service.class_name == class_name), None)

    @property
    def client_port(self) -> int | None:
        """The port of its TcpProxyService, or None if clients cannot connect here."""
        service = self.service(TCP_PROXY_SERVICE)
        return int(service.args.split()[0]) if service else None


@attrs.frozen
class Server:
    """An agent server: a cluster with its replicas, or a plain server, which is a cluster of one.

    ``expected`` is how many replicas must see each other before the very first start (nbClusterExpected),
    beside all witnesses. With fewer than ``min_copies`` replicas in its view it takes nothing new.
    ``properties`` are those of the <cluster> or plain <server> element.
    """

    id: int
    name: str
    clustered: bool
    replicas: tuple[Replica, ...]
    mode: str = "ha"
    ack: Ack = "ALL"
    durability: Durability = "memory"
    transient: bool = False
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    expected: int = 1
    min_copies: int = 1
    line: int = attrs.field(default=0, eq=False)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains it is in, in the order of its first replica; the replicas agree on the set."""
        return tuple(network.domain for network in self.replicas[0].networks) if self.replicas else ()

    @property
    def witness_ids(self) -> tuple[int, ...]:
        """The ids of its witnesses."""
        return tuple(replica.id for replica in self.replicas if replica.witness)

    @property
    def copies(self) -> int:
        """How many of its replicas are no witnesses."""
        return len(self.replicas) - len(self.witness_ids)

    def objection(self, expected: int) -> str:
        """Why so many cannot found the cluster, as "has 3 replicas; give from 2 to 3 ...", "" if they can."""
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
        """Its replicas stop together if all are to stop: it is a cluster with disks."""
        return self.clustered and self.durability == "disk"

    @property
    def replica_ids(self) -> tuple[int, ...]:
        """The ids of its replicas in the order of the file."""
        return tuple(replica.id for replica in self.replicas)


@attrs.frozen
class Config:
    """A valid configuration. ``notes`` are remarks that do not stop it from being used."""

    path: Path
    domains: tuple[str, ...]
    servers: tuple[Server, ...]
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    name: str = ""
    notes: tuple[Problem, ...] = attrs.field(default=(), eq=False)

    def server(self, name_or_id: str | int) -> Server:
        """The server of that name or id (``0`` or ``"0"``). Raises UnknownName."""
        found = self._by_name.get(str(name_or_id))
        if found is None:
            names = ", ".join(server.name for server in self.servers)
            raise UnknownName(f"There is no server {name_or_id!r} in {self.path}: it declares {names}.")
        return found

    def replica(self, server: str | int, replica: int) -> Replica:
        """A replica of a server. Raises UnknownName."""
        declared = self.server(server)
        for candidate in declared.replicas:
            if candidate.id == replica:
                return candidate
        ids = ", ".join(str(each) for each in declared.replica_ids)
        raise UnknownName(f"Server {declared.name} in {self.path} has no replica {replica}: it has {ids}.")

    @property
    def names(self) -> dict[str, int]:
        """Server names and their ids."""
        return {server.name: server.id for server in self.servers}

    def setting(
        self, name: str, default: str | None = None, *, server: str | int | None = None, replica: int = 0
    ) -> str | None:
        """The value of the nearest <property>: the replica's own, else its server's, else the common one."""
        scopes = [self.properties]
        if server is not None:
            scopes = [
                self.replica(server, replica).properties,
                self.server(server).properties,
                self.properties,
            ]
        return next((scope[name] for scope in scopes if name in scope), default)

    def users(self, server: str | int | None = None) -> dict[str, str]:
        """Users and passwords from the ConnectionManager of a server, or of all servers (the first wins)."""
        servers = self.servers if server is None else (self.server(server),)
        users: dict[str, str] = {}
        for declared in servers:
            for replica in declared.replicas:
                manager = replica.service(CONNECTION_MANAGER)
                words = manager.args.split() if manager else []
                for user, password in zip(words[::2], words[1::2], strict=True):
                    users.setdefault(user, password)
        return users

    def client_urls(self, server: str | int) -> str:
        """``quorate://host:port,host:port`` with every replica that clients can connect to; "" if none."""
        places = [
            f"[{replica.host}]:{port}" if ":" in replica.host else f"{replica.host}:{port}"
            for replica in self.server(server).replicas
            if (port := replica.client_port) is not None
        ]
        return f"quorate://{','.join(places)}" if places else ""

    def addresses(
        self, server: str | int, domain: str | None = None, *, seen_from: Replica | None = None
    ) -> tuple[Address, ...]:
        """Where the replicas of a server listen in a domain (default: the first one it declares).

        ``seen_from`` is the replica that wants to connect: its <nat> elements take precedence.
        """
        target = self.server(server)
        wanted = domain if domain is not None else next(iter(target.domains), None)
        found: list[Address] = []
        for replica in target.replicas:
            network = replica.network(wanted) if wanted is not None else None
            if network is None:
                continue
            address = Address(replica.id, network.host, network.port)
            for nat in seen_from.nats if seen_from else ():
                if (nat.server, nat.replica) == (target.id, replica.id):
                    address = Address(replica.id, nat.host, nat.port)
            found.append(address)
        return tuple(found)

    def next_hop(self, source: str | int, target: str | int) -> int:
        """The server to hand a notification to so that it comes from ``source`` to ``target``.

        The target itself where the two share a domain, else the first server on a shortest way through
        servers that are in two domains. The choice depends on the configuration alone.
        Raises NoRoute, UnknownName.
        """
        start, end = self.server(source), self.server(target)
        if start.id not in self._hops:
            self._hops[start.id] = self._hops_from(start)
        try:
            return self._hops[start.id][end.id]
        except KeyError:
            raise NoRoute(
                f"Server {start.name} cannot reach {end.name}: give them a domain in common, "
                "or a server that is in a domain of each."
            ) from None

    def routes(self, source: str | int) -> dict[int, int]:
        """What `next_hop` gives, for every other server that ``source`` can reach. Raises UnknownName."""
        start = self.server(source)
        found: dict[int, int] = {}
        for server in self.servers:
            try:
                found[server.id] = self.next_hop(start.id, server.id)
            except NoRoute:
                continue
        found.pop(start.id, None)
        return found

    def link_domain(self, source: str | int, neighbour: str | int) -> str:
        """The domain in which two servers reach each other directly. Raises NoRoute if they share none."""
        start, end = self.server(source), self.server(neighbour)
        shared = [domain for domain in self.domains if domain in start.domains and domain in end.domains]
        if not shared:
            raise NoRoute(f"Servers {start.name} and {end.name} share no domain.")
        return shared[0]

    @cached_property
    def digest(self) -> str:
        """A hash of what replicas must agree on, equal for files that differ in comments, spacing or aliases.

        Secrets and passwords are left out: the digest travels in clear. So is nbClusterExpected, which an
        operator may override at start, what other processes need not know (args of services, nat), and the
        replicas of clusters: those are added and removed while they run, and the cluster says which it has.
        What decides how agents react counts wherever it is set.
        """
        hidden = {SECRET_PROPERTY, "nbClusterExpected"}

        def visible(properties: Mapping[str, str]) -> list[tuple[str, str]]:
            return sorted((name, value) for name, value in properties.items() if name not in hidden)

        facts = [
            "a3servers 3",
            sorted(self.domains),
            visible(self.properties),
            [
                [
                    (server.id, server.name, server.clustered, server.transient),
                    (server.mode, server.ack, server.durability, server.min_copies),
                    visible(server.properties),
                    # The check of the file sees to it that its replicas do not differ in them.
                    [
                        self.setting(name, server=server.id, replica=server.replicas[0].id)
                        for name in REPLICATED_PROPERTIES
                    ],
                    sorted(server.domains),
                    sorted({service.class_name for each in server.replicas for service in each.services}),
                    []
                    if server.clustered
                    else [
                        [
                            (replica.id, replica.host, replica.witness),
                            sorted(
                                (network.domain, network.host, network.port) for network in replica.networks
                            ),
                            visible(replica.properties),
                        ]
                        for replica in server.replicas
                    ],
                ]
                for server in sorted(self.servers, key=lambda server: server.id)
            ],
        ]
        return blake2b(msgspec.json.encode(facts), digest_size=16).hexdigest()

    @cached_property
    def _by_name(self) -> dict[str, Server]:
        # A name never consists of digits alone, so names and ids share one table.
        table = {server.name: server for server in self.servers}
        return table | {str(server.id): server for server in self.servers}

    @cached_property
    def _hops(self) -> dict[int, dict[int, int]]:
        return {}

    @cached_property
    def _members(self) -> dict[str, list[int]]:
        members: dict[str, list[int]] = {domain: [] for domain in self.domains}
        for server in sorted(self.servers, key=lambda server: server.id):
            for domain in server.domains:
                members.setdefault(domain, []).append(server.id)
        return members

    def _hops_from(self, start: Server) -> dict[int, int]:
        """Breadth first over domains, in the order of the file, and servers, by id: server -> first hop."""
        hops = {start.id: start.id}
        seen: set[str] = set()
        queue = deque([start.id])
        while queue:
            here = queue.popleft()
            for domain in self.domains:
                if domain in seen or domain not in self._by_name[str(here)].domains:
                    continue
                seen.add(domain)
                for there in self._members[domain]:
                    if there not in hops:
                        hops[there] = there if here == start.id else hops[here]
                        queue.append(there)
        return hops
