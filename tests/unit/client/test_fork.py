"""Connections after a fork: the child gets one sentence at once, the parent goes on."""

import asyncio
import json
import os
import selectors
import time
from collections.abc import Callable

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from quorate.client import aconnect, connect
from quorate.client.twisted import tconnect

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

SENTENCE = (
    "ConnectionClosed: the connection belongs to the process that opened it, and this process is a fork "
    "of it; open a connection in this process"
)
AT_ONCE_S = 5.0


def in_a_child(work: Callable[[], list[str]]) -> list[str]:
    """Run `work` in a fork of this process; return its result, or [] if it does not end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(read, selectors.EVENT_READ)
            ready = waiting.select(4 * AT_ONCE_S)
        if not ready:
            os.kill(child, 9)
            return []
        return json.loads(os.read(read, 65536) or b"[]")
    finally:
        os.close(read)
        os.waitpid(child, 0)


def outcome(operation: Callable[[], object]) -> str:
    """How an operation ends, and whether it took long."""
    began = time.monotonic()
    try:
        text = f"returned {operation()!r}"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return text if time.monotonic() - began < AT_ONCE_S else f"{text}, after a while"


def operations(connection, notification) -> "list[Callable[[], object]]":
    """The operations of a connection, of any face."""
    return [
        lambda: connection.send("alice", notification),
        lambda: connection.send_nowait("alice", notification),
        lambda: connection.request("alice", notification),
        lambda: connection.flush(),
        lambda: connection.receive(),
        lambda: connection.close(),
    ]


def test_a_blocking_connection_is_closed_in_a_child_and_goes_on_in_the_parent(model, deposit, balance):
    with connect(model.url, user="root", password="root") as connection:
        connection.send("alice", deposit(1))

        def work():
            *calls, close = operations(connection, deposit(2))
            return [outcome(call) for call in (*calls, lambda: connection.is_open, close)]

        for _ in range(3):
            assert in_a_child(work) == [SENTENCE] * 5 + ["returned False", "returned None"]
        assert connection.request("alice", deposit(3)) == balance(4)
        assert (connection.is_open, connection.reconnections) == (True, 0)
    assert model.seen == [1, 3]


def test_a_child_opens_a_connection_of_its_own(model, deposit, balance):
    with connect(model.url, user="root", password="root") as connection:

        def work():
            with connect(model.url, user="root", password="root") as own:
                return [outcome(lambda: own.request("alice", deposit(2)) == balance(2))]

        assert in_a_child(work) == ["returned True"]
        assert connection.request("alice", deposit(3)) == balance(5)


def test_an_asyncio_connection_is_closed_in_a_child_and_goes_on_in_the_parent(model, deposit, balance):
    async def main():
        async with aconnect(model.url, user="root", password="root") as connection:
            await connection.send("alice", deposit(1))

            def work():
                return [
                    outcome(lambda start=start: asyncio.run(start()))
                    for start in operations(connection, deposit(2))
                ]

            assert in_a_child(work) == [SENTENCE] * 5 + ["returned None"]
            assert await connection.request("alice", deposit(3)) == balance(4)
            assert (connection.is_open, connection.reconnections) == (True, 0)

    asyncio.run(main())
    assert model.seen == [1, 3]


@pytest_twisted.ensureDeferred
async def test_a_twisted_connection_is_closed_in_a_child_and_goes_on_in_the_parent(model, deposit, balance):
    connection = await tconnect(reactor, model.url, user="root", password="root")
    await connection.send("alice", deposit(1))

    def now(deferred: Deferred):
        results: list[object] = []
        deferred.addBoth(results.append)
        [result] = results
        if result is not None:
            result.raiseException()

    def work():
        return [outcome(lambda start=start: now(start())) for start in operations(connection, deposit(2))]

    assert in_a_child(work) == [SENTENCE] * 5 + ["returned None"]
    assert await connection.request("alice", deposit(3)) == balance(4)
    assert (connection.is_open, connection.reconnections) == (True, 0)
    await connection.close()
    assert model.seen == [1, 3]
