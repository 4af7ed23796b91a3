"""The settings of a destination: its limits, and what becomes of messages that it cannot keep."""

from enum import StrEnum
from typing import Final

import attrs

from ...agents import AgentId

__all__ = ["DestinationSettings", "FullPolicy", "Kind"]

DEFAULT_MAX_DELIVERIES: Final = 20
DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024
DEFAULT_MAX_MESSAGE_BYTES: Final = 1024 * 1024


class Kind(StrEnum):
    """What a destination does with a message."""

    QUEUE = "queue"
    """One consumer gets it."""
    TOPIC = "topic"
    """Each subscription gets it."""


class FullPolicy(StrEnum):
    """What a destination does at its limit."""

    BLOCK = "block"
    """Producers wait until there is room."""
    REJECT = "reject"
    """Messages are refused, and the producer is told."""
    DROP_OLDEST = "drop-oldest"
    """The oldest message that nobody has got makes room."""
    DEAD_LETTER = "dmq"
    """Messages go to the dead message queue."""


@attrs.frozen
class DestinationSettings:
    """The settings of a destination. Zero means no limit."""

    max_messages: int = 0
    max_bytes: int = DEFAULT_MAX_BYTES
    """Bytes of bodies."""
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    """The largest body."""
    full: str = FullPolicy.BLOCK.value
    """One of `FullPolicy`."""
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    """A message that came back seen so often goes to the dead message queue."""
    redelivery_delay_ms: int = 0
    """A message that came back seen is delivered again no earlier than this."""
    redelivery_multiplier: float = 1.0
    """The delay grows by this factor with each return."""
    dead_queue: str = ""
    """The name of the queue for dead messages; empty: they are dropped, and counted."""
    last_value: bool = False
    """Of a queue: a message replaces the one with the same key that no consumer has."""
    owner: AgentId | None = None
    """Of a temporary destination: the connection that alone consumes from it."""
    tree: bool = False
    """Of a topic: it is a tree, which has all topics whose names begin with its own and a dot."""
    forward: str = ""
    """Where all messages go on to, ``orders@s1``: a destination of the same kind."""
    peers: tuple[str, ...] = ()
    """The other members of a clustered destination, ``orders@s1``: each on a server of its own."""

    def flaw(self, kind: str) -> str:
        """Return what is wrong with the settings of a destination of a kind, "" if nothing is."""
        if self.last_value and kind != Kind.QUEUE:
            return "last_value is for queues"
        if self.tree and kind != Kind.TOPIC:
            return "tree is for topics"
        if self.last_value and (self.peers or self.forward):
            return "a last-value queue is neither clustered nor forwarded"
        if self.forward and self.peers and kind == Kind.QUEUE:
            return "a queue is either clustered or forwarded"
        for title in (self.forward, *self.peers):
            name, at, server = title.rpartition("@")
            if title and not (name and at and server and "@" not in name):
                return f"{title!r} is not a destination of another server; write name@server"
        for name in ("max_messages", "max_bytes", "max_deliveries", "redelivery_delay_ms"):
            if getattr(self, name) < 0:
                return f"{name} is {getattr(self, name)}; give 0 or more"
        if self.max_message_bytes < 1:
            return f"max_message_bytes is {self.max_message_bytes}; give 1 or more"
        if self.full not in list(FullPolicy):
            return f"full is {self.full!r}; give {', '.join(FullPolicy)}"
        if not 1.0 <= self.redelivery_multiplier <= 100.0:
            return f"redelivery_multiplier is {self.redelivery_multiplier}; give 1 to 100"
        return ""

    def return_delay_ms(self, deliveries: int) -> int:
        """Return how long a message waits that has come back so often. At most a day."""
        if not self.redelivery_delay_ms:
            return 0
        factor = self.redelivery_multiplier ** min(deliveries - 1, 64)
        return int(min(self.redelivery_delay_ms * factor, 24 * 3600 * 1000))
