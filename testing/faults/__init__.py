"""The faults that a simulation can inject, one class each, under the names that schedules use."""

from . import disks, membership, networks, processes
from .base import FAULTS, Fault, Injector, Who, named

MODULES = (disks, membership, networks, processes)
"""The modules of the faults. Importing them fills `FAULTS`."""

__all__ = ["FAULTS", "Fault", "Injector", "Who", "named"]
