"""How AMQP clients name queues and topics."""

from collections.abc import Iterable
from typing import Final

from ...messaging.agents.settings import Kind
from ...messaging.client.destinations import Destination, Queue, Topic

__all__ = ["KINDS", "TEMPORARY", "capability_of", "kind_of", "parse_address"]

TEMPORARY: Final = "temporary-"
"""How the names of temporary destinations begin."""
KINDS: Final = ("queue", "topic", "temporary-queue", "temporary-topic")
"""Capabilities of a terminus, in the order of the numbers that JMS clients write into messages."""
_PREFIXES: Final = tuple(
    (f"{start}{kind}{end}", kind)
    for kind in ("queue", "topic")
    for start, end in (("", "://"), ("", ":"), ("/", "/"), ("", "/"))
)


def kind_of(capabilities: Iterable[object]) -> Kind | None:
    """Return whether a terminus says that it is a queue or a topic."""
    known = [each for each in map(str, capabilities) if each in KINDS]
    return Kind(known[0].removeprefix(TEMPORARY)) if known else None


def parse_address(address: str, kind: Kind | None) -> Destination:
    """Return the destination of an address. Raises ValueError.

    address: a name alone, or ``queue://orders``, ``topic://prices``, ``/queue/orders``, ``queue:orders``.
    kind: what the capabilities of the terminus say; without any, and without a prefix, it is a queue.
    """
    for prefix, name in _PREFIXES:
        if address.startswith(prefix) and kind in (None, name):
            kind, address = Kind(name), address.removeprefix(prefix)
            break
    return Topic(address) if kind == Kind.TOPIC else Queue(address)


def capability_of(destination: Destination) -> str:
    """Return the capability of a destination, one of `KINDS`."""
    temporary = TEMPORARY if destination.title.startswith(TEMPORARY) else ""
    return f"{temporary}{destination.kind.value}"
