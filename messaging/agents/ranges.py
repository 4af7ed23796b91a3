"""Sets of message numbers, kept as ranges: a million numbers in a row cost what one costs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import attrs

__all__ = ["Ranges", "flat", "ranges_of"]

Range = tuple[int, int]
"""The first number, and the one after the last."""


def flat(ranges: Iterable[Range]) -> list[int]:
    """Return ranges as they are sent: first, count, first, count."""
    return [number for first, end in ranges for number in (first, end - first)]


def ranges_of(numbers: list[int]) -> list[Range]:
    """Return ranges that were sent. Raises ValueError if the list has no such form."""
    if len(numbers) % 2 or any(count < 1 for count in numbers[1::2]):
        raise ValueError("ranges are written as first number and count, in turns, with counts above 0")
    return [(first, first + count) for first, count in zip(numbers[::2], numbers[1::2], strict=True)]


@attrs.define
class Ranges:
    """A set of integers as sorted ranges that do not touch each other.

    Adding and removing a range costs a search, and a move of the ranges behind it in two arrays.
    """

    firsts: list[int] = attrs.field(factory=list[int])
    ends: list[int] = attrs.field(factory=list[int])
    """For each range the number after its last."""
    count: int = 0
    """How many numbers are in the set."""

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self.firsts, self.ends, strict=True)))

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.firsts, number) - 1
        return place >= 0 and number < self.ends[place]

    @property
    def first(self) -> int | None:
        """The smallest number, None if there is none."""
        return self.firsts[0] if self.firsts else None

    def add(self, first: int, end: int) -> None:
        """Add the numbers from `first` to `end`, without `end`; some may be in the set."""
        if first >= end:
            return
        firsts, ends = self.firsts, self.ends
        if not ends or first > ends[-1]:
            firsts.append(first)
            ends.append(end)
            self.count += end - first
            return
        low = bisect_left(ends, first)
        high = bisect_right(firsts, end)
        if low < high:
            first = min(first, firsts[low])
            end = max(end, ends[high - 1])
            for place in range(low, high):
                self.count -= ends[place] - firsts[place]
        firsts[low:high] = [first]
        ends[low:high] = [end]
        self.count += end - first

    def remove(self, first: int, end: int) -> list[Range]:
        """Remove the numbers from `first` to `end`, without `end`. Return those that were in the set."""
        firsts, ends = self.firsts, self.ends
        low = bisect_right(ends, first)
        high = bisect_left(firsts, end)
        if low >= high or first >= end:
            return []
        removed = [(max(first, firsts[place]), min(end, ends[place])) for place in range(low, high)]
        left = [(firsts[low], first)] if firsts[low] < first else []
        right = [(end, ends[high - 1])] if ends[high - 1] > end else []
        kept = left + right
        firsts[low:high] = [each[0] for each in kept]
        ends[low:high] = [each[1] for each in kept]
        self.count -= sum([each[1] - each[0] for each in removed])
        return removed

    def common(self, first: int, end: int) -> list[Range]:
        """Return the numbers from `first` to `end`, without `end`, that are in the set."""
        if first >= end:
            return []
        firsts, ends = self.firsts, self.ends
        low = bisect_right(ends, first)
        high = bisect_left(firsts, end)
        return [(max(first, firsts[place]), min(end, ends[place])) for place in range(low, high)]

    def at_or_after(self, number: int) -> int | None:
        """Return the smallest number from `number` on, None if there is none."""
        place = bisect_right(self.ends, number)
        return max(number, self.firsts[place]) if place < len(self.firsts) else None

    def smallest(self, most: int) -> list[Range]:
        """Return up to `most` ranges, those with the smallest numbers."""
        return list(zip(self.firsts[:most], self.ends[:most], strict=True))

    def take(self, most: int) -> list[Range]:
        """Remove up to `most` of the smallest numbers, and return them."""
        taken: list[Range] = []
        used = 0
        while most > 0 and used < len(self.firsts):
            first, end = self.firsts[used], self.ends[used]
            if end - first > most:
                self.firsts[used] = first + most
                taken.append((first, first + most))
                self.count -= most
                break
            taken.append((first, end))
            self.count -= end - first
            most -= end - first
            used += 1
        del self.firsts[:used]
        del self.ends[:used]
        return taken
