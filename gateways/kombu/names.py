"""Where the exchanges of AMQP 0-9-1 are here: topics of one tree, so that nobody keeps a table of bindings.

What is published to an exchange goes to ``TREE.EXCHANGE.KEY``. A queue that is bound to the exchange has a
subscription: of that topic for a direct exchange, of a pattern for a topic exchange, of all of the exchange
for a fanout exchange. The exchange without a name, whose keys are names of queues, is ``TREE.%.QUEUE``.
"""

from typing import Final
from urllib.parse import quote

from ...messaging.agents.topic_tree import ONE, REST, pattern_flaw, subject_flaw
from ...messaging.client import destinations

__all__ = ["BadName", "binding_topic", "exchange_topic", "queue_topic"]

_NOTHING: Final = "%"
"""In place of an empty word. Quoting writes two digits after each such character."""
_SPECIAL: Final = frozenset(".*#%@ ")


class BadName(ValueError):
    """An exchange, a key or a binding that cannot be here. The text is one sentence."""


def _word(text: str) -> str:
    """Write any text as one word of a topic."""
    if not text:
        return _NOTHING
    return "".join(
        quote(each, safe="") if each in _SPECIAL or not each.isprintable() else each for each in text
    ).replace(".", "%2E")


def _words(key: str) -> list[str]:
    return [_word(word) for word in key.split(".")] if key else []


def queue_topic(tree: str, queue: str) -> destinations.Topic:
    """Return the topic of a queue that lives as long as its connections."""
    return destinations.Topic(".".join((tree, _NOTHING, _word(queue))))


def exchange_topic(tree: str, exchange: str, key: str) -> destinations.Topic:
    """Return the topic to which a message goes that is published to an exchange. Raises BadName."""
    topic = ".".join((tree, _word(exchange), *_words(key)))
    if subject_flaw(tree, topic):
        raise BadName(f"the routing key {key[:80]!r} has too many words")
    return destinations.Topic(topic)


def binding_topic(tree: str, exchange: str, kind: str, key: str) -> destinations.Topic:
    """Return the topic, or the pattern, that a binding of a queue to an exchange means.

    kind: direct, topic or fanout. Raises BadName for another one, and for what no pattern can say.
    """
    if kind == "direct":
        return exchange_topic(tree, exchange, key)
    if kind == "fanout":
        return destinations.Topic(".".join((tree, _word(exchange), REST)))
    if kind != "topic":
        raise BadName(f"the exchange {exchange} is of type {kind}; use direct, topic or fanout")
    words = [word if word in (ONE, REST) else _word(word) for word in key.split(".")] if key else []
    pattern = ".".join((tree, _word(exchange), *words))
    if pattern_flaw(tree, pattern):
        raise BadName(f"the binding key {key[:80]!r} cannot be used: # is possible as the last word only")
    return destinations.Topic(pattern)
