"""The envelope of what agents put into queues for threads of the server's process."""

from typing import Final

import msgspec

from .ids import AgentId

__all__ = ["MAX_QUEUE_NAME", "QUEUE_TOPIC", "Put", "QueuePut", "check_queue_name"]

QUEUE_TOPIC: Final = "queue"
"""Topic under which ``ctx.put`` emits."""
MAX_QUEUE_NAME: Final = 255
"""Characters of the name of a queue."""


class QueuePut(msgspec.Struct, array_like=True, frozen=True):
    """A notification for a queue, as the reaction emits it."""

    queue: str
    type: str
    payload: bytes


class Put(msgspec.Struct, frozen=True, gc=False):
    """A `QueuePut` of a reaction that has succeeded."""

    agent: AgentId
    position: int
    """Position of the reaction."""
    place: int
    """Place among those that the reaction put, from 0."""
    message: QueuePut


def check_queue_name(queue: str) -> None:
    """Raise TypeError or ValueError if a queue cannot have that name."""
    if not isinstance(queue, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{queue!r} is not the name of a queue; give text")
    if not 0 < len(queue) <= MAX_QUEUE_NAME:
        raise ValueError(f"the name of a queue has 1 to {MAX_QUEUE_NAME} characters, not {len(queue)}")
