"""A minimal connection with frames, for the client and for the relay."""

import struct
from typing import Any, cast

from twisted.internet.protocol import Protocol

_LENGTH = struct.Struct(">I")


class Framed(Protocol):
    """A connection of frames, each after a length of four bytes."""

    rest = b""
    tcp: Any

    def connectionMade(self) -> None:  # noqa: N802
        """Send small writes at once."""
        self.tcp = cast("Any", self).transport
        self.tcp.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Split bytes into frames."""
        if self.rest:
            data = self.rest + data
        start, end = 0, len(data)
        while end - start >= 4:
            stop = start + 4 + _LENGTH.unpack_from(data, start)[0]
            if stop > end:
                break
            self.frame(data[start + 4 : stop])
            start = stop
        self.rest = data[start:]

    def send(self, body: bytes) -> None:
        """Send a frame."""
        self.tcp.write(_LENGTH.pack(len(body)) + body)

    def frame(self, body: bytes) -> None:
        """Process a received frame."""
        raise NotImplementedError
