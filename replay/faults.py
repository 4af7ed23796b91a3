"""Holes, duplicates and differences, found in block digests and in the rows of the blocks in doubt.

No Spark here.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from .reports import Cover, Source, Span
from .survey import Block, Detail, block_bounds

__all__ = [
    "RowFindings",
    "ServerFindings",
    "Shared",
    "Triage",
    "compare_rows",
    "cover",
    "find_faults",
    "gaps",
    "merge",
    "runs",
    "share",
    "triage",
]

MAX_INCOMPLETE = 2048
"""Incomplete blocks of one server that are compared row by row: some source lacks positions of them."""
MAX_DIFFERING = 4
"""Differing blocks of one server that are compared row by row: all sources have them whole."""

_LEFT_OUT = -1
"""In place of a replica: positions of which nothing was compared."""

SourceKey = tuple[int, int]


@attrs.frozen
class Triage:
    """The blocks of one server, sorted by their digests."""

    blocks: tuple[Block, ...]
    whole: frozenset[tuple[SourceKey, int]]
    """Source and number of the blocks that have every position once."""
    details: frozenset[int]
    """Numbers of the blocks to compare row by row."""
    unseen: frozenset[int]
    """Numbers of the blocks in doubt beyond the limits."""
    not_compared: frozenset[int]
    """Numbers of those of them of which nothing was compared."""
    later_differences: int
    """The number of those that certainly differ."""


def triage(blocks: Sequence[Block], expected: Mapping[int, int]) -> Triage:
    """Decide which blocks of one server to compare row by row. ``expected``: see `expected_digests`."""
    by_number: dict[int, list[Block]] = {}
    for block in blocks:
        by_number.setdefault(block.number, []).append(block)
    whole: set[tuple[SourceKey, int]] = set()
    incomplete: list[int] = []
    differing: list[int] = []
    for number, sharers in sorted(by_number.items()):
        complete = [block for block in sharers if is_whole(block, expected)]
        whole.update((block.source, number) for block in complete)
        if len(complete) < len(sharers):
            incomplete.append(number)
        elif len({block.content for block in sharers}) > 1:
            differing.append(number)
    details = frozenset(incomplete[:MAX_INCOMPLETE] + differing[:MAX_DIFFERING])
    not_compared = frozenset(incomplete[MAX_INCOMPLETE:])
    unseen = not_compared.union(differing[MAX_DIFFERING:])
    later = len(differing[MAX_DIFFERING:])
    return Triage(tuple(blocks), frozenset(whole), details, unseen, not_compared, later)


def is_whole(block: Block, expected: Mapping[int, int]) -> bool:
    """Return whether a block has each of its positions exactly once."""
    bounds = block_bounds(block.number)
    return (
        block.rows == len(bounds)
        and (block.first, block.last) == (bounds.first, bounds.last)
        and block.positions == expected.get(block.number)
    )


@attrs.frozen
class RowFindings:
    """The findings in the rows of some blocks of one server."""

    present: Mapping[SourceKey, list[Span]]
    twice: Mapping[SourceKey, list[Span]]
    difference: int | None
    """The first position at which sources differ."""
    later: int
    """The number of further positions at which they differ."""


def compare_rows(details: Sequence[Detail]) -> RowFindings:
    """Compare the rows of some blocks of one server. Blocks do not depend on each other."""
    present: dict[SourceKey, list[Span]] = {}
    twice: dict[SourceKey, list[Span]] = {}
    for detail in details:
        key = (detail.replica, detail.incarnation)
        present[key] = runs(detail.positions)
        twice[key] = runs(detail.positions[1:][detail.positions[1:] == detail.positions[:-1]])
    return RowFindings(present, twice, *differences(details))


@attrs.frozen
class Shared:
    """What the replicas of a server have in common. Incarnations of one replica count as one."""

    compared: int
    """Positions that two or more replicas have and that were compared."""
    alone: int
    """Positions that only one replica has."""
    apart: tuple[int, ...]
    """The replicas of which nothing was compared."""


@attrs.frozen
class ServerFindings:
    """The findings of one server after its faulty blocks were compared row by row."""

    sources: tuple[Source, ...]
    last: int
    uncovered: tuple[Span, ...]
    cover: tuple[Cover, ...]
    shared: Shared
    difference: int | None
    """The first position at which sources differ."""
    later: int
    """At least this many later positions differ."""
    truncated: bool


def find_faults(
    triaged: Triage, row_findings: Sequence[RowFindings], dropped: Mapping[SourceKey, int] | None = None
) -> ServerFindings:
    """Find every fault of one server. ``row_findings`` together cover the blocks ``triaged.details``."""
    present: dict[SourceKey, list[Span]] = {}
    twice: dict[SourceKey, list[Span]] = {}
    rows: dict[SourceKey, int] = {}
    left_out: list[Span] = [block_bounds(number) for number in triaged.not_compared]
    for block in triaged.blocks:
        rows[block.source] = rows.get(block.source, 0) + block.rows
        if block.number not in triaged.details:
            present.setdefault(block.source, []).append(Span(block.first, block.last))
    for rows_found in row_findings:
        for key, spans in rows_found.present.items():
            present.setdefault(key, []).extend(spans)
        for key, spans in rows_found.twice.items():
            twice.setdefault(key, []).extend(spans)
    merged = {key: merge(spans) for key, spans in present.items()}
    union = merge(span for spans in merged.values() for span in spans)
    before = [Span(1, union[0].first - 1)] if union[0].first > 1 else []
    found = [rows_found.difference for rows_found in row_findings if rows_found.difference is not None]
    later = sum(rows_found.later for rows_found in row_findings) + len(found) - 1 + triaged.later_differences
    return ServerFindings(
        sources=tuple(
            Source(
                replica=key[0],
                incarnation=key[1],
                rows=rows.get(key, 0),
                span=Span(spans[0].first, spans[-1].last),
                holes=tuple(gaps(spans)),
                duplicates=tuple(merge(twice.get(key, ()))),
                dropped=(dropped or {}).get(key, 0),
            )
            for key, spans in sorted(merged.items())
        ),
        last=union[-1].last,
        uncovered=(*before, *gaps(union)),
        cover=tuple(cover(merged)),
        shared=share(merged, left_out),
        difference=min(found, default=None),
        later=later if found else 0,
        truncated=bool(triaged.unseen),
    )


def share(present: Mapping[SourceKey, Sequence[Span]], left_out: Sequence[Span] = ()) -> Shared:
    """Return what the replicas have in common, without the positions `left_out` of the comparison."""
    replicas: dict[int, list[Span]] = {}
    for (replica, _), spans in present.items():
        replicas.setdefault(replica, []).extend(spans)
    replicas[_LEFT_OUT] = list(left_out)
    edges = [
        edge
        for replica, spans in replicas.items()
        for span in merge(spans)
        for edge in ((span.first, replica), (span.last + 1, replica))
    ]
    compared = alone = reached = 0
    here: set[int] = set()
    met: set[int] = set()
    for position, replica in sorted(edges):
        others = here - {_LEFT_OUT}
        if len(others) == 1:
            alone += position - reached
        elif others == here and others and position > reached:
            compared += position - reached
            met |= others
        here ^= {replica}
        reached = position
    return Shared(compared, alone, tuple(sorted(replicas.keys() - met - {_LEFT_OUT})))


def differences(details: Sequence[Detail]) -> tuple[int | None, int]:
    """Return the first position at which sources differ, and how many more do."""
    if len(details) == 0:
        return None, 0
    import numpy

    np: Any = numpy
    positions = np.concatenate([detail.positions for detail in details])
    hashes = np.concatenate([detail.hashes for detail in details])
    order = np.lexsort((hashes, positions))
    positions, hashes = positions[order], hashes[order]
    same_position = positions[1:] == positions[:-1]
    differing = np.unique(positions[1:][same_position & (hashes[1:] != hashes[:-1])])
    if not len(differing):
        return None, 0
    return int(differing[0]), len(differing) - 1


def runs(positions: Any) -> list[Span]:
    """Return a sorted numpy array of positions, which may repeat, as spans."""
    if not len(positions):
        return []
    import numpy

    np: Any = numpy
    breaks = np.flatnonzero(np.diff(positions) > 1)
    firsts = positions[np.concatenate(([0], breaks + 1))]
    lasts = positions[np.concatenate((breaks, [len(positions) - 1]))]
    return [Span(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the union of spans, sorted, as few spans as possible."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.first <= merged[-1].last + 1:
            if span.last > merged[-1].last:
                merged[-1] = Span(merged[-1].first, span.last)
        else:
            merged.append(span)
    return merged


def gaps(merged: Sequence[Span]) -> list[Span]:
    """Return the gaps between merged spans."""
    return [Span(before.last + 1, after.first - 1) for before, after in pairwise(merged)]


def cover(present: Mapping[SourceKey, Sequence[Span]]) -> list[Cover]:
    """Choose for every position one source that has it, in as few pieces as possible."""
    candidates = sorted((span.first, span.last, key) for key, spans in present.items() for span in spans)
    chosen: list[Cover] = []
    reached = 0
    best: tuple[int, SourceKey] | None = None
    for first, last, key in candidates:
        if best is not None and first > reached + 1:
            chosen.append(Cover(*best[1], Span(reached + 1, best[0])))
            reached, best = best[0], None
        if last <= reached:
            continue
        if first > reached + 1:
            reached = first - 1
        if best is None or last > best[0]:
            best = (last, key)
    if best is not None:
        chosen.append(Cover(*best[1], Span(reached + 1, best[0])))
    return chosen
