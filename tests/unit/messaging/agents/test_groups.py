"""Message groups: messages of one group are with one consumer at a time, in order."""

import random

import pytest

from quorate.messaging.agents.protocol import Browse, Browsed, Settlement

from .clients import Client, Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def producer(site: Site) -> Client:
    return site.client()


@pytest.fixture
def one(site: Site) -> Client:
    return site.client()


@pytest.fixture
def two(site: Site) -> Client:
    return site.client()


def test_a_group_stays_with_its_consumer_while_that_has_messages_of_it(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    queue = site.queue()
    one.consume(queue, window=1)
    producer.publish(queue, "a1", "a2", group="a")
    two.consume(queue)
    producer.publish(queue, "b1", group="b")
    assert (one.texts(), two.texts()) == (["a1"], ["b1"])
    producer.publish(queue, "a3", group="a")
    assert two.texts() == []
    one.settle(queue, 1)
    # Nobody had a message of the group any more, so either consumer may get what follows, but not both.
    assert (one.texts(), two.texts()) in ((["a2"], []), ([], ["a2", "a3"]))


def test_an_exclusive_handover_keeps_the_order_of_a_group(site: Site, producer: Client, one: Client) -> None:
    queue = site.queue()
    one.consume(queue, window=10)
    producer.publish(queue, "a1", "a2", "a3", group="a")
    assert one.texts() == ["a1", "a2", "a3"]
    two = site.client()
    two.consume(queue)
    producer.publish(queue, "a4", group="a")
    one.settle(queue, 1)
    assert two.texts() == []
    one.close(queue, seen=[2])
    assert [text for text, _, _ in two.messages()] == ["a2", "a3", "a4"]


def test_messages_with_and_without_group_come_by_priority(site: Site, producer: Client, one: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "plain")
    producer.publish(queue, "grouped", group="a")
    producer.publish(queue, "urgent", group="b", priority=9)
    one.consume(queue)
    assert one.texts() == ["urgent", "plain", "grouped"]


def test_a_selector_takes_only_groups_whose_next_message_matches(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    queue = site.queue()
    one.consume(queue, selector="colour = 'red'")
    producer.publish(queue, "a1", group="a", **{".colour": "blue"})
    producer.publish(queue, "a2", group="a", **{".colour": "red"})
    producer.publish(queue, "b1", group="b", **{".colour": "red"})
    assert one.texts() == ["b1"]
    two.consume(queue)
    assert two.texts() == ["a1", "a2"]


def test_what_a_rolled_back_transaction_has_taken_keeps_its_group_until_then(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    queue = site.queue()
    one.consume(queue, window=1)
    two.consume(queue)
    producer.publish(queue, "a1", "a2", group="a")
    had, other = (one, two) if one.texts() else (two, one)
    had.settle(queue, 1, transaction=7)
    assert (had.texts(), other.texts()) in ((["a2"], []), ([], []))
    had.end(queue)
    assert "a1" in [text for text, _, _ in other.messages()]


def test_waiting_messages_of_groups_are_browsed_expire_and_are_counted(site: Site, producer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a1", group="a")
    producer.publish(queue, "a2", group="a", ttl=1000)
    (browsed,) = [each for each in producer.tell(queue, Browse()) if isinstance(each, Browsed)]
    assert browsed.pack.bodies() == [b"a1", b"a2"]
    site.advance(2)
    assert site.depth(queue) == 1


@pytest.mark.parametrize("seed", range(20))
def test_at_random_no_two_consumers_have_one_group_and_each_group_is_in_order(seed: int) -> None:
    rng = random.Random(seed)
    site = Site()
    queue = site.queue(max_deliveries=0)
    producer = site.client()
    consumers = [site.client() for _ in range(3)]
    for each in consumers:
        each.consume(queue, window=rng.choice([1, 3, 50]))
    has: dict[Client, dict[int, str]] = {each: {} for each in consumers}
    done: dict[str, list[int]] = {}
    sent = 0

    def look() -> None:
        for each in consumers:
            has[each].update({number: text for text, number, _ in each.messages()})
        for group in "abcd":
            holders = [each for each in consumers if any(text[0] == group for text in has[each].values())]
            assert len(holders) <= 1, f"seed {seed}: group {group} is with {len(holders)} consumers"

    for _ in range(200):
        action = rng.random()
        client = rng.choice(consumers)
        mine = has[client]
        if action < 0.5:
            group = rng.choice("abcd-")
            texts = [f"{group}{sent + place}" for place in range(rng.randint(1, 3))]
            sent += len(texts)
            producer.publish(queue, *texts, **({} if group == "-" else {"group": group}))
        elif mine and action < 0.85:
            number = min(mine)
            done.setdefault(mine[number][0], []).append(int(mine.pop(number)[1:]))
            client.settle(queue, number)
        elif mine:
            # The first message comes back: the order of its group may only step back to it.
            number = max(mine)
            del mine[number]
            client.settle(queue, number, settlement=Settlement.RELEASED)
        look()
    for _ in range(sent):
        for client in consumers:
            for number in sorted(has[client]):
                done.setdefault(has[client][number][0], []).append(int(has[client].pop(number)[1:]))
                client.settle(queue, number)
                look()
    assert sum(map(len, done.values())) == sent, f"seed {seed}"
    for group in "abcd":
        assert done.get(group, []) == sorted(done.get(group, [])), f"seed {seed}: group {group}"
    assert site.depth(queue) == 0
    groups = site.agent(queue).subscriptions[""].groups
    assert (len(groups.groups), len(groups.free), len(groups.owned), groups.waiting.count) == (0, 0, 0, 0)
