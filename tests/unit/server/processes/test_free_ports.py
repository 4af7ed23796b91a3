"""Ports for servers that a program starts."""

import socket
import sys

import pytest

from quorate.server.processes.free_ports import free_ports


def listener(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Listen as servers do."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen()
    return made


def test_they_are_different_and_servers_can_listen_there_again_and_again() -> None:
    ports = free_ports(20)
    assert len({*ports}) == 20
    for host in ("127.0.0.1", "0.0.0.0", "::"):
        for port in ports:
            listener(port, host).close()


def test_nobody_listens_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5.0)


@pytest.mark.skipif(sys.platform != "linux", reason="ports are kept on Linux only")
def test_nobody_else_is_given_them() -> None:
    ports = {*free_ports(100)}
    for _ in range(3000):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] not in ports
