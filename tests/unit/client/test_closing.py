"""Closing ends in time, and leaves no TCP connection, whatever the server does."""

import asyncio
import os
import socket
import threading
import time
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater

from quorate.client import SessionSettings, aconnect, connect
from quorate.client.driver import CLOSE_GRACE_S
from quorate.client.twisted import tconnect

SETTINGS = SessionSettings(close_timeout_s=0.2)
OPENED = {"user": "root", "password": "root", "settings": SETTINGS}
FLUSH_S = 0.1
IN_TIME_S = 5.0
TEXT = "x" * 60000
MANY = 120
"""Notifications of TEXT that the buffers of a socket have no room for. Once as many are acknowledged, the
window has room for them."""
FILES = Path("/proc/self/fd")


def gone(model):
    """The server and all replicas end."""
    while model.servers:
        model.call(model.shut(0))
    model.cut()


def frozen(model):
    """The server stops where it stands."""

    def stop():
        for link in model.links:
            link.transport.pause_reading()
            link.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    model.run(stop)


FAULTS = pytest.mark.parametrize(("fault", "count"), [(gone, 3), (frozen, MANY)])


def sockets():
    """The open sockets of this process."""
    if not FILES.exists():
        pytest.skip("this system has no /proc")
    links = []
    for each in FILES.iterdir():
        try:
            links.append(os.readlink(each))
        except OSError:
            continue
    return {link for link in links if link.startswith("socket:")}


@FAULTS
def test_a_blocking_connection_closes_in_time(model, deposit, fault, count):
    connection = connect(model.url, **OPENED)
    for _ in range(MANY):
        connection.send_nowait("alice", deposit(1, TEXT))
    connection.flush(IN_TIME_S)
    fault(model)
    for _ in range(count):
        connection.send_nowait("alice", deposit(1, TEXT), timeout=IN_TIME_S)
    closing = threading.Thread(target=connection.close, args=(FLUSH_S,), daemon=True)
    closing.start()
    closing.join(IN_TIME_S)
    assert not closing.is_alive()
    assert not connection.is_open


@FAULTS
def test_an_asyncio_connection_closes_in_time(model, deposit, fault, count):
    async def main():
        connection = await aconnect(model.url, **OPENED)
        before = sockets()
        for _ in range(MANY):
            await connection.send_nowait("alice", deposit(1, TEXT))
        await connection.flush(timeout=IN_TIME_S)
        await asyncio.to_thread(fault, model)
        for _ in range(count):
            await connection.send_nowait("alice", deposit(1, TEXT))
        began = time.monotonic()
        await connection.close(timeout=FLUSH_S)
        assert time.monotonic() - began < IN_TIME_S
        await until_closed(before)

    async def until_closed(before):
        for _ in range(100):
            if len(sockets() & before) < len(before):
                return
            await asyncio.sleep(CLOSE_GRACE_S / 20)
        raise AssertionError("the TCP connection stays open")

    asyncio.run(main())


@FAULTS
@pytest_twisted.ensureDeferred
async def test_a_twisted_connection_closes_in_time(model, deposit, fault, count):
    connection = await tconnect(reactor, model.url, **OPENED)
    before = sockets()
    fault(model)
    for _ in range(count):
        connection.send_nowait("alice", deposit(1, TEXT))
    began = time.monotonic()
    await connection.close(timeout=FLUSH_S)
    assert time.monotonic() - began < IN_TIME_S
    for _ in range(100):
        if len(sockets() & before) < len(before):
            break
        await deferLater(reactor, CLOSE_GRACE_S / 20)
    else:
        raise AssertionError("the TCP connection stays open")
