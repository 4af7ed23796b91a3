"""Heartbeats, exits and announcements: messages about the standing of a replica."""

from ..model.messages import Exit, Heartbeat, Join, Record
from ..model.view import NO_VIEW, ViewNumber, Voter
from ..replication.handlers import Handlers
from .parts import ChannelParts
from .view_triggers import ViewTriggers


class Heartbeats:
    """Sends the standing of this replica to its peers, and receives theirs."""

    def __init__(self, parts: ChannelParts, view_triggers: ViewTriggers) -> None:
        self._state = parts.state
        self._replication = parts.replication
        self._election = parts.election
        self._donor = parts.donor
        self._membership = parts.membership
        self._witness_admission = parts.witness_admission
        self._lease = parts.lease
        self._view_triggers = view_triggers

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Heartbeat: self.on_heartbeat, Exit: self.on_exit, Join: self.on_join}

    def is_blocked(self) -> bool:
        """Return whether too few replicas can be reached to go on."""
        state = self._state
        view = state.accepted
        if view is None or not state.member:
            return False
        if state.leading:
            hopeless = state.unfit and not self._view_triggers.possible(view)
            return bool(state.too_few_copies) or not state.commits or hopeless
        if state.serving and not state.peers.retires(view.members[0]):
            return False
        return not self._view_triggers.possible(view) or self._election.lacking is not None

    def beat(self) -> None:
        """Send a heartbeat to every peer."""
        state = self._state
        if not state.output.beat():
            state.writing_since = None
        elif state.writing_since is None:
            state.writing_since = state.now
        heartbeat = self.heartbeat()
        for link in state.peers:
            if link.connected:
                lags = self._replication.end_for(link.voter) != heartbeat.last
                state.output.send(link.replica, self.heartbeat(link.voter) if lags else heartbeat)

    def heartbeat(self, to: Voter | None = None) -> Heartbeat:
        """Return the heartbeat of this replica. to: its receiver, for which it may differ."""
        state = self._state
        view = state.accepted
        return Heartbeat(
            view.number if view is not None else NO_VIEW,
            state.promised,
            state.serving,
            state.member,
            state.leading and not (state.leaving or state.unfit),
            state.founded,
            self._view_triggers.exit,
            state.replicated.commit,
            self._replication.end_for(to),
            state.replicated.applied,
            self._replication.trim_point,
            state.replicated.stable,
            state.now if self._lease.asks else None,
            None if view is None else view.lineage,
            state.newer,
            state.unfit,
            state.writing_since is not None,
        )

    def on_heartbeat(self, now: float, voter: Voter, message: Heartbeat) -> None:
        """Note the standing of a peer."""
        state = self._state
        link = state.peers.links[voter.replica]
        before, link.heartbeat = link.heartbeat, message
        state.review_lineage(link)
        if link.foreign:
            return
        if not message.writing:
            link.writing_since = None
        elif link.writing_since is None:
            link.writing_since = now
        exits = message.exit and not self._of_before(message.newest)
        if exits != link.exit:
            link.exit = exits
            link.exit_since = now
            state.attention = True
        if before is None or before.view != message.view or before.promised != message.promised:
            state.saw(message.promised)
            state.saw(message.view)
            state.attention = True
        # The peer takes part in no view below that, even if the view is of a cluster that is gone.
        state.saw(message.newest)
        if message.founded:
            link.join = None
        if link.unfit != message.unfit:
            link.unfit = message.unfit
            state.attention = True
        if message.active:
            view = state.accepted
            state.supersede(message.view)
            if view is not None and message.view == view.number:
                if not state.serving and voter in view.members:
                    self._election.installation.activate(now)
            elif not state.member:
                self._election.lost(now)
        self._remind(voter, message)
        self._replication.on_heartbeat(now, voter, message)
        if message.mark is not None:
            self._lease.on_mark(now, voter, message.mark)

    def _of_before(self, number: ViewNumber) -> bool:
        """Return whether a voter reported its exit before it knew the active view of this replica.

        It may follow the master of this view. If it does not, it reports its exit again.
        """
        state = self._state
        view = state.accepted
        return state.serving and view is not None and number < view.number

    def _remind(self, voter: Voter, message: Heartbeat) -> None:
        """Send the view to a voter outside it that has missed it, and could not grant the lease."""
        state = self._state
        view = state.accepted
        if (
            state.leading
            and view is not None
            and message.view < view.number >= message.promised
            and voter in view.config
            and voter not in view.members
        ):
            state.output.send(voter.replica, Record(view))

    def farewell(self) -> Exit:
        """Return the message with which this replica announces that it leaves."""
        state = self._state
        number = NO_VIEW if state.accepted is None else state.accepted.number
        return Exit(number, True, f"replica {state.me.replica} leaves")

    def on_exit(self, now: float, voter: Voter, message: Exit) -> None:
        """Note that a peer does not follow the master, or leaves."""
        link = self._state.peers.links[voter.replica]
        if not message.leaving and self._of_before(message.view):
            return
        if not link.exit:
            link.exit_since = now
        link.exit = True
        if message.leaving:
            link.leaving, link.left_at = True, self._state.promised
        self._state.attention = True

    def on_join(self, now: float, voter: Voter, message: Join) -> None:
        """Note that a peer is outside the view, and begin to let it in if this replica is the master."""
        state = self._state
        link = state.peers.links[voter.replica]
        if message.cluster != state.configuration.cluster:
            state.output.note(f"replica {link.replica} has another configuration: ignored")
            return
        if (
            message.empty
            and link.join is None
            and message.birth != state.configuration.birth
            and state.newer == NO_VIEW
        ):
            state.output.note(
                f"replica {link.replica} is configured with other replicas: use the same file to begin"
            )
        link.join = message
        if not self._membership.lets_in(link):
            return
        if link.replica in state.seats.witnesses:
            self._witness_admission.on_join(voter, message)
        else:
            self._donor.on_join(now, voter, message)
