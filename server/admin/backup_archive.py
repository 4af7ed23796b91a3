"""The file of one backup: a manifest, the parts of a state, and an end, each with a checksum. Pure.

Frames follow a mark: kind, length and CRC-32 of the compressed body, then that body. The end has a hash of
everything before it, so that a file that is cut off or put together is noticed.
"""

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, Final, TypeVar

import msgspec

__all__ = ["ArchiveEnd", "ArchiveWriter", "BackupDamaged", "Manifest", "read_archive", "read_manifest"]

MARK: Final = b"quorate backup 1\n"
MANIFEST: Final = 1
PART: Final = 2
END: Final = 3
_HEADER: Final = struct.Struct(">BII")
LEVEL: Final = 1
"""The level of the compression: a disk or a network is slower than that."""
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024


class BackupDamaged(ValueError):
    """The file is no whole backup. The text is a part of a sentence that says why."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of."""

    server: str
    server_id: int
    replica: int
    """The replica that was copied."""
    birth: int
    """The life of the state."""
    base: str = ""
    """The backup before it, which it goes on from; empty: it is whole."""
    have: int = 0
    """The entry after which that one is."""
    begun: str
    """When it was begun, as ISO 8601 has it, in UTC."""
    version: str
    """The version of Quorate."""


class ArchiveEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a backup."""

    index: int
    """The state is the one after this entry."""
    parts: int
    ended: str
    """When it was ended, as ISO 8601 has it, in UTC."""
    hashed: bytes = b""
    """The hash of everything before this frame."""


T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_manifests: "msgspec.msgpack.Decoder[Manifest]" = msgspec.msgpack.Decoder(Manifest)
_ends: "msgspec.msgpack.Decoder[ArchiveEnd]" = msgspec.msgpack.Decoder(ArchiveEnd)


class ArchiveWriter:
    """Writes a backup into a file."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        """file: is written to only. Raises OSError."""
        self._file = file
        self._hash = blake2b(digest_size=32)
        self.parts = 0
        self.size_bytes = 0
        self._write(MARK)
        self._frame(MANIFEST, _encode(manifest))

    def part(self, data: bytes) -> None:
        """Add a part of the state. Raises OSError."""
        self._frame(PART, data)
        self.parts += 1

    def end(self, index: int, ended: str) -> None:
        """End the file. Raises OSError."""
        end = ArchiveEnd(index=index, parts=self.parts, ended=ended, hashed=self._hash.digest())
        self._frame(END, _encode(end))

    def _frame(self, kind: int, body: bytes) -> None:
        packed = zlib.compress(body, LEVEL)
        self._write(_HEADER.pack(kind, len(packed), zlib.crc32(packed)) + packed)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = blake2b(digest_size=32)
        if self._read(len(MARK)) != MARK:
            raise BackupDamaged("it does not begin as a backup of this version does")

    @property
    def hashed(self) -> bytes:
        return self._hash.copy().digest()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        self._hash.update(data)
        return data

    def frame(self) -> tuple[int, bytes]:
        """Return kind and body of the next frame. Raises BackupDamaged."""
        head = self._read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise BackupDamaged("it is cut off")
        kind, length, crc = _HEADER.unpack(head)
        if length > MAX_FRAME_BYTES:
            raise BackupDamaged("a part of it is damaged")
        packed = self._read(length)
        if len(packed) < length:
            raise BackupDamaged("it is cut off")
        if zlib.crc32(packed) != crc:
            raise BackupDamaged("a part of it is damaged")
        try:
            return kind, zlib.decompress(packed)
        except zlib.error:
            raise BackupDamaged("a part of it is damaged") from None

    def rest(self) -> bytes:
        return self._file.read(1)


def read_manifest(file: BinaryIO) -> Manifest:
    """Read the beginning of a backup. Raises BackupDamaged, OSError."""
    return _manifest(_Reader(file))


def _manifest(reader: _Reader) -> Manifest:
    kind, body = reader.frame()
    if kind != MANIFEST:
        raise BackupDamaged("it does not begin with what it is of")
    return _decode(_manifests, body)


def read_archive(file: BinaryIO) -> Iterator[Manifest | bytes | ArchiveEnd]:
    """Yield the manifest, the parts, and the end. Raises BackupDamaged, OSError.

    What was yielded counts only once the end has come.
    """
    reader = _Reader(file)
    yield _manifest(reader)
    parts = 0
    while True:
        before = reader.hashed
        kind, body = reader.frame()
        if kind == PART:
            parts += 1
            yield body
            continue
        if kind != END:
            raise BackupDamaged("it has a part of an unknown kind")
        end = _decode(_ends, body)
        if end.hashed != before or end.parts != parts or reader.rest():
            raise BackupDamaged("its parts are not those that were written")
        yield end
        return


def _decode(decoder: "msgspec.msgpack.Decoder[T]", body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise BackupDamaged(f"a part of it cannot be read: {error}") from None
