"""The choice of files from which positions are read, against a count of every position."""

from pathlib import Path

import attrs
from hypothesis import given
from hypothesis import strategies as st

from quorate.replay.cover import FileSpan, abreast, parts
from quorate.replay.reports import Span


def file(name: str, first: int, last: int, server: int = 0, rows: int | None = None) -> FileSpan:
    return FileSpan(Path(name), server, f"s{server}", first, last, last - first + 1 if rows is None else rows)


def test_the_file_that_goes_farthest_is_taken() -> None:
    files = [file("a", 1, 10), file("b", 5, 30), file("c", 8, 20), file("d", 31, 40)]
    (part,) = parts(files, {})
    assert [(str(piece.path), piece.first, piece.last) for piece in part.pieces] == [
        ("a", 1, 10),
        ("b", 11, 30),
        ("d", 31, 40),
    ]
    assert (part.last, part.gaps) == (40, ())


def test_a_limit_is_shared_by_the_servers() -> None:
    files = [file("a", 1, 10), file("b", 1, 100, server=1), file("c", 1, 100, server=2)]
    assert [part.last for part in parts(files, {}, rows=60)] == [10, 25, 25]


def test_positions_that_only_a_holed_file_has_are_a_gap() -> None:
    (part,) = parts([file("a", 1, 10), file("b", 5, 30, rows=20)], {})
    assert (part.last, part.gaps) == (10, (Span(11, 30),))


def test_all_replicas_of_a_server_come_to_the_same_position() -> None:
    """The second one joined late, the third one has lost its files of the beginning; s1 goes on by itself."""
    files = [
        attrs.evolve(file("a", 1, 100), source="0/5"),
        attrs.evolve(file("b", 60, 100), source="1/7"),
        attrs.evolve(file("c", 31, 90), source="2/5"),
        attrs.evolve(file("d", 500, 600, server=1), source="0/1"),
    ]
    after: dict[str, int] = {}
    reached: list[list[int]] = []
    for _ in range(4):
        found = abreast(files, after, rows=40)
        after.update({part.key: part.last for part in found})
        reached.append([part.last for part in found])
    assert reached == [[40, 59, 40, 539], [80, 80, 80, 579], [100, 100, 90, 600], [100, 100, 90, 600]]


spans = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20), st.booleans()), min_size=1, max_size=12)


@given(spans, st.integers(0, 50), st.one_of(st.none(), st.integers(1, 40)), st.booleans())
def test_every_position_is_read_once_in_order_up_to_the_first_gap_or_the_limit(
    drawn: list[tuple[int, int, bool]], start: int, rows: int | None, beyond: bool
) -> None:
    files = [
        file(str(at), first, first + length, rows=None if whole else length)
        for at, (first, length, whole) in enumerate(drawn)
    ]
    (part,) = parts(files, {"0": start}, rows=rows, gaps=beyond)
    there = {at for each in files if each.whole for at in range(each.first, each.last + 1) if at > start}
    wanted: list[int] = []
    for at in range(start + 1, 100):
        if at in there and (rows is None or len(wanted) < rows):
            wanted.append(at)
        elif not beyond or len(wanted) == rows:
            break
    read = [at for piece in part.pieces for at in range(piece.first, piece.last + 1)]
    assert read == wanted
    by_path = {each.path: each for each in files}
    assert all(
        by_path[piece.path].whole
        and by_path[piece.path].first <= piece.first
        and piece.last <= by_path[piece.path].last
        for piece in part.pieces
    )
    if read:
        assert part.last == read[-1]
