"""Marks: how far each persistent subscription is, in each stream. Pure.

The mark of a subscription in a stream is the number up to which nothing is due to it any more: the place of
its `Start`, and later that of its last acknowledged message. The lowest mark of a stream bounds what may be
collected. A subscription without a mark in a stream gets nothing of what is there.
"""

from collections import defaultdict
from collections.abc import Iterator

import attrs
from sortedcontainers import SortedList

from .log import FactKind, Log
from .model import Dot, Stream

__all__ = ["Marks"]

MARK = FactKind("mark", tuple[Stream, Dot], int)


@attrs.define
class _StreamMarks:
    by_dot: dict[Dot, int] = attrs.field(factory=dict[Dot, int])
    values: "SortedList[int]" = attrs.field(factory=lambda: SortedList[int]())


class Marks:
    """The marks that one daemon knows."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._streams: dict[Stream, _StreamMarks] = {}
        self._streams_of: defaultdict[Dot, set[Stream]] = defaultdict(set)
        self.changed: set[tuple[Stream, Dot]] = set()
        """Marks that have changed since they were told to the other daemons."""
        for (stream, dot), number in MARK.load(log):
            self._set(stream, dot, number)

    def get(self, stream: Stream, dot: Dot) -> int | None:
        """Return the mark of a subscription in a stream; None if it has none."""
        marks = self._streams.get(stream)
        return None if marks is None else marks.by_dot.get(dot)

    def raise_to(self, stream: Stream, dot: Dot, number: int) -> bool:
        """Set a mark if it is lower, or not there. Return whether it has changed."""
        known = self.get(stream, dot)
        if known is not None and known >= number:
            return False
        self._set(stream, dot, number)
        MARK.put(self._log, (stream, dot), number)
        self.changed.add((stream, dot))
        return True

    def _set(self, stream: Stream, dot: Dot, number: int) -> None:
        marks = self._streams.setdefault(stream, _StreamMarks())
        known = marks.by_dot.get(dot)
        if known is not None:
            marks.values.remove(known)
        marks.by_dot[dot] = number
        marks.values.add(number)
        self._streams_of[dot].add(stream)

    def lowest(self, stream: Stream) -> int | None:
        """Return the lowest mark of a stream; None if there is none."""
        marks = self._streams.get(stream)
        return marks.values[0] if marks is not None and marks.values else None

    def slowest(self, stream: Stream) -> list[tuple[Dot, int]]:
        """Return all marks of a stream, the lowest first."""
        marks = self._streams.get(stream)
        return [] if marks is None else sorted(marks.by_dot.items(), key=lambda item: (item[1], item[0]))

    def of(self, stream: Stream) -> Iterator[tuple[Dot, int]]:
        """Yield the marks of a stream."""
        marks = self._streams.get(stream)
        return iter(()) if marks is None else iter(marks.by_dot.items())

    @property
    def dots(self) -> list[Dot]:
        """The subscriptions that have marks."""
        return list(self._streams_of)

    @property
    def streams(self) -> list[Stream]:
        """The streams in which there are marks."""
        return list(self._streams)

    def drop_dot(self, dot: Dot) -> set[Stream]:
        """Forget a subscription that has ended. Return the streams in which it had marks."""
        streams = self._streams_of.pop(dot, set[Stream]())
        for stream in streams:
            marks = self._streams[stream]
            marks.values.remove(marks.by_dot.pop(dot))
            MARK.delete(self._log, (stream, dot))
            self.changed.discard((stream, dot))
            if not marks.by_dot:
                del self._streams[stream]
        return streams

    def drop_stream(self, stream: Stream) -> None:
        """Forget a stream."""
        marks = self._streams.pop(stream, None)
        for dot in () if marks is None else list(marks.by_dot):
            MARK.delete(self._log, (stream, dot))
            self.changed.discard((stream, dot))
            streams = self._streams_of[dot]
            streams.discard(stream)
            if not streams:
                del self._streams_of[dot]
