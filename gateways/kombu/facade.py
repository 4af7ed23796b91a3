"""Kombu, as this package uses it: the only place that imports it.

It is an extra that may be missing where types are checked, and it has no types. So nothing of it has a type
here.
"""

import importlib
from typing import Any, Final

__all__ = [
    "ALIASES",
    "BaseChannel",
    "BaseTransport",
    "ChannelError",
    "DeclareOk",
    "Message",
    "dumps",
    "loads",
    "queue_arguments",
]

_base: Any = importlib.import_module("kombu.transport.base")
_json: Any = importlib.import_module("kombu.utils.json")

ALIASES: Final[dict[str, str]] = importlib.import_module("kombu.transport").TRANSPORT_ALIASES
"""Kombu's table of transports by the schemes of their URLs."""
BaseChannel: Final[Any] = _base.StdChannel
BaseTransport: Final[Any] = _base.Transport
ChannelError: Final[Any] = importlib.import_module("kombu.exceptions").ChannelError
DeclareOk: Final[Any] = importlib.import_module("amqp.protocol").queue_declare_ok_t
"""What a declaration returns: the queue, its messages and its consumers."""
Message: Final[Any] = importlib.import_module("kombu.message").Message

queue_arguments: Final[Any] = _base.to_rabbitmq_queue_arguments
"""Returns the arguments of a declaration that stand for options of `kombu.Queue`."""


def dumps(value: Any) -> str:
    """Return a value as JSON, with the types that Kombu writes: times, decimals, UUIDs."""
    return str(_json.dumps(value))


def loads(text: str) -> Any:
    """Return the value of a text that `dumps` has made. Raises ValueError."""
    return _json.loads(text)
