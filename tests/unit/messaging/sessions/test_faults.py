"""Messages under random faults: kills, pauses and partitions of the replicas, each seed its own run.

A failing seed runs again with ``-k "[SEED]"``.
"""

import random

import pytest

from quorate.messaging import AsyncSession, AsyncXASession, Topic
from quorate.messaging.agents.destination import Destination

from ....long import amount
from .sites import Site

pytestmark = pytest.mark.slow

SEEDS = range(int(amount("QUORATE_MESSAGING_SEEDS", 1, 100)))
FAULTS_S = 25.0


def _numbers(bodies: list[object]) -> list[int]:
    return [int(str(body)) for body in bodies]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_message_comes_once_and_in_order_under_faults(seed: int) -> None:
    site = Site(seed, "work")
    sender, receiver = site.client(), site.client()

    async def produce() -> int:
        async with AsyncSession(sender.connection, timeout=None) as session:
            producer, number = session.producer("work"), 0
            while site.cluster.now < end:
                for _ in range(20):
                    await producer.send_nowait(str(number))
                    number += 1
                await producer.flush()
            return number

    async def consume() -> list[object]:
        async with AsyncSession(receiver.connection, timeout=None) as session:
            return [message.body async for message in session.consumer("work", timeout_s=120)]

    end = site.cluster.now + FAULTS_S
    site.cluster.inject_faults(FAULTS_S)
    producing, consuming = sender.begin(produce()), receiver.begin(consume())
    site.cluster.run(FAULTS_S + 300)
    count = producing.result()
    assert _numbers(consuming.result()) == list(range(count))
    assert count > 20
    site.cluster.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_all_or_nothing_under_faults(seed: int) -> None:
    site = Site(seed, "in", "out", "log")
    client, worker = site.client(), site.client()
    count = 60

    async def fill() -> None:
        async with AsyncSession(client.connection, timeout=None) as session:
            for number in range(count):
                await session.producer("in").send_nowait(str(number))
            await session.producer("in").flush()

    async def relay() -> None:
        async with AsyncSession(worker.connection, transacted=True, timeout=None) as session:
            consumer = session.consumer("in")
            for turn in range(2 * count - 1):
                message = await consumer.receive()
                await session.send("out", message.body)
                await session.send("log", message.body)
                if turn % 2:
                    await session.rollback()
                else:
                    await session.commit()

    async def drain(title: str) -> list[object]:
        async with AsyncSession(client.connection, timeout=None) as session:
            return [message.body async for message in session.consumer(title, timeout_s=30)]

    client.run(fill())
    site.cluster.inject_faults(FAULTS_S)
    relaying = worker.begin(relay())
    site.cluster.run(FAULTS_S + 300)
    assert relaying.done
    relaying.result()
    for title in ("out", "log"):
        assert sorted(_numbers(client.run(drain(title)))) == list(range(count)), title
    for title in ("in", "out", "log"):
        destination = site.cluster.state(f"queue:{title}")
        assert isinstance(destination, Destination)
        assert (destination.depth, destination.staged, destination.commitments) == (0, {}, {})
        assert len(destination.packs) == 0
    site.cluster.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_subscription_of_a_topic_has_every_message_under_faults(seed: int) -> None:
    site = Site(seed, topics=("prices",))
    publisher, one, two = (site.client() for _ in range(3))
    topic = Topic("prices")
    count = 80

    async def subscribe(client_id: str) -> None:
        async with AsyncSession(one.connection, client_id=client_id, timeout=None) as session:
            await session.consumer(topic, durable="all").open()

    async def publish() -> None:
        async with AsyncSession(publisher.connection, timeout=None) as session:
            for number in range(count):
                await session.send(topic, str(number))

    async def read(connection: object, client_id: str) -> list[object]:
        async with AsyncSession(connection, client_id=client_id, timeout=None) as session:  # type: ignore[arg-type]
            return [each.body async for each in session.consumer(topic, durable="all", timeout_s=60)]

    for client_id in ("a", "b"):
        one.run(subscribe(client_id))
    site.cluster.inject_faults(FAULTS_S)
    publishing = publisher.begin(publish())
    reading = [one.begin(read(one.connection, "a")), two.begin(read(two.connection, "b"))]
    site.cluster.run(FAULTS_S + 300)
    publishing.result()
    for each in reading:
        assert _numbers(each.result()) == list(range(count))
    site.cluster.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_prepared_transactions_end_as_decided_under_faults(seed: int) -> None:
    site = Site(seed, "in", "out")
    client, worker, finisher = site.client(), site.client(), site.client()
    count = 30
    rng = random.Random(seed)

    async def relay() -> int:
        done = 0
        async with (
            AsyncXASession(worker.connection, timeout=None) as session,
            AsyncXASession(finisher.connection, timeout=None) as other,
        ):
            consumer = session.consumer("in")
            while done < count:
                xid = session.xid(1, f"move {rng.random()}", "q")
                session.tpc_begin(xid)
                message = await consumer.receive()
                await session.send("out", message.body)
                assert await session.tpc_prepare()
                commit = rng.random() < 0.6
                done += commit
                # Who decides may be another than who has prepared; saying it again changes nothing.
                for ending in rng.choice([(session,), (other, session), (other, other, session)]):
                    await (ending.tpc_commit(xid) if commit else ending.tpc_rollback(xid))
            assert await other.tpc_recover() == []
        return done

    async def fill() -> None:
        async with AsyncSession(client.connection, timeout=None) as session:
            for number in range(count):
                await session.producer("in").send_nowait(str(number))
            await session.producer("in").flush()

    async def drain() -> list[object]:
        async with AsyncSession(client.connection, timeout=None) as session:
            return [message.body async for message in session.consumer("out", timeout_s=30)]

    client.run(fill())
    site.cluster.inject_faults(FAULTS_S)
    relaying = worker.begin(relay())
    site.cluster.run(FAULTS_S + 300)
    assert relaying.result() == count
    assert sorted(_numbers(client.run(drain()))) == list(range(count))
    for title in ("in", "out"):
        destination = site.cluster.state(f"queue:{title}")
        assert isinstance(destination, Destination)
        assert (destination.depth, destination.staged) == (0, {})
    site.cluster.finish()
