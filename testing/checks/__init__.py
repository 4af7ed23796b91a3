"""The invariants of the channel: one or several checkers for each, over a history of what a run has shown."""

from . import (
    bounds,
    commits,
    deliveries,
    fitness,
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
    fitness,
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
"""The modules of the checkers. Importing them fills `CHECKERS`."""

__all__ = ["CHECKERS", "Checker", "Checks", "History", "Process", "Step", "checker"]
