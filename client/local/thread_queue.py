"""A queue from the agents of a server to the threads of the process: every replica fills its own.

Source: HA Joram specification, section 4.3.2.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from ...agents.envelope import Opaque
from ...agents.ids import AgentId
from ...agents.notification import Notification, decode, known_type
from ..errors import ConnectionClosed, RequestTimeout

__all__ = ["MAX_ITEMS", "MAX_ITEM_BYTES", "QueueGap", "QueueItem", "ThreadQueue", "WaitingItem"]

MAX_ITEMS: Final = 65536
"""Items that wait in a queue for the threads that read it."""
MAX_ITEM_BYTES: Final = 64 * 1024 * 1024
"""Bytes of payloads that wait in a queue."""


@attrs.frozen
class QueueItem:
    """A notification that an agent has put into a queue."""

    notification: Notification | Opaque
    """Left undecoded (`Opaque`) if this process does not know its type."""
    agent: AgentId
    """The agent that has put it."""
    entry: int
    """The entry of the ordered log whose reaction has put it."""
    number: tuple[int, int]
    """The position of the reaction on its server, and the place of the item among those that the reaction
    put, from 0. It is the same on every replica, and higher than that of all earlier items."""
    master: bool
    """Whether this replica was the master when it applied the entry. A slave gets the same items."""
    recovered: bool
    """Whether the entry was applied again when this replica started: a former process of it may have read
    this item. `master` is False then, whatever the replica was before."""


@attrs.frozen
class QueueGap:
    """The place of items that this replica does not have."""

    dropped: int | None
    """Number of items that were dropped because nobody read them; None if it is not known."""
    reason: str
    """One sentence: why they are missing."""


@attrs.frozen
class WaitingItem:
    """An item of a queue, not decoded yet."""

    type: str
    payload: bytes
    agent: AgentId
    entry: int
    number: tuple[int, int]
    master: bool
    recovered: bool

    def decoded(self) -> QueueItem:
        """Return the item with its notification, as far as its type is known here."""
        cls = known_type(self.type)
        notification: Notification | Opaque = Opaque(self.type, self.payload, 0)
        if cls is not None:
            try:
                notification = decode(cls, self.payload)
            except Exception:  # The code of the class may raise anything, in a validator say.
                notification = Opaque(self.type, self.payload, 0)
        return QueueItem(notification, self.agent, self.entry, self.number, self.master, self.recovered)


class ThreadQueue:
    """The items of one queue on one replica. `LocalServer.queue` returns it; any thread may read it.

    It holds `MAX_ITEMS` items of `MAX_ITEM_BYTES`. When more come, the oldest are dropped, and a `QueueGap`
    with their number stands in their place: the server never waits for a thread.
    """

    def __init__(
        self,
        name: str,
        blocked: Callable[[], bool] = lambda: False,
        max_items: int = MAX_ITEMS,
        max_bytes: int = MAX_ITEM_BYTES,
    ) -> None:
        """`blocked` returns whether the calling thread must not wait, because it is the server's."""
        self.name = name
        self._blocked = blocked
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._items: deque[WaitingItem | QueueGap] = deque()
        self._size_bytes = 0
        self._dropped = 0
        self._lost_gap = False
        """Whether a gap of unknown size was dropped with the oldest items."""
        self._closed = ""

    def __len__(self) -> int:
        """Return the number of items and gaps that wait."""
        with self._changed:
            return len(self._items) + (self._dropped > 0)

    def get(self, timeout: float | None = None) -> QueueItem | QueueGap:
        """Return the next item, and wait for it at most `timeout` seconds; None: without a limit.

        Raises `RequestTimeout` when the time is over, `ConnectionClosed` when the replica has stopped and all
        items are read, and RuntimeError in the server's own thread if there is no item.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not (self._items or self._dropped):
                if self._closed:
                    raise ConnectionClosed(f"the queue {self.name} has ended: {self._closed}")
                left_s = None if end is None else end - time.monotonic()
                if left_s is not None and left_s <= 0:
                    raise RequestTimeout(f"nothing was put into the queue {self.name} within {timeout:g} s")
                if self._blocked():
                    raise RuntimeError(
                        f"the queue {self.name} is empty, and the server's own thread, which fills it, must "
                        "not wait for it; read it in another thread"
                    )
                self._changed.wait(left_s)
            return self._next()

    def __iter__(self) -> Iterator[QueueItem | QueueGap]:
        """Iterate over the items as they come, until the replica stops."""
        while True:
            try:
                yield self.get()
            except ConnectionClosed:
                return

    def _next(self) -> QueueItem | QueueGap:
        if self._dropped:
            dropped = None if self._lost_gap else self._dropped
            self._dropped, self._lost_gap = 0, False
            return QueueGap(dropped, f"the queue {self.name} was full, so its oldest items were dropped")
        item = self._items.popleft()
        if isinstance(item, QueueGap):
            return item
        self._size_bytes -= len(item.payload)
        return item.decoded()

    # For the server

    def put(self, item: WaitingItem) -> None:
        """Add an item. Drop the oldest ones if there is no room."""
        with self._changed:
            self._items.append(item)
            self._size_bytes += len(item.payload)
            while len(self._items) > self._max_items or self._size_bytes > self._max_bytes:
                self._drop_oldest()
            self._changed.notify()

    def _drop_oldest(self) -> None:
        oldest = self._items.popleft()
        if isinstance(oldest, QueueGap):
            self._lost_gap = True
        else:
            self._dropped += 1
            self._size_bytes -= len(oldest.payload)

    def put_gap(self, gap: QueueGap) -> None:
        """Add the place of items that this replica does not get."""
        with self._changed:
            if not (self._items and isinstance(self._items[-1], QueueGap)):
                self._items.append(gap)
            self._changed.notify()

    def widen(self, max_items: int, max_bytes: int) -> None:
        """Hold that much from now on."""
        with self._changed:
            self._max_items, self._max_bytes = max_items, max_bytes

    def close(self, reason: str) -> None:
        """End the queue: readers get what waits, then the reason."""
        with self._changed:
            self._closed = reason
            self._changed.notify_all()
