"""What the service of a bridge and its agents say to each other, and how messages travel. Pure."""

from typing import Final

import attrs
import msgspec

from ..agents import FIRST_CONNECTION_STAMP, Context, Notification, Pack, outside
from ..mesh.model import Dot, Position, Stream, Uid

__all__ = [
    "BRIDGE_TOPIC",
    "RETRY_S",
    "Bring",
    "Carried",
    "InletOpened",
    "InletPublishers",
    "InletState",
    "OpenInlet",
    "OpenOutlet",
    "OrderLost",
    "OutletBatch",
    "OutletOpened",
    "OutletState",
    "Refuse",
    "Resubscribe",
    "Retry",
    "check_destination",
    "check_service",
    "stream_key",
    "stream_of",
    "unique_name",
    "unwrapped",
    "wrapped",
]

BRIDGE_TOPIC: Final = "quorate.bridge"
"""What the agents emit on."""
RETRY_S: Final = 5.0
"""How long a bridge waits before it tries again what was refused or does not exist."""
WRAPPED: Final = b"quorate message 1\n"
"""A body that begins so is a message with its columns."""
TRAVELLING: Final = frozenset({"encoding", "priority", "ttl", "group", "key", "mode", "type", "correlation"})
"""Columns of a message that travel with it, beside the properties of the application."""


# Inward


@attrs.frozen
class OpenInlet(Notification, name="quorate.mesh-bridge.open-inlet"):
    """Notice of a service that has started: emit the cursor."""


@attrs.frozen
class Bring(Notification, name="quorate.mesh-bridge.bring"):
    """Messages of the mesh, and where the subscription is after them."""

    pack: Pack
    dots: list[Dot]
    positions: list[tuple[str, int]]
    """(key of the stream, number)."""
    publishers: dict[str, int]
    """By publisher: the number of its last message."""


@attrs.frozen
class Resubscribe(Notification, name="quorate.mesh-bridge.resubscribe"):
    """Notice: the subscription was ended in the mesh. Begin with a new one."""


class InletOpened(msgspec.Struct, array_like=True, frozen=True):
    """Emitted for `OpenInlet`: the cursor, but for its publishers, which come in further messages."""

    token: str
    dots: list[Dot]
    positions: list[tuple[str, int]]


class InletPublishers(msgspec.Struct, array_like=True, frozen=True):
    """Emitted after `InletOpened`: some publishers of the cursor, and whether these are the last ones."""

    publishers: dict[str, int]
    last: bool


class InletState(msgspec.Struct, array_like=True, frozen=True):
    """Emitted when the destination has taken messages, or does not take any."""

    waiting: int
    """Messages that the destination has not taken."""
    taken: int
    """Messages that the destination has taken, in all."""
    lost: int
    """Messages that the destination has refused, in all."""
    problem: str
    """Why it takes none now; empty: it does."""


# Outward


@attrs.frozen
class OpenOutlet(Notification, name="quorate.mesh-bridge.open-outlet"):
    """Notice of a service that has started: consume, and emit what is not carried yet."""

    both_ways: bool = False
    """The same topics are bridged inward: what came from there does not go back."""


@attrs.frozen
class Carried(Notification, name="quorate.mesh-bridge.carried"):
    """Report: the mesh has the messages up to a number."""

    upto: int
    position: Position | None
    """Where that message is in the mesh."""


@attrs.frozen
class Refuse(Notification, name="quorate.mesh-bridge.refuse"):
    """Report: the mesh does not take a message, and never will."""

    number: int
    text: str


@attrs.frozen
class OrderLost(Notification, name="quorate.mesh-bridge.order-lost"):
    """Report: the order with earlier messages is lost, and what follows comes from another publisher."""

    epoch: int


class OutletOpened(msgspec.Struct, array_like=True, frozen=True):
    """Emitted for `OpenOutlet`. What is not carried follows, then what comes later."""

    identifier: str
    """Of the publisher."""
    epoch: int
    acknowledged: int
    """The number of the last message that the mesh has."""
    position: Position | None


class OutletBatch(msgspec.Struct, array_like=True, frozen=True):
    """Emitted: messages to publish."""

    first: int
    """The number of the first one."""
    pack: Pack
    refused: list[int] = []
    """Numbers that the mesh has refused before."""


class OutletState(msgspec.Struct, array_like=True, frozen=True):
    """Emitted when the destination is found, or is not."""

    problem: str
    """Why nothing comes from it; empty: it is found."""


# Both


@attrs.frozen
class Retry(Notification, name="quorate.mesh-bridge.retry"):
    """A timer of an agent of a bridge: look again for the destination."""


def check_service(ctx: Context) -> None:
    """Raise PermissionError unless a service of this server has sent the notification."""
    if ctx.sender != outside(ctx.agent.host):
        raise PermissionError("only the services of the server tell a bridge what to carry")


def check_destination(ctx: Context) -> None:
    """Raise PermissionError if a client has sent the notification."""
    if ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
        raise PermissionError("only destinations answer a bridge")


def unique_name(ctx: Context) -> str:
    """Return a name that no other reaction gets, in this life of the server or in another one."""
    return f"{ctx.now_ns:x}-{ctx.random.getrandbits(32):08x}"


def stream_key(stream: Stream) -> str:
    """Return a text for a stream of the mesh."""
    return ".".join(map(str, (*stream.topic, stream.daemon, stream.life)))


def stream_of(key: str) -> Stream:
    """Return the stream of a text."""
    numbers = list(map(int, key.split(".")))
    return Stream(Uid(*numbers[:4]), *numbers[4:])


_decoder: Final[msgspec.msgpack.Decoder[tuple[bytes, dict[str, int | float | str | bool | None]]]] = (
    msgspec.msgpack.Decoder(tuple[bytes, dict[str, int | float | str | bool | None]])
)


def wrapped(pack: Pack, index: int) -> bytes:
    """Return the body of one message of a pack together with its columns."""
    columns = {
        name: value
        for name in pack.columns
        if (name in TRAVELLING or name.startswith(".")) and (value := pack.value(name, index)) is not None
    }
    return WRAPPED + msgspec.msgpack.encode((pack.body(index), columns))


def unwrapped(body: bytes) -> tuple[bytes, dict[str, int | float | str | bool | None]]:
    """Return body and columns of what `wrapped` has made; what was not made so has no columns."""
    if not body.startswith(WRAPPED):
        return body, {}
    try:
        data, columns = _decoder.decode(memoryview(body)[len(WRAPPED) :])
    except msgspec.MsgspecError:
        return body, {}
    return data, {k: v for k, v in columns.items() if k in TRAVELLING or k.startswith(".")}
