"""Membership of the cluster: an operator adds replicas, or removes them for good.

Source: the channel protocol, section 3, step 4, and section 4. A view lists the replicas of the cluster and
its voters. A change is an entry of the master, at most one in each view, and takes effect with the next view.
If that view could not become active with the change, it is installed without it: then nothing has changed,
and the operator may ask again. Why this is safe: docs/decisions/0010-changes-of-the-cluster.md.
"""

from ..model.errors import ChangeRefused, NotMaster, NotYet
from ..model.messages import Admit, Change, Dismiss, Reconfig, Seats, Unlisted, decode_reconfig
from ..model.view import View, Voter
from ..replication.handlers import Handlers
from ..replication.normal_case import Replication
from ..replication.peers import Link
from ..replication.replica_state import ReplicaState
from ..view_change.choice import feasible, reconfigured, seated
from ..view_change.election import Election

MAX_SEATS = 15
"""Largest number of replicas. Each one handles every entry, so more of them only cost speed."""
MAX_SEAT_BYTES = 2048
"""Largest data of a seat, in bytes."""


class Membership:
    """Handles requests to add or remove replicas, and tells replicas whether they belong to the cluster."""

    def __init__(self, state: ReplicaState, replication: Replication, election: Election) -> None:
        self._state = state
        self._replication = replication
        self._election = election
        self._took_part = False
        """This process was a member of an active view, or its witness."""

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Unlisted: self.on_unlisted, Seats: self.on_seats}

    # Requests of an operator, at the master

    def admit(self, now: float, replica: int, data: bytes, *, witness: bool) -> bool:
        """Add a replica to the cluster, or change its data. Raises as `Channel.admit` does.

        Return False if the cluster has this replica with this data already.
        """
        view = self._master()
        if (replica, data, witness) in view.seats:
            return False
        self._check_free()
        if len(data) > MAX_SEAT_BYTES:
            raise ChangeRefused(
                f"The data of replica {replica} have {len(data)} bytes, and at most {MAX_SEAT_BYTES} are "
                "allowed: shorten its names."
            )
        if not view.lists(replica) and len(view.seats) >= MAX_SEATS:
            raise ChangeRefused(
                f"The cluster has {len(view.seats)} replicas: remove one before you add {replica}."
            )
        if any(seat.replica == replica and seat.witness != witness for seat in view.seats):
            kind = "no witness" if witness else "a witness"
            raise ChangeRefused(f"Replica {replica} is {kind}: remove it before you add it as another kind.")
        state = self._state
        living = [voter for voter in view.members if voter.replica == replica]
        if living and (living[0] == state.me or not state.peers.departs(living[0])):
            raise ChangeRefused(f"Replica {replica} is running: stop it before you change its address.")
        self._append(now, view, Admit(replica, data, witness))
        return True

    def remove(self, now: float, replica: int) -> bool:
        """Remove a replica from the cluster. Raises as `Channel.remove` does.

        Return False if it does not belong to the cluster.
        """
        view = self._master()
        if not view.lists(replica):
            return False
        self._check_free()
        state = self._state
        change = Dismiss(replica)
        rest = [
            voter
            for voter in view.members
            if voter.replica != replica and (voter == state.me or not state.peers.departs(voter))
        ]
        if not rest:
            raise ChangeRefused(
                f"Replica {replica} is the only one that has the state: add another one before you remove it."
            )
        least = state.settings.min_copies
        copies = sum(not seat.witness for seat in seated(view.seats, change))
        witness = any(seat.witness for seat in view.seats if seat.replica == replica)
        if not witness and copies < least:
            # The cluster would accept no entry, however many of the other replicas take part.
            raise ChangeRefused(
                f"Without replica {replica} the cluster would have {copies} "
                f"cop{'y' if copies == 1 else 'ies'}, and min_copies is {least}: "
                "add another one before you remove it."
            )
        config = reconfigured(view.config, change)
        there = [voter for voter in state.alive(view) if voter == state.me or not state.peers.departs(voter)]
        if not feasible(config, there):
            missing = sorted({voter.replica for voter in config} - {voter.replica for voter in there})
            raise ChangeRefused(
                f"Without replica {replica} too few could decide: {_names(missing)} cannot be reached; "
                "start or remove those first."
            )
        self._append(now, view, change)
        return True

    def _master(self) -> View:
        state = self._state
        if not state.leading or state.leaving or state.unfit or state.accepted is None:
            raise NotMaster("this replica is not the master of an active view: ask the master")
        return state.accepted

    def _check_free(self) -> None:
        state = self._state
        pending = state.pending
        if pending is not None or not self._election.idle:
            what = "" if pending is None else f" ({described(decode_reconfig(pending.payload))})"
            raise NotYet(f"Another change of the cluster is under way{what}: ask again when it is done.")
        if not state.commits:
            # With too few copies a change is still accepted: it may be the one that adds another copy.
            raise NotYet("The master cannot commit anything now: too few replicas can be reached.")

    def _append(self, now: float, view: View, change: Change) -> None:
        state = self._state
        seats = [str(seat.replica) for seat in seated(view.seats, change)]
        state.output.note(f"an operator asks for a cluster of replicas {', '.join(seats)}")
        self._replication.reconfigure(now, change)

    # Between replicas

    def greet(self, link: Link) -> None:
        """Send the list of replicas to one that has just connected."""
        state = self._state
        view = state.accepted
        if state.serving and view is not None:
            state.output.send(link.replica, Seats(view.number, view.seats))

    def on_seats(self, _now: float, _voter: Voter, message: Seats) -> None:
        """Connect to the replicas of the cluster, as a member of an active view lists them."""
        state = self._state
        if not state.member and message.view > state.seats.as_of and len(message.seats) <= MAX_SEATS:
            state.sit(message.view, message.seats, active=True)

    def lets_in(self, link: Link) -> bool:
        """Return, as the master, whether a replica that wants to join may do so. If not, tell it."""
        state = self._state
        view = state.accepted
        if not state.leading or view is None or view.lists(link.replica):
            return True
        state.output.send(link.replica, Unlisted(view.number))
        return False

    def on_unlisted(self, _now: float, _voter: Voter, message: Unlisted) -> None:
        """Stop or wait: the master reports that this replica does not belong to the cluster."""
        state = self._state
        state.attention = True
        if state.member or message.view < max(state.newer, state.seats.as_of):
            return
        if self._took_part:
            state.stop("removed from the cluster")
        elif not state.seats.unlisted:
            state.output.note(
                f"replica {state.me.replica} does not belong to the cluster: waits until it is added"
            )
            state.seats.unlisted = True

    def follow_up(self) -> None:
        """Note that this replica belongs to the cluster, or has left it for good."""
        state = self._state
        view = state.accepted
        if view is None or not view.seats:
            return
        if state.serving or (state.seats.witness and state.seated):
            self._took_part, state.seats.unlisted = True, False
        elif (
            self._took_part
            and state.known_active
            and state.newer <= view.number
            and not view.lists(state.me.replica)
        ):
            state.stop("removed from the cluster")


def described(change: Change) -> str:
    """Describe the change of a seat for people."""
    match change:
        case Admit(replica, _, _):
            return f"replica {replica} is added or moves"
        case Dismiss(replica):
            return f"replica {replica} is removed"
        case Reconfig(True, replica, _):
            return f"replica {replica} joins"
        case Reconfig(_, replica, _):
            return f"an earlier life of replica {replica} goes"


def _names(replicas: list[int]) -> str:
    word = "replica" if len(replicas) == 1 else "replicas"
    return f"{word} {', '.join(map(str, replicas))}"
