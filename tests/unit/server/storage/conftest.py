"""A directory in which a replica has run."""

from pathlib import Path

import pytest

from quorate.hachannel.model.log import Accepted, Activated

from ..durable_replica import NUMBER, VIEW, Replica


@pytest.fixture
def place(tmp_path: Path) -> Path:
    first = Replica(tmp_path, 7)
    first.write(Accepted(VIEW), Activated(NUMBER))
    first.create()
    for number in range(1, 11):
        first.add(number)
    first.add(100, commit=False)
    first.end()
    return tmp_path
