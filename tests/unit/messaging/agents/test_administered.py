"""What a destination tells about itself, and what it drops when an administrator says so."""

import pytest

from quorate import ExceptionNotification, Notification
from quorate.agents import Note, encode, outside
from quorate.messaging.agents import administered
from quorate.messaging.agents.administered import (
    DeliveryPaused,
    Describe,
    Described,
    Move,
    PauseDelivery,
    Purge,
    Purged,
)
from quorate.messaging.agents.protocol import Browse, Browsed, Refused, Settlement
from quorate.messaging.agents.transactions import Moved

from .clients import Client, Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def client(site: Site) -> Client:
    return site.client()


def _browse(client: Client, queue: str) -> list[list[tuple[int, str]]]:
    """Return the answers until there is nothing more: numbers and texts."""
    found: list[list[tuple[int, str]]] = []
    after = 0
    while True:
        client.take(Browsed)
        (answer,) = (each for each in client.tell(queue, Browse(after)) if isinstance(each, Browsed))
        numbers = [number for number in answer.pack.column("number") if isinstance(number, int)]
        if not len(answer.pack):
            return found
        after = numbers[-1]
        texts = [body.decode() for body in answer.pack.bodies()]
        found.append(list(zip(numbers, texts, strict=True)))


def test_a_destination_describes_itself(site: Site, client: Client) -> None:
    topic = site.topic()
    client.consume(topic, subscription="audit", client_id="c", durable=True, window=1, selector="a = 1")
    client.publish(topic, "x", "y", **{".a": 1})
    client.publish(topic, "z", transaction=1)
    (described,) = site.harness.send(topic, Describe())
    assert isinstance(described, Described)
    assert (described.kind, described.title, described.depth, described.size_bytes) == (
        "topic",
        "prices",
        2,
        2,
    )
    assert (described.consumers, described.producers, described.transactions) == (1, 1, 1)
    assert (described.received, described.delivered, described.accepted, described.dead) == (2, 1, 0, 0)
    (audit,) = described.subscriptions
    assert (audit.name, audit.client_id, audit.selector) == ("audit", "c", "a = 1")
    assert (audit.waiting, audit.in_hand, audit.consumers, audit.durable) == (1, 1, 1, True)


def test_a_purge_drops_what_no_consumer_has(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administered, "PURGED_MESSAGES", 3)
    queue = site.queue()
    client.consume(queue, window=1)
    client.publish(queue, *"abcdef", delay=[None] * 5 + [60_000])
    assert site.harness.send(queue, Purge()) == [Purged(3, 2)]
    assert site.harness.send(queue, Purge()) == [Purged(2, 0)]
    assert site.depth(queue) == 1
    client.settle(queue, 1)
    assert site.depth(queue) == 0
    assert not site.agent(queue).log.packs


def test_clients_do_not_purge(site: Site, client: Client) -> None:
    queue = site.queue()
    client.publish(queue, "a")
    (refused,) = (each for each in client.tell(queue, Purge()) if isinstance(each, ExceptionNotification))
    assert refused.error == "PermissionError"
    assert site.depth(queue) == 1


def test_a_queue_is_browsed_in_order_and_in_parts(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administered, "BROWSED_MESSAGES", 2)
    queue = site.queue()
    client.publish(queue, *"abcde", priority=[4, 9, 4, 1, 4], delay=[None, None, 60_000, None, None])
    assert _browse(client, queue) == [[(1, "a"), (2, "b")], [(3, "c"), (4, "d")], [(5, "e")]]
    assert site.depth(queue) == 5


def test_a_browsed_part_has_bounded_bytes_but_one_message(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administered, "BROWSED_BYTES", 10)
    queue = site.queue()
    client.publish(queue, "x" * 30, "12345", "12345", "12345")
    sizes = [[len(text) for _, text in part] for part in _browse(client, queue)]
    assert sizes == [[30], [5, 5], [5]]


def test_what_a_consumer_has_is_not_browsed_until_it_comes_back(site: Site, client: Client) -> None:
    queue = site.queue()
    client.publish(queue, "a", "b")
    client.consume(queue, window=1)
    assert _browse(client, queue) == [[(2, "b")]]
    client.settle(queue, 1, settlement=Settlement.RETURNED, delay_ms=60_000)
    assert _browse(client, queue)[0][0] == (1, "a")


def test_a_topic_is_not_browsed(site: Site, client: Client) -> None:
    topic = site.topic()
    (refused,) = (each for each in client.tell(topic, Browse()) if isinstance(each, Refused))
    assert "prices is a topic" in refused.text


def _administer(site: Site, address: str, request: Notification) -> Notification:
    effects = site.harness.post(Note(address, outside(0), request.type_name, encode(request), 9))
    site.advance(0)
    (answer,) = site.harness.decoded(effects.replies)
    return answer


def test_a_paused_queue_takes_messages_and_delivers_none_until_it_goes_on(site: Site) -> None:
    queue, client = site.queue(), site.client()
    client.consume(queue)
    assert _administer(site, queue, PauseDelivery(True)) == DeliveryPaused(True, 0)
    client.publish(queue, "a")
    assert client.texts() == []
    assert _administer(site, queue, PauseDelivery(False)) == DeliveryPaused(False, 1)
    assert client.texts() == ["a"]


def test_messages_are_moved_to_another_queue_with_what_belongs_to_them(site: Site) -> None:
    dead, orders, client = site.queue("dead"), site.queue("orders"), site.client()
    client.publish(dead, "a", "b", "c", priority=7, dead_reason="expired", **{".colour": "red"})
    assert _administer(site, dead, Move(orders, 2)) == Moved(2)
    assert (site.depth(dead), site.depth(orders)) == (1, 2)
    (browsed,) = [each for each in client.tell(orders, Browse()) if isinstance(each, Browsed)]
    assert browsed.pack.bodies() == [b"a", b"b"]
    columns = (browsed.pack.value(name, 0) for name in ("priority", ".colour", "dead_reason"))
    assert list(columns) == [7, "red", None]
    assert _administer(site, dead, Move(orders, 9)) == Moved(1)
    assert _administer(site, dead, Move(orders, 9)) == Moved(0)
    assert not site.agent(dead).staged


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("queue:gone", "there is no queue gone"),
        ("queue:full", "is full"),
        ("topic:news", "from one queue to another"),
        ("queue:dead", "to itself"),
    ],
)
def test_what_cannot_be_moved_stays_uncounted(site: Site, to: str, why: str) -> None:
    dead, client = site.queue("dead"), site.client()
    site.queue("full", max_messages=1, full="reject")
    client.publish("queue:full", "there")
    client.publish(dead, "a")
    refused = _administer(site, dead, Move(to, 9))
    assert isinstance(refused, Refused)
    assert why in refused.text
    client.consume(dead)
    assert client.messages() == [("a", 1, 0)]


def test_clients_do_not_move_or_pause(site: Site) -> None:
    queue, client = site.queue(), site.client()
    for request in (Move("queue:other", 1), PauseDelivery(True)):
        (failure,) = client.tell(queue, request)
        assert isinstance(failure, ExceptionNotification)
        assert "only administrators" in failure.message
