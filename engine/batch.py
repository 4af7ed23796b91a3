"""A batch: the external items of one entry of the ordered log."""

from collections.abc import Sequence

import msgspec

from ..agents import Note
from .causal_order import StampedNote

__all__ = [
    "BatchError",
    "CausalInput",
    "ClassVersions",
    "Item",
    "NetAck",
    "NetInput",
    "NetPeer",
    "Posts",
    "Tick",
    "decode_batch",
    "encode_batch",
]


class BatchError(ValueError):
    """Raised for bytes that are not a batch."""


class Posts(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """Notifications from services, administration and clients."""

    notes: list[Note]


class NetInput(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Notifications from another server, in the life of that birth, numbered without gap from `first_seq`."""

    server: int
    birth: int
    first_seq: int
    notes: list[Note]


class CausalInput(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """A `NetInput` in a domain with causal order.

    `settled`: the count up to which lives of this server have acknowledged what the sender has sent.
    """

    server: int
    birth: int
    first_seq: int
    settled: int
    notes: list[StampedNote]


class NetAck(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Acknowledgement of another server, in the life of that birth: it holds everything up to `upto`."""

    server: int
    birth: int
    upto: int


class Tick(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Order to fire the timers that are due."""


class NetPeer(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Record of the present life of another server. Nothing is sent to a life before this is applied."""

    server: int
    birth: int


class ClassVersions(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Order to use these versions of agent classes from here on, and to upgrade the agents of former ones."""

    versions: dict[str, int]
    """By the name of the class without the version."""


Item = Posts | NetInput | NetAck | Tick | NetPeer | ClassVersions | CausalInput

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Item]] = msgspec.msgpack.Decoder(list[Item])


def encode_batch(items: Sequence[Item]) -> bytes:
    """Return the payload of an entry."""
    return _encoder.encode(items)


def decode_batch(payload: bytes) -> list[Item]:
    """Return the items of an entry. Raises BatchError if the bytes are not a batch."""
    try:
        return _decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise BatchError(f"the entry is not a batch of notifications: {error}") from error
