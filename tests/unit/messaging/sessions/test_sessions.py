"""Sessions, producers and consumers, on virtual time."""

import contextlib
from typing import Any

import attrs
import pytest

from quorate import Notification, RequestTimeout
from quorate.messaging import (
    Ack,
    AsyncSession,
    DestinationFull,
    InUse,
    InvalidSelector,
    MessageTooLarge,
    MessagingError,
    NoSuchDestination,
    NoSuchSubscription,
    Queue,
    SessionClosed,
    Topic,
    TransactionRolledBack,
)
from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.settings import DestinationSettings

from .sites import Site


@attrs.frozen
class Bill(Notification, name="tests.bill"):
    amount: int


BODIES: list[Any] = [b"\x00\xff", "text é", {"a": 1, "b": [1.5, None, b"x"]}, [1, "two"], Bill(5), b"", ""]


@pytest.fixture(scope="module")
def site() -> Site:
    """Return a site that all tests of this file share: each has destinations of its own."""
    return Site()


def _queue(site: Site, title: str, **settings: Any) -> Queue:
    made = DestinationSettings(**settings)
    site.cluster.create(Destination, name=f"queue:{title}", kind="queue", title=title, settings=made)
    return Queue(title)


def _topic(site: Site, title: str) -> Topic:
    site.cluster.create(Destination, name=f"topic:{title}", kind="topic", title=title)
    return Topic(title)


def test_each_kind_of_body_arrives_as_it_was_sent(site: Site) -> None:
    queue = _queue(site, "bodies")
    client = site.client()

    async def main() -> list[Any]:
        async with AsyncSession(client.connection) as session:
            for body in BODIES:
                await session.send(queue, body)
            consumer = session.consumer(queue)
            return [(await consumer.receive()).body for _ in BODIES]

    assert client.run(main()) == BODIES


def test_what_is_sent_with_a_message_comes_with_it(site: Site) -> None:
    queue = _queue(site, "options")
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send(
                queue,
                "x",
                priority=7,
                ttl_s=60,
                properties={"region": "EU", "weight": 1.5, "urgent": True},
                correlation_id="c",
                reply_to=Topic("answers"),
                type="t",
            )
            message = await session.consumer(queue).receive()
            assert (message.priority, message.correlation_id, message.type) == (7, "c", "t")
            assert message.properties == {"region": "EU", "weight": 1.5, "urgent": True}
            assert message.reply_to == Topic("answers")
            assert message.destination == queue
            assert message.expires_s == pytest.approx(message.timestamp_s + 60)
            assert (message.delivery_count, message.redelivered) == (1, False)
            assert message.id.startswith(f"ID:{client.connection.id}/")

    client.run(main())


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"priority": 10}, ValueError, "priority is 10; give 0 to 9"),
        ({"ttl_s": -1}, ValueError, "ttl_s is -1"),
        ({"delay_s": True}, ValueError, "delay_s is True"),
        ({"properties": {"a b": 1}}, ValueError, "'a b' is not the name of a property"),
        ({"properties": {"a": []}}, TypeError, "the property a is a list; give a number, text or a bool"),
        ({"properties": {"a": 2**63}}, ValueError, "more than 64 bits"),
        ({"correlation_id": 5}, TypeError, "correlation_id is 5; give text"),
        ({"reply_to": 5}, TypeError, "5 is no destination"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(
    site: Site, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    client = site.client()
    session = AsyncSession(client.connection)
    with pytest.raises(error, match=text):
        client.run(session.send("bodies", "x", **options))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (5, "the body is a int; give bytes, text, a dict, a list or a notification"),
        ({1: 2}, "the body has the key 1; the keys of a dict are texts"),
        ([object()], "the body cannot be sent"),
    ],
)
def test_a_body_that_cannot_be_sent_is_refused(site: Site, body: Any, text: str) -> None:
    client = site.client()
    with pytest.raises(TypeError, match=text):
        client.run(AsyncSession(client.connection).send("bodies", body))


def test_a_destination_that_does_not_exist_is_named(site: Site) -> None:
    client = site.client()
    session = AsyncSession(client.connection)
    with pytest.raises(NoSuchDestination, match="there is no queue nowhere; declare it"):
        client.run(session.send("nowhere", "x"))
    with pytest.raises(NoSuchDestination, match="there is no topic nowhere"):
        client.run(session.consumer(Topic("nowhere")).receive())


def test_what_a_destination_refuses_reaches_the_sender(site: Site) -> None:
    queue = _queue(site, "small", max_messages=1, full="reject", max_message_bytes=5)
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            producer = session.producer(queue)
            await producer.send("12345")
            with pytest.raises(DestinationFull, match="queue small is full: it has 1 messages"):
                await producer.send("2")
            with pytest.raises(MessageTooLarge, match="the message has 6 bytes; queue small takes 5 at most"):
                await producer.send("123456")
            await producer.send_nowait("3")
            with pytest.raises(DestinationFull):
                await producer.flush()

    client.run(main())


def test_a_producer_waits_at_a_full_queue_until_there_is_room(site: Site) -> None:
    queue = _queue(site, "blocking", max_messages=5)
    client, other = site.client(), site.client()

    async def produce() -> None:
        async with AsyncSession(client.connection) as session:
            for number in range(3000):
                await session.producer(queue).send_nowait(str(number))
            await session.producer(queue).flush()

    async def consume() -> list[int]:
        async with AsyncSession(other.connection) as session:
            return [int(str(message.body)) async for message in session.consumer(queue, timeout_s=5)]

    producing = client.begin(produce())
    site.cluster.run(2)
    assert not producing.done
    assert other.run(consume()) == list(range(3000))
    producing.result()


def test_auto_is_done_with_a_message_when_receive_has_returned_it(site: Site) -> None:
    queue = _queue(site, "auto")
    client = site.client()

    async def main() -> list[str]:
        async with AsyncSession(client.connection) as session:
            for text in "abc":
                await session.send(queue, text)
            consumer = session.consumer(queue)
            await consumer.receive()
            await consumer.close()
            again = session.consumer(queue, timeout_s=1)
            return [str(message.body) async for message in again]

    assert client.run(main()) == ["b", "c"]


def test_auto_returns_the_message_of_a_turn_that_fails(site: Site) -> None:
    queue = _queue(site, "turns")
    client = site.client()

    async def main() -> list[tuple[Any, bool]]:
        async with AsyncSession(client.connection) as session:
            await session.send(queue, "a")
            with contextlib.suppress(ZeroDivisionError):
                async with session.consumer(queue) as consumer:
                    async for _ in consumer:
                        raise ZeroDivisionError
            return [(each.body, each.redelivered) async for each in session.consumer(queue, timeout_s=1)]

    assert client.run(main()) == [("a", True)]


def test_a_listener_that_fails_gets_the_message_again(site: Site) -> None:
    queue = _queue(site, "listened")
    client = site.client()
    seen: list[tuple[Any, bool]] = []

    def listen(message: Any) -> None:
        seen.append((message.body, message.redelivered))
        if len(seen) == 1:
            raise ValueError("not yet")

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            await session.send(queue, "a")

    session = AsyncSession(client.connection)
    listening = client.begin(session.consumer(queue).listen(listen))
    client.run(main())
    site.cluster.run(1)
    assert seen == [("a", False), ("a", True)]
    client.run(session.close())
    assert listening.done


def test_client_mode_acknowledges_all_that_came_before(site: Site) -> None:
    queue = _queue(site, "client")
    client = site.client()

    async def main() -> list[tuple[Any, int]]:
        async with AsyncSession(client.connection, ack=Ack.CLIENT) as session:
            for text in "abcd":
                await session.send(queue, text)
            consumer = session.consumer(queue)
            messages = [await consumer.receive() for _ in range(3)]
            await messages[1].ack()
            await consumer.receive()
        async with AsyncSession(client.connection) as session:
            return [(each.body, each.delivery_count) async for each in session.consumer(queue, timeout_s=1)]

    # The ack of the second message is one of all three that the session had received.
    assert client.run(main()) == [("d", 2)]


def test_recover_delivers_again_in_order(site: Site) -> None:
    queue = _queue(site, "recovered")
    client = site.client()

    async def main() -> list[tuple[Any, int]]:
        async with AsyncSession(client.connection, ack=Ack.CLIENT) as session:
            for text in "abc":
                await session.send(queue, text)
            consumer = session.consumer(queue)
            first = await consumer.receive()
            await consumer.receive()
            await session.recover()
            with pytest.raises(MessagingError, match="is acknowledged or rejected already, or was recovered"):
                first.ack()
            return [(each.body, each.delivery_count) for each in [await consumer.receive() for _ in range(3)]]

    assert client.run(main()) == [("a", 2), ("b", 2), ("c", 1)]


def test_lazy_acknowledgements_are_sent_after_a_while(site: Site) -> None:
    queue = _queue(site, "lazy")
    client = site.client()

    async def main() -> None:
        session = AsyncSession(client.connection, ack=Ack.DUPS_OK)
        for text in "abc":
            await session.send(queue, text)
        consumer = session.consumer(queue)
        for _ in range(3):
            await consumer.receive()

    client.run(main())
    assert site.cluster.state("queue:lazy").depth == 3
    site.cluster.run(1)
    assert site.cluster.state("queue:lazy").depth == 0


def test_single_messages_are_rejected_and_returned_in_individual_mode_only(site: Site) -> None:
    _queue(site, "graves")
    queue = _queue(site, "single", dead_queue="graves")
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection, ack=Ack.INDIVIDUAL) as session:
            for text in "abc":
                await session.send(queue, text)
            consumer = session.consumer(queue)
            first, second, third = [await consumer.receive() for _ in range(3)]
            await third.ack()
            await first.reject()
            await second.reject(requeue=True, delay_s=2)
            with pytest.raises(RequestTimeout):
                await consumer.receive(timeout=1)
            again = await consumer.receive()
            assert (again.body, again.delivery_count) == ("b", 2)
            dead = await session.consumer("graves").receive()
            assert (dead.body, dead.dead_reason, dead.dead_origin) == ("a", "rejected", "queue:single")
        async with AsyncSession(client.connection) as session:
            message = await session.consumer(queue).receive()
            with pytest.raises(MessagingError, match=r"Ack\.INDIVIDUAL only"):
                message.reject()

    client.run(main())


def test_subscriptions_of_a_topic(site: Site) -> None:
    topic = _topic(site, "news")
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection, client_id="me") as session:
            durable = session.consumer(topic, durable="all")
            await durable.open()
            with pytest.raises(InUse, match="has a consumer already"):
                await session.consumer(topic, durable="all").open()
            await durable.close()
            with pytest.raises(InvalidSelector, match="line 1, column 4"):
                await session.consumer(topic, selector="a =").open()
            selective = session.consumer(topic, selector="n > 1", timeout_s=1)
            await selective.open()
            for number in range(3):
                await session.send(topic, str(number), properties={"n": number})
            assert [each.body async for each in selective] == ["2"]
            again = session.consumer(topic, durable="all", timeout_s=1)
            assert [each.body async for each in again] == ["0", "1", "2"]
            await again.close()
            await session.unsubscribe(topic, "all")
            with pytest.raises(NoSuchSubscription, match="no durable subscription all of 'me'"):
                await session.unsubscribe("news", "all")

    client.run(main())


def test_a_transaction_that_is_refused_delivers_its_messages_again(site: Site) -> None:
    source = _queue(site, "source")
    small = _queue(site, "tiny", max_messages=1, full="reject")
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as plain:
            await plain.send(source, "a")
            await plain.send(small, "old")
        async with AsyncSession(client.connection, transacted=True) as session:
            consumer = session.consumer(source)
            message = await consumer.receive()
            await session.send(small, message.body)
            with pytest.raises(TransactionRolledBack, match="queue tiny is full"):
                await session.commit()
            message = await consumer.receive()
            assert message.redelivered
            await session.commit()
            await session.commit()

    client.run(main())
    assert site.cluster.state("queue:source").depth == 0
    assert site.cluster.state("queue:tiny").depth == 1


def test_what_is_closed_is_named(site: Site) -> None:
    queue = _queue(site, "closed")
    client = site.client()

    async def main() -> None:
        session = AsyncSession(client.connection)
        consumer = session.consumer(queue)
        await consumer.open()
        await consumer.close()
        with pytest.raises(SessionClosed, match="the consumer of queue closed is closed"):
            await consumer.receive()
        await session.close()
        await session.close()
        with pytest.raises(SessionClosed, match="the session is closed"):
            session.producer(queue)

    client.run(main())


def test_the_end_of_the_connection_ends_its_sessions(site: Site) -> None:
    queue = _queue(site, "ended")
    client = site.client()
    session = AsyncSession(client.connection)
    receiving = client.begin(session.consumer(queue).receive())
    site.cluster.run(1)
    client.close()
    with pytest.raises(Exception, match="the connection is closed"):
        receiving.result()


def test_a_queue_is_browsed_without_taking_anything(site: Site) -> None:
    queue = _queue(site, "browsed")
    client = site.client()

    async def main() -> None:
        async with AsyncSession(client.connection) as session:
            producer = session.producer(queue)
            for number in range(1200):
                await producer.send_nowait(str(number))
            await producer.flush()
            found = [message async for message in session.browse(queue)]
            assert [each.body for each in found] == [str(number) for number in range(1200)]
            with pytest.raises(MessagingError, match="is a copy, from browsing"):
                found[0].ack()

    client.run(main())
    assert site.cluster.state("queue:browsed").depth == 1200


def test_topics_of_a_tree_are_found_and_subscribed_by_patterns(site: Site) -> None:
    made = DestinationSettings(tree=True)
    site.cluster.create(Destination, name="topic:weather", kind="topic", title="weather", settings=made)
    client = site.client()

    async def main() -> list[tuple[str, Any]]:
        async with AsyncSession(client.connection, client_id="c") as session:
            consumer = session.consumer(Topic("weather.*.rain"), timeout_s=1)
            audit = session.consumer(Topic("weather.#"), durable="audit")
            async with consumer, audit:
                await session.send(Topic("weather.paris.rain"), "a")
                await session.send(Topic("weather.rome.sun"), "b")
                await session.send(Topic("weather"), "c")
                found = [(each.destination.title, each.body) async for each in consumer]
                found += [("audit", (await audit.receive()).body) for _ in range(3)]
            await session.unsubscribe(Topic("weather.#"), "audit")
            with pytest.raises(MessagingError, match="is a pattern"):
                await session.send(Topic("weather.*"), "d")
            with pytest.raises(NoSuchDestination, match=r"topic wind\.north"):
                await session.send(Topic("wind.north"), "e")
            return found

    found = client.run(main())
    assert found == [("weather.paris.rain", "a"), ("audit", "a"), ("audit", "b"), ("audit", "c")]


def test_a_pattern_begins_with_the_name_of_a_tree() -> None:
    with pytest.raises(ValueError, match="does not begin with the name of a tree"):
        Topic("*.rain")
