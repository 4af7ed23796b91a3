"""Who waits until all members of the view hold a message."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["StableWaits"]

T = TypeVar("T")


class StableWaits(Generic[T]):
    """Tickets of entries that are delivered here, but not known to be everywhere."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, T, int]] = deque()
        """(entry, ticket, index of the message)."""

    def add(self, entry: int, ticket: T, index: int) -> None:
        """Keep a ticket until all members hold this entry, which has the message; entries never decrease."""
        self._waiting.append((entry, ticket, index))

    def reached(self, upto: int) -> Iterator[tuple[T, int]]:
        """Give, and forget, (ticket, index) of entries up to this one, one by one."""
        while self._waiting and self._waiting[0][0] <= upto:
            _, ticket, index = self._waiting.popleft()
            yield ticket, index

    def drop(self) -> list[tuple[T, int]]:
        """Return, and forget, all."""
        dropped, self._waiting = self._waiting, deque()
        return [(ticket, index) for _, ticket, index in dropped]
