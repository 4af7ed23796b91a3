"""Listeners and iterators of all three clients: order, room, exceptions, stop and end."""

import asyncio
import threading
from queue import SimpleQueue

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from quorate.client import (
    ConnectionClosed,
    ConnectionLost,
    RequestTimeout,
    SessionSettings,
    aconnect,
    connect,
)
from quorate.client.twisted import tconnect

SMALL = SessionSettings(inbox_notes=4, ack_delay_s=1000)
SHORT = SessionSettings(reconnect_timeout_s=0.3)


def opened(model, settings=None):
    return connect(model.url, user="root", password="root", settings=settings)


def aopened(model, settings=None):
    return aconnect(model.url, user="root", password="root", settings=settings)


def topened(model, settings=None):
    return tconnect(reactor, model.url, user="root", password="root", settings=settings)


def push(model, deposit, *amounts):
    for amount in amounts:
        model.push(deposit(amount))


# Blocking.


def test_a_listener_gets_what_waits_and_what_comes_in_order_and_may_use_the_connection(model, deposit):
    got = SimpleQueue()

    def listener(note):
        answer = connection.request("alice", deposit(1)).amount
        got.put((note.notification.amount, answer, threading.current_thread() is not threading.main_thread()))

    with opened(model) as connection:
        push(model, deposit, 10)
        connection.flush()
        connection.listen(listener)
        push(model, deposit, 11, 12)
        assert [got.get(timeout=10) for _ in range(3)] == [(10, 1, True), (11, 2, True), (12, 3, True)]
        with pytest.raises(RuntimeError, match="has a listener"):
            connection.receive()
        with pytest.raises(RuntimeError, match="has a listener"):
            connection.listen(listener)


def test_a_listener_that_raises_is_logged_and_gets_the_next_notification(model, deposit, caplog):
    got = SimpleQueue()

    def listener(note):
        got.put(note.notification.amount)
        if note.notification.amount == 1:
            raise KeyError("first")

    with opened(model) as connection:
        connection.listen(listener)
        push(model, deposit, 1, 2)
        assert [got.get(timeout=10), got.get(timeout=10)] == [1, 2]
    (record,) = caplog.records
    assert record.name == "quorate.client"
    assert "KeyError: 'first'" in caplog.text


def test_the_room_of_a_notification_is_given_back_when_the_listener_has_returned(model, deposit):
    go, began = threading.Semaphore(0), SimpleQueue()

    def listener(note):
        began.put(note)
        assert go.acquire(timeout=10)

    with opened(model, SMALL) as connection:
        connection.listen(listener)
        push(model, deposit, 1, 2, 3)
        began.get(timeout=10)
        connection.send("alice", deposit(5))
        assert model.credits.get(timeout=10) == 4, "nothing was processed yet"
        for _ in range(3):
            go.release()
        while model.credits.get(timeout=10) < 6:
            connection.send("alice", deposit(5))


def test_after_the_listener_was_stopped_the_rest_comes_to_receive_in_order(model, deposit):
    stopped = threading.Event()

    def listener(note):
        if note.notification.amount == 2:
            connection.stop_listening()
            stopped.set()

    with opened(model) as connection:
        push(model, deposit, 1, 2, 3, 4)
        connection.flush()
        connection.listen(listener)
        assert stopped.wait(10)
        push(model, deposit, 5)
        assert [connection.receive(timeout=10).notification.amount for _ in range(3)] == [3, 4, 5]


def test_a_listener_that_stops_in_its_first_call_is_stopped(model, deposit, monkeypatch):
    begin = threading.Thread.start

    def start(thread):
        begin(thread)
        if thread.name == "quorate-listener":
            called.wait(10)  # the first call comes before `listen` goes on

    def listener(_):
        connection.stop_listening()
        called.set()

    called = threading.Event()
    monkeypatch.setattr(threading.Thread, "start", start)
    with opened(model) as connection:
        push(model, deposit, 1, 2)
        connection.flush()
        connection.listen(listener)
        assert connection.receive(timeout=10).notification.amount == 2


def test_stopping_waits_for_the_listener_and_says_if_it_takes_too_long(model, deposit):
    began, go = threading.Event(), threading.Event()

    def listener(_):
        began.set()
        go.wait(10)

    with opened(model) as connection:
        connection.listen(listener)
        push(model, deposit, 1)
        assert began.wait(10)
        with pytest.raises(RequestTimeout, match="the listener has not returned within"):
            connection.stop_listening(timeout=0.01)
        go.set()
        connection.stop_listening(timeout=10)
        push(model, deposit, 2)
        assert connection.receive(timeout=10).notification == deposit(2)


def test_the_end_is_reported_once_with_none_or_with_the_reason(model, deposit):
    ends = SimpleQueue()
    with opened(model) as connection:
        connection.listen(lambda _: None, ends.put)
    assert ends.get(timeout=10) is None
    lost = opened(model, SHORT)
    lost.listen(lambda _: None, ends.put)
    model.call(model.shut(0))
    model.cut()
    assert isinstance(ends.get(timeout=10), ConnectionLost)
    with pytest.raises(ConnectionLost):
        lost.listen(lambda _: None)
    lost.close()
    assert ends.empty()


def test_a_listener_may_close_the_connection(model, deposit):
    ended = threading.Event()
    connection = opened(model)
    connection.listen(lambda _: connection.close(), lambda _: ended.set())
    push(model, deposit, 1, 2)
    assert ended.wait(10)
    with pytest.raises(ConnectionClosed):
        connection.send("alice", deposit(1))


@pytest.mark.parametrize("arguments", [(5,), (print, 5)])
def test_what_cannot_be_called_is_no_listener(model, arguments):
    with opened(model) as connection, pytest.raises(TypeError, match="is 5; give a function"):
        connection.listen(*arguments)
    off = SessionSettings(inbox_notes=0)
    with opened(model, off) as connection, pytest.raises(RuntimeError, match="inbox_notes=0"):
        connection.listen(print)


def test_an_iteration_ends_when_the_program_closes_the_connection(model, deposit):
    connection = opened(model)
    push(model, deposit, 1, 2)
    seen = []
    for note in connection:
        seen.append(note.notification.amount)
        if len(seen) == 2:
            threading.Thread(target=connection.close).start()
    assert seen == [1, 2]
    assert list(connection) == []


def test_an_iteration_over_a_lost_connection_returns_what_came_and_raises(model, deposit):
    connection = opened(model, SHORT)
    push(model, deposit, 1)
    model.call(model.shut(0))
    model.cut()
    notes = iter(connection)
    assert next(notes).notification == deposit(1)
    with pytest.raises(ConnectionLost):
        next(notes)
    connection.close()


# asyncio.


def test_an_asyncio_listener_is_called_one_at_a_time_and_may_wait(model, deposit, caplog):
    async def main():
        got, ends, running = asyncio.Queue(), [], []

        async def listener(note):
            running.append(note)
            assert len(running) == 1
            answer = await connection.request("alice", deposit(1))
            running.clear()
            await got.put((note.notification.amount, answer.amount))
            if note.notification.amount == 11:
                raise ValueError("eleven")

        async with aopened(model) as connection:
            connection.listen(listener, ends.append)
            await asyncio.to_thread(push, model, deposit, 10, 11, 12)
            assert [await got.get() for _ in range(3)] == [(10, 1), (11, 2), (12, 3)]
            with pytest.raises(RuntimeError, match="has a listener"):
                await connection.receive()
            await connection.stop_listening()
            await asyncio.to_thread(push, model, deposit, 13)
            assert (await connection.receive(timeout=10)).notification == deposit(13)
            connection.listen(lambda note: got.put_nowait(note.notification.amount), ends.append)
            await asyncio.to_thread(push, model, deposit, 14)
            assert await got.get() == 14
        assert ends == [None]

    asyncio.run(main())
    assert "ValueError: eleven" in caplog.text


def test_the_room_is_given_back_when_the_asyncio_listener_is_done(model, deposit):
    async def main():
        go, began = asyncio.Semaphore(0), asyncio.Event()

        async def listener(_):
            began.set()
            await go.acquire()

        async with aopened(model, SMALL) as connection:
            connection.listen(listener)
            await asyncio.to_thread(push, model, deposit, 1, 2)
            await began.wait()
            await connection.send("alice", deposit(5))
            assert model.credits.get(timeout=10) == 4
            go.release()
            go.release()
            while await asyncio.to_thread(model.credits.get, timeout=10) < 6:
                await connection.send("alice", deposit(5))

    asyncio.run(main())


def test_async_for_ends_when_the_program_closes_the_connection(model, deposit):
    async def main():
        connection = await aopened(model)
        await asyncio.to_thread(push, model, deposit, 1, 2)
        seen = []
        async for note in connection:
            seen.append(note.notification.amount)
            if len(seen) == 2:
                await connection.close()
        assert seen == [1, 2]

    asyncio.run(main())


def test_a_notification_that_comes_as_the_wait_is_cancelled_is_not_lost(model, deposit):
    async def main():
        async with aopened(model) as connection:
            receiver = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            waiter = connection._pending._receivers[0][0]
            waiter.add_done_callback(lambda _: receiver.cancel())
            await asyncio.to_thread(push, model, deposit, 1)
            await asyncio.wait([receiver], timeout=10)
            if receiver.cancelled():
                assert (await connection.receive(timeout=10)).notification == deposit(1)
            else:
                assert receiver.result().notification == deposit(1)

    asyncio.run(main())


# Twisted.


@pytest_twisted.ensureDeferred
async def test_a_twisted_listener_is_called_one_at_a_time_and_may_wait(model, deposit, caplog):
    got, ends = [], []
    done = Deferred()

    async def listener(note):
        answer = await connection.request("alice", deposit(1))
        got.append((note.notification.amount, answer.amount))
        if note.notification.amount == 11:
            raise ValueError("eleven")
        if note.notification.amount == 12:
            done.callback(None)

    connection = await topened(model)
    connection.listen(listener, ends.append)
    await deferToThread(push, model, deposit, 10, 11, 12)
    await done
    assert got == [(10, 1), (11, 2), (12, 3)]
    with pytest.raises(RuntimeError, match="has a listener"):
        await connection.receive()
    await connection.stop_listening()
    await deferToThread(push, model, deposit, 13)
    assert (await connection.receive(timeout=10)).notification == deposit(13)
    connection.listen(lambda note: connection.stop_listening() and None, ends.append)
    await deferToThread(push, model, deposit, 14, 15)
    while connection._listens:
        await connection.request("alice", deposit(0))
    assert (await connection.receive(timeout=10)).notification == deposit(15)
    connection.listen(lambda _: None, ends.append)
    await connection.close()
    assert ends == [None]
    assert "ValueError: eleven" in caplog.text


@pytest_twisted.ensureDeferred
async def test_the_room_is_given_back_when_the_deferred_of_a_twisted_listener_fires(model, deposit):
    waits = []

    def listener(_):
        waits.append(Deferred())
        return waits[-1]

    connection = await topened(model, SMALL)
    connection.listen(listener)
    await deferToThread(push, model, deposit, 1, 2)
    while not waits:
        await connection.request("alice", deposit(0))
    await connection.request("alice", deposit(0))
    credit = 0
    while not model.credits.empty():
        credit = model.credits.get()
    assert credit == 4
    waits[0].callback(None)
    while len(waits) < 2:
        await connection.request("alice", deposit(0))
    waits[1].callback(None)
    while credit < 6:
        await connection.request("alice", deposit(0))
        credit = await deferToThread(model.credits.get, timeout=10)
    await connection.close()


@pytest_twisted.ensureDeferred
async def test_async_for_over_a_twisted_connection_ends_when_the_program_closes_it(model, deposit):
    connection = await topened(model)
    await deferToThread(push, model, deposit, 1, 2)
    seen = []
    async for note in connection:
        seen.append(note.notification.amount)
        if len(seen) == 2:
            await connection.close()
    assert seen == [1, 2]
