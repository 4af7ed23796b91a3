"""The steps from the replicas that a cluster has to those that a file declares. Pure."""

from collections.abc import Sequence

import attrs
import msgspec

from ..config import Replica, Server
from ..network.addresses import decode_address, encode_address

__all__ = [
    "ReconfigurationStep",
    "SeatStatus",
    "addition",
    "address_conflicts",
    "declared_steps",
    "describe",
    "plan",
]


class SeatStatus(msgspec.Struct, frozen=True):
    """Status of one replica of the cluster, as its master reports it."""

    at: str
    voter: bool
    member: bool
    witness: bool = False
    address: tuple[str, int] | None = None
    """(host, port) of its listener in its first domain."""


@attrs.frozen
class ReconfigurationStep:
    """Addition, move or removal of one replica."""

    replica: int
    address: bytes | None
    """The encoded `ReplicaAddress` it shall have; None to remove the replica."""
    witness: bool = False

    def __str__(self) -> str:
        if self.address is None:
            return f"remove replica {self.replica}"
        kind = "witness" if self.witness else "replica"
        return f"add {kind} {self.replica} at {decode_address(self.address)}"

    def done(self, replicas: dict[int, SeatStatus]) -> bool:
        """Whether the cluster has made this step."""
        seat = replicas.get(self.replica)
        if self.address is None:
            return seat is None
        return (
            seat is not None and seat.at == str(decode_address(self.address)) and seat.witness == self.witness
        )


def address_conflicts(changes: Sequence[ReconfigurationStep], replicas: dict[int, SeatStatus]) -> list[str]:
    """Return a phrase for each step that gives a replica the address of another replica of the cluster.

    This happens when ids are shifted or replaced in the file. The other replica may run at that address, so
    the two would be confused.
    """
    found: list[str] = []
    for change in changes:
        address = None if change.address is None else decode_address(change.address)
        wanted: set[tuple[str, int]] = set()
        if address is not None:
            wanted = {(host, port) for _, host, port in address.networks}
        found += [
            f"replica {change.replica} is to be at {address}, where replica {id} of the cluster is"
            for id, seat in sorted(replicas.items())
            if id != change.replica and seat.address in wanted
        ]
    return found


def plan(
    declared: Sequence[ReconfigurationStep], replicas: dict[int, SeatStatus]
) -> list[ReconfigurationStep]:
    """Return the steps from the present `replicas` to the `declared` ones (see `declared_steps`).

    Additions come before removals, so that the cluster never loses its last replica. A replica that becomes a
    witness, or a witness that becomes a replica, is removed and added again.
    """
    changes: list[ReconfigurationStep] = []
    for change in declared:
        seat = replicas.get(change.replica)
        if seat is not None and seat.witness != change.witness:
            changes.append(ReconfigurationStep(change.replica, None))
        changes.append(change)
    kept = {change.replica for change in declared}
    changes += [ReconfigurationStep(replica, None) for replica in sorted(replicas) if replica not in kept]
    return [change for change in changes if not change.done(replicas)]


def declared_steps(server: Server) -> list[ReconfigurationStep]:
    """Return the additions of all replicas that the file declares."""
    return [addition(replica) for replica in sorted(server.replicas, key=lambda each: each.id)]


def addition(replica: Replica) -> ReconfigurationStep:
    """Return the addition of a replica that the file declares."""
    return ReconfigurationStep(replica.id, encode_address(replica), replica.witness)


def describe(seat: SeatStatus) -> str:
    """Describe one replica for a list."""
    if seat.witness:
        return f"{seat.at}, a witness{'' if seat.voter else ', has not joined'}"
    if seat.member:
        return f"{seat.at}, takes part"
    return f"{seat.at}, {'is a voter and down' if seat.voter else 'has not joined'}"
