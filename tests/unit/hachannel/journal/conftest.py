"""Journals to break."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.hachannel.journal.journal import Identity, Journal

ME = Identity("cluster", "s0", 0)


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    """Copies the files of a journal as a crash would leave them."""
    numbers = iter(range(1_000_000))

    def copy(path: Path) -> Path:
        place = tmp_path / f"copy{next(numbers)}"
        place.mkdir()
        for suffix in ("", "-wal", "-frames"):
            source = path.with_name(path.name + suffix)
            if source.exists():
                shutil.copy(source, place / source.name)
        return place / path.name

    return copy


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.open(tmp_path / "journal.db", ME, 7)
