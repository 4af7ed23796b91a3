"""I3, I11: the grants of a lease (Gray and Cheriton, 1989), and the replicas that they bind."""

import math

from ...hachannel import Voter
from ...hachannel.model.messages import Grant, Yield
from ...hachannel.replication.lease import proposer
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step, majority

EPSILON_S = 1e-6
"""More than the rounding error of adding and subtracting two clocks, in seconds."""


@checker(
    "I11", "A lease lasts as long as a majority of the voters of the present view granted, and no longer."
)
class LeaseMajority(Checker):
    """A lease lasts exactly as long as the grants of a majority of the voters of the present view.

    A grant of a removed replica or an ended process must keep no replica from leading. A master that goes on
    leading keeps its lease, so that its services need not end.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._granted: dict[Voter, tuple[float, dict[Voter, float]]] = {}
        """The time of the last step of each holder, and the grants that it counted then."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A new process has no grants."""
        self._granted.pop(host.state.me, None)

    def stepped(self, step: Step) -> None:
        """Compute the end of the lease after every step of its holder."""
        host, state = step.host, step.host.state
        lease, view, me = host.channel.lease, state.accepted, state.me
        now = host.clock()
        if lease.held:
            self._granted[me] = now, dict(lease.grants)
            until = self._until(step, lease.grants)
            if lease.expires() > until and lease.holds(now):
                self.fail(host, f"holds the lease until {lease.expires():.3f}, granted to {until:.3f}")
            return
        before, granted = self._granted.pop(me, (now, {}))
        # In an exploration clocks stand still, while the grants that were counted grow older.
        if before >= now or view is None or state.leaving or state.unfit or state.stopped or not state.member:
            return
        yields = any(isinstance(message, Yield) for _, message in step.messages)
        until = self._until(step, granted)
        if proposer(state.promised) == me and not yields and until > now + EPSILON_S:
            self.fail(host, f"has lost the lease at {now:.3f}, granted to {until:.3f}")

    @staticmethod
    def _until(step: Step, granted: dict[Voter, float]) -> float:
        state = step.host.state
        if state.accepted is None:
            return -math.inf
        me, config = state.me, state.accepted.config
        untils = [math.inf if voter == me else granted.get(voter, -math.inf) for voter in config]
        return sorted(untils, reverse=True)[majority(config) - 1]


@checker("I11", "As long as its application may act on a lease, a replica has promised nobody else.")
class OwnGrant(Checker):
    """A holder counts its own grant: while its application may act, it promises no view of another replica.

    Services that are ending count until the lease would have ended.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._over: dict[Voter, float] = {}

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A new application has no services."""
        self._over.pop(host.state.me, None)

    def stepped(self, step: Step) -> None:
        """Check every replica with services."""
        host, state = step.host, step.host.state
        lease, me = host.channel.lease, state.me
        if lease.held:
            self._over[me] = lease.expires()
        elif not host.services:
            return
        if proposer(state.promised) != me and host.clock() < self._over.get(me, -math.inf):
            self.fail(host, f"has promised {state.promised} with services until {self._over[me]:.3f}")


@checker("I3", "With a disk, a grant is given once the disk knows to whom it binds, and for how long.")
class DurableGrant(Checker):
    """With a disk, a grant is sent once its holder and duration are durable: they bind the next process."""

    def stepped(self, step: Step) -> None:
        """Compare every grant with the disk."""
        disk = step.host.disk
        for peer, message in step.messages if disk is not None else ():
            if isinstance(message, Grant) and disk is not None:
                kept = disk.remembered
                if kept.promised.replica != peer or kept.lease_s < message.for_s:
                    known = f"promised {kept.promised}, leases of {kept.lease_s} s"
                    self.fail(step.host, f"says {message} to {peer}; on its disk: {known}")
