"""The trace of a replica: every reaction it ran, in Parquet files that Spark reads.

The reactor thread hands over lists of `Reaction`. A thread of the writer turns them into columns, and writes
a file when it has enough rows or when the oldest row is old enough. A file gets its name when it is complete
and on the disk, so a reader never finds an incomplete one.
"""

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Condition, Thread
from typing import Any, BinaryIO

from ...engine.reaction import Reaction
from ...hachannel.journal.frame_file import sync_directory
from ...replay.schema import Origin
from ..storage.private_files import PRIVATE_DIRECTORY, make_directory, private_opener
from .columns import Columns, traced_bytes
from .events import EventFile
from .retention import Retention

__all__ = ["TraceWriter"]

ROLL_ROWS = 200_000
ROLL_S = 10.0
ROLL_BYTES = 64 * 1024 * 1024
MAX_BUFFERED_ROWS = 500_000
MAX_BUFFERED_BYTES = 256 * 1024 * 1024
RETRY_S = 5.0
CHUNK_ROWS = 1024
CLOSE_TIMEOUT_S = 20.0


def open_file(path: Path) -> BinaryIO:
    """Create a file for writing, for its owner only."""
    return open(path, "wb", opener=private_opener)


def append_to_file(path: Path) -> BinaryIO:
    """Open a file to append to it, for its owner only."""
    return open(path, "ab", opener=private_opener)


class TraceWriter:
    """Writes the trace of one incarnation of one replica, its `origin`, to ``directory``.

    Rows that wait for the disk are bounded in number and size. Without room, or with a disk that fails, the
    server goes on: ``problem`` is one sentence about what is wrong, and ``dropped`` counts the lost rows.
    Rows that could not be written are kept and tried again, as long as there is room.
    """

    def __init__(
        self,
        directory: Path,
        origin: Origin,
        *,
        roll_rows: int = ROLL_ROWS,
        roll_s: float = ROLL_S,
        max_buffered_rows: int = MAX_BUFFERED_ROWS,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        retry_s: float = RETRY_S,
        opener: Callable[[Path], BinaryIO] = open_file,
        clock: Callable[[], float] = time.monotonic,
        retention: Retention | None = None,
    ) -> None:
        # The parent is created only here: if it is missing later, the replica's directory was removed.
        with contextlib.suppress(OSError):
            make_directory(directory.parent)
        self._directory = directory
        self._prefix = f"{origin.incarnation}-"
        self._origin = origin
        self._roll_rows = roll_rows
        self._roll_s = roll_s
        self._max_rows = max_buffered_rows
        self._max_bytes = max_buffered_bytes
        self._retry_s = retry_s
        self._open = opener
        self._clock = clock
        self._retention = retention
        self._events = EventFile(directory, origin, append_to_file)
        self._not_removed = ""
        """Why the oldest files could not be removed, when they were to be."""
        self.dropped = 0
        """Lost rows: they are in no file and will not be."""
        self.written = 0
        """Rows in finished files."""
        self._changed = Condition()
        self._pending: deque[list[Reaction]] = deque()
        self._pending_rows = 0
        self._held_rows = 0
        self._held_bytes = 0
        self._first_at: float | None = None
        self._refused = ""
        self._unfit = ""
        """The error of the first row that could not be stored."""
        self._retry_at = clock()
        self._flushes_asked = 0
        self._flushes_done = 0
        self._closing = False
        self._sequence = 0
        self._thread: Thread | None = None
        if find_spec("pyarrow") is None:
            self._refused = "pyarrow is not installed: run `pip install 'quorate[replay]'`"
            return
        self._thread = Thread(target=self._run, name="trace", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """One sentence: why rows are not written, or that some are missing; None if all is well."""
        if self._refused:
            return f"the trace is not being written ({self.dropped} rows lost): {self._refused}"
        if self._not_removed:
            return f"the oldest files of the trace cannot be removed: {self._not_removed}"
        if self._unfit:
            return f"the trace lacks {self.dropped} rows: {self._unfit}"
        if self.dropped:
            return (
                f"the trace lacks {self.dropped} rows: they came when the disk was busy and the buffer full"
            )
        return None

    def write(self, reactions: list[Reaction]) -> None:
        """Add the reactions of one entry, in order. The list must not change afterwards. Never blocks."""
        rows = len(reactions)
        if not rows:
            return
        size = 0
        for reaction in reactions:
            size += traced_bytes(reaction)
        with self._changed:
            held = self._held_rows
            if self._thread is None or self._closing:
                self.dropped += rows
                return
            if held and (held + rows > self._max_rows or self._held_bytes + size > self._max_bytes):
                self.dropped += rows
                return
            self._held_rows = held + rows
            self._held_bytes += size
            self._pending.append(reactions)
            before = self._pending_rows
            self._pending_rows = before + rows
            if self._first_at is None:
                self._first_at = self._clock()
                self._changed.notify_all()
            elif before < CHUNK_ROWS <= before + rows:
                self._changed.notify_all()

    def event(self, event: Mapping[str, Any]) -> None:
        """Add something that is no reaction, as soon as the disk can take it. Never blocks."""
        with self._changed:
            self._events.add(event)
            self._changed.notify_all()

    def flush(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Wait until all rows so far are in finished files; return False if the disk fails or time runs out.

        It blocks: call it from a thread that may wait.
        """
        if self._thread is None:
            return False
        with self._changed:
            self._flushes_asked += 1
            wanted = self._flushes_asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._flushes_done >= wanted, timeout_s)
            return self._flushes_done >= wanted and not self._refused

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what is left and end. Rows that cannot be written now count as dropped. It blocks."""
        thread = self._thread
        if thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        thread.join(timeout_s)

    # Called in the writer's thread

    def _run(self) -> None:
        columns = Columns(self._origin)
        while True:
            batch, flushes, closing = self._wait(len(columns))
            self._write_events()
            self._convert(columns, batch)
            if len(columns) and (flushes or closing or self._is_due(columns)):
                self._roll(columns)
            with self._changed:
                if flushes:
                    self._flushes_done = flushes
                    self._changed.notify_all()
                if closing:
                    self.dropped += self._held_rows
                    return

    def _wait(self, converted: int) -> tuple[list[list[Reaction]], int, bool]:
        """Sleep until there is something to do; return the rows to convert and what was asked for."""
        with self._changed:
            while True:
                asked = self._flushes_asked if self._flushes_asked > self._flushes_done else 0
                if asked or self._closing or self._pending_rows >= CHUNK_ROWS or self._events.waiting:
                    break
                if self._first_at is None:
                    self._changed.wait()
                    continue
                until = self._retry_at if converted >= self._roll_rows else self._first_at + self._roll_s
                remaining = max(until, self._retry_at) - self._clock()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            batch = list(self._pending)
            self._pending.clear()
            self._pending_rows = 0
            return batch, asked, self._closing

    def _write_events(self) -> None:
        with self._changed:
            lines = self._events.take()
        if lines:
            # Without them a report of failovers knows less; the reactions tell the rest.
            with contextlib.suppress(OSError):
                self._directory.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
                self._events.write(lines)

    def _is_due(self, columns: Columns) -> bool:
        now = self._clock()
        old = self._first_at is not None and now >= self._first_at + self._roll_s
        return now >= self._retry_at and (
            old or len(columns) >= self._roll_rows or columns.size >= ROLL_BYTES
        )

    def _convert(self, columns: Columns, batch: list[list[Reaction]]) -> None:
        """Turn rows into columns, in pieces small enough to let the reactor run in between."""
        piece: list[Reaction] = []
        for reactions in batch:
            piece.extend(reactions)
            while len(piece) >= CHUNK_ROWS:
                self._extend(columns, piece[:CHUNK_ROWS])
                del piece[:CHUNK_ROWS]
        if piece:
            self._extend(columns, piece)

    def _extend(self, columns: Columns, piece: list[Reaction]) -> None:
        try:
            columns.extend(piece)
        except Exception as error:  # one bad row must not end the trace, nor take others with it
            if len(piece) > 1:
                half = len(piece) // 2
                self._extend(columns, piece[:half])
                self._extend(columns, piece[half:])
            else:
                self._drop(piece[0], error)
            return
        if len(columns) >= self._roll_rows and self._is_due(columns):
            self._roll(columns)
        time.sleep(0)  # lets the reactor have the interpreter

    def _drop(self, row: Reaction, error: Exception) -> None:
        with self._changed:
            self.dropped += 1
            self._held_rows -= 1
            self._held_bytes -= traced_bytes(row)
            if not self._held_rows:
                self._first_at = None
        self._unfit = self._unfit or f"row {row.position} cannot be stored: {reason(error)}"

    def _roll(self, columns: Columns) -> None:
        """Write the columns as one file; on failure they are kept, to be tried again."""
        rows, size = len(columns), columns.size
        try:
            self._write_file(columns)
        except Exception as error:  # the server goes on without its trace, whatever the disk does
            self._refused = reason(error)
            self._retry_at = self._clock() + self._retry_s
            return
        columns.clear()
        with self._changed:
            self._refused = ""
            self.written += rows
            self._held_rows -= rows
            self._held_bytes -= size
            self._first_at = self._clock() if self._held_rows else None
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        """Keep the files within the bounds of the retention."""
        if self._retention is None:
            return
        try:
            self._retention.apply()
            self._not_removed = ""
        except OSError as error:
            self._not_removed = reason(error)

    def _write_file(self, columns: Columns) -> None:
        if not self._sequence:
            self._prepare()
        path = self._directory / f"{self._prefix}{self._sequence:06d}.parquet"
        part = path.with_name(path.name + ".part")
        try:
            with self._open(part) as file:
                columns.write(file, self.dropped)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        sync_directory(self._directory)
        self._sequence += 1

    def _prepare(self) -> None:
        """Create the directory, remove incomplete files of an earlier process, find the next number."""
        self._directory.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
        for stale in self._directory.glob("*.parquet.part"):
            stale.unlink(missing_ok=True)
        numbers = [0]
        for path in self._directory.glob(f"{self._prefix}*.parquet"):
            digits = path.stem.removeprefix(self._prefix)
            if digits.isdigit():
                numbers.append(int(digits))
        self._sequence = max(numbers) + 1


def reason(error: Exception) -> str:
    """Return why a file could not be written."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"
