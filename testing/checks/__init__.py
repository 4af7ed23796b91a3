"""The invariants of the channel, one checker each, over what a simulation observes."""

from . import (
    bounds,
    commits,
    deliveries,
    forwards,
    grants,
    leases,
    logs,
    masters,
    members,
    phases,
    promises,
    serving,
    transfers,
    view_triggers,
    views,
    witnesses,
)
from .base import CHECKERS, Checker, Checks, checker
from .history import History, Process, Step

MODULES = (
    bounds,
    commits,
    deliveries,
    forwards,
    grants,
    leases,
    logs,
    masters,
    members,
    phases,
    promises,
    serving,
    transfers,
    view_triggers,
    views,
    witnesses,
)
"""Where the checkers are; importing them puts them on the list."""

__all__ = ["CHECKERS", "Checker", "Checks", "History", "Process", "Step", "checker"]
