"""The file that a journal appends to: numbered frames, each synced, in segments that are reused.

The file is divided into segments. Frames are numbered without gaps, also from one segment to the next. A
`Manifest`, kept in the database, lists the segments in use, in order, and the number of the last frame when
the manifest was stored. The space of a segment that is no longer in the manifest is reused; old frames there
are recognised by their smaller numbers. An interrupted write leaves an incomplete last frame, which is
dropped when the file is read. Any other difference from what was written raises `FramesCorrupt`.

A frame is a head (magic, flags, number, length of the body, CRC-32 of the body, CRC-32 of the head so far)
and a body. The CRC of the head starts from the salt of the file, so that a frame of another file is never
mistaken for one of this file.
"""

import errno
import os
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from typing import Final, Self

import attrs
import msgspec

from ..codec.buffers import Body, parts_of
from ..codec.checksum import crc32
from .rows import Corrupt

__all__ = ["FoundFrame", "FrameFile", "FramesCorrupt", "Manifest", "Segment", "sync_directory"]

SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Size of a segment. A larger frame gets a segment of its own size."""
AHEAD_BYTES: Final = 256 * 1024
"""The file grows by this many zeros at a time, because a sync costs more after the file has grown."""
SMALL_BYTES: Final = 16 * 1024
"""After a larger frame no zeros are added: writing them would cost more than it saves."""
PRIVATE_FILE: Final = 0o600
"""Mode of the files of a journal: only their owner reads the state."""

_MAGIC: Final = b"\xf1Qj\n"
_HEAD: Final = struct.Struct("<4sIQII")
_SUM: Final = struct.Struct("<I")
_HEAD_BYTES: Final = _HEAD.size + _SUM.size
_JOINT: Final = 1
_NOT_KNOWN: Final = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class FramesCorrupt(Corrupt):
    """The file of frames differs from what was written. The text says where."""


class Segment(msgspec.Struct, array_like=True, frozen=True):
    """A part of the file, in bytes."""

    offset: int
    size: int
    first: int
    """The number of its first frame."""


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """Facts that are needed to read the file of frames."""

    salt: int
    number: int
    """Number of the last frame when this manifest was stored."""
    segments: tuple[Segment, ...]
    """The segments in use, at least one; frames are appended to the last one."""
    count: int = 1
    """Number of manifests stored so far, this one included."""

    @classmethod
    def first(cls, salt: int) -> Self:
        """Return the manifest of an empty file."""
        return cls(salt, 0, (Segment(0, SEGMENT_BYTES, 1),))


@attrs.frozen
class FoundFrame:
    """A frame that was read."""

    number: int
    body: memoryview
    joint: bool
    """The write of this frame is complete only with a transaction of the database."""
    end: int
    """Position after its last byte, in the data that was read."""


class FrameFile:
    """An open file of frames.

    Call `append` for a frame that `fits`. For any other, first store a `manifest` with room for it, and call
    `stored`.
    """

    def __init__(self, path: Path, manifest: Manifest, *, create: bool = False) -> None:
        """Open the file. create: make an empty one, in place of any that exists. Raises OSError."""
        self._file = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if create else 0), PRIVATE_FILE)
        with self.open_or_closed():
            self._length = os.fstat(self._file).st_size
            # What a killed process wrote can be read, but may not be on the disk yet.
            os.fsync(self._file)
            if create:
                sync_directory(path.parent)
        self._manifest = manifest
        self.number: int = manifest.segments[0].first - 1
        """Number of the last frame."""
        self._segment = manifest.segments[0]
        self._position = 0
        """Offset of the next frame within the segment."""
        self._highest: dict[int, int] = {}
        """For each segment, by the number of its first frame: the highest index of the entries in it."""
        self._dsync = getattr(os, "RWF_DSYNC", 0)

    @contextmanager
    def open_or_closed(self) -> Generator[None]:
        """Close the file if the body raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @property
    def end(self) -> int:
        """Offset of the next frame within the file."""
        return self._segment.offset + self._position

    @property
    def last(self) -> Manifest:
        """The manifest that was stored last."""
        return self._manifest

    # Writing

    def fits(self, size: int) -> bool:
        """Return whether a frame with a body of `size` bytes can be appended."""
        return self._position + _HEAD_BYTES + size <= self._segment.size

    def append(self, body: Body, *, joint: bool = False) -> None:
        """Write a frame and sync it.

        joint: the frame counts only with the manifest that is stored after it.
        Raises OSError: then the frame may or may not be there, and nothing more may be written.
        """
        number = self.number + 1
        pieces = parts_of(body)
        size = sum = 0
        for piece in pieces:
            size += len(piece)
            sum = crc32(piece, sum)
        head = _HEAD.pack(_MAGIC, _JOINT * joint, number, size, sum)
        parts = [head + _SUM.pack(crc32(head, self._manifest.salt)), *pieces]
        start = self.end
        self._position += _HEAD_BYTES + size
        if self.end > self._length:
            rest = self._segment.size - self._position
            ahead = min(rest, AHEAD_BYTES) if size < SMALL_BYTES else 0
            parts.append(bytes(ahead))
            self._length = self.end + ahead
        self._write(parts, start)
        self.number = number

    def hold(self, first: int, last: int) -> None:
        """Note that the last frame holds the entries `first` to `last`; none if `last` is below `first`.

        Entries from `first` on in earlier frames are replaced, and no longer needed.
        """
        highest = self._highest
        for segment in highest:
            highest[segment] = min(highest[segment], first - 1)
        if first <= last:
            highest[self._segment.first] = last

    def manifest(self, base: int, room: int = 0) -> Manifest:
        """Return the next manifest, without the first segments whose entries are all up to `base`.

        room: if not 0, with one more segment for a frame with a body of `room` bytes.
        """
        highest, current = self._highest, self._segment
        needed = dropwhile(lambda segment: highest.get(segment.first, 0) <= base, self._manifest.segments)
        segments = list(needed)
        if room:
            segments.append(self._place(room + _HEAD_BYTES))
        stored = self._manifest
        return Manifest(stored.salt, self.number, tuple(segments) or (current,), stored.count + 1)

    def stored(self, manifest: Manifest) -> None:
        """Note that this manifest, the last one made, is durable."""
        if manifest.segments[-1] != self._segment:
            self._segment = manifest.segments[-1]
            self._position = 0
        self._manifest = manifest
        used = {segment.first for segment in manifest.segments}
        self._highest = {first: last for first, last in self._highest.items() if first in used}

    def _place(self, size: int) -> Segment:
        """Return a segment in the first free space that is large enough, or at the end."""
        size = max(size, SEGMENT_BYTES)
        start = 0
        for segment in sorted(self._manifest.segments, key=lambda segment: segment.offset):
            if segment.offset - start >= size:
                break
            start = segment.offset + segment.size
        return Segment(start, size, self.number + 1)

    def _write(self, parts: list[bytes], at: int) -> None:
        left = [memoryview(part) for part in parts if part]
        while left:
            # Where the system supports it, one call writes and syncs.
            try:
                done = os.pwritev(self._file, left, at, self._dsync)
            except OSError as error:
                if not self._dsync or error.errno not in _NOT_KNOWN:
                    raise
                self._dsync = 0
                continue
            at += done
            while left and done >= len(left[0]):
                done -= len(left.pop(0))
            if done:
                left[0] = left[0][done:]
        if not self._dsync:
            os.fsync(self._file)

    # Reading

    def read(self) -> Iterator[FoundFrame]:
        """Yield all frames, in order; the next one is appended after them. Raises FramesCorrupt, OSError."""
        stored = self._manifest
        for segment, after in zip(stored.segments, (*stored.segments[1:], None), strict=True):
            self._segment, self._position = segment, 0
            data = self._read(segment.offset, segment.size)
            while after is None or self.number < after.first - 1:
                found = self._frame(data, self._position)
                if found is None or found.number != self.number + 1:
                    break
                if found.joint and found.number > stored.number:
                    break
                self.number = found.number
                self._position = found.end
                yield found
            if self.number < (stored.number if after is None else after.first - 1):
                raise FramesCorrupt(f"frame {self.number + 1} is not what was written")
        self._refuse_later()

    def _refuse_later(self) -> None:
        """Raise FramesCorrupt if a frame follows a gap: frames are written once the one before is durable."""
        spaces = [(self.end, self._segment.offset + self._segment.size)]
        start = 0
        for segment in sorted(self._manifest.segments, key=lambda segment: segment.offset):
            spaces.append((start, segment.offset))
            start = segment.offset + segment.size
        spaces.append((start, self._length))
        for start, end in spaces:
            data = self._read(start, end - start)
            at = data.find(_MAGIC)
            while at >= 0:
                found = self._frame(data, at)
                # A joint frame directly after the last one was never confirmed.
                if found is not None and found.number > self.number + found.joint:
                    raise FramesCorrupt(f"frame {self.number + 1} is not what was written, later ones are")
                at = data.find(_MAGIC, at + 1)

    def _read(self, offset: int, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._file, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)

    def _frame(self, data: bytes, at: int) -> FoundFrame | None:
        """Return the frame at a position of `data`; None if there is no whole one."""
        start = at + _HEAD_BYTES
        if start > len(data):
            return None
        magic, flags, number, length, kept = _HEAD.unpack_from(data, at)
        (sum,) = _SUM.unpack_from(data, at + _HEAD.size)
        if magic != _MAGIC or sum != crc32(data[at : at + _HEAD.size], self._manifest.salt):
            return None
        body = memoryview(data)[start : start + length]
        if len(body) != length or crc32(body) != kept:
            return None
        return FoundFrame(number, body, bool(flags & _JOINT), start + length)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: files that were created, renamed or removed in it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
