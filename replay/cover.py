"""Which file each position is taken from, when the traces of all replicas are read as one."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

import attrs

from .reports import Span

__all__ = ["FileSpan", "Part", "Piece", "abreast", "parts"]


@attrs.frozen
class FileSpan:
    """The positions of one trace file, by its footer."""

    path: Path
    server_id: int
    server: str
    first: int
    last: int
    rows: int
    source: str = ""
    """The replica and the incarnation, if those of a server are read apart."""

    @property
    def key(self) -> str:
        """What is read as one: the id of the server, with the source if there is one."""
        return f"{self.server_id}/{self.source}" if self.source else str(self.server_id)

    @property
    def whole(self) -> bool:
        """Whether the file has as many rows as positions. One that has not is used for none of them."""
        return self.rows == self.last - self.first + 1


@attrs.frozen
class Piece:
    """Some positions that are read from one file."""

    path: Path
    first: int
    last: int


@attrs.frozen
class Part:
    """What can be read of one server."""

    key: str
    """See `FileSpan.key`."""
    server_id: int
    server: str
    pieces: tuple[Piece, ...]
    """In the order of positions; no position comes twice."""
    last: int
    """The last position of the pieces; where the reading began if there are none."""
    gaps: tuple[Span, ...] = ()
    """Positions between the others that no whole file has."""


def parts(
    files: Iterable[FileSpan],
    after: Mapping[str, int],
    *,
    rows: int | None = None,
    gaps: bool = False,
) -> list[Part]:
    """Choose the files from which the positions of each server are read.

    ``after`` has the position after which each server is read, by its key; 0 unless it has one. ``rows`` is
    how many positions are taken at most, shared by the servers. Reading stops at the first gap, unless
    ``gaps`` is set: then it goes on behind it.
    """
    servers = grouped(files)
    found: list[Part] = []
    left = rows
    for at, own in enumerate(servers):
        share = None if left is None else max(1, left // (len(servers) - at))
        part = one_part(own, after.get(own[0].key, 0), share, gaps)
        found.append(part)
        if left is not None:
            left = max(0, left - sum(piece.last - piece.first + 1 for piece in part.pieces))
    return found


def abreast(files: Iterable[FileSpan], after: Mapping[str, int], *, rows: int | None = None) -> list[Part]:
    """Choose what is read of each source of each server, so that all of a server come to the same position.

    ``rows`` is how many positions of each server are taken at most, from the lowest one that is left on.
    Gaps are passed over.
    """
    found = [one_part(own, after.get(own[0].key, 0), None, beyond=True) for own in grouped(files)]
    if rows is None:
        return found
    ends: dict[int, int] = {}
    for part in found:
        if part.pieces:
            end = part.pieces[0].first + rows - 1
            ends[part.server_id] = min(end, ends.get(part.server_id, end))
    return [cut(part, ends[part.server_id]) if part.pieces else part for part in found]


def cut(part: Part, end: int) -> Part:
    """Return a part up to a position."""
    pieces = tuple(
        attrs.evolve(piece, last=min(piece.last, end)) for piece in part.pieces if piece.first <= end
    )
    if pieces:
        return attrs.evolve(part, pieces=pieces, last=pieces[-1].last)
    return attrs.evolve(part, pieces=(), last=part.pieces[0].first - 1)


def grouped(files: Iterable[FileSpan]) -> list[list[FileSpan]]:
    """Return the files of each key, those with the lowest positions first."""
    ordered = sorted(files, key=lambda each: (each.key, each.first, -each.last))
    return [list(group) for _, group in groupby(ordered, key=lambda each: each.key)]


def one_part(files: list[FileSpan], start: int, rows: int | None, beyond: bool) -> Part:
    """Choose the files of one server; they are sorted by their first position."""
    pieces: list[Piece] = []
    gaps: list[Span] = []
    at, taken, number = start, 0, 0
    best: FileSpan | None = None
    while rows is None or taken < rows:
        while number < len(files) and files[number].first <= at + 1:
            if files[number].whole and (best is None or files[number].last > best.last):
                best = files[number]
            number += 1
        if best is None or best.last <= at:
            while number < len(files) and not files[number].whole:
                number += 1
            if number == len(files):
                torn = max((each.last for each in files if not each.whole), default=0)
                gaps += [Span(at + 1, torn)] if torn > at else []
                break
            gaps.append(Span(at + 1, files[number].first - 1))
            if not beyond:
                break
            at = files[number].first - 1
            continue
        last = best.last if rows is None else min(best.last, at + rows - taken)
        pieces.append(Piece(best.path, at + 1, last))
        taken += last - at
        at = last
    return Part(files[0].key, files[0].server_id, files[0].server, tuple(pieces), at, tuple(gaps))
