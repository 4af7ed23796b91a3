"""One simulation of the channel: one schedule, one seed, one run, one trace.

After every step of every replica the checkers of `testing/checks/` compare it with the history of the run.
When the faults are over, every replica must deliver a new entry within a bound (L1).
"""

from collections.abc import Callable, Iterable
from random import Random

import attrs

from ...hachannel import Channel
from ..channel.administrator import Administrator
from ..channel.arguments import check_seed
from ..channel.violation import Violation
from ..channel.world import World
from ..checks import Checks
from ..checks.liveness import converge
from ..faults import Injector
from .random_schedules import draw
from .schedule import Schedule

__all__ = ["Result", "simulate"]


@attrs.frozen(kw_only=True)
class Result:
    """The outcome of one run."""

    seed: int
    schedule: Schedule
    steps: int
    """Events of the virtual world."""
    messages: int
    """Messages sent."""
    reached: dict[str, int]
    """The number of messages by type, and of moves between phases, such as `role: slave -> changing`."""
    views: int
    """Views that became active."""
    commits: int
    """Committed entries."""
    delivered: int
    """Deliveries on all replicas together."""
    snapshots: int
    """Installed states."""
    healed_s: float
    """Virtual seconds from the end of the faults until the cluster was whole; 0 if it did not have to be."""
    faults: dict[str, int]
    """The number of injected faults, and of requests of the administrator, by name."""
    skipped: int
    """Faults that could not happen, or that the cluster would not have survived."""
    lost: int
    """Replicas that stayed dead after the faults while the others had to recover."""
    trace: list[str]
    """The last lines of the trace."""


TELLS = 0.02
"""Number of messages between applications for each time that a client may submit."""


QUIET = 0.5
"""The fraction of runs in which clients submit nothing after the faults until all is delivered."""


class Load:
    """Clients that submit unique payloads at every replica that accepts them."""

    def __init__(self, world: World, checks: Checks, rate: float) -> None:
        self._world = world
        self._checks = checks
        self._rate = rate
        self._random = Random(f"forward {world.seed}")
        self._forwards = self._random.random() < 0.6
        self._count = 0
        self.stopped = False

    def slow_down(self) -> bool:
        """Submit so slowly that the slowest transfer keeps up, or stop. Return whether they stop."""
        self._forwards = False
        self._rate = min(self._rate, 2.0)
        self.stopped = Random(f"quiet {self._world.seed}").random() < QUIET
        return self.stopped

    def begin(self) -> None:
        """Schedule the first submission."""
        if self._rate:
            self._world.at(self._world.now + 0.1, self._next)

    def _next(self) -> None:
        if self.stopped:
            return
        world = self._world
        for host in world.hosts:
            for _ in range(world.load_random.choice([0, 1, 1, 3])):
                if host.running and not host.paused and host.channel.can_submit:
                    self.submit(host.replica)
            if self._forwards:
                for _ in range(self._random.choice([0, 0, 0, 0, 1, 4])):
                    self.forward(host.replica)
            if self._random.random() < TELLS:
                host.send_direct(self._random.choice(world.hosts).replica)
        world.at(world.now + world.load_random.expovariate(self._rate), self._next)

    def submit(self, replica: int) -> bytes | None:
        """Submit one payload at a replica, and return it; None if the replica does not accept it."""
        self._count += 1
        payload = b"%d" % self._count
        self._checks.submitted.add(payload)
        return payload if self._world.hosts[replica].submit(payload) else None

    def forward(self, replica: int) -> bool:
        """Submit one payload through the master. Return False if the replica does not accept it."""
        self._count += 1
        return self._world.hosts[replica].forward(b"%d" % self._count) is not None

    def last(self, replica: int) -> bytes | None:
        """Submit the last payloads: one at this replica, which is returned, and one through each replica."""
        self.stopped = True
        payload = self.submit(replica)
        if payload is not None:
            for host in self._world.hosts:
                self.forward(host.replica)
        return payload


def _check_arguments(seed: object, schedule: object, channel: object) -> None:
    check_seed(seed)
    if schedule is not None and not isinstance(schedule, Schedule):
        raise ValueError(f"schedule is {schedule!r}: give a Schedule, or None for the one of the seed")
    # The result of a function or a partial is known once it is called.
    if not callable(channel) or (isinstance(channel, type) and not issubclass(channel, Channel)):
        raise ValueError(f"channel is {channel!r}: give a subclass of Channel, or a function that makes one")


def simulate(
    schedule: Schedule | None = None,
    *,
    seed: int = 0,
    only: Iterable[str] | None = None,
    live: bool = True,
    echo: bool = False,
    verbose: bool = False,
    channel: Callable[..., Channel] = Channel,
) -> Result:
    """Run a schedule with a seed, and check every invariant after every step.

    schedule: None draws it from the seed. seed: a whole number from 0; it decides the network, the machines
    and the clients, so the same schedule and seed give the same run. only: the names of the invariants to
    check, such as ["I4"]; None: all. live: whether the cluster must recover after the faults. echo: print the
    trace; verbose: with every message. channel: a subclass of Channel or a function that makes one, for a
    protocol that is broken on purpose.

    Returns what the run has shown. Raises Violation, with the name of the invariant, the time, the seed, the
    trace and the result until then; an exception in a replica is a violation of "raised". Raises ValueError
    for a wrong argument, and ScheduleError for a cluster that must recover and could not.
    """
    _check_arguments(seed, schedule, channel)
    if schedule is None:
        schedule = draw(seed)
    if live:
        schedule.must_recover()
    checks = Checks(only)
    world = World(seed, schedule.shape, checks, channel)
    world.echo, world.verbose = echo, verbose
    checks.world = world
    injector = Injector(world, checks)
    load = Load(world, checks, schedule.load)
    administrator = Administrator(world, schedule.administrator)
    healed_s = 0.0

    def seen() -> Result:
        counts = checks.counts
        return Result(
            seed=seed,
            schedule=schedule,
            steps=world.steps,
            messages=world.net.sent.total(),
            reached={
                **{kind.__name__: count for kind, count in world.net.sent.items()},
                **{f"{table}: {before} -> {after}": n for (table, before, after), n in checks.moves.items()},
            },
            views=counts["views"],
            commits=counts["commits"],
            delivered=counts["delivered"],
            snapshots=counts["snapshots"],
            healed_s=healed_s,
            faults=injector.counts | administrator.counts,
            skipped=injector.skipped,
            lost=injector.lost,
            trace=list(world.lines),
        )

    try:
        for host in world.hosts:
            world.at(world.machine_random.random() * schedule.spread_s, host.begin)
        load.begin()
        administrator.begin()
        injector.schedule(schedule.faults)
        world.run(schedule.end)
        if live and injector.recoverable:
            administrator.stopped = True
            healed_s = _recover(injector, load, schedule)
    except Violation as violation:
        violation.seed, violation.trace, violation.result = seed, list(world.lines), seen()
        raise
    except Exception as error:
        text = f"a replica raised {type(error).__name__}: {error}"
        raised = Violation(text, invariant="raised", at=world.now)
        raised.seed, raised.trace, raised.result = seed, list(world.lines), seen()
        raise raised from error
    return seen()


def _recover(injector: Injector, load: Load, schedule: Schedule) -> float:
    """End all faults, and let the cluster recover: all of it, or a majority while other replicas stay dead.

    Returns the virtual seconds until all replicas had recovered.
    """
    world, lease = injector.world, schedule.lease
    random = Random(f"lost {world.seed}")
    injector.healing = True
    lost = schedule.deaths == "first" and injector.lose(random)
    injector.heal()
    quiet = load.slow_down()
    start = world.now
    if lost:
        converge(world, load.last, lease=lease, quiet=quiet)
        start = world.now
        injector.find()
    healed_s = converge(world, load.last, lease=lease, quiet=quiet and not lost) - start
    if schedule.deaths == "last":
        # Entries are in flight when the replicas die.
        master = world.master()
        if master is not None:
            load.last(master.replica)
        if injector.lose(random):
            converge(world, load.last, lease=lease)
    return healed_s
