"""The master's side of a witness that comes: no state to transfer, only its place in the configuration.

Source: the channel protocol, section 4. The voter of its dead life leaves first, then the new one comes, one
change per view. From the next view on it records views and votes.
"""

from .messages import Reconfig
from .replication import Replication
from .state import State
from .view import Voter


class Porter:
    """Lets one witness in at a time."""

    def __init__(self, state: State, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._waiting: Voter | None = None

    def on_join(self, voter: Voter) -> None:
        """A witness announces itself."""
        state = self._state
        if state.leading and state.accepted is not None and voter not in state.accepted.config:
            self._waiting = voter
            state.attention = True

    def step(self, now: float) -> None:
        """Append the next change it needs. Called on an idle master only."""
        state, voter = self._state, self._waiting
        view = state.accepted
        if voter is None or view is None:
            return
        if voter in view.config or not view.lists(voter.replica) or state.peers.link(voter) is None:
            self._waiting = None
            return
        pending = state.log.reconfig(view.start)
        if pending is not None and pending.view == view.number:
            return
        old = [other for other in view.config if other.replica == voter.replica]
        if old:
            state.note(f"removes witness {old[0]}: {voter} takes its place")
            self._replication.reconfigure(now, Reconfig(False, *old[0]))
        else:
            state.note(f"adds witness {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
