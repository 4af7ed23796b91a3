"""The files of a journal in a replica's directory."""

from pathlib import Path

import pytest

from quorate.server.storage.journal_files import JournalFiles


@pytest.fixture
def files(tmp_path: Path) -> JournalFiles:
    return JournalFiles(tmp_path)


def names(files: JournalFiles) -> set[str]:
    return {path.name for path in files.directory.iterdir()}


def test_a_journal_is_expected_once_it_was_created(files: JournalFiles) -> None:
    assert not files.expected()
    files.mark_created()
    assert files.expected()


@pytest.mark.parametrize(("content", "expected"), [(b"", False), (b"frame", True)])
def test_a_file_of_frames_with_data_is_as_good_as_the_mark(
    files: JournalFiles, content: bytes, expected: bool
) -> None:
    (files.directory / "journal.db-frames").write_bytes(content)
    assert files.expected() is expected


def test_all_files_of_a_journal_are_set_aside_under_one_name(files: JournalFiles) -> None:
    for suffix in ("", "-wal", "-frames"):
        (files.directory / f"journal.db{suffix}").touch()
    assert files.set_aside(8) == "aside-8.db"
    assert names(files) == {"aside-8.db", "aside-8.db-wal", "aside-8.db-frames"}


def test_the_last_two_journals_that_were_set_aside_are_kept(files: JournalFiles) -> None:
    for incarnation in (7, 8, 9):
        files.path.touch()
        files.set_aside(incarnation)
    assert names(files) == {"aside-8.db", "aside-9.db"}


def test_setting_aside_nothing_names_nothing(files: JournalFiles) -> None:
    assert files.set_aside(7) == ""
    assert names(files) == set()
