"""How much a client may have under way to agents that answer. Pure.

What waits for a client on the server is bounded, and an acknowledgement travels behind what was sent before
it: however fast a client reads, the answers to all that it has sent ahead wait there. Their size is not known
in advance. So a client begins with little under way, as if the answers were as large as what it sends, and
keeps to as many notifications as have answers that fit, going by the latest ones.
"""

import math
from typing import Final

from ..agents.proxy import MAX_OUTPUT_BYTES

__all__ = ["ReplyWindow"]

ROOM_BYTES: Final = MAX_OUTPUT_BYTES // 4
"""For the answers to all that is under way; those to what was before that may wait still."""
FIRST: Final = 256
"""Notifications under way at the beginning; one more with every one that is acknowledged."""
LEAST: Final = 1
"""Never fewer: what a client is sent need not be answers."""
LATEST: Final = 4096
"""Of more notifications half are forgotten."""
LATE_S: Final = 1.0
"""What comes so long after something was under way is no answer."""


class ReplyWindow:
    """What came back for what was sent, and what follows from it, whatever the server allows."""

    def __init__(self) -> None:
        self.window = FIRST
        """How many notifications may be under way."""
        self.window_bytes = ROOM_BYTES
        """How many bytes of them."""
        self._trusted = FIRST
        self._notes = 0
        self._bytes = 0
        self._under_way_since = -math.inf

    def under_way(self, now: float) -> None:
        """Something is under way."""
        self._under_way_since = now

    def acknowledged(self, count: int, size_bytes: int) -> None:
        """The cluster has so many more notifications."""
        self.window_bytes += size_bytes
        self._trusted += count
        self._notes += count
        if self._notes > LATEST:
            self._notes //= 2
            self._bytes //= 2
        self._adjust()

    def received(self, now: float, size_bytes: int) -> None:
        """So many bytes of payloads have come from the server, perhaps as answers."""
        if now - self._under_way_since < LATE_S:
            self._bytes += size_bytes
            self._adjust()

    def _adjust(self) -> None:
        fit = ROOM_BYTES * self._notes // self._bytes if self._bytes else self._trusted
        self.window = min(self._trusted, max(LEAST, fit))
