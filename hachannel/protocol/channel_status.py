"""Status of a channel: what its driver and other observers read, without changing anything."""

from ..model.view import Seat, View, Voter
from ..view_change.installation import Installing
from .observed import Role, Standing, observe
from .parts import ChannelParts
from .phases import Phases

__all__ = ["ChannelStatus"]


class ChannelStatus:
    """Read-only properties of a channel. Most of them are those of `standing`."""

    def __init__(self, parts: ChannelParts) -> None:
        self.state = parts.state
        self.lease = parts.lease
        self._replication = parts.replication
        self._forwarding = parts.forwarding
        self._election = parts.election
        self._donor = parts.donor
        self._learner = parts.learner
        self.standing = observe(self.state, self.lease, Standing())
        """Where this replica is in its cluster, as of the end of the last input."""

    def _observe(self) -> None:
        self.standing = observe(self.state, self.lease, self.standing)

    @property
    def role(self) -> Role:
        """Role of this replica in its cluster."""
        return self.standing.role

    @property
    def phases(self) -> Phases:
        """Where this replica is in each of the tables of `phases`."""
        return Phases(self.standing.role, self._election.phase, self._learner.phase, self._donor.phase)

    @property
    def view(self) -> View | None:
        """Last view that this replica accepted; None before the first."""
        return self.standing.view

    @property
    def master(self) -> int | None:
        """Replica id of the master that this replica follows; None while there is none."""
        return self.standing.master

    @property
    def members(self) -> tuple[int, ...]:
        """Replica ids of the members of the view, master first."""
        return self.standing.members

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Seats of the cluster, as far as this replica knows."""
        return self.state.seats.listed

    @property
    def commit(self) -> int:
        """Index of the last committed entry known here."""
        return self.state.replicated.commit

    @property
    def stable(self) -> int:
        """All members of the view hold everything up to this index, which is committed."""
        return self.state.replicated.stable

    @property
    def last(self) -> int:
        """Index of the last entry in the log."""
        return self.state.log.last.at

    @property
    def applied(self) -> int:
        """Index of the last entry handed out as an event."""
        return self.state.replicated.applied

    @property
    def foreigners(self) -> list[int]:
        """Connected replicas that belong to another cluster than this one."""
        return sorted(link.replica for link in self.state.peers if link.connected and link.foreign)

    def may_come_back(self, replica: int, incarnation: int) -> bool:
        """Whether this life of a replica is a voter of the latest view known here, and has a disk.

        Then it is as good as ever when it is started again, whatever ran in its place meanwhile.
        """
        view = self.state.accepted
        return self.state.log.durable and view is not None and Voter(replica, incarnation) in view.config

    @property
    def lacking(self) -> View | None:
        """A view that this replica has heard of in vain: too few of those who hold it can be reached."""
        return self._election.lacking

    @property
    def proposing(self) -> bool:
        """Whether a view change proposed by this replica is under way."""
        return not self._election.idle

    @property
    def installing(self) -> Installing | None:
        """The view that this replica proposes, once its log and members are chosen and until it is active."""
        return self._election.installation.current

    @property
    def can_submit(self) -> bool:
        """Whether `submit` accepts a payload now: `Standing.may_submit`, and the window has room."""
        return self.standing.may_submit and self._replication.room

    def holds_lease(self, now: float) -> bool:
        """Return whether this replica may do at this moment what only one replica may do."""
        return self.standing.holds_lease(now)

    @property
    def can_forward(self) -> bool:
        """Whether `forward` accepts a payload now. The payload may wait here for a master."""
        return self._forwarding.room

    @property
    def forwarding(self) -> int:
        """How many payloads were forwarded here and have not been delivered here."""
        return self._forwarding.waiting

    @property
    def tail_length(self) -> int:
        """How many entries wait here for the state that they follow."""
        return self._learner.tail_length

    @property
    def idle(self) -> bool:
        """The inputs since the last `drain` have produced nothing that it would return."""
        return self.state.output.empty and not self._replication.owes

    @property
    def commit_unannounced(self) -> bool:
        """Whether this replica is a master whose slaves may not know yet what is committed.

        If nothing is submitted soon, call `drain` with `announce`.
        """
        return self._replication.commit_unannounced

    @property
    def announced(self) -> int:
        """Index up to which the master has announced to the slaves that all members hold everything."""
        return self._replication.announced
