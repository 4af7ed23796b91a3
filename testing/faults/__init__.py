"""The faults that a simulation can inject, each a class of its own, named as in schedules."""

from . import disks, membership, networks, processes
from .base import FAULTS, Fault, Injector, Who, named

MODULES = (disks, membership, networks, processes)
"""Where the faults are; importing them puts them on the list. `quorate.testing` has all their classes."""

__all__ = ["FAULTS", "Fault", "Injector", "Who", "named"]
