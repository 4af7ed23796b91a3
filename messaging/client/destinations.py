"""How programs name queues and topics."""

from typing import Any

import attrs

from ..agents.settings import Kind

__all__ = ["Destination", "Queue", "Topic", "address_of", "named"]


def _check_title(_: object, __: object, title: Any) -> None:
    if not isinstance(title, str) or not title or not title.isprintable() or title != title.strip():
        raise ValueError(f"{title!r} is not the name of a destination; give printable text")
    name, at, server = title.rpartition("@")
    if at and not (name and server and "@" not in name):
        raise ValueError(f"{title!r} is not the name of a destination; write name, or name@server")


@attrs.frozen
class Destination:
    """A queue or a topic by its name: ``orders``, or ``orders@s1`` on another server."""

    title: str = attrs.field(validator=_check_title)

    @property
    def kind(self) -> Kind:
        """Whether it is a queue or a topic."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The address of its agent: ``queue:orders@s1``."""
        return f"{self.kind.value}:{self.title}"

    def __str__(self) -> str:
        return f"{self.kind.value} {self.title}"


@attrs.frozen
class Queue(Destination):
    """A queue: one consumer gets each message."""

    @property
    def kind(self) -> Kind:
        """Return that it is a queue."""
        return Kind.QUEUE


@attrs.frozen
class Topic(Destination):
    """A topic: each subscription gets each message."""

    @property
    def kind(self) -> Kind:
        """Return that it is a topic."""
        return Kind.TOPIC


def named(destination: Destination | str) -> Destination:
    """Return a destination; a text names a queue. Raises TypeError or ValueError."""
    if isinstance(destination, str):
        return Queue(destination)
    if not isinstance(destination, Destination):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{destination!r} is no destination; give the name of a queue, or Topic(name)")
    return destination


def address_of(address: str) -> Destination:
    """Return the destination with the agent address ``queue:orders``. Raises ValueError."""
    kind, colon, title = address.partition(":")
    if not colon or kind not in (Kind.QUEUE, Kind.TOPIC):
        raise ValueError(f"{address!r} is not the address of a destination")
    return Queue(title) if kind == Kind.QUEUE else Topic(title)
