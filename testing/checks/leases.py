"""I11: exclusion by leases at any real time, however the clocks of the replicas drift."""

from ...hachannel import Event, LeaseChanged, ViewNumber, Voter
from ...hachannel.replication.lease import proposer
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step

LATE_S = 0.001
"""The rounding error allowed between the end of a lease and the tick that reports it, in seconds."""


@checker("I11", "At most one replica holds the lease, and so may have services.")
class LeaseExclusion(Checker):
    """At most one replica holds the lease or has services.

    A lease ends by the clock of its holder, also while that is paused. A replica that gave the lease up
    counts until its application has ended its services, but no longer than the lease.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._until: dict[Voter, float] = {}
        """The end of the last lease of each replica, on its own clock."""

    def stepped(self, step: Step) -> None:
        """Check all replicas, since time has passed for all of them."""
        hosts = [
            host
            for host in self.past.world.hosts
            if host.running and (host.services or host.channel.lease.asks)
        ]
        ends = {host: host.channel.lease.expires() for host in hosts if host.channel.lease.held}
        if step.host in ends:
            self._until[step.host.state.me] = ends[step.host]
        holders = [host for host in hosts if self._holds(host)] if len(hosts) > 1 else ()
        if len(holders) > 1:
            self.fail(step.host, f"{' and '.join(map(str, holders))} hold the lease")
        for host, end in ends.items():
            late_s = host.clock() - end
            if late_s > LATE_S and not host.paused:
                self.fail(host, f"its lease was over {late_s:.3f} s ago; its application does not know")

    def _holds(self, host: Host) -> bool:
        lease = host.channel.lease
        if lease.holds(host.clock()) or (lease.held and not host.paused):
            return True
        return host.services > 0 and host.clock() < self._until.get(host.state.me, 0.0)


@checker("I11", "As long as a master counts a grant, the voter that gave it has promised nobody else.")
class GrantExclusion(Checker):
    """While a master counts a grant, its voter has promised no view of another replica.

    This is stronger than the exclusion of majorities: each single grant binds.
    """

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._promised: dict[Voter, ViewNumber] = {}

    def stepped(self, step: Step) -> None:
        """Check all holders when a promise has changed or grants are counted."""
        promised = step.host.state.promised
        if step.host.channel.lease.asks or self._promised.get(step.host.state.me) != promised:
            self._promised[step.host.state.me] = promised
            self._check_grants()

    def _check_grants(self) -> None:
        running = {host.state.me: host for host in self.past.world.hosts if host.running}
        for host in running.values():
            now = host.clock()
            if not host.channel.lease.asks or not host.channel.lease.holds(now):
                continue
            for voter, until in host.channel.lease.grants.items():
                granter = running.get(voter)
                if until > now and granter is not None and self._follows_another(granter, host.state.me):
                    self.fail(host, f"counts a grant of {granter}, which promised {granter.state.promised}")

    def _follows_another(self, granter: Host, holder: Voter) -> bool:
        return proposer(granter.state.promised) != holder


@checker("I11", "The application hears of every change of the lease, and of nothing else.")
class LeaseNotification(Checker):
    """The application gets an event for every change of the lease, and no other."""

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._told: dict[Voter, bool] = {}

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A new process holds no lease."""
        self._told[host.state.me] = False

    def delivered(self, host: Host, event: Event) -> None:
        """Gain and loss alternate."""
        if not isinstance(event, LeaseChanged):
            return
        if event.held == self._told[host.state.me]:
            self.fail(host, f"is told twice: {event}")
        self._told[host.state.me] = event.held

    def stepped(self, step: Step) -> None:
        """The events of the step, not yet handled, lead to the present state."""
        host = step.host
        told = self._told[host.state.me]
        for event in step.output.events:
            if isinstance(event, LeaseChanged):
                told = event.held
        if told != host.channel.lease.held and not host.state.stopped:
            self.fail(host, f"holds the lease: {host.channel.lease.held}, its application heard {told}")
