"""Transactions over several destinations, through the notifications of a client."""

import pytest

from quorate.messaging.agents import transactions
from quorate.messaging.agents.protocol import (
    Commit,
    Committed,
    Refused,
    Rejected,
    Rollback,
    RolledBack,
    Settle,
    Settlement,
    Unsubscribe,
)

from .clients import Client, Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def client(site: Site) -> Client:
    return site.client()


@pytest.fixture
def other(site: Site) -> Client:
    return site.client()


def _commit(client: Client, *parts: tuple[str, int], transaction: int = 1) -> Committed | RolledBack:
    commit = Commit(transaction, [name for name, _ in parts], [count for _, count in parts])
    client.tell(parts[0][0])
    (answer,) = (
        each for each in client.tell(parts[0][0], commit) if isinstance(each, Committed | RolledBack)
    )
    return answer


def test_what_a_transaction_sends_is_delivered_when_it_commits(
    site: Site, client: Client, other: Client
) -> None:
    queue = site.queue()
    other.consume(queue)
    (confirmed,) = client.publish(queue, "a", "b", transaction=1)
    assert confirmed.upto == 2
    assert other.texts() == []
    assert _commit(client, (queue, 1)) == Committed(1)
    assert other.texts() == ["a", "b"]


def test_a_transaction_sends_and_receives_at_several_destinations_at_once(
    site: Site, client: Client, other: Client
) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    other.publish(orders, "order")
    client.consume(orders)
    client.settle(orders, 1, transaction=1)
    client.publish(bills, "bill", transaction=1)
    assert (site.depth(orders), site.depth(bills)) == (1, 0)
    assert _commit(client, (orders, 1), (bills, 1)) == Committed(1)
    assert (site.depth(orders), site.depth(bills)) == (0, 1)


def test_a_rollback_gives_messages_back_and_sends_nothing(site: Site, client: Client, other: Client) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    other.publish(orders, "order")
    client.consume(orders)
    client.messages()
    client.settle(orders, 1, transaction=1)
    client.publish(bills, "bill", transaction=1)
    client.tell(bills, Rollback(1))
    client.tell(orders, Rollback(1))
    assert site.agent(orders).staged == site.agent(bills).staged == {}
    assert (site.depth(orders), site.depth(bills)) == (1, 0)


def test_the_vote_waits_for_all_that_was_sent(site: Site, client: Client, other: Client) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    client.publish(orders, "order", transaction=1)
    client.produce(bills)
    client.tell(orders, Commit(1, [orders, bills], [1, 1]))
    assert (site.depth(orders), site.depth(bills)) == (0, 0)
    other.consume(bills)
    client.publish(bills, "bill", transaction=1, producer=2)
    assert client.take(Committed) == [Committed(1)]
    assert (site.depth(orders), site.depth(bills)) == (1, 1)
    assert other.texts() == ["bill"]


def test_one_refusal_rolls_everything_back(site: Site, client: Client, other: Client) -> None:
    orders = site.queue("orders")
    bills = site.queue("bills", max_messages=1, full="reject")
    other.publish(bills, "old")
    other.publish(orders, "order")
    client.consume(orders)
    client.messages()
    client.settle(orders, 1, transaction=1)
    client.publish(bills, "bill", transaction=1)
    answer = _commit(client, (orders, 1), (bills, 1))
    assert isinstance(answer, RolledBack)
    assert answer.text == "the transaction was rolled back: queue bills is full: it has 1 messages, 3 bytes"
    assert (site.depth(orders), site.depth(bills)) == (1, 1)
    assert site.agent(orders).subscriptions[""].returns == {1: 1}


def test_a_rejected_message_rolls_its_transaction_back(site: Site, client: Client) -> None:
    queue = site.queue(max_message_bytes=3)
    client.publish(queue, "ok", "too large", transaction=1)
    assert [each.first for each in client.take(Rejected)] == [2]
    answer = _commit(client, (queue, 1))
    assert isinstance(answer, RolledBack)
    assert "9 bytes" in answer.text
    assert site.depth(queue) == 0


def test_a_destination_that_does_not_exist_rolls_back(site: Site, client: Client) -> None:
    queue = site.queue()
    client.publish(queue, "a", transaction=1)
    answer = _commit(client, (queue, 1), ("queue:nope", 1))
    assert isinstance(answer, RolledBack)
    assert "there is no queue nope" in answer.text
    assert site.depth(queue) == 0
    assert site.agent(queue).staged == {}


def test_a_message_that_the_consumer_does_not_have_rolls_back(
    site: Site, client: Client, other: Client
) -> None:
    queue = site.queue()
    other.publish(queue, "a")
    client.consume(queue)
    client.tell(queue, Settle(1, Settlement.ACCEPTED, [1, 2], 1))
    answer = _commit(client, (queue, 1))
    assert isinstance(answer, RolledBack)
    assert "does not have all messages" in answer.text
    assert site.depth(queue) == 1


def test_the_end_of_the_connection_rolls_back(site: Site, client: Client, other: Client) -> None:
    queue = site.queue()
    other.publish(queue, "a")
    client.consume(queue)
    client.settle(queue, 1, transaction=1)
    client.publish(queue, "b", transaction=1)
    client.end(queue)
    assert site.agent(queue).staged == {}
    other.consume(queue)
    assert other.messages() == [("a", 1, 1)]


def test_the_end_of_the_connection_does_not_stop_a_commitment(
    site: Site, client: Client, other: Client
) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    client.publish(orders, "order", transaction=1)
    client.produce(bills)
    # What the client has sent to the other destination was lost with it.
    client.tell(orders, Commit(1, [orders, bills], [1, 1]))
    client.end(bills)
    (answer,) = client.take(RolledBack)
    assert "the connection has ended before" in answer.text
    assert site.agent(orders).staged == {}


def test_the_rollback_of_a_transaction_that_is_being_committed_comes_too_late(
    site: Site, client: Client
) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    client.publish(orders, "order", transaction=1)
    client.produce(bills)
    client.tell(orders, Commit(1, [orders, bills], [1, 1]))
    client.tell(orders, Rollback(1))
    client.publish(bills, "bill", transaction=1, producer=2)
    assert client.take(Committed) == [Committed(1)]
    assert (site.depth(orders), site.depth(bills)) == (1, 1)


def test_a_transaction_is_committed_once(site: Site, client: Client) -> None:
    orders, bills = site.queue("orders"), site.queue("bills")
    client.publish(orders, "order", transaction=1)
    client.produce(bills)
    commit = Commit(1, [orders, bills], [1, 1])
    client.tell(orders, commit)
    (answer,) = (each for each in client.tell(orders, commit) if isinstance(each, RolledBack))
    assert "is being committed" in answer.text
    client.publish(bills, "bill", transaction=1, producer=2)
    assert client.take(Committed) == [Committed(1)]


@pytest.mark.parametrize(("destinations", "parts"), [([], []), (["queue:orders"], [])])
def test_a_commit_that_makes_no_sense_is_refused(
    site: Site, client: Client, destinations: list[str], parts: list[int]
) -> None:
    queue = site.queue()
    (answer,) = client.tell(queue, Commit(1, destinations, parts))
    assert isinstance(answer, RolledBack)
    assert answer.reason == "bad-request"


def test_a_transaction_has_a_bounded_size(
    site: Site, client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MAX_STAGED_BYTES", 10)
    monkeypatch.setattr(transactions, "MAX_LOCKS", 2)
    queue = site.queue()
    client.publish(queue, "12345678901", transaction=1)
    answer = _commit(client, (queue, 1))
    assert isinstance(answer, RolledBack)
    assert "more than 10 bytes: commit more often" in answer.text
    other.publish(queue, "a", "b", "c")
    client.consume(queue)
    client.settle(queue, 1, 2, 3, transaction=2)
    answer = _commit(client, (queue, 1), transaction=2)
    assert isinstance(answer, RolledBack)
    assert "more than 2 messages: commit more often" in answer.text


def test_a_duplicate_id_counts_from_the_commit_on(site: Site, client: Client) -> None:
    queue = site.queue()
    client.publish(queue, "a", transaction=1, duplicate="1")
    client.tell(queue, Rollback(1))
    client.publish(queue, "a", transaction=2, duplicate="1")
    assert _commit(client, (queue, 1), transaction=2) == Committed(2)
    client.publish(queue, "a", transaction=3, duplicate="1")
    assert _commit(client, (queue, 1), transaction=3) == Committed(3)
    assert site.depth(queue) == 1


def test_a_subscription_with_messages_in_a_transaction_is_not_ended(
    site: Site, client: Client, other: Client
) -> None:
    topic = site.topic()
    client.consume(topic, subscription="audit", client_id="c", durable=True)
    other.publish(topic, "a")
    client.settle(topic, 1, transaction=1)
    client.close(topic)
    (refused,) = (each for each in other.tell(topic, Unsubscribe("audit", "c")) if isinstance(each, Refused))
    assert refused.reason == "in-doubt"
    assert _commit(client, (topic, 1)) == Committed(1)
    assert site.depth(topic) == 0


def test_a_subscription_of_a_consumer_ends_after_its_transaction(
    site: Site, client: Client, other: Client
) -> None:
    topic = site.topic()
    client.consume(topic)
    other.publish(topic, "a")
    client.settle(topic, 1, transaction=1)
    client.close(topic)
    assert site.depth(topic) == 1
    assert _commit(client, (topic, 1)) == Committed(1)
    assert site.agent(topic).subscriptions == {}
    assert site.depth(topic) == 0
