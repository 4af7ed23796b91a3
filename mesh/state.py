"""What the parts of a daemon share, and the batch of what one step puts out. Pure."""

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from .directory import Directory
from .frames import ServerFrame
from .log import Log
from .marks import Marks
from .messages import MeshMessage
from .model import DIRECTORY, MeshLimits, Stream, Uid
from .rows import Rows
from .streams import Streams

__all__ = ["ClientId", "DaemonState", "Output"]

ClientId: TypeAlias = int
"""A connection of a client to this daemon."""


@attrs.define
class Output:
    """What a step puts out, in order. It leaves once everything that was stored until then is durable."""

    messages: list[tuple[tuple[int, ...], MeshMessage]] = attrs.field(
        factory=list[tuple[tuple[int, ...], MeshMessage]]
    )
    """(daemons, message)."""
    questions: list[tuple[int, MeshMessage]] = attrs.field(factory=list[tuple[int, MeshMessage]])
    """(daemon, message): these imply nothing that has to be durable, and may leave at once."""
    frames: list[tuple[ClientId, ServerFrame]] = attrs.field(factory=list[tuple[ClientId, ServerFrame]])
    log: list[str] = attrs.field(factory=list[str])
    """Lines for the log of the server."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.questions or self.frames or self.log)


class DaemonState:
    """The state of one daemon, which its parts change."""

    def __init__(self, me: int, life: int, configured: frozenset[int], limits: MeshLimits, log: Log) -> None:
        self.me = me
        self.life = life
        self.limits = limits
        self.log = log
        self.directory = Directory(log, configured)
        self.streams = Streams(log)
        self.marks = Marks(log)
        self.rows = Rows(log)
        self.output = Output()
        self.now = 0.0
        self.wall_ms = 0
        self.counters: dict[str, int] = {}
        self.touched: set[Stream] = set()
        """Streams of which something may be collected."""
        self.pushes: dict[Stream, list[tuple[int, bytes]]] = {}
        """New records of this daemon, to be sent to the others at the end of the step."""

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + n

    def own(self, topic: Uid) -> Stream:
        """Return this daemon's stream of a topic in its present life."""
        return Stream(topic, self.me, self.life)

    def append_own(self, stream: Stream, records: list[tuple[int, bytes, bool]]) -> None:
        """Append records to a stream of this daemon: (number, encoded record, whether it is a message)."""
        self.streams.append(stream, records[-1][0], records)
        self.pushes.setdefault(stream, []).extend((number, record) for number, record, _ in records)

    def send(self, daemons: Iterable[int], message: MeshMessage) -> None:
        """Send a message to daemons."""
        to = tuple(daemons)
        if to:
            self.output.messages.append((to, message))

    def ask(self, daemon: int, message: MeshMessage) -> None:
        """Send a question to a daemon. It need not wait for the disk."""
        self.output.questions.append((daemon, message))

    def answer(self, client: ClientId, frame: ServerFrame) -> None:
        """Send a frame to a client."""
        self.output.frames.append((client, frame))

    def take_output(self) -> Output:
        """Return what was put out since the last call."""
        output, self.output = self.output, Output()
        return output

    def retired(self, stream: Stream) -> bool:
        """Return whether a stream is complete and collected at every daemon."""
        return stream.life <= self.directory.retired.get(stream.daemon, -1)

    def passed(self, stream: Stream, number: int) -> bool:
        """Return whether everything up to a position is here, or is not needed any more."""
        return (
            self.streams.have(stream) >= number
            or self.retired(stream)
            or (stream.topic != DIRECTORY and self.directory.removed_topic(stream.topic))
        )

    def may_be_of(self, stream: Stream, name: str) -> bool:
        """Return whether a stream belongs to the topic of this name, or may: its creation is not here yet."""
        topic = self.directory.topics.get(stream.topic)
        return topic.name == name if topic is not None else not self.directory.removed_topic(stream.topic)

    def known_topic(self, stream: Stream) -> bool:
        """Return whether the topic of a stream is in the directory."""
        return stream.topic == DIRECTORY or stream.topic in self.directory.topics
