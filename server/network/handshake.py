"""The handshake of every connection between replicas, servers and administrators. No socket, no randomness.

The connecting side sends a hello (see `hello`), the accepting side answers with its own. When the
configuration has a property ``secret``, both hellos carry a ``nonce``, and then each side sends one more
frame, its proof: an HMAC-SHA256 over its role and both hello frames, the connecting side first. The secret is
never sent. A proof cannot be replayed, since nonces are fresh, nor reflected, since the roles differ, and it
covers the fields of both hellos. The frames after the handshake are not authenticated: use TLS or a private
network where somebody could alter them.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from .hello import ADMIN, MAGIC, VERSION, Hello, ProtocolError, build_hello, parse_hello, refusal

__all__ = [
    "HELLO_TIMEOUT_S",
    "NONCE_BYTES",
    "SECRET",
    "Acceptor",
    "Connector",
    "is_loopback",
]

NONCE_BYTES = 32
PROOF_BYTES = 32

SECRET = "property 'secret'"  # noqa: S105 - no secret
"""Part of every sentence about secrets that differ; other modules recognize such sentences by it."""
SAME_FILE = "use one file, and start again what runs with another"

HELLO_TIMEOUT_S = 5.0
"""The time after which either side closes a connection whose handshake is not complete."""

Role = Literal["connector", "acceptor"]


def proof(secret: str, role: Role, connector_hello: bytes, acceptor_hello: bytes) -> bytes:
    """Return the proof that the side `role` knows `secret`."""
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
        raise refusal(f"The {SECRET} of the two sides differs: {SAME_FILE}.")


def is_loopback(host: str) -> bool:
    """Return whether `host`, a numeric IP address, is a loopback address of this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


class Connector:
    """The connecting side of a handshake: send `first`, then pass frames to `receive` until `done`.

    `nonce` is NONCE_BYTES of fresh randomness, drawn by the caller; it is sent when there is a `secret`.
    """

    def __init__(self, purpose: str, fields: Mapping[str, Any], *, secret: str | None, nonce: bytes) -> None:
        _check_nonce(nonce)
        self._purpose = purpose
        self._secret = secret
        self.first: bytes = build_hello(purpose, fields, nonce=None if secret is None else nonce)
        self.peer: Hello | None = None
        """The hello of the accepting side, once received. Not to be trusted before `done`."""
        self.done = False

    def receive(self, frame: bytes) -> list[bytes]:
        """Process the next frame of the other side; return the frames to send.

        Raises ProtocolError, Refused.
        """
        if self.done:
            raise RuntimeError("The handshake is over.")
        if self.peer is None:
            hello = parse_hello(frame)
            if hello.purpose != self._purpose:
                raise refusal(f"The hello was for {self._purpose} and was answered for {hello.purpose}.")
            _check_secret_use(self._secret, hello)
            self.peer = hello
            if self._secret is None:
                self.done = True
                return []
            return [proof(self._secret, "connector", self.first, hello.raw)]
        secret = cast("str", self._secret)
        # A server that rejects our proof sends a refusal instead of its own proof.
        if len(frame) != PROOF_BYTES:
            parse_hello(frame)
        verify_proof(frame, secret, "acceptor", self.first, self.peer.raw)
        self.done = True
        return []


class Acceptor:
    """The accepting side of a handshake: pass frames to `receive` until `done`; then `peer` is trusted.

    `answer` returns the fields of our hello for the one received; it may raise ProtocolError to refuse.
    `loopback`: the peer is on this machine; without a secret, only such peers may use ADMIN. `nonce` is
    NONCE_BYTES of fresh randomness.
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
        self._own_hello = b""
        self.peer: Hello | None = None
        """The hello of the connecting side, once received. Not to be trusted before `done`."""
        self.done = False

    def receive(self, frame: bytes) -> list[bytes]:
        """Process the next frame of the other side; return the frames to send.

        Raises ProtocolError; then send its `answer`, if there is one, and close the connection.
        """
        if self.done:
            raise RuntimeError("The handshake is over.")
        if self.peer is None:
            hello = parse_hello(frame)
            if hello.purpose == ADMIN and self._secret is None and not self._loopback:
                raise refusal(
                    "Without a property 'secret' in the configuration, administration is for this host only; "
                    "run the command on the server's host or add the property."
                )
            _check_secret_use(self._secret, hello)
            try:
                fields = self._answer(hello)
            except ProtocolError as error:
                raise error if error.answer is not None else refusal(str(error)) from None
            self.peer = hello
            self._own_hello = build_hello(
                hello.purpose, fields, nonce=None if self._secret is None else self._nonce
            )
            self.done = self._secret is None
            return [self._own_hello]
        secret = cast("str", self._secret)
        verify_proof(frame, secret, "connector", self.peer.raw, self._own_hello)
        self.done = True
        return [proof(secret, "acceptor", self.peer.raw, self._own_hello)]


def _check_secret_use(secret: str | None, hello: Hello) -> None:
    """Check that both sides have a secret, or none; each side is told which one has it."""
    nonce = hello.fields.get("nonce")
    this, other = "this side", "the other side"
    if secret is None and nonce is not None:
        raise refusal(_one_has_none(other, this), _one_has_none(this, other))
    if secret is not None and (not isinstance(nonce, bytes) or len(nonce) != NONCE_BYTES):
        raise refusal(_one_has_none(this, other), _one_has_none(other, this))


def _one_has_none(owner: str, other: str) -> str:
    return f"{owner.capitalize()} has a {SECRET} and {other} has none: {SAME_FILE}."


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"A nonce has {NONCE_BYTES} bytes.")
