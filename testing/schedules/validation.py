"""The rules for a schedule: checked before a run, each error with the place where it stands."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

import attrs
import msgspec

from ...hachannel import Settings
from ...hachannel.model import messages
from ..channel.administrator import MAX_REPLICAS
from ..channel.cluster_shape import Shape
from ..channel.network import Weather
from ..channel.recovery import MAX_LATE_S
from ..faults import FAULTS, Fault
from ..faults.disks import SlowDisk
from ..faults.membership import Add
from ..faults.networks import Break, Cut, Delay, Garbage, Mute, OneWay, Partition
from ..faults.processes import MAX_COUNT, Start
from .json_errors import InvalidSchedule, as_json, convert

__all__ = ["LONGEST_S", "check_faults", "check_recovery", "read_fault", "read_shape"]

LONGEST_S = 3600.0
"""The longest run, and the latest time in it, in virtual seconds: a longer one would not end."""

_REPLICAS = ("who", "one", "other", "sender", "receiver")
"""Fields of faults that name a replica, by its id if it is a number."""
_TIME = (0, LONGEST_S, "times are seconds, from 0", f"at most {LONGEST_S:g} seconds")
_CHANCE = (0, 1, "chances are from 0 to 1", "chances are from 0 to 1")
_RANGES = {
    **dict.fromkeys(("at", "for_s", "back_s", "seconds"), _TIME),
    **dict.fromkeys(("chance", "slow_chance", "duplicate_chance", "loss_chance", "reorder_chance"), _CHANCE),
    "steps": (0, math.inf, "from 0", ""),
    "count": (1, MAX_COUNT, "at least 1", f"at most {MAX_COUNT}"),
}
"""The least and the most of a number, by field, and what to say of a number below and above."""


def read_fault(plain: Any, position: int) -> Fault:
    """Return a fault from decoded JSON. Raises InvalidSchedule."""
    if not isinstance(plain, dict):
        raise InvalidSchedule(f"fault {position} is no object with the fields of a fault: {as_json(plain)}")
    fields = dict(cast("dict[str, Any]", plain))
    known = ", ".join(FAULTS)
    if "fault" not in fields:
        raise InvalidSchedule(f"fault {position} lacks the field 'fault', with its name: one of {known}")
    name = fields.pop("fault")
    if not isinstance(name, str) or name not in FAULTS:
        raise InvalidSchedule(f"fault {position}: there is no fault {as_json(name)}, but {known}")
    try:
        return convert(fields, FAULTS[name])
    except InvalidSchedule as error:
        raise InvalidSchedule(f"fault {position}, {name}: {error}") from None


def read_shape(plain: Any) -> Shape:
    """Return a shape from decoded JSON. Raises InvalidSchedule."""
    parts: list[tuple[Any, type, str]] = [(plain, Shape, "shape")]
    if isinstance(plain, dict):
        given = cast("dict[str, Any]", plain)
        parts.append((given.get("settings"), Settings, "shape.settings"))
        parts.append((given.get("weather"), Weather, "shape.weather"))
    for part, kind, place in parts:
        names = [field.name for field in attrs.fields(kind)]
        keys = set(cast("dict[str, Any]", part) if isinstance(part, dict) else ())
        unknown = sorted(map(repr, keys - set(names)))
        if unknown:
            raise InvalidSchedule(f"{place} has no {', '.join(unknown)}, but {', '.join(names)}")
    return convert(plain, Shape, "shape")


def check_faults(faults: Sequence[Fault], shape: Shape, *, administrator: bool, end: float | None) -> None:
    """Raise InvalidSchedule unless a cluster of that shape can have these faults.

    administrator: replicas are added during the run. end: the time at which the faults end, if it is given.
    """
    replicas = shape.replicas + sum(isinstance(fault, Add) and fault.who is None for fault in faults)
    if administrator:
        replicas = max(replicas, MAX_REPLICAS)
    for position, fault in enumerate(faults):
        # Callers that no type checker has seen may give anything.
        if not isinstance(fault, Fault):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidSchedule(f"fault {position} is no fault: {fault!r}")
        reason = _reason(fault, shape, replicas)
        if not reason and end is not None and fault.at > end:
            reason = f"at is {fault.at:g}, and the faults end at {end:g}"
        if reason:
            raise InvalidSchedule(f"fault {position}, {fault.name}: {reason}")


def check_recovery(faults: Sequence[Fault], end: float) -> None:
    """Raise InvalidSchedule unless what faults delay arrives within MAX_LATE_S after their end."""
    for position, fault in enumerate(faults):
        if not isinstance(fault, Delay | SlowDisk):
            continue
        # A message or a sync that begins at the last moment may still take all the time of the fault.
        last = end if fault.for_s is None else min(fault.at + fault.for_s, end)
        most = end - last + MAX_LATE_S
        if fault.seconds > most:
            raise InvalidSchedule(
                f"fault {position}, {fault.name}: seconds is {fault.seconds:g}: at most {most:g}, or the "
                f"cluster need not recover in time after the faults end at {end:g}"
            )


def _reason(fault: Fault, shape: Shape, replicas: int) -> str:
    """Return why a fault cannot happen, "" if it can."""
    if isinstance(fault, Start) and isinstance(fault.who, str) and fault.who != "any":
        return f"who is {fault.who!r}, and a replica that does not run is nobody: give its id, or 'any'"
    try:
        convert(msgspec.to_builtins(fault), type(fault))
    except (InvalidSchedule, TypeError) as error:
        return str(error)
    if fault.disk and not shape.disk:
        return "it needs replicas with disks: disk of the shape must be true"
    for name in fault.__struct_fields__:
        value = getattr(fault, name)
        if isinstance(value, int | float) and (reason := _range_reason(name, value, replicas)):
            return f"{name} is {value if isinstance(value, int) else format(value, 'g')}: {reason}"
    one, other = _pair(fault)
    if one is not None and one == other and shape.replicas > 1:
        return f"it names replica {one} twice"
    if isinstance(fault, Partition):
        return _groups_reason(fault.groups, replicas)
    if isinstance(fault, Mute) and not _is_message(fault.message):
        return f"message is {fault.message!r}, which is no type of message, such as 'Join' or 'Data'"
    return ""


def _range_reason(name: str, value: float, replicas: int) -> str:
    if name in _REPLICAS and not 0 <= value < replicas:
        return _ids(replicas)
    if name in _RANGES:
        least, most, below, above = _RANGES[name]
        if not least <= value < math.inf:
            return below
        return above if value > most else ""
    return ""


def _pair(fault: Fault) -> tuple[int | None, int | None]:
    """Return the two replicas that a fault names; None stands for any, or for none."""
    if isinstance(fault, Cut | Break | Garbage):
        return fault.one, fault.other
    return (fault.sender, fault.receiver) if isinstance(fault, OneWay) else (None, None)


def _groups_reason(groups: Iterable[Iterable[int]], replicas: int) -> str:
    named = Counter(replica for group in groups for replica in group)
    if not named:
        return "groups name no replica"
    for replica, times in named.items():
        if not 0 <= replica < replicas:
            return f"groups name replica {replica}: {_ids(replicas)}"
        if times > 1:
            return f"replica {replica} is in two groups"
    return ""


def _ids(replicas: int) -> str:
    return "the only replica is 0" if replicas == 1 else f"replicas are 0 to {replicas - 1}"


def _is_message(name: str) -> bool:
    kind = getattr(messages, name, None)
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and bool(kind.__struct_config__.tag)
