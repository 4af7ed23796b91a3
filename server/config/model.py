"""The configuration: what an ``a3servers.xml`` declares, with lookups over it."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import attrs

from .digest import AUTHORITY_PROPERTY, TLS_MODE_PROPERTY, config_digest, settings_digest
from .errors import NoRoute, Problem, UnknownName
from .routing import first_hops, relayed_by
from .servers import CONNECTION_MANAGER, Address, Replica, Server


@attrs.frozen
class Config:
    """A valid configuration. ``notes`` are remarks that do not stop it from being used."""

    path: Path
    domains: tuple[str, ...]
    servers: tuple[Server, ...]
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    name: str = ""
    notes: tuple[Problem, ...] = attrs.field(default=(), eq=False)
    causal: frozenset[str] = frozenset()
    """The domains with causal order."""

    def server(self, name_or_id: str | int) -> Server:
        """Return the server of that name or id (``0`` or ``"0"``). Raises UnknownName."""
        found = self._by_name.get(str(name_or_id))
        if found is None:
            names = ", ".join(server.name for server in self.servers)
            raise UnknownName(f"There is no server {name_or_id!r} in {self.path}: it declares {names}.")
        return found

    def replica(self, server: str | int, replica: int) -> Replica:
        """Return a replica of a server. Raises UnknownName."""
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
        """Return the value of the nearest <property>: the replica's, its server's, or the common one."""
        scopes = [self.properties]
        if server is not None:
            scopes = [
                self.replica(server, replica).properties,
                self.server(server).properties,
                self.properties,
            ]
        return next((scope[name] for scope in scopes if name in scope), default)

    def users(self, server: str | int | None = None) -> dict[str, str]:
        """Return users and passwords from the ConnectionManagers of a server, or of all; the first wins."""
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
        """Return ``quorate://host:port,host:port``: the replicas that clients can connect to; "" if none.

        With TLS it is ``quorates://host:port,host:port?ca=FILE``.
        """
        endpoints = [
            f"[{replica.host}]:{port}" if ":" in replica.host else f"{replica.host}:{port}"
            for replica in self.server(server).replicas
            if (port := replica.client_port) is not None
        ]
        if not endpoints:
            return ""
        listed = ",".join(endpoints)
        first = self.server(server).replicas[0].id
        authority = self.setting(AUTHORITY_PROPERTY, server=server, replica=first)
        plain = self.setting(TLS_MODE_PROPERTY, server=server, replica=first) == "accepted"
        return f"quorates://{listed}?ca={authority}" if authority and not plain else f"quorate://{listed}"

    def addresses(
        self, server: str | int, domain: str | None = None, *, seen_from: Replica | None = None
    ) -> tuple[Address, ...]:
        """Return the addresses of a server's replicas in a domain (default: the first that it declares).

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
        """Return the id of the server that ``source`` hands a notification for ``target`` to.

        It is the target if the two share a domain, else the first server on a shortest path through servers
        that are in two domains. The choice depends on the configuration alone. Raises NoRoute, UnknownName.
        """
        start, end = self.server(source), self.server(target)
        if start.id not in self._hops:
            self._hops[start.id] = first_hops(self.domains, self.servers, start.id)
        try:
            return self._hops[start.id][end.id]
        except KeyError:
            raise NoRoute(
                f"Server {start.name} cannot reach {end.name}: give them a domain in common, "
                "or a server that is in a domain of each."
            ) from None

    def routes(self, source: str | int) -> dict[int, int]:
        """Return `next_hop` for every other server that ``source`` can reach. Raises UnknownName."""
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
        """Return the domain in which two servers are connected. Raises NoRoute if they share none."""
        start, end = self.server(source), self.server(neighbour)
        shared = [domain for domain in self.domains if domain in start.domains and domain in end.domains]
        if not shared:
            raise NoRoute(f"Servers {start.name} and {end.name} share no domain.")
        return shared[0]

    def causal_domains(self, server: str | int) -> list[frozenset[int]]:
        """Return the ids of the servers of each domain of a server in which the order is causal."""
        domains = [domain for domain in self.domains if domain in self.server(server).domains]
        return [
            frozenset(each.id for each in self.servers if domain in each.domains)
            for domain in domains
            if domain in self.causal
        ]

    def relayed_by(self, here: str | int, neighbour: str | int) -> frozenset[int]:
        """Return the ids of the servers whose notifications ``neighbour`` may bring to ``here``.

        Raises UnknownName.
        """
        return relayed_by(self.servers, self.server(here).id, self.server(neighbour).id)

    @cached_property
    def digest(self) -> str:
        """A hash of what all processes of the configuration must agree on; see `config_digest`."""
        return config_digest(self.domains, self.causal, self.servers, self.setting)

    def settings_digest(self, server: str | int, replica: int) -> str:
        """Return a hash of the properties of a replica. Raises UnknownName."""
        found = self.server(server)
        declared = self.replica(found.id, replica)
        return settings_digest(self.properties, found.properties, declared.properties)

    @cached_property
    def _by_name(self) -> dict[str, Server]:
        # A name never consists of digits alone, so names and ids share one table.
        table = {server.name: server for server in self.servers}
        return table | {str(server.id): server for server in self.servers}

    @cached_property
    def _hops(self) -> dict[int, dict[int, int]]:
        """First hops by source, computed when a source is asked for."""
        return {}
