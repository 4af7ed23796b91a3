"""Decision loop of a channel: what follows from an input, heartbeats, and the end of a leave."""

import math

from ..model.view import NO_VIEW
from ..replication.lineage import forgetful_master, successor
from .heartbeats import Heartbeats
from .parts import ChannelParts
from .view_triggers import HEARTBEATS, ViewTriggers

__all__ = ["DecisionLoop"]

MAX_LEAVES = 4
"""Longest time that a leaving replica waits for views, as a multiple of its time for one view."""
MAX_ROUNDS = 8
"""Rounds of decisions in one step, at most: one can lead to the next. The rest waits for a tick."""


def superseded(successor: int) -> str:
    """Return why a replica whose cluster was begun again without it stops, and what to do."""
    return (
        f"Replica {successor} belongs to a cluster that was begun again without this replica, which "
        "stops therefore and has kept its files: remove its directory and start it, then it joins as a new "
        "one. If to begin again was the mistake, stop the new cluster for good instead and start this one"
    )


def bereft(master: int, last: int, commit: int, *, durable: bool) -> str:
    """Return why a replica that has more committed entries than its master stops, and what to do."""
    remedy = (
        "To go on from here, stop the others for good and make this replica the beginning of a new cluster "
        "(quorate replica force-new-cluster); to give the entries up, remove its directory and start it"
        if durable
        else "Start it again: it joins them, without these entries"
    )
    return (
        f"Replica {master} is master of a later view without the entries {last + 1} to {commit}, which were "
        "committed here: the others have lost them, and this replica stops before it loses them, too. "
        f"{remedy}"
    )


class DecisionLoop:
    """Calls the parts of a channel after each input, in the order in which they depend on each other."""

    def __init__(self, parts: ChannelParts, view_triggers: ViewTriggers, heartbeats: Heartbeats) -> None:
        self._state = parts.state
        self._lease = parts.lease
        self._replication = parts.replication
        self._forwarding = parts.forwarding
        self._election = parts.election
        self._membership = parts.membership
        self._donor = parts.donor
        self._learner = parts.learner
        self._view_triggers = view_triggers
        self._heartbeats = heartbeats
        self._next_heartbeat = 0.0
        self._leave_by: float | None = None
        self._leave_latest = math.inf
        self._waiting_since = 0.0
        """When this replica began to leave, or has promised a view since."""
        self._left_at = NO_VIEW
        """The last view promised then."""
        self._active = NO_VIEW

    @property
    def deadline(self) -> float | None:
        """When a step with `tick` is due, None for never."""
        state = self._state
        if state.stopped:
            return None
        first = self._next_heartbeat if state.peers.links else math.inf
        for time in (
            self._view_triggers.wake,
            state.peers.deadline(),
            self._leave_by,
            self._donor.wake,
            self._learner.wake,
            self._lease.deadline(),
            self._election.wake,
        ):
            if time is not None and time < first:
                first = time
        return first if first < math.inf else None

    def start(self, now: float) -> None:
        """Make the first step."""
        self._next_heartbeat = now
        self._lease.start(now)
        self.step(now, tick=True)

    def leave(self, now: float) -> None:
        """Stop once the others have a view without this replica, or need too long for it."""
        self._leave_latest = now + MAX_LEAVES * self._patience()
        self._wait(now)

    def _wait(self, now: float) -> None:
        self._left_at = self._state.promised
        self._waiting_since = now
        self._leave_by = min(now + self._patience(), self._leave_latest)

    def _patience(self) -> float:
        """Return how many seconds a leaving replica waits for the next view.

        Without a disk the vote of a replica that has left is lost, and may block the others for good. So
        while a replica that stays is heard, they get the time in which a view is proposed: the longest of a
        suspicion, a lease and a view change.
        """
        state, settings = self._state, self._state.settings
        stays = any(link.connected and not (link.suspected or link.leaving) for link in state.peers)
        if state.log.durable or not stays:
            return settings.leave_s
        longest = max(settings.view_change_s, settings.lease_s, settings.suspect_s)
        return max(settings.leave_s, longest + settings.rank_delay_s + HEARTBEATS * settings.heartbeat_s)

    def step(self, now: float, *, tick: bool = False) -> None:
        """Decide what follows from an input. tick: time passed, perhaps to the deadline."""
        state = self._state
        if state.stopped:
            return
        state.now = now
        reason = self._reason_to_stop() if state.attention else ""
        if reason:
            # Before anything is promised or answered: otherwise it would serve beside its successor.
            state.cease()
            self._lease.review(now)
            state.stop(reason, failed=True)
            return
        pause = state.peers.paused(now)
        if pause:
            state.output.note(f"this replica did not run for {pause:.2f} s")
            self._replication.paused(now, pause)
            self._donor.paused(now, pause)
        for link, reason in state.peers.review(now):
            state.output.note(f"replica {link.replica}: {reason}")
            state.attention = True
        self._lease.review(now)
        self._election.answer_deferred(now)
        if tick:
            self._tick(now)
        rounds = 0
        while state.attention and rounds < MAX_ROUNDS and not state.stopped:
            state.attention = False
            rounds += 1
            self._follow_up(now)
        self._lease.review(now)
        if tick and now >= self._next_heartbeat and state.peers.links and not state.stopped:
            self._next_heartbeat = now + state.settings.heartbeat_s
            if state.leading:
                self._replication.bound(self._donor.hold)
            self._heartbeats.beat()

    def _reason_to_stop(self) -> str:
        """Return why this replica must stop, if another one proves that it cannot go on; "" if none does."""
        state = self._state
        replica = successor(state.peers, state.accepted)
        if replica is not None:
            return superseded(replica)
        commit = state.replicated.commit
        link = forgetful_master(state.peers, state.log.tag(commit).view, commit)
        if link is None or link.heartbeat is None:
            return ""
        return bereft(link.replica, link.heartbeat.last, commit, durable=state.log.durable)

    def _tick(self, now: float) -> None:
        election = self._election
        election.tick(now)
        self._donor.tick(now)
        self._learner.tick(now)
        self._forwarding.tick(now)
        may_found = election.idle and self._learner.empty
        if may_found and election.founding.due(now, election.since, election.failures):
            election.propose(now, "start-up", boot=True)
        self._state.attention = True

    def _follow_up(self, now: float) -> None:
        """Decide what follows from a change of this replica or of a peer."""
        state = self._state
        view = state.accepted
        self._donor.review()
        if state.serving and view is not None and view.number != self._active:
            self._active = view.number
            self._lease.reign(now, state.leading)
            self._forwarding.begin(now, view)
            self._donor.on_view(now)
            self._learner.done()
            self._next_heartbeat = now
            for link in state.peers:
                # The exit was about an earlier view. The peer repeats it if it still holds.
                link.exit = False
                if link.connected and link.voter not in view.members:
                    self._membership.greet(link)
        self._membership.follow_up()
        self._view_triggers.consider(now)
        state.blocked = self._heartbeats.is_blocked()
        if self._leave_by is not None:
            if state.promised > self._left_at:
                # A view was proposed: its installation gets the full time again.
                self._wait(now)
            self._leave_by = min(self._waiting_since + self._patience(), self._leave_latest)
            outside = not state.relied_on and (view is None or state.newer >= view.number)
            if outside or now >= self._leave_by:
                state.stop("left")
