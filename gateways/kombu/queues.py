"""The queues that a connection has declared: some are queues of the server, some live with their users."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ...messaging.client.consumer import ConsumerOptions
from ...messaging.client.destinations import Queue, Topic
from .broker import Place
from .names import binding_topic, queue_topic

__all__ = ["DeclaredQueue", "argument_flaw"]

CLIENT: Final = "kombu"
"""The owner of the subscriptions of all bound queues."""
_HARMLESS: Final = frozenset(("x-max-priority", "x-queue-type", "x-queue-mode", "x-expires", "x-message-ttl"))
"""Arguments that ask for nothing that queues here do not do, or that only bound what is kept for a client."""


def argument_flaw(name: str, arguments: Mapping[str, Any] | None, *, transient: bool) -> str:
    """Return why a queue with these arguments cannot be declared, "" if it can."""
    for argument in arguments or {}:
        if argument not in _HARMLESS or (argument in ("x-message-ttl", "x-expires") and not transient):
            return (
                f"the queue {name} is declared with {argument}; set the limits and the dead message queue of "
                "a queue where the server declares it, and leave the argument out"
            )
    return ""


@attrs.define
class DeclaredQueue:
    """A queue that a connection has declared."""

    name: str
    tree: str
    transient: bool
    """Whether it ends with the connections that use it: not durable, exclusive, or deleted by itself."""
    auto_delete: bool = False
    bindings: dict[tuple[str, str, str], Place] = attrs.field(factory=dict[tuple[str, str, str], Place])
    """By exchange, type of exchange and key."""

    def own_place(self) -> Place:
        """Return where messages come that are sent to the queue by its name."""
        if not self.transient:
            return Place(Queue(self.name), ConsumerOptions(window=0))
        return Place(queue_topic(self.tree, self.name), self._subscription(self.name))

    def binding(self, exchange: str, kind: str, key: str) -> Place:
        """Return the place of a binding. Raises BadName."""
        topic: Topic = binding_topic(self.tree, exchange, kind, key)
        return Place(topic, self._subscription(f"{self.name} {topic.title}"))

    def _subscription(self, name: str) -> ConsumerOptions:
        durable = "" if self.transient else name
        return ConsumerOptions(window=0, shared=name, durable=durable, client_id=CLIENT)

    def places(self) -> list[Place]:
        """Return all places that the queue gets messages from."""
        return [self.own_place(), *self.bindings.values()]
