"""The faults that a simulation can inject, each a class of its own, named as in schedules."""

from . import disks, networks, processes
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
from .processes import Crash, CrashAll, CrashStep, Heal, Leave, Pause, Start, Submit

MODULES = (disks, networks, processes)
"""Where the faults are; importing them puts them on the list."""

__all__ = [
    "FAULTS",
    "Break",
    "CorruptDisk",
    "Crash",
    "CrashAll",
    "CrashStep",
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
    "Reorder",
    "SlowDisk",
    "Start",
    "Submit",
    "TornWrite",
    "Who",
    "named",
]
