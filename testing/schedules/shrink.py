"""Making a schedule that fails shorter: faults are left out as long as the same invariant is violated."""

from collections.abc import Callable

from ...hachannel import Channel
from ..channel.violation import Violation
from .schedule import Schedule
from .simulation import simulate

__all__ = ["shrink"]

MAX_RUNS = 300
"""So many simulations at most."""


def shrink(
    schedule: Schedule,
    violation: Violation,
    *,
    channel: Callable[..., Channel] = Channel,
    max_runs: int = MAX_RUNS,
) -> tuple[tuple[int, ...], Violation]:
    """Leave out what is not needed for `violation`, which the schedule led to with the seed it names.

    Delta debugging: halves first, then quarters, down to single faults. Returns the positions of the faults
    that are not needed, and how the rest fails: the same invariant, perhaps elsewhere.
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
