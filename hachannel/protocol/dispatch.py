"""Which part of a channel takes which message."""

from collections.abc import Callable

from ..membership.membership import Membership
from ..model.events import DirectReceived
from ..model.messages import (
    Accept,
    Ack,
    Activate,
    CatchUp,
    CaughtUp,
    Chunk,
    ChunkAck,
    Commit,
    Data,
    DirectMessage,
    Exit,
    Fetch,
    Forward,
    Forwarded,
    Found,
    Founded,
    Grant,
    Heartbeat,
    Join,
    Message,
    NewView,
    Prepare,
    Promise,
    Record,
    Recorded,
    Refuse,
    Release,
    Repair,
    Seats,
    Suffix,
    TailEntries,
    Unlisted,
    Yield,
)
from ..model.view import Voter
from ..replication.forwarding import Forwarding
from ..replication.lease import Lease
from ..replication.normal_case import Replication
from ..replication.peers import Link
from ..replication.replica_state import ReplicaState
from ..transfer.donor import Donor
from ..transfer.learner import Learner
from ..view_change.election import Election
from .heartbeats import Heartbeats


class Dispatch:
    """Hands messages to the parts."""

    def __init__(
        self,
        state: ReplicaState,
        lease: Lease,
        replication: Replication,
        forwarding: Forwarding,
        election: Election,
        heartbeats: Heartbeats,
        membership: Membership,
        donor: Donor,
        learner: Learner,
        observe: Callable[[], None],
    ) -> None:
        self._state = state
        self._lease = lease
        self._replication = replication
        self._forwarding = forwarding
        self._election = election
        self._heartbeats = heartbeats
        self._membership = membership
        self._donor = donor
        self._learner = learner
        self._observe = observe

    def message(self, now: float, link: Link, voter: Voter, message: Message) -> None:
        """Hand a message to the part it is for; the frequent ones, which change no answer, first."""
        match message:
            case Data():
                if not self._state.status.serving:
                    self._activate(now, voter, message)
                self._replication.on_data(now, voter, message)
            case Ack():
                self._replication.on_ack(now, voter, message)
            case Commit():
                self._replication.on_commit(now, voter, message)
            case Forward():
                self._forwarding.on_forward(voter, message)
            case Forwarded():
                self._forwarding.on_forwarded(voter, message)
            case _:
                self._rare(now, link, voter, message)
                if not self._state.attention:
                    # Otherwise a step follows, which does it.
                    self._observe()

    def _rare(self, now: float, link: Link, voter: Voter, message: Message) -> None:
        election = self._election
        match message:
            case Heartbeat():
                self._heartbeats.on_heartbeat(now, link, voter, message)
            case Grant():
                self._lease.on_grant(now, voter, message)
            case Release():
                self._lease.release(voter, message.mark)
            case DirectMessage():
                self._state.output.emit(DirectReceived(link.replica, message.data))
            case Repair():
                self._replication.on_repair(voter, message)
            case Exit():
                self._heartbeats.on_exit(now, link, message)
            case Prepare():
                election.on_prepare(now, voter, message)
            case Promise():
                election.on_promise(now, voter, message)
            case Refuse():
                election.on_refuse(now, voter, message)
            case Fetch():
                election.on_fetch(voter, message)
            case Suffix():
                election.on_suffix(now, voter, message)
            case Yield():
                election.on_yield(now, voter, message)
            case NewView():
                election.installation.on_new_view(now, voter, message)
            case Accept():
                election.installation.on_accept(now, voter, message)
            case Record():
                election.installation.on_record(now, voter, message)
            case Recorded():
                election.installation.on_recorded(now, voter, message)
            case Found():
                election.installation.on_found(voter, message)
            case Founded():
                election.installation.on_founded(now, voter, message)
            case Activate():
                election.installation.on_activate(now, voter, message)
            case Join():
                self._heartbeats.on_join(now, link, voter, message)
            case Chunk():
                self._learner.on_chunk(voter, message)
            case ChunkAck():
                self._donor.on_chunk_ack(now, voter, message)
            case TailEntries():
                self._learner.on_tail_entries(voter, message)
            case CatchUp():
                self._learner.on_catch_up(voter, message)
            case CaughtUp():
                self._donor.on_caught_up(now, voter, message)
            case Unlisted():
                self._membership.on_unlisted(message)
                self._state.attention = True
            case Seats():
                self._membership.on_seats(message)

    def to_oneself(self, message: Message) -> None:
        """A message this replica sent to itself, once it may count."""
        state = self._state
        now, me = state.now, state.me
        if isinstance(message, Ack):
            self._replication.on_ack(now, me, message)
        elif isinstance(message, Promise):
            self._election.on_promise(now, me, message)
        elif isinstance(message, Accept):
            self._election.installation.on_accept(now, me, message)
        elif isinstance(message, Founded):
            self._election.installation.on_founded(now, me, message)
        elif isinstance(message, Activate):
            self._election.installation.on_noted(now, message)

    def _activate(self, now: float, voter: Voter, message: Data) -> None:
        """An entry of a view proves that the view is active."""
        view = self._state.accepted
        if view is not None and message.entry.view == view.number and voter == view.members[0]:
            self._election.installation.activate(now)
