"""The room on the disk of a replica."""

from pathlib import Path

from quorate.server.storage.disk_room import LOW_BYTES, DiskRoom, disk_room


def test_little_room_is_a_problem(tmp_path: Path) -> None:
    assert DiskRoom(LOW_BYTES, 0).problem(tmp_path) == ""
    assert DiskRoom(LOW_BYTES - 1, 0).problem(tmp_path) == (
        f"the disk of {tmp_path} has only 255 MiB left: free some, or this replica stops when it is full"
    )


def test_the_files_of_the_journal_are_counted(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(bytes(100))
    (tmp_path / "journal.db-frames").write_bytes(bytes(20))
    (tmp_path / "log").write_bytes(bytes(7))
    room = disk_room(tmp_path)
    assert room is not None
    assert room.journal_bytes == 120
    assert room.free_bytes > 0


def test_a_directory_that_is_missing_has_no_room(tmp_path: Path) -> None:
    assert disk_room(tmp_path / "none") is None
