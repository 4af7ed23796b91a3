"""Dead messages: those that a destination could not keep, on their way to a dead message queue."""

from typing import Final

import attrs

from ...agents import ColumnValue, Notification, Pack
from .protocol import Reason

__all__ = ["DeadLetters", "dead_letters"]

MAX_HOPS: Final = 8
"""How often a message may go from one dead message queue to the next."""


@attrs.frozen
class DeadLetters(Notification, name="quorate.message.dead-letters"):
    """Messages that a destination could not keep, for the dead message queue.

    Columns: ``dead_reason``, ``dead_origin``, ``dead_time`` and ``dead_hops`` beside those of the messages.
    """

    pack: Pack


def dead_letters(pack: Pack, reason: Reason, origin: str, now_ms: int) -> DeadLetters | None:
    """Return what to send for these messages; None if all of them were in too many dead message queues."""
    hops = [int(value) + 1 if isinstance(value, int) else 1 for value in pack.column("dead_hops")]
    living = [index for index, count in enumerate(hops) if count <= MAX_HOPS]
    if not living:
        return None
    marked = pack.with_columns(
        dead_reason=reason.value,
        dead_origin=origin,
        dead_time=now_ms,
        dead_hops=list[ColumnValue](hops),
        # They have served: in a dead message queue nothing expires or waits.
        expires=None,
        due=None,
        ttl=None,
        delay=None,
    )
    return DeadLetters(marked.take(living))
