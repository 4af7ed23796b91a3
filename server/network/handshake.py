"""The first frames of every connection between replicas, servers and administrators. No socket, no random.

The connecting side sends a Hello, the accepting side answers with its own::

    ["quorate", version, purpose, {field: value, ...}]      (msgpack, one frame of at most MAX_HELLO_BYTES)

When the configuration has a property ``secret`` both hellos carry a ``nonce`` and each side then sends one
more frame, an HMAC-SHA256 over its role and both hello frames, the connecting side first. The secret never
travels, a proof cannot be replayed (fresh nonces) nor reflected (roles differ), and the fields of both hellos
are covered. The frames after the handshake are not authenticated: use TLS or a private network where somebody
could alter them.

A side that will not go on answers ``["quorate", version, "refused", {"reason": sentence}]`` and closes.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import attrs
import msgspec

MAGIC = "quorate"
VERSION = 1

CHANNEL = "channel"
"""Between the replicas of one cluster. Fields: replica, incarnation, cluster."""
NETWORK = "network"
"""Between agent servers. Fields: server."""
ADMIN = "admin"
"""From the commands of an administrator."""
PURPOSES = frozenset({CHANNEL, NETWORK, ADMIN})
REFUSED = "refused"

MAX_HELLO_BYTES = 4096
NONCE_BYTES = 32
PROOF_BYTES = 32
MAX_REASON_CHARS = 500

SECRET = "property 'secret'"  # noqa: S105 - no secret
"""In every sentence about secrets that do not fit."""
SAME_FILE = "use one file, and start again what runs with another"

HELLO_TIMEOUT_S = 5.0
"""How long either side waits for the handshake to be complete before it closes."""

Role = Literal["connector", "acceptor"]
Address = tuple[str, int]


class ProtocolError(Exception):
    """What the other side sent is not acceptable. The text is one sentence for the log.

    ``answer`` is the frame to send before closing, or None when the other side does not speak this protocol.
    """

    def __init__(self, sentence: str, answer: bytes | None = None) -> None:
        super().__init__(sentence)
        self.answer = answer


class Refused(ProtocolError):
    """The other side understood the hello and will not serve it; the text is its reason."""


@attrs.frozen
class Hello:
    """A hello as received."""

    purpose: str
    fields: Mapping[str, Any]
    raw: bytes = attrs.field(repr=False)
    """The frame itself: the proofs cover it byte for byte."""

    def integer(self, name: str) -> int:
        """Return the integer field `name`; raise ProtocolError when it is missing or of another type."""
        value = self.fields.get(name)
        if type(value) is not int:
            raise _blame(f"The hello for {self.purpose} needs an integer field '{name}'.")
        return value

    def text(self, name: str) -> str:
        """Return the text field `name`; raise ProtocolError when it is missing or of another type."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise _blame(f"The hello for {self.purpose} needs a text field '{name}'.")
        return value

    def address(self, name: str) -> Address | None:
        """Return the field `name`, a [host, port], or None when it is absent or null."""
        value = self.fields.get(name)
        if value is None:
            return None
        return as_address(value, f"field '{name}' of the hello for {self.purpose}")


def as_address(value: object, what: str) -> Address:
    """Check that `value` is a [host, port] pair; `what` names it in the ProtocolError."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    if len(items) == 2:
        host, port = items
        if isinstance(host, str) and host and type(port) is int and 0 < port < 65536:
            return host, port
    raise _blame(f"The {what} must be a host and a port.")


def build_hello(purpose: str, fields: Mapping[str, Any], *, nonce: bytes | None = None) -> bytes:
    """Return the frame of a hello. Give a fresh `nonce` of NONCE_BYTES when a secret is configured."""
    body: dict[str, Any] = dict(fields)
    if nonce is not None:
        body["nonce"] = nonce
    frame = msgspec.msgpack.encode([MAGIC, VERSION, purpose, body])
    if len(frame) > MAX_HELLO_BYTES:
        raise ValueError(f"A hello has at most {MAX_HELLO_BYTES} bytes, this one has {len(frame)}.")
    return frame


def build_refusal(reason: str) -> bytes:
    """Return the frame that tells the other side, in one sentence, why it is not served."""
    return build_hello(REFUSED, {"reason": reason[:MAX_REASON_CHARS]})


def parse_hello(frame: bytes) -> Hello:
    """Read the first frame of the other side.

    Raises Refused when it is a refusal, ProtocolError when it is no hello of our version and a known purpose.
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
        raise _blame(
            f"The other side speaks version {parts[1]} of the protocol, this side version {VERSION}."
        )
    try:
        _, _, purpose, fields = msgspec.convert(parts, tuple[str, int, str, dict[str, Any]])
    except msgspec.ValidationError:
        raise _blame("A hello is a list of four: magic, version, purpose, fields.") from None
    if purpose == REFUSED:
        reason = fields.get("reason")
        raise Refused(
            reason[:MAX_REASON_CHARS] if isinstance(reason, str) else "The other side gave no reason."
        )
    if purpose not in PURPOSES:
        raise _blame(f"The purpose of a hello is one of {', '.join(sorted(PURPOSES))}.")
    return Hello(purpose, fields, frame)


def proof(secret: str, role: Role, connector_hello: bytes, acceptor_hello: bytes) -> bytes:
    """Return the HMAC-SHA256 by which the side `role` shows that it knows `secret`."""
    transcript = b"".join(
        (
            f"{MAGIC} {VERSION} {role}\n".encode(),
            hashlib.sha256(connector_hello).digest(),
            hashlib.sha256(acceptor_hello).digest(),
        )
    )
    return hmac.digest(secret.encode(), transcript, hashlib.sha256)


def verify_proof(
    frame: bytes, secret: str, role: Role, connector_hello: bytes, acceptor_hello: bytes
) -> None:
    """Check the proof sent by the side `role`, in constant time; raise ProtocolError when it is wrong."""
    if not hmac.compare_digest(frame, proof(secret, role, connector_hello, acceptor_hello)):
        raise _blame(f"The {SECRET} of the two sides differs: {SAME_FILE}.")


def secret_of(*properties: Mapping[str, str]) -> str | None:
    """Return the property ``secret`` of the first of the mappings that has one (most specific first).

    An empty secret is a ValueError: it would look protected and be open.
    """
    for mapping in properties:
        value = mapping.get("secret")
        if value is not None:
            if not value:
                raise ValueError("The property 'secret' is empty; give it a value or remove it.")
            return value
    return None


def is_loopback(host: str) -> bool:
    """Say whether `host`, the numeric address of a peer, is this machine talking to itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


class Connector:
    """The handshake as the connecting side sees it: send `first`, then feed `receive` until `done`.

    `nonce` is NONCE_BYTES of fresh randomness (the caller draws it), used when there is a secret.
    """

    def __init__(self, purpose: str, fields: Mapping[str, Any], *, secret: str | None, nonce: bytes) -> None:
        _check_nonce(nonce)
        self._purpose = purpose
        self._secret = secret
        self.first: bytes = build_hello(purpose, fields, nonce=None if secret is None else nonce)
        self.peer: Hello | None = None
        """The hello of the accepting side, once received. Trust it only when `done`."""
        self.done = False

    def receive(self, frame: bytes) -> list[bytes]:
        """Take the next frame of the other side; return the frames to send. Raises ProtocolError, Refused."""
        if self.done:
            raise RuntimeError("The handshake is over.")
        if self.peer is None:
            hello = parse_hello(frame)
            if hello.purpose != self._purpose:
                raise _blame(f"The hello was for {self._purpose} and was answered for {hello.purpose}.")
            _agree_on_secret(self._secret, hello)
            self.peer = hello
            if self._secret is None:
                self.done = True
                return []
            return [proof(self._secret, "connector", self.first, hello.raw)]
        secret = cast("str", self._secret)
        # A server that finds our proof wrong answers with a refusal in the place of its own proof.
        if len(frame) != PROOF_BYTES:
            parse_hello(frame)
        verify_proof(frame, secret, "acceptor", self.first, self.peer.raw)
        self.done = True
        return []


class Acceptor:
    """The handshake as the accepting side sees it: feed `receive` until `done`; `peer` says what is wanted.

    `answer` gives the fields of our own hello for theirs (a slave answers NETWORK with the master's address,
    say); it may raise ProtocolError to refuse. `loopback` says that the peer is this machine: without a
    secret ADMIN is for it only. `nonce` is NONCE_BYTES of fresh randomness.
    """

    def __init__(
        self,
        answer: Callable[[Hello], Mapping[str, Any]],
        *,
        secret: str | None,
        nonce: bytes,
        loopback: bool,
    ) -> None:
        _check_nonce(nonce)
        self._answer = answer
        self._secret = secret
        self._nonce = nonce
        self._loopback = loopback
        self._mine = b""
        self.peer: Hello | None = None
        """The hello of the connecting side, once received. Trust it only when `done`."""
        self.done = False

    def receive(self, frame: bytes) -> list[bytes]:
        """Take the next frame of the other side; return the frames to send.

        Raises ProtocolError; send its `answer`, if there is one, and close.
        """
        if self.done:
            raise RuntimeError("The handshake is over.")
        if self.peer is None:
            hello = parse_hello(frame)
            if hello.purpose == ADMIN and self._secret is None and not self._loopback:
                raise _blame(
                    "Without a property 'secret' in the configuration, administration is for this host only; "
                    "run the command on the server's host or add the property."
                )
            _agree_on_secret(self._secret, hello)
            try:
                fields = self._answer(hello)
            except ProtocolError as error:
                raise error if error.answer is not None else _blame(str(error)) from None
            self.peer = hello
            self._mine = build_hello(
                hello.purpose, fields, nonce=None if self._secret is None else self._nonce
            )
            self.done = self._secret is None
            return [self._mine]
        secret = cast("str", self._secret)
        verify_proof(frame, secret, "connector", self.peer.raw, self._mine)
        self.done = True
        return [proof(secret, "acceptor", self.peer.raw, self._mine)]


def _agree_on_secret(secret: str | None, hello: Hello) -> None:
    nonce = hello.fields.get("nonce")
    if secret is None and nonce is not None:
        raise _blame(_one_has("The other side", "this side"), _one_has("This side", "the other side"))
    if secret is not None and (not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES):
        raise _blame(_one_has("This side", "the other side"), _one_has("The other side", "this side"))


def _one_has(one: str, other: str) -> str:
    return f"{one} has a {SECRET} and {other} has none: {SAME_FILE}."


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"A nonce has {NONCE_BYTES} bytes.")


def _blame(sentence: str, theirs: str = "") -> ProtocolError:
    """`theirs`: the sentence as the other side is to read it, if that is another one."""
    return ProtocolError(sentence, build_refusal(theirs or sentence))


class NotNow(ProtocolError):
    """Raised by `InboundHandler.answer` for an acceptable hello that cannot be served now; not garbage."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, build_refusal(reason))
