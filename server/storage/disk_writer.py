"""The thread that writes to the journal: what waits is written together and synced once."""

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread

import attrs

from ...engine import AgentState, Capture, StagedPart
from ...hachannel import LogRecord
from ...hachannel.journal.journal import Journal, WriteFailed
from ...hachannel.model.log import Appended, Committed
from ...hachannel.transfer.pacing import rest_after
from .state_store import StateStore

__all__ = ["DiskWriter"]

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""More than this never waits: the caller waits instead. The channel's own windows stop far below."""
RECORD_BYTES = 200
"""Counted for each record besides its payloads."""
STAGE_BYTES = 2 * 1024 * 1024
"""So much of a state is written at a time: what is recorded meanwhile waits no longer."""
SAVE_SHARE = 0.25
"""Of the time, at most, a large save is written while records are waited for."""
MAX_REST_S = 0.5
"""No rest of a save is longer."""
NOTE_S = 1.0
"""So often the database of the journal learns how far the file of frames has come."""
LAZY_S = 1.0
"""A commit index that nobody waits for is written with the next records, or after this time."""


@attrs.define
class _Save:
    """A save of much: some of it is written with whatever else is, then the rest."""

    capture: Capture
    trim: int
    done: Callable[[], None]
    slices: deque[list[AgentState]]
    begun: bool = False
    merging: bool = False
    """It is part of the state, and is being moved to the other agents."""

    @property
    def ending(self) -> bool:
        """It becomes part of the state next."""
        return not self.slices and not self.merging


@attrs.frozen
class _Job:
    records: Sequence[LogRecord]
    token: int
    size: int
    state: Capture | None = None
    trim: int = 0
    done: Callable[[], None] | None = None
    taken: StagedPart | None = None
    taken_bytes: int = 0
    """Not in `size`: the agents have this in memory all the same."""
    sliced: bool = False
    """The state is written some agents at a time, beside the one that is there, before the rest of this."""
    save: _Save | None = None
    """One that begins when all before it was written. There is nothing else in such a job."""

    @property
    def lazy(self) -> bool:
        """Nothing is lost if it is not on the disk after all."""
        whole = self.state is None and self.taken is None
        return whole and all(isinstance(record, Committed) for record in self.records)


class DiskWriter:
    """Writes records and states in the order in which they come.

    `in_reactor` calls something in the reactor thread, where all methods are called and all callbacks come.
    `on_durable` gets the token of the last output all of whose records are durable; `on_failed` gets one
    sentence, once, when the disk refuses: nothing is written or confirmed after that.
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
        self._changed = Condition()
        self._jobs: deque[_Job] = deque()
        self._waiting_bytes = 0
        self._closing = self._failed = False
        self.writes = 0
        """Transactions so far, each with a sync."""
        self._note_at = clock() + NOTE_S
        self._saving: _Save | None = None
        self._rest_until = clock()
        """No more of it is written before that."""
        self._waited = False
        """Records that somebody waited for were written since the last part of it."""
        self._commit: Committed | None = None
        """A commit index that is not on the disk."""
        self._thread = Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # The reactor's side

    def write(self, records: Sequence[LogRecord], token: int, state: Capture | None = None) -> None:
        """Make records durable, and with them, in the same transaction, a complete capture.

        A large one is written beside the state that is there before, some agents at a time; so what comes
        later waits, but no transaction is large. `on_durable` gets the token later, unless that is 0: nobody
        waits.
        """
        size = RECORD_BYTES * len(records) + (0 if state is None else state.size_bytes)
        for record in records:
            if isinstance(record, Appended):
                size += sum(len(entry.payload) for entry in record.entries)
        sliced = state is not None and not state.staged and state.size_bytes > STAGE_BYTES
        job = _Job(records, token, size, state, 0 if state is None else state.index, sliced=sliced)
        with self._changed:
            if not self._failed and not self._closing:
                # For one that nobody waits for the thread is not woken, nor this one by it.
                self._put(job, wake=bool(token) or not job.lazy)

    def save(self, state: Capture, trim: int, done: Callable[[], None], *, at_once: bool = False) -> None:
        """Write a complete capture; then the entries up to `trim` may go, and `done` is called.

        A large one is written some at a time, what comes meanwhile first; unless `at_once`. That ends the
        save of another one that is under way: save that one at once before.
        """
        with self._changed:
            if self._failed or self._closing:
                return
            if state.size_bytes <= STAGE_BYTES or at_once:
                self._put(_Job([Committed(state.index)], 0, state.size_bytes, state, trim, done))
            else:
                # In its turn: a state that is yet to be written would take its place otherwise.
                self._put(_Job((), 0, 0, save=_Save(state, trim, done, _slices(state))))

    def stage(self, taken: StagedPart) -> None:
        """Write what has come of a state, beside the one that is there."""
        with self._changed:
            if not self._failed and not self._closing:
                size = sum(len(agent.state) for agent in taken.agents)
                self._put(_Job((), 0, RECORD_BYTES * len(taken.agents), taken=taken, taken_bytes=size))

    def close(self) -> None:
        """Write what waits, and end. It blocks: call it from a thread that may wait."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._journal.close()

    def _put(self, job: _Job, *, wake: bool = True) -> None:
        self._changed.wait_for(
            lambda: self._failed or not self._jobs or self._waiting_bytes + job.size <= MAX_WAITING_BYTES
        )
        self._jobs.append(job)
        self._waiting_bytes += job.size
        if wake:
            self._changed.notify_all()

    def _confirm(self, jobs: Sequence[_Job]) -> None:
        token = max(job.token for job in jobs)
        if token:
            self._on_durable(token)
        for job in jobs:
            if job.done is not None:
                job.done()

    # The thread's side

    def _run(self) -> None:
        try:
            while True:
                jobs, saving, closing = self._take()
                if saving is not None and not closing:
                    self._write_slice(jobs, saving)
                elif jobs:
                    if jobs[-1].sliced and jobs[-1].state is not None:
                        self._gather(jobs[-1].state)
                    self._write(jobs)
                    if any(job.token or not job.lazy for job in jobs):
                        self._in_reactor(self._confirm, jobs)
                elif self._commit:
                    self._write_commit(self._commit)
                elif closing:
                    return
                if self._clock() >= self._note_at:
                    self._journal.note()
                    self._note_at = self._clock() + NOTE_S
        except WriteFailed as error:
            self._fail(str(error))
        except Exception as error:  # a defect must not look like a slow disk
            self._fail(
                f"The journal {self._journal.path} cannot be written: {type(error).__name__}: {error}."
            )

    def _take(self) -> tuple[list[_Job], _Save | None, bool]:
        """Wait for jobs; return those that go into one transaction: all, up to one that has a state.

        Or up to so much of a state that comes in.
        """
        with self._changed:
            rest_s = self._rest_until - self._clock() if self._saving else 0.0
            self._changed.wait_for(
                lambda: self._jobs or self._saving_now or self._closing,
                min(max(rest_s, 0.0) or LAZY_S, LAZY_S / 2),
            )
            jobs: list[_Job] = []
            taken = 0
            while self._jobs and taken < STAGE_BYTES and not (jobs and self._jobs[0].state is not None):
                job = self._jobs.popleft()
                if job.save is not None:
                    self._saving = job.save
                    continue
                jobs.append(job)
                self._waiting_bytes -= job.size
                taken += job.taken_bytes
                if job.state is not None:
                    break
            self._changed.notify_all()
            if jobs and jobs[-1].state is not None:
                # It takes the place of whatever was to be saved.
                self._saving = None
            saving = self._saving_now
            if saving is not None and saving.ending and self._jobs:
                # What was recorded before the state was captured is to be there first.
                saving = None
            return jobs, saving, self._closing

    @property
    def _saving_now(self) -> _Save | None:
        """The save that some is to be written of."""
        return self._saving if self._clock() >= self._rest_until else None

    def _write_slice(self, jobs: list[_Job], saving: _Save) -> None:
        """Write jobs, and some of a save, or its end. Then it rests, if jobs are waited for."""
        done, began = False, self._clock()

        def also(connection: sqlite3.Connection) -> None:
            nonlocal done
            if saving.merging or self._store.merging:
                # Another state may be on its way to the other agents, before this one begins.
                done = self._store.merge(connection, STAGE_BYTES) and saving.merging
            elif saving.slices:
                agents, anew, saving.begun = saving.slices.popleft(), not saving.begun, True
                self._store.gather(connection, agents, full=saving.capture.full, anew=anew)
            else:
                self._store.save(connection, saving.capture, gathered=True)
                saving.merging = True

        ends = saving.ending
        jobs = [*jobs, _Job([Committed(saving.capture.index)] if ends else (), 0, 0)]
        self._write(jobs, also, saving.trim if ends else 0)
        now = self._clock()
        if self._waited:
            self._rest_until = now + rest_after(now - began, SAVE_SHARE, MAX_REST_S)
        self._waited = False
        self._in_reactor(self._confirm, jobs)
        if done:
            with self._changed:
                if self._saving is saving:
                    self._saving = None
            self._in_reactor(saving.done)

    def _gather(self, state: Capture) -> None:
        """Write the agents of a large state beside the one that is there. A start drops them."""
        while self._store.merging:
            self._journal.write([], also=self._merge_some)
            self.writes += 1
        for number, agents in enumerate(_slices(state)):

            def also(
                connection: sqlite3.Connection, agents: list[AgentState] = agents, first: bool = not number
            ) -> None:
                self._store.gather(connection, agents, full=state.full, anew=first)

            self._journal.write([], also=also)
            self.writes += 1

    def _merge_some(self, connection: sqlite3.Connection) -> None:
        self._store.merge(connection, STAGE_BYTES)

    def _write(
        self,
        jobs: list[_Job],
        more: Callable[[sqlite3.Connection], None] | None = None,
        trim: int = 0,
    ) -> None:
        records = [record for job in jobs for record in job.records]
        state, trim = jobs[-1].state, trim or jobs[-1].trim
        if state is None and more is None and all(job.lazy for job in jobs):
            self._commit = [record for record in records if isinstance(record, Committed)][-1]
            return
        if self._commit:
            records.insert(0, self._commit)

        def also(connection: sqlite3.Connection) -> None:
            for job in jobs:
                if job.taken is not None:
                    self._store.stage(connection, job.taken)
            if more is not None:
                more(connection)
            if state is not None:
                self._store.save(connection, state, gathered=jobs[-1].sliced)

        rows = state is not None or more is not None or any(job.taken is not None for job in jobs)
        self._journal.write(records, trim=trim, also=also if rows else None)
        self._commit = None
        self._waited = self._waited or any(job.token for job in jobs)
        self.writes += 1
        if jobs[-1].sliced and state is not None:
            with self._changed:
                # It is part of the state; its agents move to the others by and by.
                self._saving = _Save(state, 0, _nobody_waits, deque(), merging=True)

    def _write_commit(self, commit: Committed) -> None:
        self._journal.write([commit])
        self._commit = None
        self.writes += 1

    def _fail(self, sentence: str) -> None:
        with self._changed:
            self._failed = True
            self._jobs.clear()
            self._changed.notify_all()
        self._in_reactor(self._on_failed, sentence)


def _nobody_waits() -> None:
    """That all agents of a state are in their place."""


def _slices(state: Capture) -> deque[list[AgentState]]:
    """The agents of a capture, not many bytes of them in each list; one list at least."""
    slices: deque[list[AgentState]] = deque([[]])
    size = 0
    for agent in state.agents:
        if size >= STAGE_BYTES:
            slices.append([])
            size = 0
        slices[-1].append(agent)
        size += RECORD_BYTES + len(agent.state)
    return slices
