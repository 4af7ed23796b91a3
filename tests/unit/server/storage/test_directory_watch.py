"""The directory of a running replica goes away, or another one comes in its place."""

import shutil
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from quorate.server.storage.directory_watch import NAMES, WATCH_S, DirectoryWatch
from quorate.server.storage.journal_files import JOURNAL_FILE


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """That of a replica."""
    made = tmp_path / "data" / "0"
    made.mkdir(parents=True)
    for name in NAMES:
        (made / name).touch()
    return made


@pytest.fixture
def lost() -> list[Path]:
    """What was found missing."""
    return []


@pytest.fixture
def clock() -> Clock:
    """Time as the test says."""
    return Clock()


@pytest.fixture
def watch(directory: Path, clock: Clock, lost: list[Path]) -> DirectoryWatch:
    """The watch, started."""
    made = DirectoryWatch(directory, clock, lost.append)
    made.start()
    return made


def test_a_directory_that_stays_is_not_reported(
    watch: DirectoryWatch, clock: Clock, lost: list[Path]
) -> None:
    clock.pump([WATCH_S] * 5)
    assert lost == []
    assert watch.missing() is None


@pytest.mark.parametrize("again", [False, True])
def test_a_directory_that_is_removed_is_reported_once_even_if_another_replaces_it(
    watch: DirectoryWatch, directory: Path, clock: Clock, lost: list[Path], again: bool
) -> None:
    kept = directory.rename(directory.with_name("kept"))
    if again:
        shutil.copytree(kept, directory)
    assert watch.missing() == directory
    clock.pump([WATCH_S] * 5)
    assert lost == [directory]


@pytest.mark.parametrize("name", NAMES)
def test_a_single_removed_file_of_the_journal_is_reported(
    watch: DirectoryWatch, directory: Path, clock: Clock, lost: list[Path], name: str
) -> None:
    gone = directory / name
    gone.unlink()
    clock.advance(WATCH_S)
    assert lost == [gone]
    del watch


def test_changes_while_the_watch_is_stopped_are_not_reported(
    watch: DirectoryWatch, directory: Path, clock: Clock, lost: list[Path]
) -> None:
    watch.stop()
    (directory / JOURNAL_FILE).rename(directory / "aside.db")
    clock.pump([WATCH_S] * 3)
    (directory / JOURNAL_FILE).touch()
    watch.start()
    clock.pump([WATCH_S] * 3)
    assert lost == []
    assert watch.missing() is None
