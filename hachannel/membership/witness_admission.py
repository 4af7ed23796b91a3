"""The master's side of a witness that joins: no state is transferred, it only needs a place as a voter.

Source: the channel protocol, section 4. The voter of its earlier life leaves the configuration first, then
the new one comes, one change per view. From the next view on the witness records views and votes. That view
waits for the promise of the witness, and drops the change if none comes. A witness that does not promise,
for example because its disk hangs, is tried again after growing pauses.

A witness that has promised a later view, which was never installed, records no view with a lower number: the
master proposes a higher one for it.
"""

from ..model.messages import Join, Reconfig
from ..model.view import View, Voter
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState

MAX_PAUSE = 64
"""Longest pause before a witness is tried again, in multiples of `view_change_s`. Each failure doubles it."""


class WitnessAdmission:
    """Adds one witness at a time to the configuration."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._waiting: Voter | None = None
        self._tried: dict[Voter, tuple[float, float]] = {}
        """Next attempt and pause, in seconds, of each witness whose admission failed."""

    def on_join(self, voter: Voter, message: Join) -> None:
        """Note that a witness wants to join. One that may not promise yet would delay the others: wait."""
        state = self._state
        if message.bound or not state.leading or state.accepted is None:
            return
        if self._lacks(state.accepted, voter):
            self._waiting = voter
            state.attention = True

    def step(self, now: float) -> bool:
        """Append the next change that is needed. Return True if a new view suffices.

        Call on an idle master only.
        """
        state, voter = self._state, self._waiting
        view = state.accepted
        if view is None:
            return False
        # A witness that reconnected may have another disk, and need not wait.
        self._tried = {
            each: tried
            for each, tried in self._tried.items()
            if self._lacks(view, each) and state.peers.link(each) is not None
        }
        if voter is None:
            return False
        if not self._lacks(view, voter) or not view.lists(voter.replica) or state.peers.link(voter) is None:
            self._waiting = None
            return False
        pending = state.log.reconfig(view.start)
        if pending is not None and pending.view == view.number:
            return False
        if voter in view.config:
            # The proposer of the view that it has promised may still install that.
            return self._may_try(now, voter, state.active_since + state.settings.view_change_s)
        old = [other for other in view.config if other.replica == voter.replica]
        if old:
            state.output.note(f"removes witness {old[0]}: {voter} takes its place")
            self._replication.reconfigure(now, Reconfig(False, *old[0]))
        elif self._may_try(now, voter, now):
            state.output.note(f"adds witness {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
        return False

    def _lacks(self, view: View, voter: Voter) -> bool:
        """Return whether a witness is no voter, or has promised a later view."""
        link = self._state.peers.link(voter)
        heard = None if link is None else link.heartbeat
        return voter not in view.config or (heard is not None and heard.promised > view.number)

    def _may_try(self, now: float, voter: Voter, first: float) -> bool:
        """Return whether to try a witness now, and count the attempt. first: time of the first attempt."""
        again, pause = self._tried.get(voter, (first, self._state.settings.view_change_s))
        if now < again:
            return False
        pause = min(2 * pause, MAX_PAUSE * self._state.settings.view_change_s)
        self._tried[voter] = (now + pause, pause)
        return True
