"""A disk whose writes a test lets through one by one, and an agent to save."""

import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from quorate import Agent, Context, Notification, reacts
from quorate.engine import Capture, Engine
from quorate.hachannel.journal.journal import Identity, Journal
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import ViewNumber
from quorate.server.storage.disk_writer import DiskWriter
from quorate.server.storage.state_store import SCHEMA, StateStore
from quorate.testing.harness import Harness

BOUND_S = 30.0
ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(1, 0, 7)


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        ctx.timer(1000.0, Add(1))


def entry(index: int, size: int = 10) -> Entry:
    return Entry(VIEW, index, 0, bytes(size))


class Held(Journal):
    """Writes only when it may."""

    gate: threading.Semaphore
    begun: threading.Semaphore

    def write(self, *args: Any, **options: Any) -> None:
        self.begun.release()
        assert self.gate.acquire(timeout=BOUND_S)
        super().write(*args, **options)


class Rig:
    """A disk and the reactor thread that uses it: the test's own."""

    def __init__(self, path: Path) -> None:
        opened = Journal.open(path, ME, 7, schema=SCHEMA)
        self.journal = Held(path, opened.connection, opened.frames, 7, opened.remembered)
        self.journal.gate = threading.Semaphore(0)
        self.journal.begun = threading.Semaphore(0)
        self.store = StateStore(path)
        self.calls: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.Queue()
        self.durable: list[int] = []
        self.failed: list[str] = []
        self.now = 0.0
        self.disk = DiskWriter(
            self.journal,
            self.store,
            lambda call, *args: self.calls.put((call, args)),
            self.durable.append,
            self.failed.append,
            clock=lambda: self.now,
        )

    def turn(self) -> None:
        """Run what the disk wants to be run in the reactor."""
        call, args = self.calls.get(timeout=BOUND_S)
        call(*args)

    def let(self, writes: int = 1) -> None:
        for _ in range(writes):
            self.journal.gate.release()

    def wait_begun(self) -> None:
        assert self.journal.begun.acquire(timeout=BOUND_S)


def load(path: Path) -> Engine:
    """What a start finds."""
    journal = Journal.open(path, ME, 8)
    engine = Engine(0, {"s0": 0}, load=load_class)
    store = StateStore(path)
    if store.unfinished(journal.connection):
        journal.write([], also=store.recover)
    stored = store.read(journal.connection)
    if stored is not None:
        engine.load(stored.header, stored.agents)
    journal.close()
    return engine


def load_class(name: str) -> Any:
    harness = Harness()
    harness.know(Sum)
    return harness._load(name)


def crashed(place: Path) -> Path:
    """What is on the disk now."""
    copy = place / "copy"
    copy.mkdir()
    for file in place.glob("journal.db*"):
        shutil.copy(file, copy)
    return copy / "journal.db"


def captured(harness: Harness) -> Capture:
    capture = harness.engine.capture()
    capture.step()
    return capture


# The thread
