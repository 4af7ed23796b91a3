import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread

from quorate.client import (
    AuthenticationError,
    ConnectionClosed,
    FrameTooLarge,
    RequestTimeout,
    SessionSettings,
    Unavailable,
    UnknownAgentError,
)
from quorate.client.twisted import tconnect


def opened(model):
    return tconnect(reactor, model.url, user="root", password="root")


@pytest_twisted.ensureDeferred
async def test_requests_and_sends(model, deposit, balance):
    connection = await opened(model)
    await connection.send("alice", deposit(5))
    assert model.seen == [5]
    assert await connection.request("alice", deposit(7), reply=balance) == balance(12)
    replies = await gatherResults([connection.request("alice", deposit(1)) for _ in range(50)])
    assert [r.amount for r in replies] == list(range(13, 63))
    await connection.close()
    with pytest.raises(ConnectionClosed):
        await connection.send("alice", deposit(5))
    with pytest.raises(ConnectionClosed):
        await connection.request("alice", deposit(5))


@pytest_twisted.ensureDeferred
async def test_a_flood_waits_for_room_and_the_master_may_die(model, deposit):
    model.window = 100
    connection = await opened(model)
    for n in range(2000):
        await connection.send_nowait("alice", deposit(n))
        assert connection.unacknowledged <= 100
        if n == 1000:
            await deferToThread(model.fail_over)
    await connection.flush(timeout=10)
    assert model.seen == list(range(2000))
    assert connection.reconnections >= 1
    await connection.close()


@pytest_twisted.ensureDeferred
async def test_failures(model, deposit):
    with pytest.raises(AuthenticationError):
        await tconnect(reactor, model.url, user="root", password="guess")
    with pytest.raises(Unavailable):
        await tconnect(reactor, f"quorate://127.0.0.1:{model.ports[1]}", user="u", password="p", timeout=0.2)
    connection = await opened(model)
    with pytest.raises(UnknownAgentError):
        await connection.request("nobody", deposit(1))
    with pytest.raises(FrameTooLarge):
        await connection.send("alice", deposit(1, "x" * 70_000))
    with pytest.raises(TypeError):
        await connection.send("alice", 5)
    with pytest.raises(RequestTimeout):
        await connection.request("silent", deposit(1), timeout=0.05)
    with pytest.raises(RequestTimeout):
        await connection.receive(timeout=0.01)
    await deferToThread(model.push, deposit(3))
    assert (await connection.receive(timeout=5)).notification == deposit(3)
    await connection.close()


@pytest_twisted.ensureDeferred
async def test_the_server_is_told_of_the_room_that_receiving_makes(model, deposit):
    tuning = SessionSettings(inbox_notes=4, ack_delay_s=1000)
    connection = await tconnect(reactor, model.url, user="root", password="root", settings=tuning)
    for n in range(2):
        await deferToThread(model.push, deposit(n))
    await connection.request("alice", deposit(0))
    assert model.credits.get(timeout=5) == 4
    for n in range(2):
        assert (await connection.receive(timeout=5)).notification == deposit(n)
    assert await deferToThread(model.credits.get, timeout=5) == 6
    await connection.close()
