"""The check of SQLite's write-ahead log before SQLite opens it.

SQLite applies the transactions of this file up to the first one that is incomplete or has a wrong checksum,
and silently drops the rest. That is right after a loss of power, which can damage only the transaction that
was being written. If whole transactions follow a damaged one, the disk has lost data that it had confirmed.
Source: https://www.sqlite.org/fileformat2.html#walformat
"""

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

__all__ = ["WalReport", "inspect_wal", "page_size_of"]

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_MASK: Final = 0xFFFFFFFF


@attrs.frozen
class WalReport:
    """The result of the check."""

    valid: int = 0
    """Number of frames that SQLite will apply: up to the last whole transaction before any damage."""
    lost: int = 0
    """Number of confirmed transactions after those: a loss of power cannot explain any."""


@attrs.frozen
class _Frame:
    salts: tuple[int, int]
    commit: bool
    start: int
    sums: tuple[int, int]


def page_size_of(path: Path) -> int:
    """Return the page size of a database, in bytes; 0 if there is no database. Raises OSError."""
    try:
        with path.open("rb") as file:
            head = file.read(18)
    except FileNotFoundError:
        return 0
    if not head.startswith(b"SQLite format 3\0"):
        return 0
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    return size if size >= 512 and not size & (size - 1) else 0


def inspect_wal(path: Path, page_size: int) -> WalReport:
    """Check the log of a database with pages of `page_size` bytes. A missing file counts as empty.

    Each transaction is synced before the next one begins, and every process starts the file anew. So at most
    one transaction follows the damage if no confirmed one is lost.
    Raises OSError.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return WalReport()
    if len(data) < _HEADER.size:
        return WalReport()
    header = _HEADER.unpack_from(data)
    little = not header[0] & 1
    sums = _checksum(data[:24], (0, 0), little)
    sound = header[0] & ~1 == _MAGIC and sums == header[6:8]
    if sound:
        page_size = header[2]
    frames = list(_frames(data, page_size))
    if sound:
        salts = header[4:6]
    else:
        common = Counter(frame.salts for frame in frames).most_common(1)
        salts = common[0][0] if common else (0, 0)
    valid = 0
    if sound:
        for number, frame in enumerate(frames, 1):
            sums = _checksum(data[frame.start : frame.start + 8], sums, little)
            body = frame.start + _FRAME.size
            sums = _checksum(data[body : body + page_size], sums, little)
            if frame.salts != salts or sums != frame.sums:
                break
            if frame.commit:
                valid = number
    rest = [frame.commit for frame in frames[valid:] if frame.salts == salts]
    confirmed = sum(rest) - (1 if rest and rest[-1] else 0)
    return WalReport(valid, confirmed)


def _frames(data: bytes, page_size: int) -> Iterator[_Frame]:
    size = _FRAME.size + page_size
    for start in range(_HEADER.size, len(data) - size + 1, size):
        _, pages, salt1, salt2, sum1, sum2 = _FRAME.unpack_from(data, start)
        yield _Frame((salt1, salt2), pages > 0, start, (sum1, sum2))


def _checksum(data: bytes, sums: tuple[int, int], little: bool) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{'<' if little else '>'}{len(data) // 4}I", data)
    if len(words) % 8:
        for even, odd in zip(words[::2], words[1::2], strict=True):
            one = (one + even + two) & _MASK
            two = (two + odd + one) & _MASK
        return one, two
    # Pages: eight words at a time, for speed. The sums stay small enough in between.
    for a, b, c, d, e, f, g, h in zip(*[iter(words)] * 8, strict=True):
        one += a + two
        two += b + one
        one += c + two
        two += d + one
        one += e + two
        two += f + one
        one = (one + g + two) & _MASK
        two = (two + h + one) & _MASK
    return one, two
