"""The faults that a simulation can inject, each a class of its own, named as in schedules."""

from . import disks, networks, operators, processes
from .base import FAULTS, Fault, Injector, Who, named

MODULES = (disks, networks, operators, processes)
"""Where the faults are; importing them puts them on the list. `quorate.testing` has all their classes."""

__all__ = ["FAULTS", "Fault", "Injector", "Who", "named"]
