"""A disk that returns another byte than was written, anywhere in the files of a replica that was killed.

Data that is read is what was written, or it is refused. Only the last write may be missing: a corrupt end of
the log cannot be distinguished from one that a loss of power has cut.
"""

import random
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from quorate import Agent, Context, Delete, Notification, reacts
from quorate.agents import factory
from quorate.engine import Engine
from quorate.hachannel.journal.durable_log import Remembered
from quorate.hachannel.journal.journal import Damaged, Foreign, Identity, Journal
from quorate.hachannel.model.log import Appended, Committed
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import ViewNumber
from quorate.server.storage.state_store import SCHEMA, StateStore
from quorate.testing.harness import Harness

ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(1, 0, 7)
POSITIONS = 150
"""Bytes changed in each file, one at a time."""
Found = tuple[Remembered, list[Entry], bytes]


@attrs.frozen
class Put(Notification):
    data: bytes


@attrs.define
class Box(Agent):
    data: bytes = b""

    @reacts
    def put(self, ctx: Context, note: Put) -> None:
        self.data = note.data


@attrs.frozen
class Killed:
    """The disk of a replica that was killed."""

    place: Path
    harness: Harness
    last: Found
    before: Found
    """Without its last transaction."""

    def corrupted(self, place: Path, name: str, position: int, bit: int) -> Path:
        shutil.copytree(self.place, place)
        with (place / name).open("r+b") as file:
            file.seek(position)
            (old,) = file.read(1)
            file.seek(position)
            file.write(bytes([old ^ 1 << bit]))
        return place / "journal.db"

    def found(self, path: Path) -> Found:
        """What a start finds. Raises Damaged, Foreign."""
        journal = Journal.open(path, ME, 8, existing=True)
        try:
            engine = Engine(0, {"s0": 0}, load=self.harness._load)
            stored = StateStore(path).read(journal.connection)
            assert stored is not None
            with closing(stored.agents):
                engine.load(stored.header, stored.agents)
            return journal.remembered, list(journal.recovered), engine.digest()
        finally:
            journal.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Entries, trimmed ones, agents that were changed and deleted; some in the file, some in its log only."""
    path = tmp_path_factory.mktemp("killed") / "journal.db"
    rng = random.Random(4)
    harness = Harness()
    harness.know(Box)
    journal, store = Journal.open(path, ME, 7, schema=SCHEMA), StateStore(path)
    ids: list[Any] = []
    last = 0
    for number in range(8):
        harness.send(harness.deploy(Box, name=f"left alone{number}"), Put(rng.randbytes(20_000)))
    for step in range(12):
        sizes = [rng.choice([30, 3000, 40_000]) for _ in range(rng.randint(1, 4))]
        entries = tuple(
            Entry(VIEW, last + number, step, rng.randbytes(size)) for number, size in enumerate(sizes, 1)
        )
        last += len(sizes)
        journal.write([Appended(entries), Committed(last - 1)])
        ids.append(harness.deploy(Box, name=f"box{step}"))
        for identity in rng.sample(ids, min(3, len(ids))):
            harness.send(identity, Put(rng.randbytes(rng.choice([100, 20_000]))))
        if step in (3, 7):
            harness.send(factory(0), Delete(str(ids.pop(0))))
            capture = harness.engine.capture()
            capture.step()
            journal.write([], trim=last - 6, also=partial(store.save, capture=capture))
            capture.written = True
        if step == 5:
            journal.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    kept = Killed(path.with_name("files"), harness, *[(journal.remembered, [], b"")] * 2)
    kept.place.mkdir()

    def copied() -> Found:
        for file in path.parent.glob("journal.db*"):
            shutil.copy(file, kept.place)
        place = path.parent / "copy"
        shutil.copytree(kept.place, place)
        found = kept.found(place / "journal.db")
        shutil.rmtree(place)
        return found

    before = copied()
    journal.write([Appended((Entry(VIEW, last + 1, 0, rng.randbytes(50_000)),))])
    return attrs.evolve(kept, before=before, last=copied())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-frames"])
def test_a_corrupt_byte_is_detected_or_was_not_needed(killed: Killed, tmp_path: Path, name: str) -> None:
    """Scenario 22: corruption in the middle is refused."""
    rng = random.Random(7)
    size = (killed.place / name).stat().st_size
    refused = cut = 0
    for number in range(POSITIONS):
        position = number if number < 40 else rng.randrange(size)
        path = killed.corrupted(tmp_path / str(number), name, position, rng.randrange(8))
        try:
            found = killed.found(path)
        except (Damaged, Foreign):
            refused += 1
            with pytest.raises((Damaged, Foreign)):  # it stays refused
                killed.found(path)
            continue
        finally:
            shutil.rmtree(path.parent)
        if found != killed.last:
            assert name == "journal.db-frames", position
            assert found == killed.before, position
            cut += 1
    assert refused > POSITIONS // 10
    assert cut < POSITIONS // 3
