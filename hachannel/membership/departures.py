"""The master's side of an orderly leave without disks: the vote of who leaves goes with it.

With a disk a voter that has left returns as the same one. Without, whoever comes back is another voter: the
vote of the one that left would never be cast again, though it counts among those of whom a majority is
needed. If half of the voters left so, one after the other, those that stay could agree on no view any more.
So who leaves waits until a view is active in whose configuration it is not: see `Steps.leave`.
"""

from ..model.messages import Reconfig
from ..model.view import View, Voter
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from ..view_change.choice import feasible, reconfigured


class Departures:
    """Says whose vote is to go, one with each view."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication

    def next(self, view: View) -> Voter | None:
        """Whose vote goes next: that of one that has ended, or else of one that leaves.

        None if nobody leaves, or if those who can be reached could not agree on it. Who has ended goes first:
        whoever comes later does not know that it has. The vote of one that is only cut off stays: it may be
        needed if who leaves ends before its own vote is gone.
        """
        state = self._state
        if state.log.durable or state.pending is not None:
            return None
        there = state.alive(view)
        leaving = [voter for voter in view.config if voter in there and self._leaves(voter)]
        if not leaving:
            return None
        ended = [voter for voter in view.config if voter not in there and state.peers.ended(voter)]
        for voter in (*ended, *leaving):
            if feasible(reconfigured(view.config, Reconfig(False, *voter)), there):
                return voter
        return None

    def _leaves(self, voter: Voter) -> bool:
        if voter == self._state.me:
            return self._state.leaving
        link = self._state.peers.link(voter)
        return link is not None and link.leaving

    def remove(self, now: float, voter: Voter) -> None:
        """Append the change; the next view has it."""
        self._state.output.note(f"removes voter {voter}: it leaves, or has ended before others that leave")
        self._replication.reconfigure(now, Reconfig(False, *voter))
