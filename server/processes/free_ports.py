"""Ports of this machine for servers that a program starts."""

import socket
import sys
from collections import deque
from typing import Final

__all__ = ["free_ports"]

MAX_RESERVED: Final = 128
_reserved: deque[socket.socket] = deque()
"""Sockets that keep the ports from others. No one listens at them, so that connections are refused."""


def free_ports(count: int) -> list[int]:
    """Return as many different ports on which nobody listens.

    On Linux the last 128 of them are given to no other program while this one runs: their sockets stay
    bound, without listening. A server that sets ``SO_REUSEADDR``, as nearly all do, listens there anyway.
    """
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            each = socket.socket()
            made.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        ports = [int(each.getsockname()[1]) for each in made]
    except BaseException:
        _close(made)
        raise
    if sys.platform == "linux":
        _reserved.extend(made)
        _close([_reserved.popleft() for _ in range(len(_reserved) - MAX_RESERVED)])
    else:
        _close(made)
    return ports


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()
