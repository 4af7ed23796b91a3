"""The port through which a daemon keeps its state: records of streams, and facts. Pure.

Changes have their effect on what is read at once. They become durable in their order, and a daemon's outputs
leave it only once the changes made before them are durable: the driver of the daemon sees to that.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from .model import Stream

__all__ = ["FactKind", "Log"]

K = TypeVar("K")
V = TypeVar("V")

_encode: Final = msgspec.msgpack.Encoder().encode


class FactKind(Generic[K, V]):
    """One kind of facts, each a key and a value that MessagePack has."""

    def __init__(self, name: str, key: type[K], value: type[V]) -> None:
        self.name = name
        self._key: msgspec.msgpack.Decoder[K] = msgspec.msgpack.Decoder(key)
        self._value: msgspec.msgpack.Decoder[V] = msgspec.msgpack.Decoder(value)

    def put(self, log: "Log", key: K, value: V) -> None:
        """Set a fact."""
        log.put(self.name, _encode(key), _encode(value))

    def delete(self, log: "Log", key: K) -> None:
        """Remove a fact, if there is one."""
        log.delete(self.name, _encode(key))

    def load(self, log: "Log") -> Iterable[tuple[K, V]]:
        """Yield the facts of this kind. Raises msgspec.DecodeError if they are damaged."""
        for key, value in log.facts(self.name):
            yield self._key.decode(key), self._value.decode(value)


class Log(Protocol):
    """The state of a daemon on its disk."""

    def append(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Add records: (number, encoded record, whether it is a message), with rising numbers."""
        ...

    def read(self, stream: Stream, first: int, last: int, size_bytes: int) -> list[tuple[int, bytes]]:
        """Return the records there are from `first` to `last`, at least one, up to about `size_bytes`."""
        ...

    def strip(self, stream: Stream, upto: int) -> None:
        """Remove the messages up to a number, not the other records."""
        ...

    def trim(self, stream: Stream, upto: int) -> None:
        """Remove all records up to a number."""
        ...

    def drop(self, stream: Stream) -> None:
        """Remove all records of a stream."""
        ...

    def message_bytes(self, stream: Stream) -> int:
        """Return the size of the messages that are kept."""
        ...

    def put(self, kind: str, key: bytes, value: bytes) -> None:
        """Set a fact."""
        ...

    def delete(self, kind: str, key: bytes) -> None:
        """Remove a fact, if there is one."""
        ...

    def facts(self, kind: str) -> Iterable[tuple[bytes, bytes]]:
        """Yield the facts of a kind: (key, value)."""
        ...
