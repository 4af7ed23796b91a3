"""Temporary destinations, and requests that are answered, on virtual time."""

from typing import Any

import pytest

from quorate import RequestTimeout
from quorate.messaging import (
    Ack,
    AsyncSession,
    DestinationFull,
    MessagingError,
    NoSuchDestination,
    NotAllowed,
    Queue,
)
from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.settings import DestinationSettings

from .sites import Site


@pytest.fixture(scope="module")
def site() -> Site:
    """Return a site that all tests of this file share."""
    return Site(0, "questions")


async def answer(session: AsyncSession, count: int) -> None:
    """Answer requests."""
    consumer = session.consumer("questions")
    for _ in range(count):
        message = await consumer.receive()
        await session.reply(message, f"answer to {message.body}")


def test_requests_get_their_answers(site: Site) -> None:
    asking, answering = site.client(), site.client()

    async def ask() -> list[Any]:
        async with AsyncSession(asking.connection) as session:
            return [(await session.request("questions", text)).body for text in ("a", "b")]

    async def serve() -> None:
        async with AsyncSession(answering.connection) as session:
            await answer(session, 2)

    served = answering.begin(serve())
    assert asking.run(ask()) == ["answer to a", "answer to b"]
    del served


def test_a_request_goes_on_over_a_killed_master(site: Site) -> None:
    asking, answering = site.client(), site.client()
    killed: list[int] = []

    async def ask() -> Any:
        async with AsyncSession(asking.connection) as session:
            message = await session.request("questions", "c", timeout=60)
            return message.body

    async def serve() -> None:
        async with AsyncSession(answering.connection) as session:
            consumer = session.consumer("questions")
            message = await consumer.receive()
            killed.append(site.cluster.kill_master())
            await session.reply(message, "survived")

    answering.begin(serve())
    assert asking.run(ask()) == "survived"
    site.cluster.restart(*killed)


def test_a_request_that_nobody_answers_times_out_and_one_that_is_refused_says_so(site: Site) -> None:
    made = DestinationSettings(max_messages=1, full="reject")
    site.cluster.create(Destination, name="queue:small", kind="queue", title="small", settings=made)
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            with pytest.raises(RequestTimeout, match="no answer has come within 2 s"):
                await session.request("small", "first", timeout=2)
            with pytest.raises(DestinationFull):
                await session.request("small", "second")
            with pytest.raises(TypeError, match="leave them out"):
                await session.request("small", "third", correlation_id="mine")
        async with AsyncSession(client.connection, transacted=True) as session:
            with pytest.raises(MessagingError, match="sends with its commit"):
                await session.request("small", "fourth")

    client.run(main())


def test_a_temporary_queue_belongs_to_its_connection_and_ends_with_it(site: Site) -> None:
    owner, other = site.client(), site.client()
    made: list[Queue] = []

    async def own() -> None:
        async with AsyncSession(owner.connection) as session:
            queue = await session.temporary_queue()
            made.append(queue)
            await session.send(queue, "mine")
            consumer = session.consumer(queue)
            assert (await consumer.receive()).body == "mine"

    async def consume() -> None:
        async with AsyncSession(other.connection, ack=Ack.INDIVIDUAL) as session:
            with pytest.raises(NotAllowed, match="belongs to another connection"):
                await session.consumer(made[0]).receive(timeout=1)

    async def send() -> None:
        async with AsyncSession(other.connection) as session:
            with pytest.raises(NoSuchDestination):
                await session.send(made[0], "late")

    owner.run(own())
    other.run(consume())
    owner.close()
    site.cluster.run(5)
    other.run(send())


def test_a_temporary_queue_is_deleted_by_its_owner(site: Site) -> None:
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            queue = await session.temporary_queue()
            session.delete_temporary(queue)
            with pytest.raises(NoSuchDestination):
                await session.send(queue, "late")

    client.run(main())


def test_a_message_that_wants_no_answer_gets_none(site: Site) -> None:
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send("questions", "just so")
            message = await session.consumer("questions").receive()
            with pytest.raises(ValueError, match="it has no reply_to"):
                await session.reply(message, "anyway")

    client.run(main())


def test_a_temporary_queue_on_a_server_without_destinations_is_refused_with_a_sentence(site: Site) -> None:
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            with pytest.raises(NoSuchDestination, match="server s9 keeps no queues and topics"):
                await session.temporary_queue("s9")
            # The connection has taken no harm.
            await session.temporary_queue()

    client.run(main())
