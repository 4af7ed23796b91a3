"""Shortening of a schedule that fails: faults are left out as long as the same invariant is violated."""

from collections.abc import Callable

from ...hachannel import Channel
from ..channel.violation import Violation
from .schedule import Schedule
from .simulation import simulate

__all__ = ["shrink"]

MAX_RUNS = 300
"""The most simulations of one shortening."""


def shrink(
    schedule: Schedule,
    violation: Violation,
    *,
    channel: Callable[..., Channel] = Channel,
    max_runs: int = MAX_RUNS,
) -> tuple[tuple[int, ...], Violation]:
    """Find the faults that a violation does not need, by delta debugging (Zeller and Hildebrandt, 2002).

    Halves are left out first, then quarters, down to single faults. `violation` is one that `simulate` raised
    for this schedule; its seed is used again. max_runs: the most simulations. Returns the positions of the
    faults that are not needed, from 0, and the violation of the rest, which is of the same invariant.
    """
    seed = violation.seed if violation.seed is not None else 0
    needed = list(range(len(schedule.faults)))
    runs = 0
    size = max(len(needed) // 2, 1)
    while needed and runs < max_runs:
        shorter = False
        start = 0
        while start < len(needed) and runs < max_runs:
            runs += 1
            fewer = needed[:start] + needed[start + size :]
            found = _failing(schedule.without(_rest(schedule, fewer)), seed, violation.invariant, channel)
            if found is None:
                start += size
            else:
                needed, violation, shorter = fewer, found, True
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1)
    return _rest(schedule, needed), violation


def _rest(schedule: Schedule, needed: list[int]) -> tuple[int, ...]:
    return tuple(position for position in range(len(schedule.faults)) if position not in needed)


def _failing(
    schedule: Schedule, seed: int, invariant: str, channel: Callable[..., Channel]
) -> Violation | None:
    try:
        simulate(schedule, seed=seed, channel=channel)
    except Violation as found:
        return found if found.invariant == invariant else None
    return None
