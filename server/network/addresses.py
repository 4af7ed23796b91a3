"""Addresses of the replicas of this server: those of the file until the cluster has agreed on some."""

from collections.abc import Mapping, Sequence

import msgspec

from ...hachannel import Seat
from ...hachannel.model.view import watching
from ...hachannel.transport.addresses import Address, host_port
from ..config import Replica, Server

__all__ = [
    "Addresses",
    "ReplicaAddress",
    "decode_address",
    "describe_replica",
    "differences",
    "encode_address",
]


class ReplicaAddress(msgspec.Struct, array_like=True, frozen=True):
    """Addresses of one replica: the data of its seat, which the cluster keeps."""

    host: str
    networks: tuple[tuple[str, str, int], ...]
    """(domain, host, port) of each network listener."""
    client_port: int = 0
    """Port of the TcpProxyService, 0 if there is none."""

    def __str__(self) -> str:
        ports = ", ".join(f"{domain} {host_port(host, port)}" for domain, host, port in self.networks)
        return f"{self.host} ({ports})" if ports else self.host


def encode_address(replica: Replica) -> bytes:
    """Return the data of a replica's seat, as the file declares it."""
    networks = sorted((network.domain, network.host, network.port) for network in replica.networks)
    return msgspec.msgpack.encode(ReplicaAddress(replica.host, tuple(networks), replica.client_port or 0))


def decode_address(data: bytes) -> ReplicaAddress | None:
    """Decode the data of a seat; None when it cannot be decoded."""
    try:
        return msgspec.msgpack.decode(data, type=ReplicaAddress)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def differences(declared: Mapping[int, str], cluster: Mapping[int, str]) -> list[str]:
    """Compare the replicas of a file with those of the cluster; return one phrase for each difference.

    Both map the id of a replica to its description, see `describe_replica`.
    """
    found: list[str] = []
    for replica in sorted(cluster.keys() | declared.keys()):
        if replica not in cluster:
            found.append(f"replica {replica} is in the file only")
        elif replica not in declared:
            found.append(f"replica {replica} at {cluster[replica]} is not in the file")
        elif declared[replica] != cluster[replica]:
            found.append(f"replica {replica} is at {cluster[replica]}, not at {declared[replica]}")
    return found


def describe_replica(address: ReplicaAddress | str | None, witness: bool) -> str:
    """Describe a replica by its address, and say if it is a witness."""
    return f"{address}, a witness" if witness else str(address)


class Addresses:
    """The replicas of this server and their addresses."""

    def __init__(self, server: Server, replica: Replica) -> None:
        """Start with the addresses in the file. `replica` is this one: its <nat> elements take precedence."""
        self._server = server
        self._me = replica
        self._first = next(iter(server.domains), None) if server.replicas else None
        self._declared = {each.id: encode_address(each) for each in server.replicas}
        self.witnesses: frozenset[int] = frozenset()
        """Ids of the replicas that are witnesses."""
        self._addresses: dict[int, ReplicaAddress] = {}
        self.agreed = False
        """Whether the cluster agreed on the addresses; otherwise they are those of the file."""
        self.removed: set[int] = set()
        """Ids of replicas that belonged to the cluster at an earlier update, and do not now."""
        self.update(self.seats, agreed=False)

    @property
    def data(self) -> dict[int, bytes]:
        """Encoded `ReplicaAddress` of each replica, as the file declares it."""
        return dict(self._declared)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Seats of the cluster, as the file declares them."""
        return tuple(
            Seat(replica, data, replica in self._server.witness_ids)
            for replica, data in sorted(self._declared.items())
        )

    @property
    def ids(self) -> list[int]:
        """Ids of the replicas, sorted."""
        return sorted(self._addresses)

    def items(self) -> list[tuple[int, ReplicaAddress]]:
        """(replica id, address) of each replica, sorted by id."""
        return sorted(self._addresses.items())

    def hosts(self, replica: int) -> frozenset[str]:
        """Return the hosts at which a replica may be: those of the cluster, the file, and <nat> here."""
        known = (self._addresses.get(replica), decode_address(self._declared.get(replica, b"")))
        found = {nat.host for nat in self._me.nats if (nat.server, nat.replica) == (self._server.id, replica)}
        for address in known:
            if address is not None:
                found |= {address.host, *(host for _, host, _ in address.networks)}
        return frozenset(found)

    def update(self, seats: Sequence[Seat], *, agreed: bool = True) -> None:
        """Replace the addresses by those in `seats`; `agreed`: the cluster agreed on these seats."""
        before = set(self._addresses) if self.agreed else set[int]()
        self.agreed = agreed
        self._addresses = {
            seat.replica: address
            for seat in seats
            if (address := decode_address(seat.data) or decode_address(self._declared.get(seat.replica, b"")))
        }
        self.witnesses = watching(seats)
        self.removed = (self.removed | before) - set(self._addresses)

    def in_domain(self, domain: str | None = None, *, nat: bool = True) -> dict[int, Address]:
        """Return where each replica listens in `domain` (None: the server's first domain).

        `nat` applies the <nat> elements of this replica.
        """
        wanted = self._first if domain is None else domain
        found: dict[int, Address] = {}
        for replica, address in sorted(self._addresses.items()):
            for name, host, port in address.networks:
                if name == wanted:
                    found[replica] = (host, port)
            for other in self._me.nats if nat else ():
                if (other.server, other.replica) == (self._server.id, replica) and replica in found:
                    found[replica] = (other.host, other.port)
        return found

    def service_peers(self, class_name: str) -> list[tuple[int, str, str]]:
        """Return (replica id, host, service arguments) of each replica that declares the service.

        The arguments of a replica that the file lacks are only its port.
        """
        declared = {each.id: each.service(class_name) for each in self._server.replicas}
        mine = self._me.service(class_name)
        found: list[tuple[int, str, str]] = []
        for replica, address in sorted(self._addresses.items()):
            service = declared.get(replica)
            if service is not None:
                found.append((replica, address.host, service.args))
            elif mine is not None and address.client_port:
                found.append((replica, address.host, str(address.client_port)))
        return found

    def difference(self) -> str:
        """Return how the file differs from the cluster, in one sentence; "" if no difference is known.

        The file was read at the start of this process: applying it could undo a later change.
        """
        if not self.agreed:
            return ""
        found = differences(
            {
                replica: describe_replica(decode_address(data), replica in self._server.witness_ids)
                for replica, data in self._declared.items()
            },
            {
                replica: describe_replica(address, replica in self.witnesses)
                for replica, address in self._addresses.items()
            },
        )
        if not found:
            return ""
        return (
            f"this replica was started with a file that differs from the cluster ({'; '.join(found)}). The "
            "cluster keeps its replicas. The file is read again at the next start; if it agrees with the "
            "cluster by now, there is nothing to do"
        )
