"""The connecting side's handshake, in the shape that a channel link takes."""

import os
from collections.abc import Mapping
from typing import Any

from .handshake import (
    NONCE_BYTES,
    Connector,
)

__all__ = ["Shaking"]


class Shaking:
    """The connecting side's handshake, in the shape that `hachannel.transport.connect` takes."""

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
        """What the other side said of itself."""
        peer = self._connector.peer
        return {} if peer is None else peer.fields

    def receive(self, frame: bytes) -> list[bytes]:
        """Take a frame and return the frames to send. Raises ProtocolError."""
        return self._connector.receive(frame)
