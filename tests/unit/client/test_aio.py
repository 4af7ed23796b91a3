import asyncio

import pytest

from quorate.client import (
    AuthenticationError,
    ConnectionClosed,
    FrameTooLarge,
    RequestTimeout,
    SessionSettings,
    Unavailable,
    UnknownAgentError,
    aconnect,
)


def opened(model, **kwargs):
    return aconnect(model.url, user="root", password="root", **kwargs)


def test_requests_and_sends(model, deposit, balance):
    async def main():
        async with opened(model) as connection:
            await connection.send("alice", deposit(5))
            assert model.seen == [5]
            assert await connection.request("alice", deposit(7), reply=balance) == balance(12)
            assert connection.id.startswith("#0.0.")
            assert connection.unacknowledged == 0
        with pytest.raises(ConnectionClosed):
            await connection.send("alice", deposit(5))

    asyncio.run(main())


def test_many_tasks_share_a_connection(model, deposit):
    async def main():
        connection = await opened(model)
        replies = await asyncio.gather(*(connection.request("alice", deposit(1)) for _ in range(200)))
        assert sorted(r.amount for r in replies) == list(range(1, 201))
        await connection.close()

    asyncio.run(main())


def test_a_flood_is_packed_and_waits_for_room(model, deposit):
    async def main():
        model.window = 500
        async with opened(model) as connection:
            for n in range(5000):
                await connection.send_nowait("alice", deposit(n))
                assert connection.unacknowledged <= 500
            await connection.flush(timeout=10)
        assert model.seen == list(range(5000))
        assert model.frames < 1000

    asyncio.run(main())


def test_the_master_may_die(model, deposit, balance):
    async def main():
        async with opened(model) as connection:
            for n in range(1, 101):
                await connection.send_nowait("alice", deposit(n))
                if n == 50:
                    await asyncio.to_thread(model.fail_over)
            assert await connection.request("alice", deposit(0), timeout=10) == balance(5050)
            assert connection.reconnections >= 1
        assert model.seen == [*range(1, 101), 0]

    asyncio.run(main())


def test_failures(model, deposit):
    async def main():
        with pytest.raises(AuthenticationError):
            await aconnect(model.url, user="root", password="guess")
        with pytest.raises(Unavailable):
            await aconnect(f"quorate://127.0.0.1:{model.ports[1]}", user="u", password="p", timeout=0.2)
        async with opened(model) as connection:
            with pytest.raises(UnknownAgentError):
                await connection.request("nobody", deposit(1))
            with pytest.raises(FrameTooLarge):
                await connection.send("alice", deposit(1, "x" * 70_000))
            with pytest.raises(RequestTimeout):
                await connection.request("silent", deposit(1), timeout=0.05)
            with pytest.raises(RequestTimeout):
                await connection.receive(timeout=0.01)
            await asyncio.to_thread(model.push, deposit(3))
            assert (await connection.receive(timeout=5)).notification == deposit(3)

    asyncio.run(main())


def test_a_cancelled_wait_leaves_the_connection_usable(model, deposit, balance):
    async def main():
        async with opened(model) as connection:
            task = asyncio.create_task(connection.request("silent", deposit(1)))
            receiver = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            task.cancel()
            receiver.cancel()
            await asyncio.gather(task, receiver, return_exceptions=True)
            assert await connection.request("alice", deposit(7)) == balance(7)

    asyncio.run(main())


def test_opening_can_be_cancelled(model):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await aconnect(f"quorate://127.0.0.1:{model.ports[1]}", user="root", password="root")
        async with asyncio.timeout(5):
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    asyncio.run(main())


def test_nothing_more_is_written_to_a_connection_that_is_known_to_have_broken(model, deposit, caplog):
    async def main():
        async with opened(model) as connection:
            connection._driver.port._link.transport.abort()
            for _ in range(20):
                await connection.send_nowait("alice", deposit(1))
                # Each by itself: asyncio complains of the sixth.
                connection._driver.step()
            await connection.flush(timeout=10)

    asyncio.run(main())
    assert model.seen == [1] * 20
    assert [record for record in caplog.records if "raised" in record.getMessage()] == []


def test_the_server_is_told_of_the_room_that_receiving_makes(model, deposit):
    async def main():
        async with opened(model, settings=SessionSettings(inbox_notes=4, ack_delay_s=1000)) as connection:
            for n in range(2):
                await asyncio.to_thread(model.push, deposit(n))
            await connection.request("alice", deposit(0))
            assert model.credits.get(timeout=5) == 4
            for n in range(2):
                assert (await connection.receive(timeout=5)).notification == deposit(n)
            assert await asyncio.to_thread(model.credits.get, timeout=5) == 6

    asyncio.run(main())
