"""The analysis of block digests and details, against a plain one."""

from collections import Counter
from functools import reduce
from operator import xor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.replay.faults import compare_rows, cover, find_faults, merge, runs, triage
from quorate.replay.reports import Span
from quorate.replay.survey import BLOCK_SHIFT, Block, Detail, block_bounds

numpy = pytest.importorskip("numpy")

Source = tuple[int, int]
Rows = dict[Source, list[tuple[int, int]]]  # (position, content)


def digest(value: int) -> int:
    return hash((value, "salt"))


def blocks_of(traces: Rows) -> list[Block]:
    found: list[Block] = []
    for (replica, incarnation), rows in traces.items():
        by_number: dict[int, list[tuple[int, int]]] = {}
        for row in rows:
            by_number.setdefault(row[0] >> BLOCK_SHIFT, []).append(row)
        for number, part in by_number.items():
            positions = [position for position, _ in part]
            found.append(
                Block(
                    server_id=0,
                    server="s0",
                    replica=replica,
                    incarnation=incarnation,
                    number=number,
                    rows=len(part),
                    first=min(positions),
                    last=max(positions),
                    positions=reduce(xor, map(digest, positions)),
                    content=reduce(xor, [hash(row) for row in part]),
                )
            )
    return found


def details_of(traces: Rows, numbers: frozenset[int]) -> list[Detail]:
    found: list[Detail] = []
    for (replica, incarnation), rows in traces.items():
        part = sorted(row for row in rows if row[0] >> BLOCK_SHIFT in numbers)
        if part:
            columns = numpy.array(part, dtype=numpy.int64)
            found.append(Detail(0, replica, incarnation, columns[:, 0], columns[:, 1]))
    return found


def full_digests(numbers: range) -> dict[int, int]:
    found: dict[int, int] = {}
    for number in numbers:
        bounds = block_bounds(number)
        found[number] = reduce(xor, map(digest, range(bounds.first, bounds.last + 1)))
    return found


EXPECTED = full_digests(range(3))


def expand(spans: list[Span]) -> list[int]:
    return [position for span in spans for position in range(span.first, span.last + 1)]


traces_strategy = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(1, 2)),
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0, 0, 0, 0, 1])), min_size=1, max_size=16),
    min_size=1,
)


@given(traces_strategy)
def test_small_traces_have_the_faults_that_a_plain_comparison_finds(traces: Rows) -> None:
    result = triage(blocks_of(traces), {})
    found = find_faults(result, [compare_rows(details_of(traces, result.details))])
    by_position: dict[int, set[int]] = {}
    sharers: dict[int, set[Source]] = {}
    replicas: dict[int, set[int]] = {}
    for source, rows in traces.items():
        for position, content in rows:
            by_position.setdefault(position, set()).add(content)
            sharers.setdefault(position, set()).add(source)
            replicas.setdefault(position, set()).add(source[0])
    differing = sorted(position for position, contents in by_position.items() if len(contents) > 1)
    assert found.difference == (differing[0] if differing else None)
    assert found.later == max(0, len(differing) - 1)
    assert found.last == max(by_position)
    assert expand(list(found.uncovered)) == [
        position for position in range(1, found.last) if position not in by_position
    ]
    shared = [each for each in replicas.values() if len(each) > 1]
    assert found.shared.compared == len(shared)
    assert found.shared.alone == len(replicas) - len(shared)
    assert set(found.shared.apart) == {source[0] for source in traces} - set().union(*shared)
    assert not found.truncated
    for source in found.sources:
        counts = Counter(position for position, _ in traces[(source.replica, source.incarnation)])
        span = range(min(counts), max(counts) + 1)
        assert source.rows == counts.total()
        assert expand(list(source.holes)) == [position for position in span if position not in counts]
        assert expand(list(source.duplicates)) == [p for p in span if counts[p] > 1]
    taken = [position for piece in found.cover for position in expand([piece.span])]
    assert taken == sorted(by_position)
    for piece in found.cover:
        assert {(piece.replica, piece.incarnation)} <= set.intersection(
            *(sharers[position] for position in expand([piece.span]))
        )


LONG = 3 * (1 << BLOCK_SHIFT) - 1


def long_trace(source: Source, *changes: tuple[int, int]) -> Rows:
    rows = dict.fromkeys(range(1, LONG + 1), 0) | dict(changes)
    return {source: list(rows.items())}


def test_whole_and_equal_blocks_are_not_compared_by_row() -> None:
    traces = long_trace((0, 1)) | long_trace((1, 1))
    result = triage(blocks_of(traces), EXPECTED)
    assert result.details == frozenset()
    found = find_faults(result, [])
    assert (found.shared.compared, found.last, found.uncovered, found.difference) == (LONG, LONG, (), None)
    assert [str(piece.span) for piece in found.cover] == [f"1..{LONG}"]


def test_a_block_with_one_position_instead_of_another_is_compared_by_row() -> None:
    middle = (1 << BLOCK_SHIFT) + 5
    traces = long_trace((0, 1))
    traces[(0, 1)] = [(p if p != middle else p + 1, c) for p, c in traces[(0, 1)]]
    result = triage(blocks_of(traces), EXPECTED)
    assert result.details == {1}
    found = find_faults(result, [compare_rows(details_of(traces, result.details))])
    assert [str(span) for span in found.sources[0].holes] == [str(middle)]
    assert [str(span) for span in found.sources[0].duplicates] == [str(middle + 1)]


def test_a_missing_block_is_a_hole_of_one_source_and_covered_by_the_other() -> None:
    traces = long_trace((0, 1)) | long_trace((1, 1))
    bounds = block_bounds(1)
    traces[(1, 1)] = [row for row in traces[(1, 1)] if not bounds.first <= row[0] <= bounds.last]
    found = find_faults(triage(blocks_of(traces), EXPECTED), [])
    assert found.sources[1].holes == (bounds,)
    assert found.uncovered == ()
    assert len(found.cover) == 1


def test_a_single_difference_in_a_long_trace_is_found() -> None:
    traces = long_trace((0, 1)) | long_trace((1, 1), (40_000, 9))
    result = triage(blocks_of(traces), EXPECTED)
    assert result.details == {2}
    found = find_faults(result, [compare_rows(details_of(traces, result.details))])
    assert (found.difference, found.later, found.shared.compared) == (40_000, 0, LONG)


@given(st.lists(st.integers(1, 30)))
def test_runs_and_merge_keep_the_set_of_positions(positions: list[int]) -> None:
    spans = runs(numpy.array(sorted(positions), dtype=numpy.int64))
    assert expand(spans) == sorted(set(positions))
    assert merge(Span(position, position) for position in positions) == spans


def test_the_cover_takes_the_source_that_reaches_farthest() -> None:
    present = {(0, 1): [Span(1, 10)], (1, 1): [Span(5, 30)], (2, 1): [Span(8, 20), Span(41, 50)]}
    pieces = [(piece.replica, str(piece.span)) for piece in cover(present)]
    assert pieces == [(0, "1..10"), (1, "11..30"), (2, "41..50")]
