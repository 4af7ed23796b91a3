"""The master's side of a witness that comes: no state to transfer, only its place in the configuration.

Source: the channel protocol, section 4. The voter of its dead life leaves first, then the new one comes, one
change per view. From the next view on it records views and votes. That view waits for its promise, and gives
the change up if none comes; so one whose disk hangs, say, is tried again, but more and more seldom.
"""

from .messages import Join, Reconfig
from .replication import Replication
from .state import State
from .view import Voter

MAX_PAUSE = 64
"""A witness that was to come and could not is tried again after pauses that double, up to so many
`view_change_s`."""


class Porter:
    """Lets one witness in at a time."""

    def __init__(self, state: State, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._waiting: Voter | None = None
        self._tried: dict[Voter, tuple[float, float]] = {}
        """Of those that were to come and have not: when they may be tried again, and after what pause."""

    def on_join(self, voter: Voter, message: Join) -> None:
        """A witness announces itself. One that may not promise yet would stop the others: later then."""
        state = self._state
        if message.bound or not state.leading or state.accepted is None:
            return
        if voter not in state.accepted.config:
            self._waiting = voter
            state.attention = True

    def step(self, now: float) -> None:
        """Append the next change it needs. Called on an idle master only."""
        state, voter = self._state, self._waiting
        view = state.accepted
        if view is None:
            return
        # Who was gone meanwhile, perhaps for another disk, need not wait.
        self._tried = {
            each: tried
            for each, tried in self._tried.items()
            if each not in view.config and state.peers.link(each) is not None
        }
        if voter is None:
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
            return
        again, pause = self._tried.get(voter, (now, state.settings.view_change_s))
        if now >= again:
            pause = min(2 * pause, MAX_PAUSE * state.settings.view_change_s)
            self._tried[voter] = (now + pause, pause)
            state.note(f"adds witness {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
