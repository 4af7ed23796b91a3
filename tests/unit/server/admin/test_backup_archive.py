"""The file of a backup: what was written is read, and whatever else is there is refused."""

import io

import pytest

from quorate.server.admin.backup_archive import (
    ArchiveEnd,
    ArchiveWriter,
    BackupDamaged,
    Manifest,
    read_archive,
    read_manifest,
)

MANIFEST = Manifest(
    server="s0", server_id=0, replica=1, birth=7, base="a.backup", have=9, begun="2030-01-01", version="1"
)


def written(*parts: bytes) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, MANIFEST)
    for each in parts:
        writer.part(each)
    writer.end(12, "2030-01-02")
    return file.getvalue()


def read(data: bytes) -> list[Manifest | bytes | ArchiveEnd]:
    return [*read_archive(io.BytesIO(data))]


def test_what_was_written_is_read() -> None:
    manifest, first, second, end = read(written(b"one", b"two" * 1000))
    assert manifest == MANIFEST
    assert (first, second) == (b"one", b"two" * 1000)
    assert isinstance(end, ArchiveEnd)
    assert (end.index, end.parts, end.ended) == (12, 2, "2030-01-02")
    assert read_manifest(io.BytesIO(written())) == MANIFEST


def test_a_file_that_is_cut_off_anywhere_is_refused() -> None:
    data = written(b"one", b"two")
    for length in range(len(data)):
        with pytest.raises(BackupDamaged):
            read(data[:length])


def test_a_file_with_a_changed_byte_anywhere_is_refused() -> None:
    data = written(b"one", b"two")
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(BackupDamaged):
            read(bytes(changed))


def test_parts_that_were_taken_out_or_put_in_are_refused() -> None:
    head = ArchiveWriter(io.BytesIO(), MANIFEST).size_bytes
    one, both = written(b"one"), written(b"one", b"two")
    first = len(one) - len(written())
    end_of_one = one[head + first :]
    for wrong in (
        both[:head] + both[head + first :],
        both[: -len(end_of_one)] + end_of_one,
        one + b"x",
        one * 2,
    ):
        with pytest.raises(BackupDamaged):
            read(wrong)
