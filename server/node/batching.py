"""The queue of input that waits to be submitted, cut into batches. Pure."""

from collections import deque

import attrs

from ...agents import Note
from ...engine import CausalInput, NetAck, NetInput, Posts
from ...engine.batch import Item

__all__ = ["BatchLimits", "BatchQueue"]

NOTE_BYTES = 96
"""Counted for each notification besides its payload."""
SENT_BYTES = 16
"""Counted for each cell of a clock that a notification carries."""


@attrs.frozen
class BatchLimits:
    """Sizes of batches, and of the queue."""

    batch_bytes: int = 128 * 1024
    batch_notes: int = 1024
    """The most that a batch holds, in bytes and notifications; one larger item makes a batch of its own."""
    high_water_bytes: int = 8 * 1024 * 1024
    high_water_notes: int = 16 * 1024
    """The queue is `full` from when it exceeds one of the two until it holds at most half of each."""


@attrs.define
class Waiting:
    """An item of the queue, its size in notifications and bytes, and the tokens of its senders."""

    item: Item
    notes: int
    size: int
    tokens: list[int]


def _size(notes: list[Note]) -> int:
    return sum([len(note.payload) for note in notes]) + NOTE_BYTES * len(notes)


class BatchQueue:
    """Items in the order of arrival, with the tokens of the senders that wait for their commit."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self.waiting: deque[Waiting] = deque()
        """The items, in the order of arrival."""
        self.size_bytes = 0
        self.notes = 0
        """Notifications waiting."""
        self.full = False

    @property
    def has_batch(self) -> bool:
        """True when the queue holds enough for a full batch."""
        return self.notes >= self._limits.batch_notes or self.size_bytes >= self._limits.batch_bytes

    def clear(self) -> None:
        """Drop all items."""
        self.waiting.clear()
        self.size_bytes = self.notes = 0
        self.full = False

    def add_notes(self, notes: list[Note], token: int | None) -> None:
        """Add notifications; `token` is returned with the batch that has the last of them."""
        size = self._limits.batch_notes
        if len(notes) <= size:
            self._add_part(notes, [] if token is None else [token])
            return
        for start in range(0, len(notes), size):
            last = start + size >= len(notes)
            self._add_part(notes[start : start + size], [token] if last and token is not None else [])

    def add_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        """Add notifications from one life of another server."""
        self._add(NetInput(server, birth, first_seq, notes), len(notes), _size(notes), [])

    def add_causal(self, item: CausalInput) -> None:
        """Add notifications from one life of another server, in a domain with causal order."""
        cells = sum([len(note.past) for note in item.notes])
        size = sum([len(note.payload) for note in item.notes]) + NOTE_BYTES * len(item.notes)
        self._add(item, len(item.notes), size + SENT_BYTES * cells, [])

    def add_ack(self, server: int, birth: int, upto: int) -> None:
        """Add an acknowledgement from one life of another server. It replaces an earlier one that waits."""
        for waiting in self.waiting:
            item = waiting.item
            if isinstance(item, NetAck) and item.server == server and item.birth == birth:
                waiting.item = NetAck(server, birth, max(upto, item.upto))
                return
        self._add(NetAck(server, birth, upto), 0, 16, [])

    def add(self, item: Item) -> None:
        """Add an item without notifications."""
        self._add(item, 0, 16, [])

    def add_first(self, item: Item) -> None:
        """Add an item without notifications before all others."""
        self.waiting.appendleft(Waiting(item, 0, 16, []))
        self._weigh(0, 16)

    def next_batch(self) -> tuple[list[Item], list[int]]:
        """Remove the next batch: its items and their tokens."""
        items: list[Item] = []
        tokens: list[int] = []
        notes = size = 0
        queue, limits = self.waiting, self._limits
        while queue:
            waiting = queue[0]
            if items and (
                notes + waiting.notes > limits.batch_notes or size + waiting.size > limits.batch_bytes
            ):
                break
            queue.popleft()
            items.append(waiting.item)
            tokens += waiting.tokens
            notes += waiting.notes
            size += waiting.size
        self._weigh(-notes, -size)
        return items, tokens

    def _add_part(self, notes: list[Note], tokens: list[int]) -> None:
        size = _size(notes)
        limits = self._limits
        tail = self.waiting[-1] if self.waiting else None
        if (
            tail is not None
            and isinstance(tail.item, Posts)
            and tail.notes + len(notes) <= limits.batch_notes
            and tail.size + size <= limits.batch_bytes
        ):
            tail.item.notes.extend(notes)
            tail.notes += len(notes)
            tail.size += size
            tail.tokens += tokens
            self._weigh(len(notes), size)
        else:
            # A copy, because this list grows later and the caller's must not.
            self._add(Posts(list(notes)), len(notes), size, tokens)

    def _add(self, item: Item, notes: int, size: int, tokens: list[int]) -> None:
        self.waiting.append(Waiting(item, notes, size, tokens))
        self._weigh(notes, size)

    def _weigh(self, notes: int, size: int) -> None:
        self.notes += notes
        self.size_bytes += size
        limits = self._limits
        if self.notes > limits.high_water_notes or self.size_bytes > limits.high_water_bytes:
            self.full = True
        elif self.notes * 2 <= limits.high_water_notes and self.size_bytes * 2 <= limits.high_water_bytes:
            self.full = False
