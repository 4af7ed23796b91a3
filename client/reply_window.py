"""The reply window: how much a client may have unacknowledged, so that the server can hold the answers.

The server holds a bounded number of bytes for each client until the client acknowledges them. An
acknowledgement reaches the server only behind the notifications that the client sent before it. So the
answers to all of these wait on the server, however fast the client reads. Their size is not known in advance.
The window begins small, as if answers were as large as what is sent, and then follows the size of the latest
answers.
"""

import math
from typing import Final

from ..agents.client_output import MAX_OUTPUT_BYTES

__all__ = ["ReplyWindow"]

ROOM_BYTES: Final = MAX_OUTPUT_BYTES // 4
"""Bytes for the answers to all unacknowledged notifications. The rest of the server's limit is for answers to
earlier ones that still wait."""
FIRST: Final = 256
"""Window at the beginning, in notifications. It grows by one with each acknowledgement."""
LEAST: Final = 1
"""Smallest window, in notifications: a client may also receive notifications that are not answers."""
LATEST: Final = 4096
"""Above this number of counted notifications both counts are halved, so that the latest weigh most."""
LATE_S: Final = 1.0
"""Bytes that arrive later than this after something was unacknowledged are not counted as answers."""


class ReplyWindow:
    """Counts the bytes received per notification sent, and computes the window from them."""

    def __init__(self) -> None:
        self.window = FIRST
        """How many notifications may be unacknowledged."""
        self.window_bytes = ROOM_BYTES
        """How many bytes of notifications may be unacknowledged."""
        self._trusted = FIRST
        self._notes = 0
        self._bytes = 0
        self._under_way_since = -math.inf

    def under_way(self, now: float) -> None:
        """Record that something is unacknowledged at this time."""
        self._under_way_since = now

    def acknowledged(self, count: int, size_bytes: int) -> None:
        """Count notifications that the cluster has acknowledged."""
        self.window_bytes += size_bytes
        self._trusted += count
        self._notes += count
        if self._notes > LATEST:
            self._notes //= 2
            self._bytes //= 2
        self._adjust()

    def received(self, now: float, size_bytes: int) -> None:
        """Count bytes of payloads from the server, which may be answers."""
        if now - self._under_way_since < LATE_S:
            self._bytes += size_bytes
            self._adjust()

    def _adjust(self) -> None:
        fit = ROOM_BYTES * self._notes // self._bytes if self._bytes else self._trusted
        self.window = min(self._trusted, max(LEAST, fit))
