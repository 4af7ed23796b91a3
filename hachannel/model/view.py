"""Views, voters and the arithmetic of quorums. A leaf: it knows nothing of messages, logs or time.

Source: the channel protocol, sections 1 and 3 (primary-partition virtual synchrony, Viewstamped Replication
with ordered views and dynamic quorums).
"""

from collections.abc import Collection, Iterable, Sized
from typing import NamedTuple

import msgspec


class Voter(NamedTuple):
    """One life of one replica. A replica that restarts without its disk is another voter.

    Its incarnation is above all that it had before.
    """

    replica: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}"


class ViewNumber(NamedTuple):
    """The number of a view: totally ordered, and never used twice because it names its proposer's life."""

    counter: int
    replica: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.counter}.{self.replica}"


NO_VIEW = ViewNumber(0, -1, 0)


class Tag(NamedTuple):
    """The identity of an entry: the view that appended it and its index. Equal tags, equal prefixes."""

    view: ViewNumber
    at: int


NO_TAG = Tag(NO_VIEW, 0)


class Seat(NamedTuple):
    """A place in the cluster: a replica that may join it, whichever life of it."""

    replica: int
    data: bytes = b""
    """For the application, which put it there: where the replica listens, say."""
    witness: bool = False
    """The replica votes and holds no log."""


def watching(seats: "Iterable[Seat]") -> frozenset[int]:
    """The replicas of a cluster that are witnesses."""
    return frozenset(seat.replica for seat in seats if seat.witness)


class View(msgspec.Struct, array_like=True, frozen=True):
    """A view (n, C, M, k) and where it starts."""

    number: ViewNumber
    config: tuple[Voter, ...]
    """C: everybody who votes, sorted."""
    members: tuple[Voter, ...]
    """M: those who hold the log, in order of seniority; the first one is the master."""
    k: int
    """How many members must hold an entry before it is committed."""
    start: int
    """Length of the log the view starts from; the view event is delivered at this index."""
    boot: int = 0
    """While the first view of the cluster is not known to be active: how many voters must take part in
    replacing it, more than half of all replicas, so that they meet everybody who could found another cluster,
    or replace the first view of another attempt. 0 for every later view."""
    reason: str = ""
    """Why the view was proposed, for people."""
    seats: tuple[Seat, ...] = ()
    """The replicas of the cluster, by id. Whoever else comes is not let in."""
    witnesses: tuple[Voter, ...] = ()
    """Those of the configuration that vote and hold no log; never members."""
    lineage: Voter | None = None
    """The life of the replica that an operator made the beginning of this cluster; None if its replicas have
    founded it. What is of another lineage is another cluster."""
    again: bool = False
    """The first view that it replaces may have been active: this one does not say `first_time`, and those who
    accepted it found no other cluster."""

    @property
    def master(self) -> Voter:
        """The first member."""
        return self.members[0]

    @property
    def quorum(self) -> int:
        """How many voters of the configuration are a majority of it."""
        return majority(self.config)

    def replicas(self) -> tuple[int, ...]:
        """The replica ids of the members, in order."""
        return tuple(voter.replica for voter in self.members)

    def lists(self, replica: int) -> bool:
        """Whether a replica belongs to the cluster."""
        return any(seat.replica == replica for seat in self.seats)


def majority(voters: Sized) -> int:
    """The size of a majority: floor(n / 2) + 1."""
    return len(voters) // 2 + 1


def required(mode: str, members: Collection[Voter], min_copies: int = 1) -> int:
    """k: how many members must hold an entry before it is committed."""
    count = len(members)
    return count if mode == "ALL" else max(count // 2 + 1, min(min_copies, count))


def present(some: Iterable[Voter], config: Collection[Voter]) -> int:
    """How many distinct voters of `config` are among `some`."""
    return len(set(some).intersection(config))
