"""A schedule: a cluster, and what happens to it when. Written, drawn from a seed, or read from a file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import msgspec

from ..hachannel import Settings
from .channel_net import Weather
from .channel_world import Shape
from .faults import FAULTS, Fault

__all__ = ["Schedule", "ScheduleError", "draw", "operated"]

FAULTS_S = 6.0
"""How long a random schedule has faults."""
OPERATOR_RATE = 2.0
"""Requests of an operator in a second."""
AFTER_S = 1.0
"""After the last fault of a written schedule, and before the cluster must recover."""


class ScheduleError(ValueError):
    """This is no schedule; says what is wrong with it."""


@attrs.frozen(kw_only=True)
class Schedule:
    """What is simulated. Times are virtual seconds from the start of the run."""

    faults: Sequence[Fault] = ()
    """What happens, in any order."""
    shape: Shape = attrs.field(factory=Shape)
    """The cluster: replicas, settings, network, disks."""
    seconds: float | None = None
    """When the faults end and the cluster must recover; None: a second after the last one."""
    load: float = 20.0
    """How often a second each client submits; 0: only `Submit` does."""
    spread_s: float = 0.3
    """Replicas start within this time."""
    operator: float = 0.0
    """How often a second an operator adds, removes or moves a replica; 0: there is none."""

    @property
    def end(self) -> float:
        """When the faults end."""
        if self.seconds is not None:
            return self.seconds
        return max((fault.at for fault in self.faults), default=0.0) + AFTER_S

    def without(self, dropped: Iterable[int]) -> "Schedule":
        """The same without the faults at these positions."""
        gone = set(dropped)
        kept = [fault for position, fault in enumerate(self.faults) if position not in gone]
        return attrs.evolve(self, faults=kept, seconds=self.end)

    def to_json(self, seed: int) -> bytes:
        """The schedule as a file that `quorate simulate --schedule` plays again with this seed."""
        plain = {
            "seed": seed,
            "shape": msgspec.to_builtins(self.shape),
            "seconds": self.end,
            "load": self.load,
            "spread_s": self.spread_s,
            "operator": self.operator,
            "faults": [{"fault": fault.name, **msgspec.to_builtins(fault)} for fault in self.faults],
        }
        return msgspec.json.format(msgspec.json.encode(plain)) + b"\n"


def read(path: Path) -> tuple[Schedule, int]:
    """The schedule in a file, and its seed. Raises ScheduleError with one sentence."""
    try:
        plain = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        seed = msgspec.convert(plain.pop("seed", 0), int)
        faults = [_fault(each) for each in plain.pop("faults", [])]
        shape = msgspec.convert(plain.pop("shape", {}), Shape)
        rest = msgspec.convert(plain, _Rest)
    except OSError as error:
        raise ScheduleError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise ScheduleError(f"{path} is no schedule: {error}.") from None
    return Schedule(
        faults=faults,
        shape=shape,
        seconds=rest.seconds,
        load=rest.load,
        spread_s=rest.spread_s,
        operator=rest.operator,
    ), seed


class _Rest(msgspec.Struct, forbid_unknown_fields=True):
    seconds: float | None = None
    load: float = 20.0
    spread_s: float = 0.3
    operator: float = 0.0


def _fault(plain: Any) -> Fault:
    fields: dict[str, Any] = msgspec.convert(plain, dict[str, Any])
    name = fields.pop("fault", None)
    if name not in FAULTS:
        raise ValueError(f"there is no fault {name!r}, but {', '.join(FAULTS)}")
    return msgspec.convert(fields, FAULTS[name])


# Random schedules

PROFILES: dict[str, dict[str, int]] = {
    "all": {},
    "split": {"partition": 15, "isolate": 10, "crash": 5, "mute": 15, "crash-proposer": 10},
    "crash": {"crash": 30, "break": 10, "crash-proposer": 20, "mute": 5, "crash-step": 5},
}
"""Weights of faults besides their own: many crashes hit view changes half-way; splits and slow joins make
views that are smaller than their configurations."""


def draw(seed: int, kinds: Iterable[str] | None = None, *, disk: bool | None = None) -> Schedule:
    """The schedule of a seed. kinds: only these faults; disk: with or without; both as the seed has it.

    Every fourth seed is a wide cluster where joins are slow; every other fourth one has slow messages and
    many crashes. Every third has disks. Raises KeyError for a fault that is not there.
    """
    random = Random(f"shape {seed}")
    with_disk = seed % 3 == 2 if disk is None else disk
    if seed % 4 == 1:
        shape, rate, profile = _wide(random), random.choice([3.0, 6.0]), "split"
    else:
        shape = _ordinary(random)
        rate, profile = random.choice([0.5, 2.0, 5.0]), "all"
        if seed % 4 == 3:
            weather = attrs.evolve(shape.weather, delay_s=0.1, slow_chance=0.2, slow_s=0.2)
            settings = attrs.evolve(shape.settings, view_change_s=0.6, suspect_s=0.6)
            shape, rate, profile = attrs.evolve(shape, weather=weather, settings=settings), 8.0, "crash"
    shape = _forwarding(shape, Random(f"forwarding {seed}"))
    shape = _with_leases(shape, Random(f"lease {seed}"))
    sync_s, save_entries = random.choice([0.002, 0.02, 0.1]), random.choice([5, 50, 500])
    shape = attrs.evolve(shape, disk=with_disk, sync_s=sync_s, save_entries=save_entries)
    transfers = Random(f"transfers {seed}")
    shape = attrs.evolve(shape, parts=transfers.random() < 0.75, fresh=transfers.random() < 0.5)
    names = list(FAULTS) if kinds is None else list(kinds)
    return Schedule(
        faults=_faults(Random(f"faults {seed}"), shape, rate, profile, names),
        shape=shape,
        seconds=FAULTS_S,
        load=random.choice([5.0, 30.0]),
    )


def _faults(random: Random, shape: Shape, rate: float, profile: str, names: list[str]) -> list[Fault]:
    extra = PROFILES[profile]
    menu = {
        name: FAULTS[name].weight + extra.get(name, 0)
        for name in names
        if shape.disk or not FAULTS[name].disk
    }
    menu = {name: weight for name, weight in menu.items() if weight}
    faults: list[Fault] = []
    now = random.choice([0.0, 1.0]) + random.expovariate(rate)
    while menu and now < FAULTS_S:
        name = random.choices(list(menu), list(menu.values()))[0]
        faults.append(FAULTS[name].draw(round(now, 6), random, shape))
        now += random.expovariate(rate)
    return faults


def _forwarding(shape: Shape, random: Random) -> Shape:
    settings = attrs.evolve(
        shape.settings,
        forward_window=random.choice([1, 3, 64]),
        forward_window_bytes=random.choice([4, 1 << 20]),
        forward_queue=random.choice([2, 4, 4, 20]),
    )
    return attrs.evolve(shape, settings=settings)


def _with_leases(shape: Shape, random: Random) -> Shape:
    """The same cluster with clocks that drift, leases short and long, deaths seen or not; and witnesses."""
    witnesses = min(random.choice([0, 0, 0, 1, 1, 2]), (shape.replicas - 1) // 2)
    copies = min(random.choice([1, 1, 1, 2]), shape.replicas - witnesses)
    drift = random.choice([0.0, 0.01, 0.05, 0.2])
    lease_s = random.choice([0.15, 0.3, 0.6, 1.2])
    settings = attrs.evolve(shape.settings, drift=drift, lease_s=lease_s, min_copies=copies)
    return attrs.evolve(
        shape, settings=settings, witnesses=witnesses, drift=drift, shared_host=random.random() < 0.3
    )


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


def operated(schedule: Schedule | int) -> Schedule:
    """A schedule, or that of a seed, with an operator who adds, removes and moves replicas."""
    if isinstance(schedule, int):
        schedule = draw(schedule)
    # With fewer founders than replicas, those that were removed and forgot it could found a cluster.
    # An operator who leaves fewer replicas than copies, or witnesses only, gets a cluster that waits.
    shape = attrs.evolve(
        schedule.shape,
        expected=schedule.shape.replicas,
        witnesses=0,
        settings=attrs.evolve(schedule.shape.settings, min_copies=1),
    )
    return attrs.evolve(schedule, shape=shape, operator=OPERATOR_RATE)
