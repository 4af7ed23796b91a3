"""One administration connection of a command: a blocking socket whose every wait has a deadline."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections import deque
from typing import Any, Protocol

import attrs
import msgspec

from ...hachannel.codec.framing import FrameError, FrameReader, frame_parts
from ...hachannel.transport.addresses import is_loopback_host
from ...tls.sockets import tls_reason
from ..network.handshake import NONCE_BYTES, Connector
from ..network.hello import ADMIN, MAX_HELLO_BYTES, Address, ProtocolError, Refused
from . import wire
from .audit import this_user

__all__ = [
    "CONNECT_TIMEOUT_S",
    "RECEIVE_BYTES",
    "AdminError",
    "CallFailed",
    "Connect",
    "Connection",
    "Endpoint",
    "Lost",
    "Silent",
    "SocketConnection",
    "Unreachable",
    "connect",
]


CONNECT_TIMEOUT_S = 2.0
"""Longest time for the connection and the hello together."""
LOCAL_TIMEOUT_S = 0.5
"""Longest time for the attempts to connect to a replica of this machine at its loopback addresses."""


RECEIVE_BYTES = 65536


class AdminError(Exception):
    """The call did not succeed; the text is one sentence for the user."""

    exit_code = 1


class Unreachable(AdminError):
    """No connection, or no answer to the hello. Nothing was asked."""


class Silent(Unreachable):
    """A connection was made, but the hello was not answered in time."""


class Lost(AdminError):
    """The connection ended, or fell silent, after the call was sent: its effect is not known."""


class CallFailed(AdminError):
    """The replica answered with a failure."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


@attrs.frozen
class Endpoint:
    """The network listener of one replica."""

    replica: int
    host: str
    port: int
    tls: ssl.SSLContext | None = attrs.field(default=None, eq=False, repr=False)
    """How to encrypt the connection; None: it is not."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Connection(Protocol):
    """An open administration connection."""

    def call(self, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        """Send a call and wait for its result. Raises CallFailed, Lost, ProtocolError."""
        ...

    @property
    def behind(self) -> str:
        """Why the last answer may be out of date, in one sentence; "" if no reason is known."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class SocketConnection:
    """A `Connection` over a socket, after the hello. Raises Unreachable or AdminError when there is none."""

    def __init__(self, endpoint: Endpoint, secret: str | None, timeout_s: float, via: str = "") -> None:
        """`via` is the host to connect to instead of that of the endpoint."""
        deadline = time.monotonic() + timeout_s
        self.address: Address | None = None
        """The address that the replica has in its configuration, as it says."""
        self._endpoint = endpoint
        self._reader = FrameReader()
        self._frames: deque[bytes] = deque()
        self._last_id = 0
        self.behind = ""
        try:
            self._socket = _connected(via or endpoint.host, endpoint.port, deadline)
            if endpoint.tls is not None:
                self._socket = _secured(self._socket, endpoint.tls, endpoint.host, deadline)
        except ssl.SSLError as error:
            raise Unreachable(f"{endpoint}: {tls_reason(error)}") from None
        except OSError as error:
            raise Unreachable(f"{endpoint}: {error.strerror or error}") from None
        try:
            self._shake(secret, deadline)
        except Refused as error:
            self.close()
            raise AdminError(f"{endpoint} refuses: {error}") from None
        except ProtocolError as error:
            self.close()
            raise AdminError(f"{endpoint}: {error}") from None
        except OSError as error:
            self.close()
            raise Silent(f"{endpoint}: {error.strerror or error}") from None

    def call(self, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        """Send a call and wait for its result, at most `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        self._last_id += 1
        frame = wire.encode(wire.Call(self._last_id, body))
        try:
            self._send(frame, deadline)
            while True:
                message = wire.decode_answer(self._receive(deadline, wire.MAX_FRAME_BYTES))
                if message.id != self._last_id:
                    continue
                if isinstance(message, wire.Failure):
                    raise CallFailed(message)
                self.behind = message.behind
                return message.result
        except OSError as error:
            raise Lost(f"{self._endpoint}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _shake(self, secret: str | None, deadline: float) -> None:
        connector = Connector(ADMIN, {"user": this_user()}, secret=secret, nonce=os.urandom(NONCE_BYTES))
        self._send(connector.first, deadline)
        while not connector.done:
            for frame in connector.receive(self._receive(deadline, MAX_HELLO_BYTES)):
                self._send(frame, deadline)
        if connector.peer is not None:
            self.address = connector.peer.address("address")

    def _send(self, frame: bytes, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(b"".join(frame_parts([frame])))

    def _receive(self, deadline: float, limit: int) -> bytes:
        self._reader.max_bytes = limit
        while not self._frames:
            self._socket.settimeout(_left(deadline))
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError(None, "the connection was closed")
            try:
                self._frames.extend(self._reader.feed(data))
            except FrameError as error:
                raise ProtocolError(str(error)) from None
        return self._frames.popleft()


def _secured(opened: socket.socket, tls: ssl.SSLContext, host: str, deadline: float) -> socket.socket:
    """Begin TLS with a replica, whose certificate must be for the host. Raises OSError."""
    opened.settimeout(_left(deadline))
    try:
        return tls.wrap_socket(opened, server_hostname=host)
    except OSError:
        opened.close()
        raise


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(None, "no answer in time")
    return left


def connect(endpoint: Endpoint, secret: str | None, timeout_s: float) -> SocketConnection:
    """Connect to a replica at its address, else at a loopback address if it runs on this machine.

    The address may lead elsewhere from this machine, and a replica without a secret serves administration at
    the loopback only. A replica at the loopback is the right one if it says that it has the address of the
    endpoint. Raises what the connection to the address itself raises.
    """
    if is_loopback_host(endpoint.host):
        return SocketConnection(endpoint, secret, timeout_s)
    local_s = min(LOCAL_TIMEOUT_S, timeout_s / 4)
    try:
        return SocketConnection(endpoint, secret, timeout_s - local_s)
    except AdminError:
        for loopback in ("127.0.0.1", "::1"):
            local = _local_connection(endpoint, secret, local_s / 2, loopback)
            if local is not None:
                return local
        raise


def _local_connection(
    endpoint: Endpoint, secret: str | None, timeout_s: float, loopback: str
) -> SocketConnection | None:
    try:
        local = SocketConnection(endpoint, secret, timeout_s, via=loopback)
    except AdminError:
        return None
    if local.address == (endpoint.host, endpoint.port):
        return local
    local.close()
    return None


def _connected(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of the host that accepts. Raises OSError."""
    addresses = _resolved(host, port, deadline)
    problem: OSError = TimeoutError(None, "no answer in time")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            made = socket.socket(family, kind, protocol)
        except OSError as error:
            problem = error
            continue
        try:
            made.settimeout(_left(deadline) / (len(addresses) - number))
            made.connect(address)
        except OSError as error:
            made.close()
            problem = error
        else:
            return made
    raise problem


def _resolved(host: str, port: int, deadline: float) -> list[Any]:
    """Resolve the name of the host in a thread, which is left behind at the deadline. Raises OSError."""
    found: list[list[Any]] = []
    failed: list[OSError] = []

    def resolve() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error if isinstance(error, OSError) else OSError(None, str(error)))

    resolver = threading.Thread(target=resolve, daemon=True)
    resolver.start()
    resolver.join(_left(deadline))
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(None, "the name of the host is not resolved in time")
    return found[0]


class Connect(Protocol):
    """A factory of connections: `connect`, or a double in tests."""

    def __call__(self, endpoint: Endpoint, secret: str | None, timeout_s: float) -> Connection:
        """Connect. Raises Unreachable, AdminError."""
        ...
