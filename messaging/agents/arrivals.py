"""Messages that arrive: their times, and which of them are alike."""

from itertools import groupby

from ...agents import ColumnValue, Pack
from .subscription import Run, priority_of

__all__ = ["dated", "fits", "keys_of", "latest_of", "runs_of"]


def dated(pack: Pack, now_ms: int) -> Pack:
    """Return a pack with the time of its arrival, and times in place of time spans."""
    columns: dict[str, ColumnValue | list[ColumnValue]] = {"time": now_ms}
    if "ttl" in pack.columns:
        columns["expires"] = [_later_ms(now_ms, value) for value in pack.column("ttl")]
    if "delay" in pack.columns:
        columns["due"] = [_later_ms(now_ms, value) for value in pack.column("delay")]
    return pack.with_columns(**columns)


def _later_ms(now_ms: int, span: ColumnValue) -> int | None:
    return now_ms + int(span) if isinstance(span, int | float) and span > 0 else None


def runs_of(pack: Pack, first: int) -> list[Run]:
    """Return the messages of a pack: those that follow each other and are alike together."""
    names = [name for name in ("priority", "due", "expires") if isinstance(pack.columns.get(name), list)]
    facts = [
        (
            priority_of(pack.value("priority", index)),
            _time(pack.value("due", index)),
            _time(pack.value("expires", index)),
        )
        for index in (range(len(pack)) if names else range(1))
    ]
    if not names:
        return [Run(first, first + len(pack), *facts[0])]
    runs: list[Run] = []
    for fact, group in groupby(enumerate(facts), key=lambda each: each[1]):
        places = [index for index, _ in group]
        runs.append(Run(first + places[0], first + places[-1] + 1, *fact))
    return runs


def keys_of(first: int, pack: Pack) -> list[tuple[int, str]]:
    """Return number and key of the messages that have a key; `first` is the number of the first message."""
    if "key" not in pack.columns:
        return []
    keys = enumerate(pack.column("key"), first)
    return [(number, key) for number, key in keys if isinstance(key, str)]


def latest_of(pack: Pack) -> list[int]:
    """Return the places of the messages that no later one of the pack replaces."""
    last = {key: index for index, key in keys_of(0, pack)}
    keys = pack.column("key")
    return [index for index, key in enumerate(keys) if not isinstance(key, str) or last[key] == index]


def fits(pack: Pack, most_bytes: int) -> int:
    """Return how many of the first messages have at most so many bytes together."""
    count = 0
    for size in pack.sizes():
        most_bytes -= size
        if most_bytes < 0:
            break
        count += 1
    return count


def _time(value: ColumnValue) -> int:
    return value if isinstance(value, int) else 0
