"""The master's side of an orderly leave without disks: the voter that leaves is removed.

A replica with a disk returns as the same voter. Without a disk it returns as another voter: the vote of the
one that left could never be cast again, but would still count for the size of a majority. If half of the
voters left like this, one after the other, the others could never agree on a view again. So a leaving replica
waits until a view is active whose configuration does not have it.
"""

from ..model.messages import Reconfig
from ..model.view import View, Voter
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from ..view_change.choice import feasible, reconfigured


class Departures:
    """Chooses the voters to remove from the configuration, one with each view."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication

    def next(self, view: View) -> Voter | None:
        """Return the voter to remove next: one whose process has ended, or else one that leaves.

        None if no replica leaves, or if the reachable voters could not agree on the view. An ended voter goes
        first: a later master may not know that it has ended. A voter that is only cut off stays: it may be
        needed if the leaving replica ends before it is removed.
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
        """Append the change that removes `voter` with the next view."""
        self._state.output.note(f"removes voter {voter}: it leaves, or has ended before others that leave")
        self._replication.reconfigure(now, Reconfig(False, *voter))
