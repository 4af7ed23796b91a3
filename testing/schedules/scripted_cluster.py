"""A simulated cluster that a test leads step by step, checked after every step."""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from ...hachannel import Deliver, Event, InstallPart, Settings, ViewEvent
from ...hachannel.journal.new_cluster import first_view
from ...hachannel.model.log import Accepted, Activated, Log
from ...hachannel.model.view import Voter
from ..channel.cluster_shape import Shape
from ..channel.host import Host
from ..channel.network import Weather
from ..channel.observer import Observer
from ..channel.world import World
from ..checks import Checks
from ..faults import Fault, Injector

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)
"""Settings of a cluster that notices a death quickly."""


class ScriptedCluster(Checks):
    """A simulated cluster: by default three replicas with the default settings on a quiet network.

    The arguments are fields of `Shape`, so that a test names the few that it needs. There are more than 20
    methods because a scenario reads as a list of their calls.
    """

    def __init__(
        self,
        replicas: int = 3,
        *,
        expected: int | None = None,
        seed: int = 1,
        settings: Settings | None = None,
        weather: Weather | None = None,
        snapshot_s: float = 0.01,
        chunk: int = 8,
        disk: bool = False,
        parts: bool = True,
        witnesses: int = 0,
        shared_host: bool = True,
        stop_s: float = 0.0,
        drift: float = 0.0,
    ) -> None:
        super().__init__()
        self.deliveries: dict[int, list[bytes]] = {}
        """The payloads that the present process of each replica has delivered."""
        self.view_events: dict[int, list[ViewEvent]] = {}
        """The view events of the present process of each replica."""
        self.installed: dict[int, int] = {}
        """The number of whole states that the present process of each replica has installed."""
        self.first_times = 0
        """The number of view events with `first_time` at a master."""
        self._payloads = 0
        shape = Shape(
            replicas=replicas,
            expected=replicas if expected is None else expected,
            settings=Settings() if settings is None else settings,
            weather=Weather(slow_chance=0.0) if weather is None else weather,
            snapshot_s=snapshot_s,
            chunk=chunk,
            disk=disk,
            parts=parts,
            witnesses=witnesses,
            shared_host=shared_host,
            stop_s=stop_s,
            drift=drift,
        )
        self.world = World(seed, shape, self)
        self.hosts = self.world.hosts
        self.net = self.world.net
        self.injector = Injector(self.world, self)

    # Observing

    def started(self, host: Host) -> None:
        """Forget the events of the last process."""
        super().started(host)
        self.deliveries[host.replica] = []
        self.view_events[host.replica] = []
        self.installed[host.replica] = 0

    def delivered(self, host: Host, event: Event) -> None:
        """Note an event of the application."""
        super().delivered(host, event)
        if isinstance(event, Deliver):
            self.deliveries[host.replica].append(event.payload)
        elif isinstance(event, InstallPart):
            self.installed[host.replica] += event.index is not None
        elif isinstance(event, ViewEvent):
            self.view_events[host.replica].append(event)
            self.first_times += event.first_time and event.master == host.replica

    # Acting

    def form(self) -> Host:
        """Start every replica. Returns the master."""
        for host in self.hosts:
            host.start()
        return self.whole()

    def run(self, seconds: float) -> None:
        """Let virtual seconds pass."""
        self.world.run(self.world.now + seconds)

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> float:
        """Let time pass until a condition holds. Return how long it took. Raises AssertionError after
        `seconds`."""
        start = self.world.now
        if not condition() and not self.world.run(start + seconds, condition):
            roles = [(str(host), host.channel.role, host.channel.members) for host in self.running()]
            raise AssertionError(f"not within {seconds} s; {roles}")
        return self.world.now - start

    def running(self) -> list[Host]:
        """Return the hosts whose process runs."""
        return [host for host in self.hosts if host.running]

    def whole(self, but: Iterable[int] = (), seconds: float = 15.0) -> Host:
        """Wait until all replicas, except those in `but`, are in one view. Return the master."""
        hosts = [host for host in self.hosts if host.replica not in set(but)]

        def one_view() -> bool:
            views = [host.channel.view for host in hosts if host.running]
            data = [host for host in hosts if not host.is_witness]
            return (
                len(views) == len(hosts)
                and all(host.channel.role in ("master", "slave", "witness") for host in hosts)
                and all(view is not None and view.number == views[0].number for view in views if views[0])
                and set(hosts[0].channel.members) == {host.replica for host in data}
            )

        self.until(one_view, seconds)
        return self.master()

    def leave(self, *hosts: Host) -> float:
        """Stop replicas in order, all at once. Return the seconds until all have stopped."""
        for host in hosts:
            host.leave()
        return self.until(lambda: not any(host.running for host in hosts))

    def alone(self, host: Host) -> None:
        """Wait until a replica is master, with the lease, of a view in which it is the only voter."""

        def sole_voter() -> bool:
            view = host.channel.view
            return (
                view is not None
                and view.config == (host.state.me,)
                and host.channel.holds_lease(host.clock())
            )

        self.until(sole_voter)

    def master(self) -> Host:
        """Return the replica that accepts submissions. Raises AssertionError unless there is exactly one."""
        masters = [host for host in self.running() if host.channel.can_submit and not host.paused]
        assert len(masters) == 1, f"masters: {[str(host) for host in masters]}"
        return masters[0]

    def submit(self, host: Host, count: int = 1) -> list[bytes]:
        """Submit new payloads at a replica. Return those that it accepted."""
        taken: list[bytes] = []
        for _ in range(count):
            self._payloads += 1
            payload = b"p%d" % self._payloads
            self.submitted.add(payload)
            if host.submit(payload):
                taken.append(payload)
        return taken

    def forward(self, host: Host, count: int = 1) -> list[bytes]:
        """Submit new payloads through the master from a replica. Return those that it accepted."""
        taken: list[bytes] = []
        for _ in range(count):
            self._payloads += 1
            payload = b"f%d" % self._payloads
            if host.forward(payload) is not None:
                taken.append(payload)
        return taken

    def everywhere(self, payloads: Iterable[bytes], seconds: float = 10.0) -> None:
        """Wait until every running replica that is not joining has delivered these payloads."""
        expected = set(payloads)

        def delivered() -> bool:
            top = max((self.delivered_once.get(payload, 1 << 60) for payload in expected), default=0)
            return all(
                host.channel.applied >= top
                for host in self.running()
                if host.channel.role not in ("joining", "witness") and not host.paused
            )

        self.until(delivered, seconds)

    def fault(self, fault: Fault) -> None:
        """Inject a fault now, whatever its time. Raises AssertionError if it has no effect."""
        assert self.injector.inject(fault), f"{fault} has no effect"

    def cut(self, *directions: tuple[int, int]) -> None:
        """Stall the network in these directions, (sender, receiver)."""
        self.net.cut.update(directions)

    def split(self, one: Iterable[int], other: Iterable[int]) -> None:
        """Cut the network between two groups, in both directions."""
        others = list(other)
        for a in one:
            for b in others:
                self.cut((a, b), (b, a))

    def force(self, host: Host) -> None:
        """Make a stopped replica with a disk the first one of a new cluster, as `force-new-cluster` does.

        Committed entries may be lost by that, so nothing is checked any more.
        """
        disk = host.disk
        assert disk is not None, f"{host} has no disk"
        assert not host.running, f"{host} runs"
        self.world.observer = Observer()
        disk.incarnation = self.world.incarnation()
        view = first_view(disk.remembered, Voter(host.replica, disk.incarnation), ())
        for record in (Accepted(view), Activated(view.number)):
            disk.remembered.apply(record)

    def mend(self) -> None:
        """End all cuts."""
        for direction in sorted(self.net.cut):
            self.net.mend(direction)


def begun_again() -> ScriptedCluster:
    """Return three ended replicas with 20 entries on disk; the last is forced to begin a new cluster."""
    cluster = ScriptedCluster(3, disk=True, settings=QUICK)
    cluster.everywhere(cluster.submit(cluster.form(), 20))
    cluster.run(0.5)
    for host in cluster.hosts:
        host.crash()
    cluster.force(cluster.hosts[-1])
    return cluster


def unlist(host: Host, replica: int) -> None:
    """Remove a replica from the view on the disk of a stopped one."""
    assert host.disk is not None
    remembered = host.disk.remembered
    view = remembered.accepted
    assert view is not None
    seats = tuple(seat for seat in view.seats if seat.replica != replica)
    for record in (Accepted(replace(view, seats=seats)), Activated(view.number)):
        remembered.apply(record)


def alone_with_a_change(fits: Callable[[Log], bool], settings: Settings) -> None:
    """Check that a master alone takes entries while they fit, and all of them are delivered later.

    A pending change of its witness holds the log; it goes on when its slave is back. `fits` says whether the
    log is within the bounds of `settings`. Raises AssertionError.
    """
    cluster = ScriptedCluster(3, settings=settings, witnesses=1)
    master = cluster.form()
    slave, witness = cluster.hosts[1:]
    slave.pause()
    cluster.until(lambda: len(master.channel.members) == 1 and master.channel.can_submit)
    witness.crash()
    witness.start()
    cluster.until(lambda: master.state.log.reconfig(0) is not None)
    taken = cluster.submit(master, 1000)
    assert len(taken) > 100
    assert fits(master.state.log)
    cluster.run(5.0)
    assert not cluster.submit(master)
    slave.resume()
    assert cluster.whole() is master
    cluster.everywhere([*taken, *cluster.submit(master, 10)])
