"""A connection inside of one process: bytes between two threads, bounded, without a socket.

Each of its two ends belongs to a thread with an event loop. All methods of an end, but those that the other
end calls, are called in its thread, and so are its callbacks.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["HELD_BYTES", "LinkEnd", "Schedule", "new_link"]

HELD_BYTES: Final = 256 * 1024
"""With this many bytes that the other end has not read, an end is told to pause."""

Schedule = Callable[[Callable[[], None]], object]
"""Calls a function soon in the thread of an event loop. Any thread may call it. Raises RuntimeError when the
loop has ended."""


def _ignore() -> None:
    return


def _ignore_bytes(_: bytes) -> None:
    return


def _ignore_reason(_: str) -> None:
    return


class LinkEnd:
    """One end of a connection. Set the callbacks before the first bytes can arrive.

    The class has more than 15 attributes: five of them are the callbacks of its owner.
    """

    other: "LinkEnd"

    def __init__(self, schedule: Schedule) -> None:
        """`schedule` calls a function in the thread of this end."""
        self.schedule = schedule
        self.received: Callable[[bytes], None] = _ignore_bytes
        """Called with bytes of the other end."""
        self.lost: Callable[[str], None] = _ignore_reason
        """Called once, with the reason, when the other end has closed and its bytes are read."""
        self.paused: Callable[[], None] = _ignore
        """Called when the other end does not read: write no more until `resumed`."""
        self.resumed: Callable[[], None] = _ignore
        """Called when the other end has read what was written."""
        self.closed = False
        """Whether this end has closed, or has reported that the other one has."""
        self._lock = threading.Lock()
        # Guarded by the lock: the other end writes here.
        self._arrived: deque[bytes] = deque()
        self._size_bytes = 0
        self._woken = False
        self._writer_waits = False
        self._end: str | None = None
        self._reading = True

    # In the thread of this end

    def write(self, data: bytes) -> None:
        """Pass bytes to the other end. After the end of the connection they are dropped."""
        if not self.closed and self.other._put(data):
            self.paused()

    def close(self, reason: str) -> None:
        """Close: the other end reads what was written, then its `lost` is called with the reason."""
        if not self.closed:
            self.closed = True
            self.other._finish(reason)

    def pause_reading(self) -> None:
        """Read no more until `resume_reading`."""
        with self._lock:
            self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        with self._lock:
            self._reading = True
        self._wake()

    def _deliver(self) -> None:
        with self._lock:
            self._woken = False
            if not self._reading or self.closed:
                return
            data = b"".join(self._arrived)
            self._arrived.clear()
            self._size_bytes = 0
            waits, self._writer_waits = self._writer_waits, False
        if waits:
            self.other._schedule_or_end(self.other._resume)
        if data:
            self.received(data)
        with self._lock:
            over = self._end is not None and self._reading and not self._arrived
        if over and not self.closed:
            self.closed = True
            self.lost(self._end or "")

    def _resume(self) -> None:
        if not self.closed:
            self.resumed()

    # Called by the other end, in its thread

    def _put(self, data: bytes) -> bool:
        """Add bytes; return True if the writer has to pause."""
        with self._lock:
            self._arrived.append(data)
            self._size_bytes += len(data)
            pause = self._size_bytes >= HELD_BYTES and not self._writer_waits
            self._writer_waits = self._writer_waits or pause
        self._wake()
        return pause

    def _finish(self, reason: str) -> None:
        with self._lock:
            self._end = reason
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._woken:
                return
            self._woken = True
        self._schedule_or_end(self._deliver)

    def _schedule_or_end(self, function: Callable[[], None]) -> None:
        """Call a function in the thread of this end. If its loop has ended, so has this end."""
        try:
            self.schedule(function)
        except RuntimeError:
            self.closed = True
            other = self.other
            with other._lock:
                other._end = other._end or "the event loop of the other side has ended"
                other._woken = True
            try:
                other.schedule(other._deliver)
            except RuntimeError:
                other.closed = True


def new_link(mine: Schedule, theirs: Schedule) -> tuple[LinkEnd, LinkEnd]:
    """Return the two ends of a connection, given what schedules calls in the thread of each."""
    end, other = LinkEnd(mine), LinkEnd(theirs)
    end.other, other.other = other, end
    return end, other
