"""The queues of a replica for the threads of its process. Source: HA Joram specification, section 4.3.2."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from ...agents.thread_queue import Put, check_queue_name
from ...client.local.thread_queue import (
    MAX_ITEM_BYTES,
    MAX_ITEMS,
    QueueGap,
    ThreadQueue,
    WaitingItem,
)
from ..node.outputs import QueuePuts

__all__ = ["ThreadQueues"]

MAX_QUEUES: Final = 256
"""Queues that agents have named and no thread has asked for."""
UNREAD_ITEMS: Final = 1024
UNREAD_BYTES: Final = 256 * 1024
"""Items, and their bytes, that a queue holds before a thread asks for it."""


class ThreadQueues:
    """The queues by name. The server's thread fills them, any thread asks for one."""

    def __init__(self, log: Callable[[str], None], blocked: Callable[[], bool]) -> None:
        """`log` writes a line to the log; `blocked`: see `ThreadQueue`."""
        self._log = log
        self._blocked = blocked
        self._lock = threading.Lock()
        self._queues: dict[str, ThreadQueue] = {}
        self._unasked: set[str] = set()
        """The names of the queues that no thread has asked for."""
        self._first: QueueGap | None = None
        """The gap with which queues begin that are new; None if this replica has all items of them."""
        self._overflow = False
        self._closed = ""

    def queue(self, name: str) -> ThreadQueue:
        """Return a queue for a thread to read. Raises TypeError or ValueError for a wrong name."""
        check_queue_name(name)
        with self._lock:
            queue = self._queues.get(name)
            if queue is None:
                queue = self._new(name)
            if name in self._unasked:
                self._unasked.discard(name)
                queue.widen(MAX_ITEMS, MAX_ITEM_BYTES)
        return queue

    def begin(self, saved: int, again: Sequence[tuple[int, list[Put]]]) -> None:
        """Fill the queues at a start: the state after entry `saved` was loaded, and later entries applied
        again; `again` is what these put."""
        if saved:
            self.state_replaced(f"this replica has started with its saved state after entry {saved}")
        for entry, puts in again:
            self.put(QueuePuts(entry, puts, recovered=True))

    def put(self, puts: QueuePuts) -> None:
        """Put the notifications of an entry into their queues."""
        for put in puts.puts:
            message = put.message
            queue = self._queues.get(message.queue)
            if queue is None:
                queue = self._unread(message.queue)
            if queue is not None:
                number = (put.position, put.place)
                queue.put(
                    WaitingItem(
                        message.type,
                        message.payload,
                        put.agent,
                        puts.entry,
                        number,
                        puts.master,
                        puts.recovered,
                    )
                )

    def state_replaced(self, reason: str) -> None:
        """Record that items are missing up to now, for the reason."""
        gap = QueueGap(None, f"{reason}, so it does not have the items up to there that nobody had read")
        with self._lock:
            self._first = gap
            for queue in self._queues.values():
                queue.put_gap(gap)

    def close(self, reason: str) -> None:
        """End all queues: threads read what waits, then get the reason."""
        with self._lock:
            self._closed = reason
            for queue in self._queues.values():
                queue.close(reason)

    def _new(self, name: str) -> ThreadQueue:
        queue = self._queues[name] = ThreadQueue(name, self._blocked)
        if self._first is not None:
            queue.put_gap(self._first)
        if self._closed:
            queue.close(self._closed)
        return queue

    def _unread(self, name: str) -> ThreadQueue | None:
        """Return a new queue for a name that an agent uses first; None if there are too many of them."""
        with self._lock:
            if len(self._unasked) < MAX_QUEUES:
                queue = self._new(name)
                queue.widen(UNREAD_ITEMS, UNREAD_BYTES)
                self._unasked.add(name)
                return queue
            if not self._overflow:
                self._overflow = True
                self._log(
                    f"agents use more than {MAX_QUEUES} queues that no thread reads; further ones, like "
                    f"{name!r}, hold nothing before a thread asks for them"
                )
            self._first = self._first or QueueGap(
                None, f"agents used more than {MAX_QUEUES} queues that no thread read"
            )
        return None
