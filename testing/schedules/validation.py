"""What a schedule may say. Whatever is wrong is found before a run, with the place where it stands."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import attrs
import msgspec

from ...hachannel import Settings
from ...hachannel.model import messages
from ..channel.administrator import MAX_REPLICAS
from ..channel.arguments import as_json
from ..channel.cluster_shape import Shape
from ..channel.network import Weather
from ..channel.recovery import MAX_LATE_S
from ..faults import FAULTS, Fault
from ..faults.disks import SlowDisk
from ..faults.membership import Add
from ..faults.networks import Break, Cut, Delay, Garbage, Mute, OneWay, Partition
from ..faults.processes import MAX_COUNT, Start
from .json_errors import problem

__all__ = ["LONGEST_S", "InvalidSchedule", "fault", "faults", "part", "punctual", "shape"]

T = TypeVar("T")

LONGEST_S = 3600.0
"""Of a run, and of whatever happens in it: more would not end."""

REPLICAS = ("who", "one", "other", "sender", "receiver")
"""Fields of faults that name a replica, by its id if it is a number."""
TIMES = ("at", "for_s", "back_s", "seconds")
CHANCES = ("chance", "slow_chance", "duplicate_chance", "loss_chance", "reorder_chance")


class InvalidSchedule(ValueError):
    """Something that no schedule may say, in a few words."""


def fault(plain: Any, position: int) -> Fault:
    """A fault as it is read from a file. Raises InvalidSchedule."""
    if not isinstance(plain, dict):
        raise InvalidSchedule(f"fault {position} is no object with the fields of a fault: {as_json(plain)}")
    fields: dict[str, Any] = dict(plain)
    if "fault" not in fields:
        raise InvalidSchedule(
            f"fault {position} lacks the field 'fault', with its name: one of {', '.join(FAULTS)}"
        )
    name = fields.pop("fault")
    if not isinstance(name, str) or name not in FAULTS:
        raise InvalidSchedule(f"fault {position}: there is no fault {as_json(name)}, but {', '.join(FAULTS)}")
    try:
        return msgspec.convert(fields, FAULTS[name])
    except msgspec.ValidationError as error:
        raise InvalidSchedule(f"fault {position}, {name}: {problem(error, FAULTS[name], fields)}") from None


def shape(plain: Any) -> Shape:
    """A shape as it is read from a file. Raises InvalidSchedule."""
    _no_others(plain, Shape, "shape")
    if isinstance(plain, dict):
        _no_others(plain.get("settings"), Settings, "shape.settings")
        _no_others(plain.get("weather"), Weather, "shape.weather")
    return part(plain, Shape, "shape")


def part(plain: Any, kind: type[T], where: str = "") -> T:
    """What stands there in a file. Raises InvalidSchedule."""
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidSchedule(problem(error, kind, plain, where)) from None


def _no_others(plain: Any, kind: type, where: str) -> None:
    if isinstance(plain, dict):
        unknown = set(plain) - {field.name for field in attrs.fields(kind)}
        if unknown:
            names = ", ".join(field.name for field in attrs.fields(kind))
            raise InvalidSchedule(f"{where} has no {', '.join(sorted(map(repr, unknown)))}, but {names}")


def faults(each: Sequence[Fault], shape: Shape, *, operator: bool, end: float | None) -> None:
    """The faults of a schedule for such a cluster. Raises InvalidSchedule."""
    count = shape.replicas + sum(isinstance(one, Add) and one.who is None for one in each)
    if operator:
        count = max(count, MAX_REPLICAS)
    for position, one in enumerate(each):
        if not isinstance(one, Fault):
            raise InvalidSchedule(f"fault {position} is no fault: {one!r}")
        reason = _reason(one, shape, count)
        if not reason and end is not None and one.at > end:
            reason = f"at is {one.at:g}, and the faults end at {end:g}"
        if reason:
            raise InvalidSchedule(f"fault {position}, {one.name}: {reason}")


def punctual(each: Sequence[Fault], end: float) -> None:
    """Require that what faults delay arrives in time for the recovery. Raises InvalidSchedule."""
    for position, one in enumerate(each):
        if not isinstance(one, Delay | SlowDisk):
            continue
        # A message or a sync that begins at the last moment may still take its time.
        last = end if one.for_s is None else min(one.at + one.for_s, end)
        most = end - last + MAX_LATE_S
        if one.seconds > most:
            raise InvalidSchedule(
                f"fault {position}, {one.name}: seconds is {one.seconds:g}: at most {most:g}, or the cluster "
                f"need not recover in time after the faults end at {end:g}"
            )


def _reason(one: Fault, shape: Shape, count: int) -> str:
    """Why a fault cannot be, "" if it can."""
    if isinstance(one, Start) and isinstance(one.who, str) and one.who != "any":
        return f"who is {one.who!r}, and a replica that does not run is nobody: give its id, or 'any'"
    try:
        part(msgspec.to_builtins(one), type(one))
    except (InvalidSchedule, TypeError) as error:
        return str(error)
    if one.disk and not shape.disk:
        return "it needs replicas with disks: disk of the shape must be true"
    for name in one.__struct_fields__:
        reason = _value(name, getattr(one, name), count)
        if reason:
            return reason
    pair = _pair(one)
    if pair[0] is not None and pair[0] == pair[1] and shape.replicas > 1:
        return f"it names replica {pair[0]} twice"
    if isinstance(one, Partition):
        return _groups(one.groups, count)
    if isinstance(one, Mute) and not _is_message(one.message):
        return f"message is {one.message!r}, which is no type of message, such as 'Join' or 'Data'"
    return ""


def _pair(one: Fault) -> tuple[int | None, int | None]:
    """The two replicas that a fault names; None: any, or it names none."""
    if isinstance(one, Cut | Break | Garbage):
        return one.one, one.other
    if isinstance(one, OneWay):
        return one.sender, one.receiver
    return None, None


def _value(name: str, value: Any, count: int) -> str:
    number = isinstance(value, int | float)
    if name in TIMES and number and not 0 <= value < math.inf:
        return f"{name} is {value:g}: times are seconds, from 0"
    if name in TIMES and number and value > LONGEST_S:
        return f"{name} is {value:g}: at most {LONGEST_S:g} seconds"
    if name in CHANCES and not 0 <= value <= 1:
        return f"{name} is {value:g}: chances are from 0 to 1"
    if name == "steps" and value < 0:
        return f"steps is {value}: from 0"
    if name == "count" and value < 1:
        return f"count is {value}: at least 1"
    if name == "count" and value > MAX_COUNT:
        return f"count is {value}: at most {MAX_COUNT}"
    if name in REPLICAS and number and not 0 <= value < count:
        return f"{name} is {value}: {_ids(count)}"
    return ""


def _groups(groups: Iterable[Iterable[int]], count: int) -> str:
    named = Counter(replica for group in groups for replica in group)
    if not named:
        return "groups name no replica"
    for replica, times in named.items():
        if not 0 <= replica < count:
            return f"groups name replica {replica}: {_ids(count)}"
        if times > 1:
            return f"replica {replica} is in two groups"
    return ""


def _ids(count: int) -> str:
    return "the only replica is 0" if count == 1 else f"replicas are 0 to {count - 1}"


def _is_message(name: str) -> bool:
    kind = getattr(messages, name, None)
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and bool(kind.__struct_config__.tag)
