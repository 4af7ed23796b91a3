"""A schedule: a cluster, and the faults that happen to it, written in Python or read from a file."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import attrs
import msgspec

from ..channel.arguments import check_seed, is_whole
from ..channel.cluster_shape import Shape
from ..channel.recovery import recovery_obstacle
from ..faults import Fault
from .json_errors import InvalidSchedule, convert, syntax_error
from .validation import LONGEST_S, check_faults, check_recovery, read_fault, read_shape

__all__ = ["Schedule", "ScheduleError", "read"]

Deaths: TypeAlias = Literal["none", "first", "last"]
"""The replicas that stay dead after the faults: "none": no replica; "first": some, until the others have
recovered; "last": some, from the time when all have recovered."""
AFTER_S = 1.0
"""Seconds from the last fault of a written schedule to the time when the cluster must recover."""


MAX_RATE = 10_000.0
"""The most submissions, or requests of an administrator, in a second: more could not be handled in time."""


LEAST_PAYLOAD = 16
"""The least `max_payload_bytes`: clients submit numbers."""


class ScheduleError(ValueError):
    """Raised for a schedule that cannot be run, with one sentence about what is wrong."""


@attrs.frozen(kw_only=True)
class Schedule:
    """A cluster, its load, and the faults that happen to it. Times are virtual seconds from the start of the
    run.

    Raises ScheduleError for a fault that the cluster cannot have, or a value that is not allowed.
    """

    faults: Sequence[Fault] = ()
    """The faults, in any order."""
    shape: Shape = attrs.field(factory=Shape)
    """The cluster: replicas, settings, network, disks."""
    seconds: float | None = None
    """The time when the faults end and the cluster must recover; None: a second after the last fault begins.
    Faults that would last longer are over then, whatever their `for_s`."""
    load: float = 20.0
    """Submissions of each client in a second, up to 10,000; 0: only `Submit` submits."""
    spread_s: float = 0.3
    """The time within which the replicas start."""
    administrator: float = 0.0
    """Requests of an administrator in a second, who adds, removes and moves replicas; 0: none."""
    lease: bool = True
    """Whether a replica must hold the lease in the end. False where no lease can last, on purpose."""
    deaths: Deaths = "none"
    """Whether as many replicas as the others can do without stay dead in the end; the others must recover."""

    def __attrs_post_init__(self) -> None:
        for name in ("seconds", "load", "spread_s", "administrator"):
            value = getattr(self, name)
            number = is_whole(value) or isinstance(value, float) or (name == "seconds" and value is None)
            if not number or (value is not None and not 0 <= value < math.inf):
                raise ScheduleError(f"{name} is {value!r}: a number from 0")
        for name in ("load", "administrator"):
            if getattr(self, name) > MAX_RATE:
                raise ScheduleError(f"{name} is {getattr(self, name)!r}: at most {MAX_RATE:g} a second")
        for name in ("seconds", "spread_s"):
            value = getattr(self, name)
            if value is not None and value > LONGEST_S:
                raise ScheduleError(f"{name} is {value:g}: at most {LONGEST_S:g} seconds")
        self._check_types()
        try:
            check_faults(self.faults, self.shape, administrator=self.administrator > 0, end=self.seconds)
        except InvalidSchedule as error:
            raise ScheduleError(str(error)) from None
        lease_s, least_s = self.shape.settings.lease_s, self.shape.least_lease_s
        if self.lease and lease_s < least_s:
            lower = "lower part_bytes, " if self.shape.weather.bytes_per_s else ""
            raise ScheduleError(
                f"lease_s is {lease_s:g} seconds, and this network may need {least_s:.3g} to prolong a "
                f"lease: {lower}raise lease_s, or set lease to false if none is to be demanded"
            )

    def must_recover(self) -> None:
        """Raise ScheduleError if the cluster could not recover in time once the faults are over."""
        reason = recovery_obstacle(self.shape)
        if reason:
            raise ScheduleError(reason)
        try:
            check_recovery(self.faults, self.end)
        except InvalidSchedule as error:
            raise ScheduleError(str(error)) from None

    def _check_types(self) -> None:
        faults: Any = self.faults
        if not isinstance(faults, Sequence) or isinstance(faults, str | bytes):
            raise ScheduleError(f"faults is {faults!r}: give a list of faults")
        shape: Any = self.shape
        if not isinstance(shape, Shape):
            raise ScheduleError(f"shape is {shape!r}: give a Shape")
        payload = self.shape.settings.max_payload_bytes
        if payload < LEAST_PAYLOAD:
            raise ScheduleError(
                f"max_payload_bytes is {payload}: at least {LEAST_PAYLOAD}, since clients submit numbers"
            )
        if not isinstance(self.lease, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(f"lease is {self.lease!r}: true or false")
        if self.deaths not in get_args(Deaths):
            raise ScheduleError(f"deaths is {self.deaths!r}: one of {', '.join(get_args(Deaths))}")

    @property
    def end(self) -> float:
        """The time when the faults end, also those whose `for_s` is not over."""
        if self.seconds is not None:
            return self.seconds
        return max((fault.at for fault in self.faults), default=0.0) + AFTER_S

    def without(self, dropped: Iterable[int]) -> "Schedule":
        """Return the same schedule without the faults at these positions, from 0."""
        gone = set(dropped)
        kept = [fault for position, fault in enumerate(self.faults) if position not in gone]
        return attrs.evolve(self, faults=kept, seconds=self.end)

    def to_json(self, seed: int) -> bytes:
        """Return the schedule as the bytes of a file for `quorate simulate --schedule`, which plays it with
        this seed.

        Raises ScheduleError for a seed that is no whole number from 0.
        """
        try:
            check_seed(seed)
        except ValueError as error:
            raise ScheduleError(str(error)) from None
        plain = {
            "seed": seed,
            "shape": msgspec.to_builtins(self.shape),
            "seconds": self.end,
            "load": self.load,
            "spread_s": self.spread_s,
            "administrator": self.administrator,
            "lease": self.lease,
            "deaths": self.deaths,
            "faults": [{"fault": fault.name, **msgspec.to_builtins(fault)} for fault in self.faults],
        }
        return msgspec.json.format(msgspec.json.encode(plain)) + b"\n"


def read(path: Path) -> tuple[Schedule, int]:
    """Return the schedule in a file, and its seed. Raises ScheduleError with one sentence."""
    try:
        plain = _decoded(path.read_bytes())
        seed = convert(plain.pop("seed", 0), int, "seed")
        if seed < 0:
            raise InvalidSchedule(f"seed is {seed}: a whole number from 0")
        plain_faults = convert(plain.pop("faults", []), list[Any], "faults")
        faults = [read_fault(each, position) for position, each in enumerate(plain_faults)]
        shape = read_shape(plain.pop("shape", {}))
        rest = msgspec.structs.asdict(convert(plain, _Rest))
        return Schedule(faults=faults, shape=shape, **rest), seed
    except OSError as error:
        raise ScheduleError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ScheduleError(f"{path} is no schedule: {error}.") from None
    except RecursionError:
        raise ScheduleError(f"{path} is no schedule: it is nested too deeply.") from None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidSchedule(syntax_error(error, data)) from None
    # The decoder keeps one of two equal fields without an error.
    json.loads(data, object_pairs_hook=_once)
    plain = convert(plain, dict[str, Any])
    unknown = sorted(map(repr, set(plain) - set(_FIELDS)))
    if unknown:
        raise InvalidSchedule(f"there is no field {', '.join(unknown)}, but {', '.join(_FIELDS)}")
    return plain


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object that has a field twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSchedule(f"the field {name!r} is there twice in one object")


class _Rest(msgspec.Struct):
    seconds: float | None = None
    load: float = 20.0
    spread_s: float = 0.3
    administrator: float = 0.0
    lease: bool = True
    deaths: Deaths = "none"


_FIELDS = ("seed", "faults", "shape", *_Rest.__struct_fields__)
