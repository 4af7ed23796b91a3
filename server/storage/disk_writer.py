"""The thread that writes to the journal: queued requests share a transaction and its sync."""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Final

from ...engine import AgentState, Capture, StagedPart
from ...hachannel import LogRecord
from ...hachannel.journal.journal import Journal, WriteFailed
from ...hachannel.model.log import Applied, Committed
from ...hachannel.transfer.pacing import rest_after
from .state_store import StateStore
from .write_queue import BackgroundSave, Batch, WriteQueue, WriteRequest, capture_slices

__all__ = ["DiskWriter"]

SLICE_BYTES: Final = 2 * 1024 * 1024
"""At most about so many bytes of a state in one transaction: records wait for no longer than one takes."""
SAVE_SHARE: Final = 0.25
"""The largest share of the time that a background save uses while somebody waits for records."""
MAX_REST_S: Final = 0.5
"""The longest pause between two slices of a background save."""
NOTE_S: Final = 1.0
"""The journal's database records at this interval how far its file of frames has come."""
LAZY_S: Final = 0.2
"""Commit indexes and outcomes, which nobody waits for, are written with the next records, or after this."""


class DiskWriter:
    """Writes records and states, in the order in which they are requested, in a thread of its own.

    `in_reactor` calls a function in the reactor thread, where all methods are called and all callbacks run.
    `on_durable` gets the highest token whose records are durable. `on_failed` gets one sentence, once, when a
    write fails: nothing is written or confirmed after that.
    """

    def __init__(
        self,
        journal: Journal,
        store: StateStore,
        in_reactor: Callable[..., None],
        on_durable: Callable[[int], None],
        on_failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._store = store
        self._in_reactor = in_reactor
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._queue = WriteQueue()
        self.slice_bytes = SLICE_BYTES
        """Captures above this size are written in slices of this size."""
        self.writes = 0
        """Transactions so far, each with a sync."""
        self._note_at = clock() + NOTE_S
        self._saving: BackgroundSave | None = None
        self._rest_until = clock()
        """The background save pauses until then."""
        self._records_waited = False
        """Somebody waited for records that were written since the last slice."""
        self._deferred: list[LogRecord] = []
        """Records that are not on the disk and that nobody waits for: a commit index, outcomes of entries."""
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # Called in the reactor thread

    def write(self, records: Sequence[LogRecord], token: int, capture: Capture | None = None) -> None:
        """Make records durable, and in the same transaction a complete capture, which replaces the state.

        The agents of a large capture are written before, slice by slice, beside the stored state: later
        requests wait for that, but no transaction is large. `on_durable` gets the token, unless it is 0.
        """
        request = WriteRequest.of_records(records, token, capture, self.slice_bytes)
        # Waking the thread costs both threads time: not for a request that nobody waits for.
        self._queue.put(request, wake=bool(token) or not request.deferrable)

    def save(
        self, capture: Capture, trim: int, on_saved: Callable[[], None], *, at_once: bool = False
    ) -> None:
        """Store a complete capture and remove the entries up to `trim`; then call `on_saved`.

        A large one becomes a background save: later requests are written between its slices. `at_once`
        writes it as a whole, which drops a background save under way: save that capture at once before.
        """
        if at_once or capture.size_bytes <= self.slice_bytes:
            request = WriteRequest(
                [Committed(capture.index)],
                queued_bytes=capture.size_bytes,
                capture=capture,
                trim=trim,
                on_saved=on_saved,
            )
        else:
            # It is queued, too: a capture that is requested before it would end it otherwise.
            slices = capture_slices(capture, self.slice_bytes)
            request = WriteRequest(background_save=BackgroundSave(capture, trim, on_saved, slices))
        self._queue.put(request)

    def stage(self, part: StagedPart) -> None:
        """Write a part of an incoming state, beside the stored one."""
        self._queue.put(WriteRequest.of_part(part))

    def close(self) -> None:
        """Write what is queued, and end. Blocks: call it from a thread that may wait."""
        self._queue.close()
        self._thread.join()
        self._journal.close()

    def _report_durable(self, requests: Sequence[WriteRequest]) -> None:
        token = max(request.token for request in requests)
        if token:
            self._on_durable(token)
        for request in requests:
            if request.on_saved is not None:
                request.on_saved()

    # Called in the journal's thread

    def _run(self) -> None:
        try:
            while self._write_next():
                if self._clock() >= self._note_at:
                    self._journal.note()
                    self._note_at = self._clock() + NOTE_S
        except WriteFailed as error:
            self._fail(str(error))
        except Exception as error:  # a defect must not look like a slow disk
            self._fail(
                f"The journal {self._journal.path} cannot be written: {type(error).__name__}: {error}."
            )

    def _fail(self, sentence: str) -> None:
        self._queue.fail()
        self._in_reactor(self._on_failed, sentence)

    def _write_next(self) -> bool:
        """Wait for work and do it; return whether the thread goes on."""
        batch = self._next_batch()
        requests = batch.requests
        saving = self._due_save()
        if saving is not None and saving.all_written and batch.more:
            # The records from before the capture are written before it.
            saving = None
        if saving is not None and not batch.closing:
            self._write_slice(requests, saving)
        elif requests:
            last = requests[-1]
            if last.in_slices and last.capture is not None:
                self._write_slices(last.capture)
            self._write(requests)
            if any(request.token or not request.deferrable for request in requests):
                self._in_reactor(self._report_durable, requests)
        elif self._deferred:
            self._write_deferred()
        elif batch.closing:
            return False
        return True

    def _next_batch(self) -> Batch:
        rest_s = self._rest_until - self._clock() if self._saving else 0.0
        timeout_s = min(max(rest_s, 0.0) or LAZY_S, LAZY_S / 2)
        batch = self._queue.next_batch(lambda: self._due_save() is not None, timeout_s, self.slice_bytes)
        if batch.background_save is not None:
            self._saving = batch.background_save
        if batch.requests and batch.requests[-1].capture is not None:
            # This capture replaces the one that is being saved.
            self._saving = None
        return batch

    def _due_save(self) -> BackgroundSave | None:
        """Return the background save, unless there is none or it pauses."""
        return self._saving if self._clock() >= self._rest_until else None

    def _write_slice(self, requests: list[WriteRequest], saving: BackgroundSave) -> None:
        """Write requests and the next step of a background save; then it pauses if records are waited for."""
        complete, began = False, self._clock()

        def also(connection: sqlite3.Connection) -> None:
            nonlocal complete
            if saving.merging or self._store.merging:
                # Agents of an earlier capture may still have to move before this one begins.
                complete = self._store.merge(connection, self.slice_bytes) and saving.merging
            elif saving.slices:
                agents, first, saving.started = saving.slices.popleft(), not saving.started, True
                self._store.write_slice(connection, agents, full=saving.capture.full, first=first)
            else:
                self._store.save(connection, saving.capture, slices_written=True)
                saving.merging = True

        becomes_state = saving.all_written
        step = WriteRequest([Committed(saving.capture.index)] if becomes_state else ())
        requests = [*requests, step]
        self._write(requests, also, saving.trim if becomes_state else 0)
        now = self._clock()
        if self._records_waited:
            self._rest_until = now + rest_after(now - began, SAVE_SHARE, MAX_REST_S)
        self._records_waited = False
        self._in_reactor(self._report_durable, requests)
        if complete:
            if self._saving is saving:
                self._saving = None
            self._in_reactor(saving.on_saved)

    def _write_slices(self, capture: Capture) -> None:
        """Write the agents of a large capture beside the stored state; `_write` then makes them part of it.

        After a crash before that, a start drops them.
        """
        while self._store.merging:
            self._journal.write([], also=self._merge_slice)
            self.writes += 1
        for number, agents in enumerate(capture_slices(capture, self.slice_bytes)):

            def also(
                connection: sqlite3.Connection, agents: list[AgentState] = agents, first: bool = not number
            ) -> None:
                self._store.write_slice(connection, agents, full=capture.full, first=first)

            self._journal.write([], also=also)
            self.writes += 1

    def _merge_slice(self, connection: sqlite3.Connection) -> None:
        self._store.merge(connection, self.slice_bytes)

    def _write(
        self,
        requests: list[WriteRequest],
        more: Callable[[sqlite3.Connection], None] | None = None,
        trim: int = 0,
    ) -> None:
        """Write requests, and what `more` writes to the state's tables, in one transaction."""
        records = [record for request in requests for record in request.records]
        last = requests[-1]
        capture, trim = last.capture, trim or last.trim
        if capture is None and more is None and all(request.deferrable for request in requests):
            self._defer(records)
            return
        records = self._deferred + records

        def also(connection: sqlite3.Connection) -> None:
            for request in requests:
                if request.part is not None:
                    self._store.stage(connection, request.part)
            if more is not None:
                more(connection)
            if capture is not None:
                self._store.save(connection, capture, slices_written=last.in_slices)

        has_rows = (
            capture is not None or more is not None or any(request.part is not None for request in requests)
        )
        self._journal.write(records, trim=trim, also=also if has_rows else None)
        self._deferred = []
        self._records_waited = self._records_waited or any(request.token for request in requests)
        self.writes += 1
        if last.in_slices and capture is not None:
            # It is the stored state now; its agents move to the table of all agents slice by slice.
            self._saving = BackgroundSave(capture, 0, _nothing, deque(), merging=True)

    def _defer(self, records: Sequence[LogRecord]) -> None:
        """Keep records for the next write: of commit indexes only the last one counts."""
        deferred = [*self._deferred, *records]
        commits = [record for record in deferred if isinstance(record, Committed)]
        self._deferred = [*commits[-1:], *(record for record in deferred if isinstance(record, Applied))]

    def _write_deferred(self) -> None:
        self._journal.write(self._deferred)
        self._deferred = []
        self.writes += 1


def _nothing() -> None:
    """Do nothing: nobody waits for the end of this save."""
