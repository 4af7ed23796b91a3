"""The queue between the reactor thread, which requests writes, and the journal's thread, which writes."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from typing import Final

import attrs

from ...engine import AgentState, Capture, StagedPart
from ...hachannel import LogRecord
from ...hachannel.model.log import Appended, Applied, Committed

__all__ = ["RECORD_BYTES", "BackgroundSave", "Batch", "WriteQueue", "WriteRequest", "capture_slices"]

MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
"""The reactor thread waits while more than this is queued. The channel's own windows stop far below."""
RECORD_BYTES: Final = 200
"""Counted for each record, and for each agent, besides its payload or state."""


@attrs.define
class BackgroundSave:
    """A large capture that is stored in many transactions, between those of the records.

    Its slices are written to a table of their own. When all are there, one transaction makes them part of
    the stored state and removes the journal's entries up to `trim`. Then the agents move to the table of all
    agents (`merging`), and at the end `on_saved` is called.
    """

    capture: Capture
    trim: int
    on_saved: Callable[[], None]
    slices: deque[list[AgentState]]
    """Agents that are not written yet."""
    started: bool = False
    """The first slice is written."""
    merging: bool = False

    @property
    def all_written(self) -> bool:
        """All slices are written; the next step makes them part of the stored state."""
        return not self.slices and not self.merging


@attrs.frozen
class WriteRequest:
    """Something to write: records, a complete capture, a part of an incoming state, or a background save."""

    records: Sequence[LogRecord] = ()
    token: int = 0
    """Reported when the records are durable. 0: nobody waits for them."""
    queued_bytes: int = 0
    """Its share of the queue's bound."""
    capture: Capture | None = None
    """Stored in the same transaction as the records."""
    trim: int = 0
    """The journal's entries up to this index are removed in that transaction."""
    on_saved: Callable[[], None] | None = None
    in_slices: bool = False
    """The agents of the capture are written before that transaction, in slices, to a table of their own."""
    part: StagedPart | None = None
    part_bytes: int = 0
    """The agents' states. They are not in `queued_bytes`: the engine has them in memory anyway."""
    background_save: BackgroundSave | None = None
    """Starts when everything queued before it is written. Such a request has nothing else."""

    @classmethod
    def of_records(
        cls, records: Sequence[LogRecord], token: int, capture: Capture | None, slice_bytes: int
    ) -> "WriteRequest":
        """Return a request for records and perhaps a capture, which is sliced if above `slice_bytes`."""
        size = RECORD_BYTES * len(records) + (0 if capture is None else capture.size_bytes)
        for record in records:
            if isinstance(record, Appended):
                size += sum(len(entry.payload) for entry in record.entries)
            elif isinstance(record, Applied):
                size += len(record.outcome)
        return cls(
            records,
            token,
            size,
            capture,
            trim=0 if capture is None else capture.index,
            in_slices=capture is not None and not capture.staged and capture.size_bytes > slice_bytes,
        )

    @classmethod
    def of_part(cls, part: StagedPart) -> "WriteRequest":
        """Return a request for a part of an incoming state."""
        return cls(
            queued_bytes=RECORD_BYTES * len(part.agents),
            part=part,
            part_bytes=sum(len(agent.state) for agent in part.agents),
        )

    @property
    def deferrable(self) -> bool:
        """Nothing is lost if it never reaches the disk: it has commit indexes and outcomes only."""
        return (
            self.capture is None
            and self.part is None
            and all(isinstance(record, Committed | Applied) for record in self.records)
        )


@attrs.frozen
class Batch:
    """The requests that are written in one transaction."""

    requests: list[WriteRequest]
    """At most the last one has a capture."""
    background_save: BackgroundSave | None
    """Starts now, and replaces an earlier one."""
    more: bool
    """Further requests are queued."""
    closing: bool
    """The queue takes no more requests."""


class WriteQueue:
    """A bounded queue. The reactor thread calls `put` and `close`, the journal's thread the other methods."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._requests: deque[WriteRequest] = deque()
        self._queued_bytes = 0
        self._closing = self._failed = False

    def put(self, request: WriteRequest, *, wake: bool = True) -> None:
        """Add a request; wait while the queue is full. Ignored after `close` and after `fail`.

        wake: wake the journal's thread; otherwise it finds the request when it wakes by itself.
        """
        with self._changed:
            if self._closing or self._failed:
                return
            self._changed.wait_for(
                lambda: (
                    self._failed
                    or not self._requests
                    or self._queued_bytes + request.queued_bytes <= MAX_QUEUED_BYTES
                )
            )
            self._requests.append(request)
            self._queued_bytes += request.queued_bytes
            if wake:
                self._changed.notify_all()

    def close(self) -> None:
        """Take no more requests; `next_batch` still returns those that are queued."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def fail(self) -> None:
        """Drop all requests and take no more."""
        with self._changed:
            self._failed = True
            self._requests.clear()
            self._changed.notify_all()

    def next_batch(self, other_work: Callable[[], bool], timeout_s: float, part_bytes: int) -> Batch:
        """Wait for a request, for `other_work`, for the end or for the timeout; return the next batch.

        A batch ends after a request with a capture, or before one if it is not empty, and as soon as it has
        `part_bytes` of an incoming state.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._requests or other_work() or self._closing, timeout_s)
            batch: list[WriteRequest] = []
            background_save: BackgroundSave | None = None
            batch_part_bytes = 0
            while self._requests and batch_part_bytes < part_bytes:
                if batch and self._requests[0].capture is not None:
                    break
                request = self._requests.popleft()
                if request.background_save is not None:
                    background_save = request.background_save
                    continue
                batch.append(request)
                self._queued_bytes -= request.queued_bytes
                batch_part_bytes += request.part_bytes
                if request.capture is not None:
                    break
            self._changed.notify_all()
            return Batch(batch, background_save, bool(self._requests), self._closing)


def capture_slices(capture: Capture, slice_bytes: int) -> deque[list[AgentState]]:
    """Return the agents of a capture in lists of about `slice_bytes`; at least one list, perhaps empty."""
    slices: deque[list[AgentState]] = deque([[]])
    size = 0
    for agent in capture.agents:
        if size >= slice_bytes:
            slices.append([])
            size = 0
        slices[-1].append(agent)
        size += RECORD_BYTES + len(agent.state)
    return slices
