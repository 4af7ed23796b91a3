"""The master's side of a witness that comes: no state to transfer, only its place in the configuration.

Source: the channel protocol, section 4. The voter of its dead life leaves first, then the new one comes, one
change per view. From the next view on it records views and votes. That view waits for its promise, and gives
the change up if none comes; so one whose disk hangs, say, is tried again, but more and more seldom.

A witness that has promised a later view, whose proposer did not come through with it, records no view below
that: another one is proposed for it, above.
"""

from ..model.messages import Join, Reconfig
from ..model.view import View, Voter
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState

MAX_PAUSE = 64
"""A witness that was to come and could not is tried again after pauses that double, up to so many
`view_change_s`."""


class WitnessAdmission:
    """Lets one witness in at a time."""

    def __init__(self, state: ReplicaState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._waiting: Voter | None = None
        self._tried: dict[Voter, tuple[float, float]] = {}
        """Next attempt and pause, in seconds, of each witness whose admission failed."""

    def on_join(self, voter: Voter, message: Join) -> None:
        """A witness announces itself. One that may not promise yet would stop the others: later then."""
        state = self._state
        if message.bound or not state.leading or state.accepted is None:
            return
        if self._lacks(state.accepted, voter):
            self._waiting = voter
            state.attention = True

    def step(self, now: float) -> bool:
        """Append the next change it needs; true when a new view will do. Called on an idle master only."""
        state, voter = self._state, self._waiting
        view = state.accepted
        if view is None:
            return False
        # Who was gone meanwhile, perhaps for another disk, need not wait.
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
            # Whoever proposed what it has promised may still come through with that.
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
        """Whether a witness has no vote, or is bound to another view."""
        link = self._state.peers.link(voter)
        heard = None if link is None else link.heartbeat
        return voter not in view.config or (heard is not None and heard.promised > view.number)

    def _may_try(self, now: float, voter: Voter, first: float) -> bool:
        """Whether it is time to do something for a witness, which is done then. first: for the first time."""
        again, pause = self._tried.get(voter, (first, self._state.settings.view_change_s))
        if now < again:
            return False
        pause = min(2 * pause, MAX_PAUSE * self._state.settings.view_change_s)
        self._tried[voter] = (now + pause, pause)
        return True
