"""Sets of message numbers as ranges, against sets of Python."""

import random
from itertools import pairwise

import pytest

from quorate.messaging.agents.ranges import Ranges, flat, ranges_of


def _numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for first, end in ranges for number in range(first, end)}


def _check(ranges: Ranges, numbers: set[int]) -> None:
    assert _numbers(list(ranges)) == numbers
    assert ranges.count == len(numbers)
    assert bool(ranges) == bool(numbers)
    assert ranges.first == min(numbers, default=None)
    pairs = list(ranges)
    # Sorted, none empty, and none touches the next.
    assert all(first < end for first, end in pairs)
    assert all(one[1] < other[0] for one, other in pairwise(pairs))


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_the_set_of_their_numbers(seed: int) -> None:
    chance = random.Random(seed)
    ranges, numbers = Ranges(), set[int]()
    for _ in range(200):
        first = chance.randrange(60)
        end = first + chance.randrange(12)
        match chance.randrange(4):
            case 0 | 1:
                ranges.add(first, end)
                numbers |= set(range(first, end))
            case 2:
                assert _numbers(ranges.common(first, end)) == numbers & set(range(first, end))
                assert _numbers(ranges.remove(first, end)) == numbers & set(range(first, end))
                numbers -= set(range(first, end))
            case _:
                most = chance.randrange(8)
                taken = sorted(numbers)[:most]
                assert _numbers(ranges.take(most)) == set(taken)
                numbers -= set(taken)
        _check(ranges, numbers)
        assert all((number in ranges) == (number in numbers) for number in range(-1, 75))


def test_a_million_numbers_in_a_row_are_one_range() -> None:
    ranges = Ranges()
    for first in range(0, 1_000_000, 100):
        ranges.add(first, first + 100)
    assert list(ranges) == [(0, 1_000_000)]


def test_ranges_are_sent_as_numbers_and_counts() -> None:
    assert flat([(3, 5), (9, 10)]) == [3, 2, 9, 1]
    assert ranges_of([3, 2, 9, 1]) == [(3, 5), (9, 10)]


@pytest.mark.parametrize("numbers", [[1], [1, 0], [1, -1], [1, 1, 5]])
def test_what_is_no_list_of_ranges_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="ranges are written as first number and count"):
        ranges_of(numbers)
