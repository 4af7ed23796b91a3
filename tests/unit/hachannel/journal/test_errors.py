"""A journal that cannot be used, for another reason than damage: which file it is, and what to do."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from quorate.hachannel.journal.journal import Identity, Journal, JournalError
from quorate.hachannel.model.log import Committed

ME = Identity("cluster", "s0", 0)


def test_a_journal_in_use_is_refused(journal: Journal) -> None:
    journal.write([Committed(0)])
    with pytest.raises(JournalError, match="in use by another process"):
        Journal.open(journal.path, ME, 8)


def test_a_place_that_cannot_be_written_is_one_sentence_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        JournalError, match=r"/missing/journal\.db cannot be used: unable to open .*; let this user"
    ):
        Journal.open(tmp_path / "missing" / "journal.db", ME, 7)


def test_a_path_that_is_too_long_for_sqlite_says_so(tmp_path: Path) -> None:
    place = tmp_path
    while len(str(place)) < 500:
        place /= "x" * 40
    place.mkdir(parents=True)
    with pytest.raises(JournalError, match=r"its path has 5\d\d bytes, and SQLite allows 503; choose a "):
        Journal.open(place / "journal.db", ME, 7)


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-frames"])
def test_a_directory_in_the_place_of_a_file_is_named_with_what_to_do(journal: Journal, name: str) -> None:
    journal.close()
    file = journal.path.with_name(name)
    file.unlink(missing_ok=True)
    file.mkdir()
    with pytest.raises(JournalError) as raised:
        Journal.open(journal.path, ME, 7)
    assert str(raised.value) == (
        f"The journal {file} cannot be used: Is a directory; move away what has the name of the file."
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EACCES, "Permission denied"), "Permission denied; let this user read and write it"),
        (OSError(errno.ENOSPC, "No space"), "no space is left on the disk; free some space"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error; repair or replace the disk"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files; stop other programs"),
    ],
)  # fmt: skip
def test_a_file_of_frames_that_cannot_be_used_is_named_with_what_to_do(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    journal.close()

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JournalError) as raised:
        Journal.open(journal.path, ME, 7)
    assert f"/journal.db-frames cannot be used: {said}" in str(raised.value)


def open_below(folder: Path) -> list[str]:
    """The files in a folder that this process has open; others come and go with whatever else runs in it."""
    found: list[str] = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(each))
    return [path for path in found if path.startswith(str(folder))]


@pytest.mark.parametrize("made", [False, True])
def test_a_journal_that_cannot_be_opened_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    path = tmp_path / "journal.db"
    if made:
        Journal.open(path, ME, 7).close()
    sync, synced = os.fsync, list[int]()

    def refuse(file: int) -> None:
        synced.append(file)
        if len(synced) == (1 if made else 2):
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(JournalError, match="repair or replace the disk"):
        Journal.open(path, ME, 7)
    assert open_below(tmp_path) == []


def test_a_new_journal_that_the_database_refuses_leaves_no_file_open(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        Journal.open(tmp_path / "journal.db", ME, 7, schema=["CREATE TABLE of nonsense"])
    assert open_below(tmp_path) == []
