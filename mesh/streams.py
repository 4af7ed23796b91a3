"""Streams, as one daemon has them: which records are on its disk, and which are collected. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs
import msgspec

from .log import FactKind, Log
from .model import Stream, Uid

__all__ = ["StreamState", "Streams"]


class _StoredStream(msgspec.Struct, array_like=True, frozen=True):
    have: int
    floor: int
    stripped: int


STREAM = FactKind("stream", Stream, _StoredStream)


@attrs.define
class StreamState:
    """Records in (floor, have] are here; those up to `floor` are collected."""

    have: int = 0
    floor: int = 0
    stripped: int = 0
    """Messages up to this number may have lost their bodies."""


class Streams:
    """The streams that one daemon knows, its own and those of others."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.states: dict[Stream, StreamState] = {}
        self.of_topic: defaultdict[Uid, set[Stream]] = defaultdict(set)
        for stream, stored in STREAM.load(log):
            self.states[stream] = StreamState(stored.have, stored.floor, stored.stripped)
            self.of_topic[stream.topic].add(stream)
        self.grown: set[Stream] = set()
        """Streams that have more records than before the step."""

    def have(self, stream: Stream) -> int:
        """Return the number up to which all records of a stream were received."""
        state = self.states.get(stream)
        return 0 if state is None else state.have

    def _state(self, stream: Stream) -> StreamState:
        state = self.states.get(stream)
        if state is None:
            state = self.states[stream] = StreamState()
            self.of_topic[stream.topic].add(stream)
        return state

    def _store(self, stream: Stream, state: StreamState) -> None:
        STREAM.put(self._log, stream, _StoredStream(state.have, state.floor, state.stripped))

    def append(self, stream: Stream, last: int, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Add the next records of a stream, up to `last`; those that are left out are stubs."""
        state = self._state(stream)
        first, kept = state.have + 1, len(records)
        if kept < last - state.have:
            numbers = {number for number, _, _ in records}
            state.stripped = max(n for n in range(first, last + 1) if n not in numbers)
        state.have = last
        self._log.append(stream, records)
        self._store(stream, state)
        self.grown.add(stream)

    def skip_to(self, stream: Stream, floor: int) -> bool:
        """Note that the records up to a number are collected elsewhere, and will not come."""
        state = self._state(stream)
        if floor <= state.floor:
            return False
        state.floor = floor
        state.have = max(state.have, floor)
        state.stripped = max(state.stripped, floor)
        self._log.trim(stream, floor)
        self._store(stream, state)
        self.grown.add(stream)
        return True

    def strip(self, stream: Stream, upto: int) -> None:
        """Remove the bodies of messages up to a number."""
        state = self.states[stream]
        if upto > state.stripped:
            state.stripped = upto
            self._log.strip(stream, upto)
            self._store(stream, state)

    def trim(self, stream: Stream, upto: int) -> None:
        """Remove the records up to a number, which all daemons have."""
        state = self.states[stream]
        if upto > state.floor:
            state.floor = upto
            state.stripped = max(state.stripped, upto)
            self._log.trim(stream, upto)
            self._store(stream, state)

    def drop(self, stream: Stream) -> None:
        """Forget a stream, because its topic is deleted or its life retired."""
        if self.states.pop(stream, None) is not None:
            self._log.drop(stream)
            STREAM.delete(self._log, stream)
            self.of_topic[stream.topic].discard(stream)
            if not self.of_topic[stream.topic]:
                del self.of_topic[stream.topic]
            self.grown.discard(stream)

    def message_bytes(self, uids: Iterable[Uid]) -> int:
        """Return the size of the messages that are kept of these topics."""
        log = self._log
        return sum(log.message_bytes(stream) for uid in uids for stream in self.of_topic.get(uid, ()))

    def take_grown(self) -> set[Stream]:
        """Return the streams that have grown since the last call."""
        grown, self.grown = self.grown, set()
        return grown
