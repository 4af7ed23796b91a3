"""The check of the host from which a connection comes.

Without a secret nobody proves anything, so replicas and other servers are believed only if they come from the
hosts that they have in the configuration. With one, connections from these hosts still have places that
strangers cannot take.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ...hachannel.transport.addresses import is_own_address, unmapped
from ..config import Config, Replica, Server, UnknownName
from .addresses import Addresses
from .handshake import is_loopback
from .hello import CHANNEL, NETWORK, Hello, NotNow, ProtocolError, refusal
from .host_addresses import HostAddresses

__all__ = ["SourceCheck"]

KNOWN_S = 1.0
"""Seconds after which the known addresses are put together again when somebody asks for them."""


class SourceCheck:
    """Compares the address from which a hello comes with the hosts of the replica or server that it names."""

    def __init__(
        self,
        config: Config,
        server: Server,
        replica: Replica,
        addresses: Addresses,
        reported: Callable[[int], Iterable[str]],
        lookup: HostAddresses,
        is_own: Callable[[str], bool] = is_own_address,
    ) -> None:
        """Check connections to `replica` of `server`.

        `addresses` are those of the replicas of this server. `reported` returns the hosts that another server
        has reported itself. `is_own` returns whether a numeric address belongs to this machine.
        """
        self._config = config
        self._server = server
        self._replica = replica
        self._addresses = addresses
        self._reported = reported
        self._lookup = lookup
        self._is_own = is_own
        self._known: frozenset[str] = frozenset()
        self._known_here = False
        """Whether an address of this machine is among the known ones."""
        self._known_until = float("-inf")

    def prepare(self) -> None:
        """Look up all hosts, so that the first connections need not wait for that."""
        for host in sorted(self._all_hosts()):
            self._lookup.of(host)

    def is_known(self, source: str) -> bool:
        """Return whether a numeric address is one of the configuration, as far as its names are looked up."""
        now = self._lookup.seconds()
        if now >= self._known_until:
            self._known_until = now + KNOWN_S
            found = {address for host in self._all_hosts() for address in self._lookup.of(host) or ()}
            self._known, self._known_here = frozenset(found), any(map(self._is_here, found))
        source = unmapped(source).partition("%")[0]
        return source in self._known or (self._known_here and self._is_here(source))

    def check(self, hello: Hello, source: str) -> None:
        """Raise ProtocolError unless the hello may come from `source`, a numeric address.

        A replica or server that is not known at all passes: the handler of the hello refuses it by its name.
        """
        if hello.purpose == CHANNEL:
            replica = hello.integer("replica")
            self._check(f"replica {replica} of {self._server.name}", self._addresses.hosts(replica), source)
        elif hello.purpose == NETWORK:
            server = hello.integer("server")
            self._check(f"server {server}", self._hosts_of_server(server), source)

    def check_certificate(self, hello: Hello, transport: Any, plain_allowed: bool = False) -> None:
        """Raise ProtocolError unless TLS has proven a certificate for a host that the hello may come from.

        plain_allowed: connections without a certificate pass. Administrators need none: they prove that they
        know the secret, or come from this machine.
        """
        from ...tls.names import certificate_of, covers, listed_names

        if hello.purpose == CHANNEL:
            replica = hello.integer("replica")
            name, hosts = f"replica {replica} of {self._server.name}", self._addresses.hosts(replica)
        elif hello.purpose == NETWORK:
            server = hello.integer("server")
            name, hosts = f"server {server}", self._hosts_of_server(server)
        else:
            return
        certificate = certificate_of(transport)
        if certificate is None and plain_allowed:
            return
        if certificate is None:
            raise ProtocolError(f"TLS wants a certificate of {name}, and none came.")
        if hosts and not covers(certificate, sorted(hosts)):
            raise ProtocolError(
                f"The certificate of {name} is for {listed_names(certificate)}, and not for "
                f"{' or '.join(sorted(hosts))}; make one for its hostname in the file."
            )

    def _all_hosts(self) -> set[str]:
        hosts = {host for replica in self._addresses.ids for host in self._addresses.hosts(replica)}
        for server in self._config.servers:
            if server.id != self._server.id:
                hosts |= self._hosts_of_server(server.id)
        return hosts

    def _hosts_of_server(self, server: int) -> frozenset[str]:
        try:
            replicas = self._config.server(server).replicas
        except UnknownName:
            return frozenset()
        declared = {host for each in replicas for host in (each.host, *(one.host for one in each.networks))}
        nats = {nat.host for nat in self._replica.nats if nat.server == server}
        return frozenset(declared | nats | set(self._reported(server)))

    def _check(self, name: str, hosts: frozenset[str], source: str) -> None:
        if not hosts:
            return
        source = unmapped(source).partition("%")[0]
        found = {host: self._lookup.of(host) for host in sorted(hosts)}
        known = {address for addresses in found.values() for address in addresses or ()}
        if source in known or (self._is_here(source) and any(map(self._is_here, known))):
            return
        if None in found.values():
            raise NotNow(f"The addresses of {name} are being looked up here.")
        listed = ", ".join(f"{host} ({_listed(addresses)})" for host, addresses in found.items())
        remedy = "mend its hostname in the file, or give all servers the same property 'secret'"
        error = refusal(
            f"Without a property 'secret', {name} is accepted from its host in the configuration only, and "
            f"{source} is not one of {listed}: {remedy}.",
            f"Without a property 'secret', {name} is accepted from its host in the configuration only, and "
            f"not from {source}: {remedy}.",
        )
        raise error

    def _is_here(self, address: str) -> bool:
        return is_loopback(address) or self._is_own(address)


def _listed(addresses: frozenset[str] | None) -> str:
    return ", ".join(sorted(addresses or ())) or "not found here"
