"""Triggers of view changes: when the view must change, and which replica proposes the next one.

Source: the channel protocol, section 3, step 1, and section 4. Suspicion is only a hint: it makes a
replica propose, and the quorums decide.
"""

from collections.abc import Collection

from ..model.messages import Exit
from ..model.view import View, Voter, present
from ..view_change.choice import quorum_of
from ..view_change.election import VOTER_TIMEOUTS
from .parts import ChannelParts

HEARTBEATS = 2
"""Heartbeats for which a proposer waits for others once enough replicas can be reached again."""
MAX_BACKOFF = 10
"""Repeated failures stretch the pause between attempts up to this many retry intervals."""


class ViewTriggers:
    """Watches the master as a slave, the slaves as a master, and proposes when it must."""

    def __init__(self, parts: ChannelParts) -> None:
        self._state = parts.state
        self._lease = parts.lease
        self._replication = parts.replication
        self._donor = parts.donor
        self._election = parts.election
        self._departures = parts.departures
        self._witness_admission = parts.witness_admission
        self.exit = False
        """This replica does not follow a master."""
        self.wake: float | None = None
        """When this replica wants to propose."""
        self._hopeless = float("-inf")
        """When too few replicas could be reached, last."""
        self._opened: float | None = None
        """When the last replica to wait for was lost; None while there is one."""
        self._opened_for = 0.0
        """The last progress of a view change when that was so."""

    def possible(self, view: View, but: Collection[Voter] = ()) -> bool:
        """Return whether the replicas that can be reached, but for `but`, could agree on another view."""
        state = self._state
        alive = state.alive(view, but)
        return (
            present(alive, view.config) >= quorum_of(view, state.known_active)
            and present(alive, view.members) >= len(view.members) - view.k + 1
            and any(voter in alive and not state.is_unfit(voter) for voter in view.members)
        )

    def _promising(self, now: float, view: View, but: Collection[Voter] = ()) -> bool:
        """Return whether a proposal can succeed, and has been able to for `HEARTBEATS`."""
        if not self.possible(view, but):
            self._hopeless = now
            return False
        start = self._hopeless + HEARTBEATS * self._state.settings.heartbeat_s
        if now < start:
            self.wake = start
            return False
        return True

    def follows(self, now: float) -> bool:
        """Return whether this replica follows a master, or waits for the view of a proposer."""
        state = self._state
        if state.serving and state.accepted is not None:
            master = state.accepted.members[0]
            staying = not (state.leaving or state.unfit)
            return staying if master == state.me else not state.peers.retires(master)
        if state.member:
            awaited = Voter(state.promised.replica, state.promised.incarnation)
            if awaited == state.me and state.known_active:
                # It proposed another view than the active one, which others may follow: it announces that.
                return False
            voter_timeout_s = VOTER_TIMEOUTS * self._election.attempt_timeout_s
            gone = awaited != state.me and state.peers.retires(awaited)
            return not (state.leaving or gone) and now < self._election.since + voter_timeout_s
        return any(
            link.connected
            and not (link.suspected or link.leaving)
            and link.heartbeat is not None
            and link.heartbeat.master
            and link.heartbeat.view >= state.newer
            for link in state.peers
        )

    def _gate_open(self, view: View) -> bool:
        """Return whether a majority of the configuration does not follow the master."""
        exits = 0
        for voter in view.config:
            link = self._state.peers.link(voter)
            if voter == self._state.me:
                exits += self.exit
            elif link is not None and not link.suspected:
                exits += link.exit or link.leaving
        return exits >= view.quorum

    def consider(self, now: float) -> None:
        """Decide whether the view must change, and propose another one if it must."""
        state = self._state
        self.wake = None
        view = state.accepted
        exits = not self.follows(now)
        if exits and not self.exit and view is not None and (state.serving or state.seats.witness):
            state.broadcast(Exit(view.number, state.leaving, "the master is suspected"))
        self.exit = exits
        if view is None or not state.member or not self._election.idle or state.leaving or state.unfit:
            return
        if state.leading:
            self._consider_members(now, view)
        else:
            self._consider_master(now, view)

    def _consider_master(self, now: float, view: View) -> None:
        """Propose, as a slave or a member of a view that is not active, when no other replica will."""
        state = self._state
        peers = state.peers
        settings = state.settings
        candidates = [voter for voter in view.members if voter == state.me or not peers.retires(voter)]
        delay = candidates.index(state.me) * settings.rank_delay_s
        since, failures = self._election.since, self._election.failures
        if since != self._opened_for:
            self._opened, self._opened_for = None, since
        awaited = Voter(state.promised.replica, state.promised.incarnation)
        if state.serving:
            reason = f"master {view.members[0].replica} {self._why_gone(view.members[0])}"
            if not peers.retires(view.members[0]) or not self._gate_open(view):
                self._opened = None
                return
            start = now if self._opened is None else self._opened
            self._opened = start
        elif awaited == state.me or peers.retires(awaited):
            reason = f"view {state.promised} was not installed"
            start = max(since, now if self._opened is None else self._opened)
            self._opened = start
            delay += min(max(failures - 1, 0), MAX_BACKOFF) * settings.retry_s
        else:
            reason = f"view {state.promised} was not installed in time"
            self._opened = None
            start = since + VOTER_TIMEOUTS * self._election.attempt_timeout_s
        if not self._promising(now, view):
            return
        if any(link.connected and not link.suspected and link.heartbeat is None for link in peers):
            # Its first heartbeat may report an active view that this replica can join.
            start = max(start, now + settings.heartbeat_s)
        start = max(start, self._lease.until)
        if now >= start + delay:
            self._election.propose(now, reason)
        else:
            self.wake = start + delay

    def _consider_members(self, now: float, view: View) -> None:
        """Propose, as the master, a view without lost slaves, with a learner or with a new configuration."""
        state = self._state
        gone: list[Voter] = []
        reasons: list[str] = []
        for voter in view.members[1:]:
            link = state.peers.link(voter)
            if state.peers.retires(voter):
                reasons.append(f"slave {voter.replica} {self._why_gone(voter)}")
            elif (
                link is not None
                and link.exit
                and now - max(link.exit_since, state.active_since) > state.settings.suspect_s
            ):
                reasons.append(f"slave {voter.replica} does not hear the master")
            else:
                continue
            gone.append(voter)
        deaf = [voter for voter in gone if not state.peers.retires(voter)]
        stalled, laggard = self._replication.stalled(now), self._replication.laggard()
        if stalled is not None:
            reasons.append(f"slave {stalled.replica} does not acknowledge")
        if laggard is not None:
            reasons.append(f"slave {laggard.replica} is too far behind")
        vote = self._departures.next(view)
        if vote is not None and vote not in gone:
            reasons.append(f"the vote of replica {vote.replica} goes")
        if self._ignored(now, view):
            reasons.append("too few voters follow it")
        if self.reconfiguring(view):
            reasons.append("the configuration changes")
        if not reasons:
            if self._witness_admission.step(now):
                reasons.append("a witness has promised another view")
            if self._donor.step(now):
                reasons.append("a replica joins")
        if not reasons or not self._promising(now, view, deaf):
            return
        reason = "; ".join(reasons)
        if reason == view.reason and now < state.active_since + state.settings.retry_s:
            # The last view had the same reason and did not help: the next one waits for `retry_s`.
            self.wake = state.active_since + state.settings.retry_s
            return
        if vote is not None:
            self._departures.remove(now, vote)
        self._election.propose(now, reason, () if laggard is None else (laggard,))

    def _why_gone(self, voter: Voter) -> str:
        """Return why a member cannot stay in the view, as the end of a sentence."""
        peers = self._state.peers
        if peers.suspects(voter):
            return "is suspected"
        return "leaves" if peers.departs(voter) else "has another state than the others"

    def _ignored(self, now: float, view: View) -> bool:
        """Return whether the lease is missing because a voter outside the view has promised another view."""
        since = self._lease.wanting_since
        if since is None or now - since < self._state.settings.suspect_s:
            return False
        links = [self._state.peers.link(voter) for voter in view.config if voter not in view.members]
        return any(
            link is not None and link.heartbeat is not None and link.heartbeat.promised > view.number
            for link in links
        )

    def reconfiguring(self, view: View) -> bool:
        """Return whether a change of the configuration is committed in this view."""
        entry = self._state.log.reconfig(view.start)
        return (
            entry is not None and entry.view == view.number and entry.index <= self._state.replicated.commit
        )
