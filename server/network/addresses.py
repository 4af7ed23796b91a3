"""Where the replicas of this server are: as the cluster agreed; until that is known, as the file says."""

from collections.abc import Mapping, Sequence

import msgspec

from ...hachannel import Seat
from ...hachannel.model.view import watching
from ...hachannel.transport.connection import Address, host_port
from ..config import Replica, Server

__all__ = ["Addresses", "Place", "described", "differing", "place_of", "read_place"]


class Place(msgspec.Struct, array_like=True, frozen=True):
    """What the cluster keeps of one replica: the data of its seat."""

    host: str
    networks: tuple[tuple[str, str, int], ...]
    """(domain, host, port)"""
    client_port: int = 0
    """Where clients connect, 0 if nowhere."""

    def __str__(self) -> str:
        ports = ", ".join(f"{domain} {host_port(host, port)}" for domain, host, port in self.networks)
        return f"{self.host} ({ports})" if ports else self.host


def place_of(replica: Replica) -> bytes:
    """The data of a replica's seat, from the file."""
    networks = sorted((network.domain, network.host, network.port) for network in replica.networks)
    return msgspec.msgpack.encode(Place(replica.host, tuple(networks), replica.client_port or 0))


def read_place(data: bytes) -> Place | None:
    """What a seat says; None when it cannot be read."""
    try:
        return msgspec.msgpack.decode(data, type=Place)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def differing(declared: Mapping[int, str], cluster: Mapping[int, str]) -> list[str]:
    """Where a file and the cluster differ: replicas and where they are, in words; one phrase for each."""
    found: list[str] = []
    for replica in sorted(cluster.keys() | declared.keys()):
        if replica not in cluster:
            found.append(f"replica {replica} is in the file only")
        elif replica not in declared:
            found.append(f"replica {replica} at {cluster[replica]} is not in the file")
        elif declared[replica] != cluster[replica]:
            found.append(f"replica {replica} is at {cluster[replica]}, not at {declared[replica]}")
    return found


def described(place: Place | str | None, witness: bool) -> str:
    """Where a replica is, and whether it is a witness."""
    return f"{place}, a witness" if witness else str(place)


class Addresses:
    """The replicas of this server and where they are."""

    def __init__(self, server: Server, replica: Replica) -> None:
        """As in the file. `replica` is the one that looks: its <nat> elements take precedence."""
        self._server = server
        self._me = replica
        self._first = next(iter(server.domains), None) if server.replicas else None
        self._declared = {each.id: place_of(each) for each in server.replicas}
        self.witnesses: frozenset[int] = frozenset()
        """Those of the replicas that are witnesses."""
        self._places: dict[int, Place] = {}
        self.agreed = False
        """They are those of the cluster, not only of the file."""
        self.removed: set[int] = set()
        """Replicas that belonged to the cluster when it was looked at before, and do not now."""
        self.follow(self.seats, agreed=False)

    @property
    def data(self) -> dict[int, bytes]:
        """What the file says of each replica."""
        return dict(self._declared)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The seats that the file declares."""
        return tuple(
            Seat(replica, data, replica in self._server.witness_ids)
            for replica, data in sorted(self._declared.items())
        )

    @property
    def ids(self) -> list[int]:
        """The replicas."""
        return sorted(self._places)

    def items(self) -> list[tuple[int, Place]]:
        """(replica, where it is) of each."""
        return sorted(self._places.items())

    def follow(self, seats: Sequence[Seat], *, agreed: bool = True) -> None:
        """The cluster says who belongs to it."""
        before = set(self._places) if self.agreed else set[int]()
        self.agreed = agreed
        self._places = {
            seat.replica: place
            for seat in seats
            if (place := read_place(seat.data) or read_place(self._declared.get(seat.replica, b"")))
        }
        self.witnesses = watching(seats)
        self.removed = (self.removed | before) - set(self._places)

    def addresses(self, domain: str | None = None, *, nat: bool = True) -> dict[int, Address]:
        """Where each replica listens in a domain (None: the first one). nat: as seen from this replica."""
        wanted = self._first if domain is None else domain
        found: dict[int, Address] = {}
        for replica, place in sorted(self._places.items()):
            for name, host, port in place.networks:
                if name == wanted:
                    found[replica] = (host, port)
            for other in self._me.nats if nat else ():
                if (other.server, other.replica) == (self._server.id, replica) and replica in found:
                    found[replica] = (other.host, other.port)
        return found

    def service_peers(self, class_name: str) -> list[tuple[int, str, str]]:
        """(replica, host, arguments) of a service of each replica; only its port if it is not in the file."""
        declared = {each.id: each.service(class_name) for each in self._server.replicas}
        mine = self._me.service(class_name)
        found: list[tuple[int, str, str]] = []
        for replica, place in sorted(self._places.items()):
            service = declared.get(replica)
            if service is not None:
                found.append((replica, place.host, service.args))
            elif mine is not None and place.client_port:
                found.append((replica, place.host, str(place.client_port)))
        return found

    def difference(self) -> str:
        """What the file says otherwise than the cluster, in one sentence; "" if nothing or not known.

        It is the file as it was at the start: to apply that could undo a change made since.
        """
        if not self.agreed:
            return ""
        found = differing(
            {
                replica: described(read_place(data), replica in self._server.witness_ids)
                for replica, data in self._declared.items()
            },
            {replica: described(place, replica in self.witnesses) for replica, place in self._places.items()},
        )
        if not found:
            return ""
        return (
            f"this replica was started with a file that differs ({'; '.join(found)}): the cluster counts; "
            "the present file is read at the next start, and if that is right there is nothing to do"
        )
