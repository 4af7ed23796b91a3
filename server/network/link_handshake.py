"""The handshake of a connecting link of the transport: the pure `Connector` with a nonce drawn for it."""

import os
from collections.abc import Mapping
from typing import Any

from .handshake import NONCE_BYTES, Connector

__all__ = ["LinkHandshake"]


class LinkHandshake:
    """The connecting side's handshake as `hachannel.transport.connection.connect` expects it.

    It draws the nonce that `Connector` leaves to its caller.
    """

    def __init__(self, purpose: str, fields: Mapping[str, Any], secret: str | None) -> None:
        self._connector = Connector(purpose, fields, secret=secret, nonce=os.urandom(NONCE_BYTES))

    @property
    def first(self) -> bytes:
        """The frame to send first."""
        return self._connector.first

    @property
    def done(self) -> bool:
        """True when the handshake is over."""
        return self._connector.done

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of the other side's hello, empty until it has arrived."""
        peer = self._connector.peer
        return {} if peer is None else peer.fields

    def receive(self, frame: bytes) -> list[bytes]:
        """Process the next frame of the other side; return the frames to send. Raises ProtocolError."""
        return self._connector.receive(frame)
