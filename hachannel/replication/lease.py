"""Leases: at any time at most one replica may do what must not be done twice, such as run services.

A master marks its heartbeats with its clock. A voter that follows it answers Grant: for `for_s` seconds of
its own clock it promises, accepts and records no view of anybody else. The master counts a grant from the
moment it *sent* the mark, minus what two clocks may drift apart, so it always stops counting first. While it
counts a majority of its configuration, itself included, it holds the lease.

Why one holder only: before another view is active a majority of the old configuration has accepted or
recorded it, none of them within a grant to the old master, and none of them grants to the old master after.
Only this depends on clocks; the log does not. Source: the channel protocol, section 4.
"""

import math

from ..model.events import LeaseChanged
from ..model.log import Leased
from ..model.messages import Grant, Release
from ..model.view import ViewNumber, Voter
from .handlers import Handlers
from .replica_state import ReplicaState


class Lease:
    """Both sides: what this replica granted, and what was granted to it."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.holder: Voter | None = None
        """Proposer granted last; None while a grant is in force whose holder was not recorded."""
        self.until = -math.inf
        """When that grant is over."""
        self._marked = -math.inf
        """The mark it was for."""
        self._leased_s = state.recovered.lease_s
        """How long the grants of this replica last, as far as its disk remembers."""
        self._earlier_until = -math.inf
        """When all that earlier processes granted is over."""
        self.held = False
        """This replica is master and holds the lease, as of the last step."""
        self.wanting_since: float | None = None
        """Since when this replica is master and does not hold the lease."""
        self._reigns_since: float | None = None
        """Since when it has been master without interruption; through views that it proposed itself."""
        self.grants: dict[Voter, float] = {}
        """Until when others granted."""
        self._over = -math.inf
        """Until when a majority did."""
        self._unanswered = 0
        """How many times `LeaseChanged(False)` was emitted without the answer of the application."""
        self._kept_until = -math.inf
        """Lost before its time, and the application may still act on it: like a grant to oneself."""
        self._released: float | None = None
        """Given up: once the application has answered, the others hear that grants up to this are over."""

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Grant: self.on_grant, Release: self.on_release}

    def start(self, now: float) -> None:
        """Bind this process to the unrecorded grant of an earlier one."""
        state = self._state
        promised = proposer(state.promised)
        # It was started with another lease_s, perhaps.
        self._earlier_until = now + self._leased_s
        if promised != state.me and state.promised.counter:
            # It can have granted to nobody else: the promise was durable before the first grant.
            self.holder = promised
            self.until = now + max(state.settings.lease_s, self._leased_s)
        elif not state.log.durable and 1 < state.configuration.expected < len(state.configuration.order):
            # With all replicas needed to found a cluster, the holder would be one of them.
            self.until = now + state.settings.lease_s

    # The voter

    def blocks(self, now: float, other: Voter) -> bool:
        """Whether a grant forbids to promise, accept or record a view of `other` now."""
        if now < self.until and self.holder != other:
            return True
        return other != self._state.me and (now < self._kept_until or self.holds(now))

    def bound_s(self, now: float, other: Voter) -> float:
        """For how many seconds more a grant forbids to promise a view of `other`; 0 if none does."""
        return max(self.bound_until, self._over) - now if self.blocks(now, other) else 0.0

    @property
    def bound_until(self) -> float:
        """When nothing forbids any more to promise, except the lease that this replica holds."""
        return max(self.until, self._kept_until)

    def on_mark(self, now: float, voter: Voter, mark: float) -> None:
        """A master wants the lease prolonged: grant it, if this replica follows nobody else.

        Nor if it knows that a later view is active: a master that does not hear of that, and is heard here,
        would keep this replica out of it, and each attempt to take it in would stop the others.
        """
        state = self._state
        view = state.accepted
        link = state.peers.link(voter)
        if (
            view is None
            or view.members[0] != voter
            or state.newer > view.number
            or proposer(state.promised) != voter
            or link is None
            or link.leaving
            or self.blocks(now, voter)
        ):
            return
        self.holder, self._marked = voter, mark
        self.until = max(self.until, now + state.settings.lease_s)
        self._remember(now)
        state.output.send_once_bound(voter.replica, Grant(mark, state.settings.lease_s))

    def _remember(self, now: float) -> None:
        """Have the disk remember how long a grant binds before it is given; less once no other binds."""
        state = self._state
        lease_s = state.settings.lease_s
        if lease_s > self._leased_s or (lease_s < self._leased_s and now >= self._earlier_until):
            self._leased_s = lease_s
            state.output.record(Leased(lease_s))

    def on_release(self, _now: float, voter: Voter, message: Release) -> None:
        """The master has ended what needs the lease: grants up to a mark are over."""
        self.release(voter, message.mark)

    def release(self, voter: Voter, mark: float = math.inf) -> None:
        """A replica does nothing any more that needs the lease: what was granted to its marks is over."""
        if self.holder == voter and self._marked <= mark:
            self.until = -math.inf
            self._state.attention = True

    # The master

    @property
    def asks(self) -> bool:
        """Whether heartbeats are to be marked."""
        return self._reigns_since is not None

    def reign(self, now: float, master: bool) -> None:
        """A view is active: this replica is its master, or is not."""
        if not master:
            self._reigns_since, self._over = None, -math.inf
        elif self._reigns_since is None:
            self._reigns_since = now
            self.grants.clear()
            self._released = None

    def give_up(self, now: float) -> None:
        """This replica has another one take its place: it needs the lease no more.

        It says so once its application has ended what only one may run.
        """
        if self._reigns_since is None:
            return
        self._reigns_since = None
        self.review(now)
        self._released = now
        self._release()

    def ended(self) -> None:
        """The application has ended what only one may run."""
        self._unanswered -= self._unanswered > 0
        if not self._unanswered:
            self._kept_until = -math.inf
            self._state.attention = True
            self._release()

    def _release(self) -> None:
        for link in self._state.peers:
            if link.connected:
                self.greet(link.replica)

    def greet(self, replica: int) -> None:
        """Tell a replica that has connected, if it is so, that what it granted is over."""
        if self._released is not None and not self._unanswered and not self._state.stopped:
            self._state.output.send(replica, Release(self._released))

    def on_grant(self, now: float, voter: Voter, message: Grant) -> None:
        """A voter granted, for some time from the mark on at the earliest."""
        since = self._reigns_since
        # What was granted in an earlier reign may have been released since.
        if since is None or not since <= message.mark <= now or not message.for_s > 0:
            return
        drift = self._state.settings.drift
        over = message.mark + message.for_s * (1 - drift) / (1 + drift)
        if over > self.grants.get(voter, -math.inf):
            self.grants[voter] = over
            self._over = self.expires()
            if not self.held:
                self._state.attention = True

    def expires(self) -> float:
        """Until when a majority of the configuration granted, this replica included."""
        view, me = self._state.accepted, self._state.me
        if self._reigns_since is None or view is None:
            return -math.inf
        grants = self.grants
        granted = [math.inf if voter == me else grants.get(voter, -math.inf) for voter in view.config]
        granted.sort()
        return granted[-view.quorum]

    def holds(self, now: float) -> bool:
        """Whether this replica holds the lease at this moment."""
        return now < self._over and self._reigning()

    @property
    def held_until(self) -> float | None:
        """When the lease of this replica ends unless it is prolonged; None without the lease."""
        return self._over if self._over > -math.inf and self._reigning() else None

    def _reigning(self) -> bool:
        state = self._state
        return (
            self._reigns_since is not None
            and state.member
            and proposer(state.promised) == state.me
            and not (state.leaving or state.unfit or state.stopped)
        )

    def review(self, now: float) -> None:
        """Notice that the lease was gained or lost, and tell the application."""
        if self._reigns_since is None and not self.held:
            return
        state = self._state
        before = self._over
        reigning = self._reigning()
        self._over = self.expires()
        held = reigning and now < self._over
        if held != self.held:
            self.held = held
            if not held:
                self._unanswered += 1
                self._kept_until = min(before, now + state.settings.lease_s)
            if held:
                self.wanting_since = None
                state.output.note("holds the lease")
            else:
                state.output.note("lost the lease" if reigning else "gave up the lease")
            state.output.emit(LeaseChanged(held))
        if not reigning:
            self._reigns_since = self.wanting_since = None
            self._over = -math.inf
            self.grants.clear()
        elif not held and self.wanting_since is None:
            self.wanting_since = now

    def watch(self, now: float) -> None:
        """Notice that the lease has run out, before anything else happens."""
        if self.held and now >= self._over:
            self.review(now)

    def deadline(self) -> float | None:
        """When the lease is lost unless it is prolonged."""
        return self._over if self.held and not math.isinf(self._over) else None


def proposer(number: ViewNumber) -> Voter:
    """Return the voter that proposed a view."""
    return Voter(number.replica, number.incarnation)
