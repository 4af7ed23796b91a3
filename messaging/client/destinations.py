"""How programs name queues and topics."""

from typing import Any

import attrs

from ..agents.settings import Kind
from ..agents.topic_tree import ONE, REST

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

    @property
    def candidates(self) -> list[tuple[str, str]]:
        """The addresses under which it may be found, in the order in which they are tried.

        Each with the topic, or the pattern for topics, that is meant there; "" where it is all of it.
        """
        return [(self.address, "")]


@attrs.frozen
class Queue(Destination):
    """A queue: one consumer gets each message."""

    @property
    def kind(self) -> Kind:
        """Return that it is a queue."""
        return Kind.QUEUE


@attrs.frozen
class Topic(Destination):
    """A topic: each subscription gets each message.

    ``prices.eu`` is a topic, or one of the tree ``prices``. In what a consumer is opened for, ``*`` stands
    for one word, and ``#`` at the end for all words that follow: ``prices.*``, ``prices.#``.
    """

    def __attrs_post_init__(self) -> None:
        if self.title.split(".")[0] in (ONE, REST):
            raise ValueError(f"{self.title!r} does not begin with the name of a tree of topics")

    @property
    def candidates(self) -> list[tuple[str, str]]:
        """The topic itself, unless it is a pattern, and the trees of which it may be a topic."""
        name, at, server = self.title.partition("@")
        words = name.split(".")
        literal = next((place for place, word in enumerate(words) if word in (ONE, REST)), len(words))
        roots = [".".join(words[:count]) for count in range(literal, 0, -1)]
        return [
            (f"{self.kind.value}:{root}{at}{server}", "" if root == name else name) for root in roots if root
        ]

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
