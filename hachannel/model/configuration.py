"""Configuration of a cluster in the file of a replica, used until a view is known."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import attrs
import msgspec

from .view import Seat, majority


@attrs.frozen
class Configuration:
    """The replicas that may found the cluster. Once it exists, its views list its replicas."""

    cluster: str
    """The name of the cluster: replicas of another one are strangers."""
    order: tuple[int, ...]
    """The replica ids, in order."""
    expected: int
    """Number of empty replicas that must see each other to found the cluster."""
    seats: tuple[Seat, ...]
    """One for each replica, sorted by id."""
    birth: bytes
    """A hash of the seats: replicas whose hashes differ do not found a cluster together."""


def configure(
    me: int,
    members: Sequence[int],
    cluster: str,
    expected: int,
    data: Mapping[int, bytes],
    witnesses: Collection[int],
    min_copies: int,
) -> Configuration:
    """Return the configuration. Raises ValueError when its parts contradict each other."""
    if me not in members or len(set(members)) != len(members):
        raise ValueError(f"replica {me} must be one of the distinct replicas {list(members)}")
    if not len(members) // 2 < expected <= len(members):
        least, most = majority(members), len(members)
        raise ValueError(
            f"expected is {expected} of {most} replicas: give from {least} to {most} (more than half, so "
            "that two halves cannot both found a cluster)"
        )
    copies = set(members).difference(witnesses)
    if not copies or not set(witnesses) <= set(members):
        raise ValueError(f"witnesses {sorted(witnesses)} must be some of {list(members)}, and not all")
    if min_copies > len(copies):
        raise ValueError(f"min_copies is {min_copies}, but only {len(copies)} replicas hold the log")
    seats = tuple(sorted(Seat(replica, data.get(replica, b""), replica in witnesses) for replica in members))
    birth = blake2b(msgspec.msgpack.encode(seats), digest_size=8).digest()
    return Configuration(cluster, tuple(members), expected, seats, birth)
