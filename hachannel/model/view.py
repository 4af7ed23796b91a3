"""Views, voters and the arithmetic of quorums. A leaf: it knows nothing of messages, logs or time.

Source: the channel protocol, sections 1 and 3 (primary-partition virtual synchrony, Viewstamped Replication
with ordered views and dynamic quorums).
"""

from collections.abc import Collection, Iterable, Sized
from typing import NamedTuple

import msgspec


class Voter(NamedTuple):
    """One life of one replica. A replica that restarts without its disk is another voter.

    Its incarnation is above those of its earlier lives.
    """

    replica: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}"


class ViewNumber(NamedTuple):
    """The number of a view. Numbers are totally ordered, and unique because they name the proposer's life."""

    counter: int
    replica: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.counter}.{self.replica}"


NO_VIEW = ViewNumber(0, -1, 0)


class Tag(NamedTuple):
    """The identity of an entry: the view that appended it, and its index.

    Logs that have an entry with the same tag are equal up to that entry.
    """

    view: ViewNumber
    at: int


NO_TAG = Tag(NO_VIEW, 0)


class Seat(NamedTuple):
    """A place in the cluster: a replica that may join it, in any of its lives."""

    replica: int
    data: bytes = b""
    """Data of the application, for example the address where the replica listens."""
    witness: bool = False
    """The replica votes and holds no log."""


def watching(seats: "Iterable[Seat]") -> frozenset[int]:
    """Return the ids of the replicas that are witnesses."""
    return frozenset(seat.replica for seat in seats if seat.witness)


class View(msgspec.Struct, array_like=True, frozen=True):
    """A view (n, C, M, k) and the length of the log that it starts from."""

    number: ViewNumber
    config: tuple[Voter, ...]
    """C: all voters, sorted."""
    members: tuple[Voter, ...]
    """M: the voters that hold the log, in order of seniority; the first one is the master."""
    k: int
    """k: the number of members that must hold an entry before it is committed."""
    start: int
    """Index of the last entry of the log that the view starts from; the view event is delivered after it."""
    boot: int = 0
    """In the first view of the cluster, while it is not known to be active: the number of voters that must
    take part in replacing it. That is more than half of all replicas, so it overlaps any set that could found
    another cluster, or replace the first view of another attempt. 0 in every later view."""
    reason: str = ""
    """Why the view was proposed, for people."""
    seats: tuple[Seat, ...] = ()
    """The replicas of the cluster, by id. No other replica is admitted."""
    witnesses: tuple[Voter, ...] = ()
    """The voters of the configuration that hold no log. They are never members."""
    lineage: Voter | None = None
    """The life of the replica that an operator made the beginning of this cluster; None if its replicas
    founded it. Views of different lineages belong to different clusters."""
    again: bool = False
    """The first view that this one replaces may have been active. So this view does not report `first_time`,
    and voters that have accepted it found no other cluster."""

    @property
    def master(self) -> Voter:
        """The first member."""
        return self.members[0]

    @property
    def quorum(self) -> int:
        """The number of voters that are a majority of the configuration."""
        return majority(self.config)

    def replicas(self) -> tuple[int, ...]:
        """The replica ids of the members, in order."""
        return tuple(voter.replica for voter in self.members)

    def lists(self, replica: int) -> bool:
        """Return whether a replica belongs to the cluster."""
        return any(seat.replica == replica for seat in self.seats)


def majority(voters: Sized) -> int:
    """Return the size of a majority: floor(n / 2) + 1."""
    return len(voters) // 2 + 1


def required(mode: str, members: Collection[Voter], min_copies: int = 1) -> int:
    """Return k, the number of members that must hold an entry before it is committed."""
    count = len(members)
    return count if mode == "ALL" else max(count // 2 + 1, min(min_copies, count))


def present(some: Iterable[Voter], config: Collection[Voter]) -> int:
    """Return the number of distinct voters of `config` among `some`."""
    return len(set(some).intersection(config))
