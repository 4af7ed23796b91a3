"""Random schedules: the cluster of a seed, its network, and the faults that happen to it."""

from collections.abc import Collection, Iterable
from random import Random
from typing import cast, get_args

import attrs

from ...hachannel import Settings
from ...hachannel.model.settings import Mode
from ..channel.arguments import check_seed
from ..channel.cluster_shape import Shape
from ..channel.network import Weather
from ..faults import FAULTS, Fault
from ..faults.base import Who
from ..faults.networks import Break, Deaf, Isolate, Mute, OneWay
from ..faults.processes import Crash, CrashTransfer, Disqualify, Pause, RefusePart
from .schedule import Deaths, Schedule

__all__ = ["administered", "draw"]

FAULTS_S = 6.0
"""Duration of the faults of a random schedule, in seconds."""
ADMINISTRATOR_RATE = 2.0
"""Requests of an administrator in a second."""
FOUNDING_S = 2.0
"""Duration of the faults of a cluster that few replicas found, in seconds."""
DRAIN_S = 10.0
"""The time within which the queues of all replicas are delivered, in seconds."""

PROFILES: dict[str, dict[str, int]] = {
    "all": {},
    "split": {"partition": 15, "isolate": 10, "crash": 5, "mute": 15, "crash-proposer": 10},
    "crash": {"crash": 30, "break": 10, "crash-proposer": 20, "mute": 5, "crash-step": 5},
    "transfer": {"crash": 10, "crash-transfer": 20, "refuse-part": 6, "break": 5},
    "tails": {"isolate": 5, "one-way": 5, "deaf": 5, "break": 5},
    "lag": {"one-way": 5, "break": 5},
    "narrow": {"crash": 5, "break": 5},
    "slow-founding": {},
    "founding": dict.fromkeys(
        ("crash", "crash-step", "crash-proposer", "partition", "isolate", "one-way", "break", "pause"), 20
    ),
}
"""Weights that each profile adds to those of the faults. docs/simulation-reference.md describes them."""
ADMINISTERED_WEIGHTS = {"leave": 6, "crash": 3}
"""Weights that are added where there is an administrator."""


LOADS = {"tails": (30.0, 100.0), "lag": (100.0, 100.0), "narrow": (50.0, 100.0)}
"""Submissions of a client in a second, by profile, where that is not 5 or 30."""
SPREADS_S = {"slow-founding": (0.0, 0.0), "founding": (0.1, 0.3, 1.0)}
"""The time within which the replicas start, by profile, where that is not 0.3 s."""
BY_SEED = (
    *("all", "split", "tails", "crash", "all", "split", "transfer", "crash"),
    *("narrow", "lag", "tails", "crash", "slow-founding", "founding", "transfer", "lag"),
)
"""The profile of a seed, modulo the length of this tuple."""


def _check(seed: object, kinds: object, profile: object) -> None:
    check_seed(seed)
    if profile is not None and profile not in PROFILES:
        raise ValueError(f"there is no profile {profile!r}. There are: {', '.join(PROFILES)}")
    if kinds is None:
        return
    if isinstance(kinds, str) or not isinstance(kinds, Collection):
        raise ValueError(f"kinds is {kinds!r}: give a list of names of faults")
    unknown = [kind for kind in cast("Collection[object]", kinds) if kind not in FAULTS]
    if unknown:
        raise ValueError(f"there is no fault {', '.join(map(repr, unknown))}. There are: {', '.join(FAULTS)}")


def draw(
    seed: int, kinds: Iterable[str] | None = None, *, disk: bool | None = None, profile: str | None = None
) -> Schedule:
    """Return the schedule of a seed.

    kinds: only these faults, by name. disk: whether replicas have disks. profile: one of PROFILES. None
    leaves each to the seed; then every third seed has disks and every fifth one an administrator. Raises
    ValueError for an unknown name.
    """
    _check(seed, kinds, profile)
    random = Random(f"shape {seed}")
    with_disk = seed % 3 == 2 if disk is None else disk
    transfers = Random(f"transfers {seed}")
    if profile is None:
        profile = BY_SEED[seed % len(BY_SEED)]
    if profile == "split":
        shape, rate = _wide(random), random.choice([3.0, 6.0])
    else:
        shape = _ordinary(random)
        rate = random.choice([0.5, 2.0, 5.0])
        if profile == "crash":
            shape, rate = _slow(shape), 8.0
        elif profile == "transfer":
            shape, rate = _joining(shape, transfers), 4.0
        elif profile == "tails":
            shape, rate = _parting(shape, Random(f"tails {seed}")), 1.0
        elif profile == "lag":
            rate = 0.5
        elif profile == "narrow":
            rate = 1.0
        elif profile == "slow-founding":
            shape, rate = _founded_slowly(shape, Random(f"founding {seed}")), 0.3
        elif profile == "founding":
            shape, rate = _founded_by_few(shape, Random(f"founding {seed}")), 7.0
    shape = _forwarding(shape, Random(f"forwarding {seed}"))
    if profile != "founding":
        shape = _with_leases(shape, Random(f"lease {seed}"))
    if profile == "tails":
        shape = _drifting(shape, Random(f"drift {seed}"))
    elif profile == "lag":
        shape = _lagging(shape, Random(f"lag {seed}"))
    elif profile == "narrow":
        shape = _narrow(shape, Random(f"narrow {seed}"))
    shape = _with_little_log(shape, Random(f"bytes {seed}"))
    sync_s, save_entries = random.choice([0.002, 0.02, 0.1]), random.choice([5, 50, 500])
    shape = attrs.evolve(shape, disk=with_disk, sync_s=sync_s, save_entries=save_entries)
    shape = attrs.evolve(shape, stop_s=Random(f"services {seed}").choice([0.0, 0.0, 0.02, 0.3]))
    parts = profile == "transfer" or transfers.random() < 0.75
    fresh = profile != "tails" and transfers.random() < 0.5
    shape = _fitting(attrs.evolve(shape, parts=parts, fresh=fresh))
    names = list(FAULTS) if kinds is None else list(kinds)
    with_administrator = kinds is None and seed % 5 == 4
    extra = {**PROFILES[profile], **(ADMINISTERED_WEIGHTS if with_administrator else {})}
    end_s = FAULTS_S if profile != "founding" else FOUNDING_S
    schedule = Schedule(
        faults=[
            *_faults(Random(f"faults {seed}"), shape, rate, extra, names, end_s),
            *_arranged(Random(f"arranged {seed}"), profile, names),
            *_disqualifications(Random(f"unfit {seed}"), shape, names, end_s, often=kinds is not None),
        ],
        shape=shape,
        seconds=end_s,
        spread_s=Random(f"spread {seed}").choice(SPREADS_S.get(profile, (0.3,))),
        load=random.choice(LOADS.get(profile, (5.0, 30.0))),
        deaths=Random(f"deaths {seed}").choice(get_args(Deaths)),
    )
    return administered(schedule) if with_administrator else schedule


def _faults(
    random: Random, shape: Shape, rate: float, extra: dict[str, int], names: list[str], end_s: float
) -> list[Fault]:
    menu = {
        name: FAULTS[name].weight + extra.get(name, 0)
        for name in names
        if shape.disk or not FAULTS[name].disk
    }
    menu = {name: weight for name, weight in menu.items() if weight}
    faults: list[Fault] = []
    now = (random.choice([0.0, 1.0]) if end_s > FOUNDING_S else 0.0) + random.expovariate(rate)
    while menu and now < end_s:
        name = random.choices(list(menu), list(menu.values()))[0]
        faults.append(FAULTS[name].draw(round(now, 6), random, shape))
        now += random.expovariate(rate)
    return faults


def _disqualifications(
    random: Random, shape: Shape, names: list[str], end_s: float, *, often: bool
) -> list[Fault]:
    """Return faults that find members unfit: in a third of the schedules, or in all of them."""
    if Disqualify.name not in names or (random.random() > 1 / 3 and not often):
        return []
    times = [round(random.uniform(0.5, end_s), 6) for _ in range(random.randint(1, 4))]
    return [Disqualify.draw(at, random, shape) for at in sorted(times)]


def _arranged(random: Random, profile: str, names: list[str]) -> list[Fault]:
    """Return the faults that a profile is about, in the order that makes its case happen."""
    arrange = {
        "tails": _a_tail,
        "transfer": _a_broken_transfer,
        "lag": _a_laggard_leads,
        "narrow": _a_laggard_is_needed,
        "slow-founding": _a_founder_stops,
    }.get(profile)
    if arrange is None:
        return []
    faults: list[Fault] = []
    for start in (0.8, 2.5, 4.2) if profile != "slow-founding" else (0.0,):
        faults += arrange(random, round(start + random.random(), 6))
    return [fault for fault in faults if fault.name in names]


def _a_tail(random: Random, at: float) -> list[Fault]:
    for_s = round(random.uniform(1.2, 2.5), 4)
    return [
        random.choice(
            [
                Isolate(at=at, who="master", for_s=for_s),
                Isolate(at=at, who="master", for_s=for_s),
                Pause(at=at, who=random.choice(["master", "slave"]), for_s=for_s),
                Deaf(at=at, who="slave", for_s=for_s),
                Mute(at=at, message="Ack", for_s=for_s),
            ]
        )
    ]


def _a_broken_transfer(random: Random, at: float) -> list[Fault]:
    later = round(min(at + random.uniform(0.3, 1.0), FAULTS_S), 6)
    return [
        Crash(at=at, who="slave", back_s=0.05),
        random.choice(
            [
                CrashTransfer(at=later, who="donor", back_s=0.2),
                CrashTransfer(at=later, who="learner", back_s=0.05),
                RefusePart(at=later, who="donor"),
                RefusePart(at=later, who="learner"),
            ]
        ),
    ]


def _a_laggard_leads(random: Random, at: float) -> list[Fault]:
    """The first slave receives nothing for a moment, and the master dies before it has repeated that."""
    lag_s = random.uniform(0.1, 0.3)
    later = round(at + lag_s, 6)
    return [
        Deaf(at=at, who="heir", for_s=round(lag_s + random.uniform(0.01, 0.1), 4)),
        random.choice(
            [
                Crash(at=later, who="master", back_s=0.5),
                Crash(at=later, who="master", back_s=1.5),
                Isolate(at=later, who="master", for_s=1.5),
            ]
        ),
    ]


def _a_laggard_is_needed(random: Random, at: float) -> list[Fault]:
    """A slave receives nothing for a while, and the master dies about when that ends."""
    lag_s = random.uniform(0.5, 2.0)
    later = round(min(at + lag_s + random.uniform(-0.2, 0.2), FAULTS_S), 6)
    who: Who = random.choice(["heir", "slave"])
    return [
        Deaf(at=at, who=who, for_s=round(lag_s, 4)),
        random.choice(
            [
                Crash(at=later, who="master", back_s=2.0),
                Crash(at=later, who="slave", back_s=1.0),
                Isolate(at=later, who="master", for_s=2.0),
            ]
        ),
    ]


def _a_founder_stops(random: Random, at: float) -> list[Fault]:
    """The proposer of the first view pauses, and a replica is cut off during the view change."""
    at = round(0.1 + at / 2, 6)
    near = round(max(0.0, at + random.uniform(-0.1, 0.1)), 6)
    return [
        Pause(at=at, who="proposer", for_s=2.0),
        random.choice(
            [
                Break(at=near),
                Isolate(at=near, who=random.choice([0, 1, 2]), for_s=round(random.uniform(0.1, 3.0), 4)),
                OneWay(at=near, sender=random.choice([1, 2]), receiver=0, for_s=3.0),
            ]
        ),
    ]


def _forwarding(shape: Shape, random: Random) -> Shape:
    settings = attrs.evolve(
        shape.settings,
        forward_window=random.choice([1, 3, 64]),
        forward_window_bytes=random.choice([4, 12, 1 << 20]),
        forward_queue=random.choice([2, 4, 4, 20]),
        forward_queue_bytes=random.choice([12, 1 << 20, 1 << 20]),
        window_bytes=random.choice([6, 40, 1 << 20, 1 << 20]),
    )
    return attrs.evolve(shape, settings=settings)


def _with_leases(shape: Shape, random: Random) -> Shape:
    """Add clock drift, leases of several durations, hosts that report deaths or not, and witnesses."""
    witnesses = min(random.choice([0, 0, 0, 1, 1, 2]), (shape.replicas - 1) // 2)
    copies = random.choice([1, 1, random.randint(1, shape.replicas - witnesses)])
    drift = random.choice([0.0, 0.01, 0.05, 0.2])
    lease_s = random.choice([0.15, 0.3, 0.6, 1.2])
    settings = attrs.evolve(shape.settings, drift=drift, lease_s=lease_s, min_copies=copies)
    return attrs.evolve(
        shape, settings=settings, witnesses=witnesses, drift=drift, shared_host=random.random() < 0.3
    )


def _drifting(shape: Shape, random: Random) -> Shape:
    """In half of the clusters, make clocks differ much and leases outlast suspicions."""
    if random.random() < 0.5:
        return shape
    settings = attrs.evolve(shape.settings, drift=0.2, lease_s=random.choice([0.9, 1.5]))
    return attrs.evolve(shape, settings=settings, drift=0.2)


def _with_little_log(shape: Shape, random: Random) -> Shape:
    """In one cluster of four, limit the bytes of the log that is kept for replicas that join or lag."""
    if random.random() < 0.75:
        return shape
    most = random.choice([60, 200, 600])
    settings = attrs.evolve(shape.settings, max_log_bytes=most, keep_bytes=random.choice([0, most // 2]))
    return attrs.evolve(shape, settings=settings)


def _fitting(shape: Shape) -> Shape:
    """Adapt the settings to the network as users do: suspicions and leases longer than a round trip, queues
    that drain."""
    settings, trip_s = shape.settings, shape.round_trip_s
    trips = DRAIN_S / trip_s
    one_by_one = settings.forward_window_bytes < 100
    # Payloads have about six bytes at most.
    window = max(1, min(settings.window, settings.window_bytes // 6))
    most = trips / (shape.replicas / window + 2 / (1 if one_by_one else settings.forward_window))
    settings = attrs.evolve(
        settings,
        suspect_s=max(settings.suspect_s, trip_s + 2 * settings.heartbeat_s),
        lease_s=max(settings.lease_s, round(shape.least_lease_s + 0.001, 3)),
        forward_queue=max(1, min(settings.forward_queue, int(most))),
    )
    return attrs.evolve(shape, settings=settings)


def _slow(shape: Shape) -> Shape:
    """Make messages slower than the interval of heartbeats."""
    weather = attrs.evolve(shape.weather, delay_s=0.1, slow_chance=0.2, slow_s=0.2)
    settings = attrs.evolve(shape.settings, view_change_s=0.6, suspect_s=0.6)
    return attrs.evolve(shape, weather=weather, settings=settings)


def _joining(shape: Shape, random: Random) -> Shape:
    """Use five replicas, so that a donor may die while another replica lacks the state, and transfers that
    take seconds."""
    settings = attrs.evolve(shape.settings, keep=0, part_bytes=random.choice([200, 2000]))
    chunk, snapshot_s = random.choice([1, 4]), random.choice([1.0, 2.0])
    return attrs.evolve(shape, replicas=5, expected=5, settings=settings, chunk=chunk, snapshot_s=snapshot_s)


def _parting(shape: Shape, random: Random) -> Shape:
    """Use three replicas or more, with logs that travel in pieces, and that differ or become too long."""
    replicas = max(shape.replicas, 3)
    settings = attrs.evolve(shape.settings, part_bytes=random.choice([12, 40, 200]))
    if random.random() < 0.3:
        settings = attrs.evolve(
            settings, mode="MAJORITY", window=4, keep=0, max_log=136, suspect_s=3.0, lease_s=3.0, stall_s=6.0
        )
    else:
        settings = attrs.evolve(settings, window=random.choice([4, 16, 64]), keep=64, max_log=400)
    return attrs.evolve(shape, replicas=replicas, expected=replicas, settings=settings)


def _lagging(shape: Shape, random: Random) -> Shape:
    """Commit by majority, so that one replica may lag; the commit index reaches the others a moment later."""
    replicas = random.choice([3, 3, 5])
    settings = attrs.evolve(shape.settings, mode="MAJORITY", min_copies=1, window=64, keep=64, suspect_s=0.6)
    weather = attrs.evolve(shape.weather, delay_s=random.choice([0.005, 0.02, 0.05]), slow_s=0.02)
    return attrs.evolve(
        shape, replicas=replicas, expected=replicas, witnesses=0, settings=settings, weather=weather
    )


def _narrow(shape: Shape, random: Random) -> Shape:
    """Use connections on which a slave's missing entries take longer than a view change may."""
    mode: Mode = random.choice(["ALL", "MAJORITY", "MAJORITY"])
    settings = attrs.evolve(
        shape.settings,
        mode=mode,
        min_copies=1,
        window=random.choice([16, 64]),
        window_bytes=1 << 20,
        part_bytes=random.choice([40, 200]),
        view_change_s=0.3,
        suspect_s=3.0,
        stall_s=6.0,
        keep=64,
        max_log=400,
    )
    weather = Weather(delay_s=0.005, bytes_per_s=random.choice([8_000, 8_000, 20_000]))
    replicas = random.choice([3, 3, 5])
    return attrs.evolve(
        shape, replicas=replicas, expected=replicas, witnesses=0, settings=settings, weather=weather
    )


def _founded_slowly(shape: Shape, random: Random) -> Shape:
    """Start three replicas at once, on a network that makes each step of the first view slow."""
    mode: Mode = random.choice(["ALL", "MAJORITY"])
    settings = attrs.evolve(shape.settings, suspect_s=0.8, view_change_s=0.8, boot_wait_s=0.1, mode=mode)
    weather = attrs.evolve(shape.weather, delay_s=0.1, slow_chance=0.0)
    return attrs.evolve(shape, replicas=3, expected=3, settings=settings, weather=weather)


def _founded_by_few(shape: Shape, random: Random) -> Shape:
    """Let a bare majority found the cluster while the others do not know of it."""
    replicas = random.choice([3, 4, 5])
    return attrs.evolve(shape, replicas=replicas, expected=replicas // 2 + 1)


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
        # All others may have to join one after the other, within the bound of L1.
        snapshot_s=random.choice([0.5, 2.0]),
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


def administered(schedule: Schedule | int) -> Schedule:
    """Return a schedule, or the one of a seed, with an administrator who adds, removes and moves replicas."""
    if isinstance(schedule, int):
        schedule = draw(schedule)
    # With fewer founders than replicas, removed replicas without memory could found another cluster.
    shape = attrs.evolve(schedule.shape, expected=schedule.shape.replicas)
    return attrs.evolve(schedule, shape=shape, administrator=ADMINISTRATOR_RATE)
