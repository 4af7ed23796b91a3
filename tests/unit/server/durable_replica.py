"""One incarnation of a replica after the other on the same directory, each committing its entries at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from quorate import Agent, Context, reacts
from quorate.agents import Note, agent_spec, encode, factory, outside
from quorate.agents.builtin import Create
from quorate.engine import Engine, EngineSettings, Posts, encode_batch
from quorate.hachannel.model.log import Appended, Applied, Committed, LogRecord
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import View, ViewNumber, Voter
from quorate.server.storage.durability import Durability
from quorate.server.storage.recovery import Recovery
from quorate.server.storage.snapshotter import SnapshotSettings, Snapshotter

from .disk_rig import ME, Add

NUMBER = ViewNumber(1, 0, 7)
VIEW = View(NUMBER, (Voter(0, 7),), (Voter(0, 7),), 1, 0)


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.number == 13:
            raise ValueError("unlucky")
        self.total += note.number * factor


factor = 1
"""What the present version of the code of `Sum` multiplies by."""


class Host:
    """The replica and its reactor, all in one thread."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.callFromThread = lambda call, *args: call(*args)  # type: ignore[attr-defined]
        self.durable: list[int] = []
        self.failed: list[str] = []
        self.interrupted = False
        self.lines: list[str] = []
        self.flushed: Deferred[Any] = succeed(None)

    def persisted(self, token: int) -> None:
        self.durable.append(token)

    def disk_failed(self, sentence: str) -> None:
        self.failed.append(sentence)

    def flush_trace(self) -> "Deferred[Any]":
        return self.flushed

    def log(self, line: str) -> None:
        self.lines.append(line)

    def announce(self, line: str) -> None:
        self.lines.append(f"told: {line}")


class Replica:
    """One incarnation of a replica that commits each entry at once."""

    def __init__(
        self,
        path: Path,
        incarnation: int,
        clustered: bool = False,
        engine: EngineSettings | None = None,
        accept_code_change: bool = False,
        skips: Mapping[int, tuple[int, int]] | None = None,
        **settings: int,
    ) -> None:
        self.host = Host()
        self.engine = Engine(0, {"s0": 0}, engine, load=load)
        self.engine.current.skips = skips or {}
        self.durability = Durability(
            path,
            ME,
            clustered,
            self.host.clock,
            self.host,
            SnapshotSettings(**settings),
            accept_code_change=accept_code_change,
        )
        self.recovery: Recovery = self.durability.open(incarnation, self.engine)
        self.last = self.recovery.log.last.at
        self.token = 0

    def write(self, *records: LogRecord) -> None:
        self.token += 1
        self.durability.write(records, self.token, None)
        self.host.clock.advance(0)

    def apply(self, *notes: Note, commit: bool = True) -> None:
        self.last += 1
        entry = Entry(NUMBER, self.last, self.last * 10**9, encode_batch([Posts(list(notes))]))
        self.write(Appended((entry,)))
        if commit:
            effects = self.engine.apply(entry.index, entry.stamp_ns, entry.payload)
            self.write(Committed(self.last), Applied(self.last, effects.outcome))

    def add(self, number: int, commit: bool = True) -> None:
        self.apply(Note("sum", outside(0), Add.type_name, encode(Add(number))), commit=commit)

    def commit_rest(self) -> None:
        """Commit and apply what the journal had beyond its commit index."""
        for entry in self.recovery.unsaved[len(self.recovery.trace) :]:
            effects = self.engine.apply(entry.index, entry.stamp_ns, entry.payload)
            self.write(Committed(entry.index), Applied(entry.index, effects.outcome))

    def create(self, name: str = "sum") -> None:
        ask = Create(agent_spec(Sum).name, name, agent_spec(Sum).save(Sum()), None, name)
        self.apply(Note(factory(0), outside(0), Create.type_name, encode(ask)))

    @property
    def snapshotter(self) -> Snapshotter:
        found = self.durability._snapshotter
        assert found is not None
        return found

    def end(self, save: bool = False) -> None:
        """Writes go on in their thread; when this returns they are done."""
        disk = self.durability._disk
        assert disk is not None
        if save:
            for _ in self.snapshotter.save_all():
                pass
        disk.close()


def load(name: str) -> Any:
    assert name == agent_spec(Sum).name
    return agent_spec(Sum)


def total(engine: Engine) -> int:
    cell = engine.find("sum")
    assert cell is not None
    agent = cell.agent
    assert isinstance(agent, Sum)
    return agent.total
