"""The faults that a simulation can inject, each a class of its own, named as in schedules."""

from . import disks, networks, operators, processes
from .base import FAULTS, Fault, Injector, Who, named
from .disks import CorruptDisk, FullDisk, LoseDisk, SlowDisk, TornWrite
from .networks import (
    Break,
    Cut,
    Delay,
    Duplicate,
    Garbage,
    Isolate,
    Loss,
    Mute,
    OneWay,
    Partition,
    Reorder,
)
from .operators import Add, Remove
from .processes import (
    Crash,
    CrashAll,
    CrashProposer,
    CrashStep,
    CrashTransfer,
    Heal,
    Leave,
    Pause,
    RefusePart,
    Start,
    Submit,
)

MODULES = (disks, networks, operators, processes)
"""Where the faults are; importing them puts them on the list."""

__all__ = [
    "FAULTS",
    "Add",
    "Break",
    "CorruptDisk",
    "Crash",
    "CrashAll",
    "CrashProposer",
    "CrashStep",
    "CrashTransfer",
    "Cut",
    "Delay",
    "Duplicate",
    "Fault",
    "FullDisk",
    "Garbage",
    "Heal",
    "Injector",
    "Isolate",
    "Leave",
    "LoseDisk",
    "Loss",
    "Mute",
    "OneWay",
    "Partition",
    "Pause",
    "RefusePart",
    "Remove",
    "Reorder",
    "SlowDisk",
    "Start",
    "Submit",
    "TornWrite",
    "Who",
    "named",
]
