"""The streams that a client follows, and how far it has them. No I/O, no clock."""

from ..agents.ids import AgentId
from .frames import StreamAck

__all__ = ["MAX_STREAMS", "StreamPositions"]

MAX_STREAMS = 4096
"""Streams that a connection may follow: their positions fit into one frame."""


class StreamPositions:
    """What the client has of each stream. A replica that it connects to is told all positions."""

    def __init__(self) -> None:
        self._positions: dict[AgentId, int] = {}
        self._changed: dict[AgentId, None] = {}

    def acknowledge(self, stream: AgentId, upto: int) -> None:
        """Note that the client has everything up to an item; the first call begins to follow the stream.

        Raises ValueError if it follows too many.
        """
        if stream not in self._positions and len(self._positions) >= MAX_STREAMS:
            raise ValueError(f"a connection is in {MAX_STREAMS} groups at most; open another connection")
        self._positions[stream] = upto
        self._changed[stream] = None

    def forget(self, stream: AgentId) -> None:
        """Follow a stream no longer."""
        self._positions.pop(stream, None)
        self._changed.pop(stream, None)

    def opened(self) -> None:
        """Have all positions sent again: a replica was connected that does not know them."""
        self._changed = dict.fromkeys(self._positions)

    @property
    def due(self) -> bool:
        """Whether there is something to send."""
        return bool(self._changed)

    def take(self) -> StreamAck:
        """Return the frame with what has changed since the last call."""
        changed, self._changed = self._changed, {}
        return StreamAck([(stream, self._positions[stream]) for stream in changed])
