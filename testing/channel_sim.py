"""Random simulations of the channel: one seed, one run, one trace.

    python -m quorate.testing.channel_sim --seeds 0:500
    python -m quorate.testing.channel_sim --seeds 17 --trace

The seed decides the size of the cluster, its settings, the weather of the network and every fault: crashes
with restarts as a new voter, pauses, partitions in both or one direction, broken connections that lose what
travels on them, duplicated messages, orderly stops. After every step the invariants of `channel_checks` are
checked; after the faults stop, a new entry must be delivered by every replica within a bound (L1).
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from random import Random

import attrs

from ..hachannel import Channel, Settings
from .channel_faults import Faults
from .channel_net import Weather
from .channel_world import Shape, Violation, World
from .checks import Checks

FAULTS_S = 6.0
"""Virtual seconds with faults."""
HEAL_S = 20.0
"""Virtual seconds within which a healed cluster must be whole again (L1)."""


@attrs.frozen
class Result:
    """What one run saw."""

    seed: int
    steps: int
    messages: int
    views: int
    delivered: int
    snapshots: int
    healed_s: float
    faults: dict[str, int]


class Failed(Exception):
    """A run violated an invariant. Carries the trace."""

    def __init__(self, seed: int, violation: Violation, lines: Sequence[str]) -> None:
        super().__init__(str(violation))
        self.seed = seed
        self.reason = str(violation)
        self.invariant = violation.invariant
        self.lines = lines

    def __str__(self) -> str:
        return f"{self.reason}\nrerun: python -m quorate.testing.channel_sim --seeds {self.seed} --trace"


def draw(seed: int) -> tuple[Shape, float, str]:
    """The cluster of a seed, how many faults a second it suffers, and of which kind.

    Every fourth seed is a wide cluster where joins are slow, so that views are smaller than configurations;
    every other fourth one has slow messages and many crashes, which hit view changes half-way.
    """
    random = Random(f"shape {seed}")
    chance = Random(f"forwarding {seed}")
    if seed % 4 == 1:
        return _forwarding(_wide(random), chance, 4), random.choice([3.0, 6.0]), "split"
    shape = _forwarding(_ordinary(random), chance, 4 if seed % 4 == 3 else chance.choice([2, 20]))
    if seed % 4 == 3:
        weather = attrs.evolve(shape.weather, delay_s=0.1, slow_chance=0.2, slow_s=0.2)
        settings = attrs.evolve(shape.settings, view_change_s=0.6, suspect_s=0.6)
        return attrs.evolve(shape, weather=weather, settings=settings), 8.0, "crash"
    return shape, random.choice([0.5, 2.0, 5.0]), "all"


def _forwarding(shape: Shape, random: Random, queue: int) -> Shape:
    settings = attrs.evolve(
        shape.settings,
        forward_window=random.choice([1, 3, 64]),
        forward_window_bytes=random.choice([4, 1 << 20]),
        forward_queue=queue,
    )
    return attrs.evolve(shape, settings=settings)


def _wide(random: Random) -> Shape:
    settings = Settings(
        mode=random.choice(["MAJORITY", "MAJORITY", "ALL"]),
        suspect_s=0.3,
        verify_s=0.03,
        retry_s=0.05,
        rank_delay_s=0.02,
        view_change_s=0.3,
        leave_s=0.5,
        window=random.choice([4, 64]),
        keep=0,
        max_log=1000,
    )
    replicas = random.choice([3, 5, 5, 5])
    weather = Weather(delay_s=random.choice([0.005, 0.05]), slow_chance=0.05, slow_s=0.1, notice_s=0.01)
    return Shape(
        replicas=replicas,
        expected=replicas,
        settings=settings,
        weather=weather,
        snapshot_s=random.choice([0.5, 3.0]),
    )


def _ordinary(random: Random) -> Shape:
    replicas = random.choice([1, 2, 3, 3, 3, 3, 3, 4, 5, 5])
    expected = replicas
    if replicas > 2 and random.random() < 0.25:
        expected = random.randint(replicas // 2 + 1, replicas)
    settings = Settings(
        mode=random.choice(["ALL", "ALL", "MAJORITY"]),
        heartbeat_s=0.05,
        suspect_s=random.choice([0.4, 0.6]),
        verify_s=random.choice([0.03, 0.06]),
        retry_s=0.05,
        rank_delay_s=random.choice([0.02, 0.1]),
        view_change_s=random.choice([0.3, 0.6]),
        stall_s=random.choice([0.8, 1.5]),
        leave_s=0.5,
        boot_wait_s=0.2,
        window=random.choice([1, 4, 16, 64]),
        part_bytes=random.choice([200, 2000, 1 << 20]),
        transfer_window=random.choice([2, 4]),
        keep=random.choice([0, 0, 64]),
        max_log=random.choice([400, 1000]),
    )
    weather = Weather(
        delay_s=random.choice([0.001, 0.005, 0.02]),
        slow_chance=random.choice([0.0, 0.02, 0.1]),
        slow_s=random.choice([0.02, 0.2]),
        duplicate_chance=random.choice([0.0, 0.0, 0.05]),
        notice_s=random.choice([0.002, 0.1, 0.5]),
        reconnect_s=random.choice([0.01, 0.1]),
    )
    return Shape(
        replicas=replicas,
        expected=expected,
        settings=settings,
        weather=weather,
        chunk=random.choice([1, 5, 64]),
        snapshot_s=random.choice([0.0, 0.05, 0.5]),
        codec=random.random() < 0.1,
    )


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

    def slow_down(self) -> None:
        """So that the slowest transfer of the worst network keeps up."""
        self._forwards = False
        self._rate = min(self._rate, 2.0)

    def begin(self) -> None:
        """Schedule the first submission."""
        self._world.at(self._world.now + 0.1, self._next)

    def _next(self) -> None:
        if self.stopped:
            return
        world = self._world
        for host in world.hosts:
            for _ in range(world.random.choice([0, 1, 1, 3])):
                if host.running and not host.paused and host.channel.can_submit:
                    self.submit(host.replica)
            if self._forwards:
                for _ in range(self._random.choice([0, 0, 0, 0, 1, 4])):
                    self.forward(host.replica)
        world.at(world.now + world.random.expovariate(self._rate), self._next)

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


def run(
    seed: int,
    *,
    echo: bool = False,
    verbose: bool = False,
    channel: Callable[..., Channel] = Channel,
    shape: Shape | None = None,
    live: bool = True,
) -> Result:
    """One simulation. Raises Failed."""
    drawn, fault_rate, kind = draw(seed)
    checks = Checks()
    world = World(seed, shape if shape is not None else drawn, checks, channel)
    world.echo, world.verbose = echo, verbose
    checks.world = world
    faults = Faults(world, checks, fault_rate, kind)
    load = Load(world, checks, world.random.choice([5.0, 30.0]))
    try:
        for host in world.hosts:
            world.at(world.random.random() * 0.3, host.start)
        load.begin()
        world.at(world.random.choice([0.0, 1.0]), faults.begin)
        world.run(FAULTS_S)
        faults.heal()
        load.slow_down()
        start = world.now
        healed_s = heal(world, load) - start if live else 0.0
    except Violation as violation:
        raise Failed(seed, violation, list(world.lines)) from None
    return Result(
        seed,
        world.steps,
        world.net.sent,
        checks.counts["views"],
        checks.counts["delivered"],
        checks.counts["snapshots"],
        healed_s,
        faults.counts,
    )


def heal(world: World, load: Load) -> float:
    """L1: every replica is a member again and delivers a new entry. Returns when."""
    limit = world.now + HEAL_S

    def whole() -> bool:
        if not all(host.running for host in world.hosts):
            for host in world.hosts:
                if not host.running:
                    host.start()
            return False
        channels = [host.channel for host in world.hosts]
        return (
            all(
                channel.role in ("master", "slave") and len(channel.members) == len(world.hosts)
                for channel in channels
            )
            and len({channel.view.number for channel in channels if channel.view is not None}) == 1
        )

    if not world.run(limit, whole):
        roles = {str(host): (host.channel.role, host.channel.members) for host in world.hosts}
        raise Violation(f"L1: not whole {HEAL_S:.0f} s after healing: {roles}")
    load.stopped = True
    payloads: list[bytes] = []

    def fresh() -> bool:
        if not payloads:
            master = world.master()
            payload = load.submit(master.replica) if master is not None else None
            if payload is None:
                return False
            payloads.append(payload)
            for host in world.hosts:
                load.forward(host.replica)
        last = max(host.channel.last for host in world.hosts)
        return all(
            host.running and host.channel.applied == last and not host.channel.forwarding
            for host in world.hosts
        )

    if not world.run(limit, fresh):
        indices = {str(host): (host.channel.commit, host.channel.last) for host in world.hosts}
        raise Violation(f"L1: a new entry is not delivered everywhere: {indices}")
    chains = {host.app.chain for host in world.hosts}
    if len(chains) != 1:
        raise Violation("I15: the applications differ at the end")
    return world.now


def parse_seeds(text: str) -> range:
    """`17` or `0:500`."""
    first, _, last = text.partition(":")
    return range(int(first), int(last) if last else int(first) + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns 1 when a seed fails."""
    parser = argparse.ArgumentParser(description="Simulate the HA channel.")
    parser.add_argument("--seeds", type=parse_seeds, default=range(100), help="17 or 0:500")
    parser.add_argument("--trace", action="store_true", help="print the trace")
    parser.add_argument("--messages", action="store_true", help="print every message too")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    results: list[Result] = []
    failures = 0
    for seed in options.seeds:
        try:
            results.append(run(seed, echo=options.trace or options.messages, verbose=options.messages))
        except Failed as failed:
            failures += 1
            if not options.trace and not options.keep_going:
                print("\n".join(failed.lines))
            print(f"seed {seed}: {failed}")
            if not options.keep_going:
                break
        except Exception:
            print(f"seed {seed} raised")
            raise
    faults: dict[str, int] = {}
    for result in results:
        for name, count in result.faults.items():
            faults[name] = faults.get(name, 0) + count
    print(
        f"{len(results)} seeds passed, {failures} failed, {time.monotonic() - started:.1f} s;"
        f" {sum(result.steps for result in results)} steps,"
        f" {sum(result.views for result in results)} views,"
        f" {sum(result.delivered for result in results)} deliveries,"
        f" {sum(result.snapshots for result in results)} snapshots,"
        f" slowest healing {max((result.healed_s for result in results), default=0):.1f} s; {faults}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
