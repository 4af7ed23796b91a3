"""What replicas delivered, compared: one order, nothing acknowledged lost, nothing twice, nothing invented.

The channel promises it (invariants 5 to 9 of `quorate.testing.checks`); here it is checked from
outside, on what real processes recorded.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


class Wrong(AssertionError):
    """What replicas delivered contradicts a promise."""


def check(
    delivered: Mapping[str, Sequence[T]],
    *,
    sent: Mapping[str, Sequence[T]],
    acknowledged: Iterable[T],
    ended: Mapping[str, Sequence[T]] | None = None,
) -> list[T]:
    """Compare the sequences of all replicas; return the order.

    delivered: by replica, of those that live and have caught up. sent: by sender, in the order of sending.
    acknowledged: what a sender was told to be safe. ended: what replicas had delivered before they died or
    were left behind; the others must have it at the same places. Raises Wrong.
    """
    sequences = {**delivered, **(ended or {})}
    longest = max(delivered, key=lambda name: len(delivered[name]))
    order = list(delivered[longest])
    for name, sequence in sequences.items():
        _one_order(name, sequence, longest, order)
        _once(name, sequence)
    _gapless(order, sent)
    safe = set(acknowledged)
    for name, sequence in delivered.items():
        if lost := safe.difference(sequence):
            raise Wrong(f"{name} has lost {len(lost)} that were acknowledged: {sorted(map(str, lost))[:5]}")
    return order


def _one_order(name: str, sequence: Sequence[T], longest: str, order: Sequence[T]) -> None:
    if len(sequence) > len(order):
        raise Wrong(f"{name} delivered {len(sequence)}, and the longest of the living {len(order)}")
    for place, (one, other) in enumerate(zip(sequence, order, strict=False)):
        if one != other:
            raise Wrong(f"at place {place} {name} delivered {one}, and {longest} {other}")


def _once(name: str, sequence: Sequence[T]) -> None:
    if twice := [item for item, count in Counter(sequence).items() if count > 1]:
        raise Wrong(f"{name} delivered {len(twice)} more than once: {twice[:5]}")


def _gapless(order: Sequence[T], sent: Mapping[str, Sequence[T]]) -> None:
    origins = {item: origin for origin, items in sent.items() for item in items}
    by_origin: dict[str, list[T]] = {origin: [] for origin in sent}
    for item in order:
        if item not in origins:
            raise Wrong(f"{item} was delivered, and nobody sent it")
        by_origin[origins[item]].append(item)
    for origin, items in by_origin.items():
        for place, (one, other) in enumerate(zip(items, sent[origin], strict=False)):
            if one != other:
                raise Wrong(f"{origin} sent {other} as number {place}, and {one} was delivered there")


def one_at_a_time(tenures: Mapping[str, tuple[float, float]]) -> None:
    """Nobody acts while somebody else does. tenures: by name, the first and the last time. Raises Wrong."""
    until, holder = 0.0, ""
    for first, last, name in sorted((first, last, name) for name, (first, last) in tenures.items()):
        if first <= until:
            raise Wrong(f"{name} acted at {first:.4f}, and {holder} until {until:.4f}")
        until, holder = last, name
