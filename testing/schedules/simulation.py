"""One simulation of the channel: one schedule, one seed, one run, one trace.

The seed decides the network and the machines; a schedule that is not given is drawn from it, too. After every
step of every replica the checkers of `checks` look at it. When the faults stop, a new entry must be delivered
by every replica within a bound (L1).
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
    """What one run saw."""

    seed: int
    schedule: Schedule
    steps: int
    """Events of the virtual world."""
    messages: int
    reached: dict[str, int]
    """Messages by type, and moves between phases, as in `slave -> changing` of the table `role`."""
    views: int
    """Active views."""
    commits: int
    """Committed entries."""
    delivered: int
    """Deliveries, on all replicas together."""
    snapshots: int
    """Snapshots installed."""
    healed_s: float
    """How long the cluster took to be whole again, once all could be; 0 when it did not have to be."""
    faults: dict[str, int]
    """What was injected."""
    skipped: int
    """Faults that found nothing to happen to, or that nobody could have survived."""
    lost: int
    """Replicas that stayed dead after the faults, while the others had to recover."""
    trace: list[str]
    """The last lines of the run."""


TELLS = 0.02
"""How often a client has a replica tell another one something, for each time it may submit."""


QUIET = 0.5
"""In so many runs, as a fraction, clients submit nothing more after the faults until all is delivered."""


class Load:
    """Clients that submit unique payloads wherever there is a master."""

    def __init__(self, world: World, checks: Checks, rate: float) -> None:
        self._world = world
        self._checks = checks
        self._rate = rate
        self._random = Random(f"forward {world.seed}")
        self._forwards = self._random.random() < 0.6
        self._count = 0
        self.stopped = False

    def slow_down(self) -> bool:
        """So that the slowest transfer of the worst network keeps up; or end. Says whether it is the end."""
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
                host.tell(self._random.choice(world.hosts).replica)
        world.at(world.now + world.load_random.expovariate(self._rate), self._next)

    def submit(self, replica: int) -> bytes | None:
        """Submit one payload at a replica; None when it does not take it."""
        self._count += 1
        payload = b"%d" % self._count
        self._checks.submitted.add(payload)
        return payload if self._world.hosts[replica].submit(payload) else None

    def forward(self, replica: int) -> bool:
        """Have one payload ordered from a replica; False when it does not take it."""
        self._count += 1
        return self._world.hosts[replica].forward(b"%d" % self._count) is not None

    def last(self, replica: int) -> bytes | None:
        """The last payloads: one submitted at this replica, the others ordered from every replica."""
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
    # What a function or a partial makes is not known before it is called.
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
    """Play a schedule, or the one of the seed.

    only: the invariants to check, all by default. live: whether the cluster must recover in the end. echo:
    print the trace; verbose: with every message. channel: makes the replicas, for channels that are broken on
    purpose. Raises Violation, with the name of the invariant, the time, the seed, the trace and the result
    until then; an exception in a replica is one, named "raised". Raises ValueError for a name in `only` that
    no invariant has, and ScheduleError for a cluster that need not recover although it is to be live.
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
    """End all faults, and have the cluster recover: all of it, and a majority while others stay dead.

    Returns how long it took until all had.
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
        # What is under way when they die is part of it.
        master = world.master()
        if master is not None:
            load.last(master.replica)
        if injector.lose(random):
            converge(world, load.last, lease=lease)
    return healed_s
