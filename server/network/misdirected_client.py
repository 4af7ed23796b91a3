"""Answer to a client program that connects to a network port: it names the port for clients.

The frames of the client protocol have no checksum, so a listener of this package cannot read them as its own.
"""

from ...client.frames import MAGIC, Bye, ByeCode, encode_frame

__all__ = ["client_refusal", "is_client_hello", "port_advice"]

_MAGIC = MAGIC.encode()
_MAGIC_ENDS = 32
"""The magic stands within these first bytes, in whatever form a client encodes its hello."""


def is_client_hello(data: bytes) -> bool:
    """Whether the first bytes of a connection begin the hello of a client."""
    return _MAGIC in data[:_MAGIC_ENDS]


def port_advice(client_port: int | None) -> str:
    """Say which port clients use; None if this replica serves no clients."""
    where = (
        f"clients connect to port {client_port} of this host"
        if client_port is not None
        else "this replica has no TcpProxyService, so clients cannot connect to it"
    )
    return f"this port is for servers and commands; {where}"


def client_refusal(client_port: int | None) -> bytes:
    """Return the last frame for such a client, in the client protocol; the client does not try again."""
    return encode_frame(Bye(ByeCode.PROTOCOL, port_advice(client_port)))
