"""Messages between the daemons of a mesh, and their encoding. Pure.

::

    State   what a daemon has: all of it when a connection opens, then changes
    Msgs    consecutive records of a stream: pushed by its daemon, or in answer to a Want
    Want    asks for the records of a stream from a number on
    Snap    the directory and the positions of subscriptions, in place of records that are collected
    AskSnap asks for a Snap
    Forgotten  the receiver does not belong to the mesh any more
    AskState   it does again: asks for its State
"""

from typing import Final, TypeAlias

import msgspec

from .model import Dot, MemberState, Origin, Stream, Subscription, Topic, Uid

__all__ = [
    "AskSnap",
    "AskState",
    "Forgotten",
    "Marks",
    "MeshMessage",
    "Msgs",
    "Row",
    "Snap",
    "State",
    "Want",
    "decode_message",
    "encode_message",
]

Marks: TypeAlias = list[tuple[Stream, list[tuple[Dot, int]]]]
"""Positions of persistent subscriptions, by stream."""


class Row(msgspec.Struct, array_like=True, frozen=True):
    """What is known of a daemon: each daemon tells its own row, and hands on those of others."""

    life: int
    version: int
    """Grows with every change of `links` within a life."""
    links: tuple[int, ...]
    """The daemons that it is connected with."""
    have: list[tuple[Stream, int]]
    """Streams, and the number up to which it has all their records on its disk; the changed ones."""


class State(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """What a daemon has, or what has changed of it."""

    rows: list[tuple[int, Row]]
    """Rows of daemons, that of the sender among them."""
    ctx: list[tuple[Origin, int]] = []
    """Directory streams, and the number up to which the sender's directory includes them."""
    marks: Marks = []
    whole: bool = False
    """The first of a connection: everything that the sender has."""


class Msgs(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Records `first` to `last` of a stream. Those that are left out are messages without body (stubs)."""

    stream: Stream
    first: int
    last: int
    records: list[tuple[int, bytes]]
    """(number, encoded record), rising."""
    answer: bool = False
    """This answers a Want."""


class Want(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Asks for the records of a stream from `first` on."""

    stream: Stream
    first: int
    size_bytes: int


class Snap(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """The directory and the positions of subscriptions."""

    ctx: list[tuple[Origin, int]]
    floor: list[tuple[Stream, int]]
    topics: list[tuple[Uid, Topic]]
    subscriptions: list[tuple[Dot, Subscription]]
    gone_topics: list[Uid]
    gone_dots: list[Dot]
    members: list[tuple[int, MemberState]]
    retired: list[tuple[int, int]]
    marks: Marks
    stamp: int


class AskSnap(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Asks for a Snap."""


class Forgotten(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """The receiver does not belong to the mesh any more: the sender exchanges nothing with it."""


class AskState(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The receiver belongs to the mesh again: asks for its whole State."""


MeshMessage: TypeAlias = State | Msgs | Want | Snap | AskSnap | Forgotten | AskState

_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final[msgspec.msgpack.Decoder[MeshMessage]] = msgspec.msgpack.Decoder(MeshMessage)


def encode_message(message: MeshMessage) -> bytes:
    """Encode a message."""
    return _encode(message)


def decode_message(data: bytes) -> MeshMessage:
    """Decode a message. Raises msgspec.DecodeError."""
    return _decoder.decode(data)
