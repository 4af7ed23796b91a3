"""Hello frames: the first frame that each side of a connection sends. Pure.

::

    ["quorate", version, purpose, {field: value, ...}]      (msgpack, one frame of at most MAX_HELLO_BYTES)

A side that does not serve the other one answers ``["quorate", version, "refused", {"reason": sentence}]`` and
closes the connection.
"""

from collections.abc import Mapping
from typing import Any, cast

import attrs
import msgspec

__all__ = [
    "ADMIN",
    "CHANNEL",
    "MAGIC",
    "MAX_HELLO_BYTES",
    "NETWORK",
    "VERSION",
    "Address",
    "Hello",
    "NotNow",
    "ProtocolError",
    "Refused",
    "as_address",
    "build_hello",
    "build_refusal",
    "parse_hello",
    "refusal",
]

MAGIC = "quorate"
VERSION = 1

CHANNEL = "channel"
"""Between the replicas of one cluster. Fields: replica, incarnation, cluster."""
NETWORK = "network"
"""Between agent servers. Fields: server, birth."""
ADMIN = "admin"
"""From the commands of an administrator. No fields."""
PURPOSES = frozenset({CHANNEL, NETWORK, ADMIN})
REFUSED = "refused"

MAX_HELLO_BYTES = 4096
MAX_REASON_CHARS = 500

Address = tuple[str, int]


class ProtocolError(Exception):
    """The other side sent something unacceptable. The text is one sentence for the log.

    `answer` is the frame to send before closing, or None when the other side does not speak this protocol.
    """

    def __init__(self, sentence: str, answer: bytes | None = None) -> None:
        super().__init__(sentence)
        self.answer = answer


class Refused(ProtocolError):
    """The other side understood the hello and does not serve it; the text is its reason."""


class NotNow(ProtocolError):
    """An acceptable hello cannot be served at present. Raised by `InboundHandler.answer`; not garbage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, build_refusal(reason))


@attrs.frozen
class Hello:
    """A hello as received."""

    purpose: str
    fields: Mapping[str, Any]
    raw: bytes = attrs.field(repr=False)
    """The frame itself: the proofs of the handshake cover it byte for byte."""

    def integer(self, name: str) -> int:
        """Return the integer field `name`; raise ProtocolError when it is missing or of another type."""
        value = self.fields.get(name)
        if type(value) is not int:
            raise refusal(f"The hello for {self.purpose} needs an integer field '{name}'.")
        return value

    def text(self, name: str) -> str:
        """Return the text field `name`; raise ProtocolError when it is missing or of another type."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise refusal(f"The hello for {self.purpose} needs a text field '{name}'.")
        return value

    def address(self, name: str) -> Address | None:
        """Return the field `name`, a [host, port], or None when it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return None
        return as_address(value, f"field '{name}' of the hello for {self.purpose}")


def refusal(sentence: str, for_peer: str = "") -> ProtocolError:
    """Return an error that is answered with a refusal: `for_peer`, or else the same sentence."""
    return ProtocolError(sentence, build_refusal(for_peer or sentence))


def as_address(value: object, what: str) -> Address:
    """Check that `value` is a [host, port] pair; `what` names it in the ProtocolError."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    if len(items) == 2:
        host, port = items
        if isinstance(host, str) and host and type(port) is int and 0 < port < 65536:
            return host, port
    raise refusal(f"The {what} must be a host and a port.")


def build_hello(purpose: str, fields: Mapping[str, Any], *, nonce: bytes | None = None) -> bytes:
    """Return the frame of a hello; `nonce` becomes a field of that name."""
    body: dict[str, Any] = dict(fields)
    if nonce is not None:
        body["nonce"] = nonce
    frame = msgspec.msgpack.encode([MAGIC, VERSION, purpose, body])
    if len(frame) > MAX_HELLO_BYTES:
        raise ValueError(f"A hello has at most {MAX_HELLO_BYTES} bytes, this one has {len(frame)}.")
    return frame


def build_refusal(reason: str) -> bytes:
    """Return the frame that refuses the other side; `reason` is one sentence."""
    return build_hello(REFUSED, {"reason": reason[:MAX_REASON_CHARS]})


def parse_hello(frame: bytes) -> Hello:
    """Decode the first frame of the other side.

    Raises Refused for a refusal, and ProtocolError for a frame that is no hello, or one of another version or
    an unknown purpose.
    """
    if len(frame) > MAX_HELLO_BYTES:
        raise ProtocolError(f"The first frame has {len(frame)} bytes; a hello has at most {MAX_HELLO_BYTES}.")
    try:
        parts = msgspec.msgpack.decode(frame, type=list[Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise ProtocolError("The first frame is not a Quorate hello.") from None
    if len(parts) < 2 or parts[0] != MAGIC or type(parts[1]) is not int:
        raise ProtocolError("The first frame is not a Quorate hello.")
    if parts[1] != VERSION:
        raise refusal(
            f"The other side speaks version {parts[1]} of the protocol, this side version {VERSION}."
        )
    try:
        _, _, purpose, fields = msgspec.convert(parts, tuple[str, int, str, dict[str, Any]])
    except msgspec.ValidationError:
        raise refusal("A hello is a list of four: magic, version, purpose, fields.") from None
    if purpose == REFUSED:
        reason = fields.get("reason")
        raise Refused(
            reason[:MAX_REASON_CHARS] if isinstance(reason, str) else "The other side gave no reason."
        )
    if purpose not in PURPOSES:
        raise refusal(f"The purpose of a hello is one of {', '.join(sorted(PURPOSES))}.")
    return Hello(purpose, fields, frame)
