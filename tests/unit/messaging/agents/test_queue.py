"""A queue, through the notifications of its clients."""

import pytest

from quorate import Pack
from quorate.agents.proxy import WatchConnection
from quorate.messaging.agents.dead_letters import DeadLetters
from quorate.messaging.agents.protocol import (
    Confirmed,
    ConsumerOpened,
    Flow,
    OpenConsumer,
    OpenProducer,
    Publish,
    Refused,
    Rejected,
    Settle,
    Settlement,
)

from .clients import Client, Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def producer(site: Site) -> Client:
    return site.client()


@pytest.fixture
def consumer(site: Site) -> Client:
    return site.client()


def test_messages_come_in_the_order_in_which_they_were_sent(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b")
    consumer.consume(queue)
    producer.publish(queue, "c")
    assert consumer.texts() == ["a", "b", "c"]


def test_a_message_waits_for_a_consumer(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    assert site.depth(queue) == 1
    consumer.consume(queue)
    assert consumer.texts() == ["a"]
    assert site.depth(queue) == 1
    consumer.settle(queue, 1)
    assert site.depth(queue) == 0


def test_all_messages_of_an_input_are_confirmed_together(site: Site, producer: Client) -> None:
    queue = site.queue()
    producer.produce(queue)
    packs = [Publish(1, first, Pack.of([b"x"] * 10)) for first in (1, 11, 21)]
    assert producer.tell(queue, *packs)[-1:] == [Confirmed(1, 30, 1030, 4 * 1024 * 1024 + 30)]


def test_columns_arrive_with_the_message(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b", priority=[4, 4], correlation=["x", None], **{".region": "EU"})
    consumer.consume(queue)
    (delivery,) = (each for each in consumer.got if hasattr(each, "pack"))
    pack = delivery.pack
    assert pack.column("correlation") == ["x", None]
    assert pack.column(".region") == ["EU", "EU"]
    assert pack.column("id") == [f"{producer.id}/1"] * 2
    assert pack.column("serial") == [1, 2]
    assert pack.column("time") == [1_700_000_000_000] * 2


def test_a_higher_priority_comes_first(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "low", "high", "middle", "high too", priority=[1, 9, None, 9])
    consumer.consume(queue)
    assert consumer.texts() == ["high", "high too", "middle", "low"]


def test_a_consumer_has_no_more_than_its_window(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    consumer.consume(queue, window=2)
    producer.publish(queue, "a", "b", "c", "d")
    assert consumer.texts() == ["a", "b"]
    consumer.settle(queue, 2)
    assert consumer.texts() == ["c"]
    consumer.settle(queue, 1, 3)
    assert consumer.texts() == ["d"]


def test_a_consumer_has_no_more_bytes_than_its_window_but_always_a_message(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    consumer.consume(queue, window_bytes=10)
    producer.publish(queue, "x" * 50)
    producer.publish(queue, "1234", "1234", "1234", "1234")
    assert consumer.texts() == ["x" * 50]
    consumer.settle(queue, 1)
    assert consumer.texts() == ["1234", "1234", "1234"]


def test_a_window_of_zero_stops_and_a_flow_begins(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    consumer.consume(queue, window=0)
    producer.publish(queue, "a", "b")
    assert consumer.texts() == []
    consumer.tell(queue, Flow(1, 1))
    # tell() has taken what came.
    assert site.agent(queue).subscriptions[""].in_hand == 1


def test_several_consumers_share_the_messages(site: Site, producer: Client) -> None:
    queue = site.queue()
    consumers = [site.client() for _ in range(3)]
    for each in consumers:
        each.consume(queue)
    producer.publish(queue, *[str(number) for number in range(300)])
    shares = [each.texts() for each in consumers]
    assert [len(share) for share in shares] == [100, 100, 100]
    assert sorted(int(text) for share in shares for text in share) == list(range(300))


def test_one_message_after_the_other_goes_to_one_consumer_after_the_other(
    site: Site, producer: Client
) -> None:
    queue = site.queue()
    one, two = site.client(), site.client()
    one.consume(queue)
    two.consume(queue)
    for text in "abcd":
        producer.publish(queue, text)
    assert (one.texts(), two.texts()) == (["a", "c"], ["b", "d"])


# Settlement


def test_an_accepted_message_never_comes_again(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b")
    consumer.consume(queue)
    consumer.settle(queue, 1)
    consumer.close(queue)
    other = site.client()
    other.consume(queue)
    assert other.messages() == [("b", 2, 0)]


def test_a_returned_message_comes_again_in_its_place_and_is_counted(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b", "c")
    consumer.consume(queue, window=2)
    consumer.messages()
    consumer.settle(queue, 1, settlement=Settlement.RETURNED)
    assert consumer.messages() == [("a", 1, 1)]
    consumer.settle(queue, 1, settlement=Settlement.RETURNED)
    assert consumer.messages() == [("a", 1, 2)]


def test_a_released_message_comes_again_uncounted(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.messages()
    consumer.settle(queue, 1, settlement=Settlement.RELEASED)
    assert consumer.messages() == [("a", 1, 0)]


def test_closing_counts_what_the_application_has_seen_only(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b", "c")
    consumer.consume(queue)
    consumer.close(queue, seen=[1, 2])
    other = site.client()
    other.consume(queue)
    assert other.messages() == [("a", 1, 1), ("b", 2, 1), ("c", 3, 0)]


def test_the_messages_of_a_lost_connection_return_as_seen(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.consume(queue, consumer=2)
    assert len(consumer.take(WatchConnection)) == 1
    consumer.end(queue)
    other = site.client()
    other.consume(queue)
    assert other.messages() == [("a", 1, 1)]
    assert set(site.agent(queue).connections) == {producer.id, other.id}


def test_what_a_consumer_does_not_have_it_cannot_settle(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b")
    consumer.consume(queue, window=1)
    other = site.client()
    other.consume(queue)
    other.settle(queue, 1)
    other.settle(queue, 7)
    consumer.settle(queue, 1)
    consumer.settle(queue, 1)
    assert site.depth(queue) == 1
    assert site.agent(queue).accepted == 1


def test_a_settlement_after_the_close_does_nothing(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.close(queue)
    consumer.settle(queue, 1)
    assert site.depth(queue) == 1


# Dead messages


def test_a_message_that_comes_back_too_often_goes_to_the_dead_message_queue(
    site: Site, producer: Client, consumer: Client
) -> None:
    dead = site.queue("dead")
    queue = site.queue(max_deliveries=2, dead_queue="dead")
    producer.publish(queue, "a", "b")
    consumer.consume(queue)
    for _ in range(2):
        consumer.settle(queue, 1, settlement=Settlement.RETURNED)
    assert site.depth(queue) == 1
    consumer.consume(dead, consumer=2)
    (delivery,) = (each for each in consumer.got if getattr(each, "consumer", 0) == 2)
    assert delivery.pack.bodies() == [b"a"]
    assert delivery.pack.column("dead_reason") == ["undeliverable"]
    assert delivery.pack.column("dead_origin") == ["queue:orders"]
    assert delivery.pack.column("deliveries") == [2]


def test_a_message_that_nobody_can_handle_spares_its_neighbours(
    site: Site, producer: Client, consumer: Client
) -> None:
    site.queue("dead")
    queue = site.queue(max_deliveries=3, dead_queue="dead")
    producer.publish(queue, "before", "poison", "after")
    got: list[tuple[str, int, int]] = []
    for _ in range(3):
        # Each time the client dies of the message, with its neighbours in its buffer.
        victim = site.client()
        victim.consume(queue)
        got += victim.messages()
        victim.close(queue, seen=[2])
    consumer.consume(queue)
    assert [text for text, _, _ in got].count("poison") == 3
    assert consumer.messages() == [("before", 1, 0), ("after", 3, 0)]
    assert site.depth("queue:dead") == 1


def test_rejected_messages_go_to_the_dead_message_queue_in_order(
    site: Site, producer: Client, consumer: Client
) -> None:
    dead = site.queue("dead")
    queue = site.queue(dead_queue="dead")
    producer.publish(queue, *"abc")
    consumer.consume(queue)
    consumer.settle(queue, 1, 2, 3, settlement=Settlement.REJECTED)
    consumer.consume(dead, consumer=2)
    assert consumer.texts(2) == ["a", "b", "c"]


def test_without_a_dead_message_queue_dead_messages_are_counted(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.settle(queue, 1, settlement=Settlement.REJECTED)
    assert (site.depth(queue), site.agent(queue).dead) == (0, 1)


def test_dead_messages_do_not_go_round_for_ever(site: Site, producer: Client) -> None:
    one = site.queue("one", max_messages=1, full="dmq", dead_queue="two")
    site.queue("two", max_messages=1, full="dmq", dead_queue="one")
    producer.publish(one, "a", "b", "c", "d")
    assert site.depth("queue:one") <= 1
    assert site.depth("queue:two") <= 1


def test_clients_send_no_dead_letters(site: Site, producer: Client) -> None:
    queue = site.queue()
    producer.tell(queue, DeadLetters(Pack.of([b"x"])))
    assert site.depth(queue) == 0


# Time


def test_a_delayed_message_comes_when_its_time_has_come(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    consumer.consume(queue)
    producer.publish(queue, "late", "now", delay=[1500, None])
    assert consumer.texts() == ["now"]
    site.advance(1.4)
    assert consumer.texts() == []
    site.advance(0.2)
    assert consumer.texts() == ["late"]


def test_a_message_expires_without_consumers(site: Site, producer: Client) -> None:
    site.queue("dead")
    queue = site.queue(dead_queue="dead")
    producer.publish(queue, "a", "b", ttl=[1000, None])
    site.advance(0.9)
    assert site.depth(queue) == 2
    site.advance(0.2)
    assert site.depth(queue) == 1
    assert site.depth("queue:dead") == 1


def test_a_delivered_message_does_not_expire_but_does_not_return_either(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    consumer.consume(queue)
    producer.publish(queue, "a", "b", ttl=1000)
    assert consumer.texts() == ["a", "b"]
    site.advance(2)
    consumer.settle(queue, 1)
    assert site.agent(queue).accepted == 1
    consumer.settle(queue, 2, settlement=Settlement.RETURNED)
    assert consumer.texts() == []
    assert (site.depth(queue), site.agent(queue).dead) == (0, 1)


def test_a_returned_message_waits_longer_each_time(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue(redelivery_delay_ms=1000, redelivery_multiplier=2.0)
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.messages()
    for wait_s in (1.0, 2.0, 4.0):
        consumer.settle(queue, 1, settlement=Settlement.RETURNED)
        site.advance(wait_s - 0.1)
        assert consumer.messages() == []
        site.advance(0.2)
        assert [text for text, _, _ in consumer.messages()] == ["a"]


def test_one_timer_is_set_whatever_waits(site: Site, producer: Client) -> None:
    queue = site.queue()
    for delay in (5000, 1000, 3000):
        producer.publish(queue, "x", delay=delay, ttl=60_000)
    assert len(site.harness.engine.timers()) == 1


# Limits


def test_a_full_queue_gives_no_credit_until_there_is_room(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue(max_messages=2)
    (confirmed,) = producer.publish(queue, "a", "b")
    assert confirmed.credit_messages == 1000
    (confirmed,) = producer.publish(queue, "c")
    assert confirmed.upto == 3
    assert confirmed.credit_messages == 1000
    consumer.consume(queue)
    consumer.settle(queue, 1, 2)
    (confirmed,) = producer.take(Confirmed)
    assert confirmed.credit_messages == 1003


def test_a_producer_that_is_opened_at_a_full_queue_has_no_credit(site: Site, producer: Client) -> None:
    queue = site.queue(max_messages=1)
    producer.publish(queue, "a")
    assert producer.produce(queue, producer=2).credit_messages == 0


def test_a_producer_above_its_credit_is_refused(site: Site, producer: Client) -> None:
    queue = site.queue(max_messages=1)
    producer.publish(queue, *(["x"] * 1001))
    (rejected,) = producer.take(Rejected)
    assert (rejected.first, rejected.count, rejected.reason) == (1001, 1, "full")


def test_a_full_queue_that_rejects_says_which_messages(site: Site, producer: Client) -> None:
    queue = site.queue(max_messages=2, full="reject")
    (confirmed,) = producer.publish(queue, "a", "b", "c", "d")
    assert confirmed.upto == 4
    rejected = producer.take(Rejected)
    assert [(each.first, each.count, each.reason) for each in rejected] == [(3, 2, "full")]
    assert site.depth(queue) == 2


def test_a_full_queue_that_drops_keeps_the_latest(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue(max_messages=3, full="drop-oldest")
    producer.publish(queue, "a", "b")
    producer.publish(queue, "c", "d", "e")
    consumer.consume(queue)
    assert consumer.texts() == ["c", "d", "e"]
    assert site.agent(queue).dead == 2


def test_what_a_full_queue_does_not_take_may_go_to_the_dead_message_queue(
    site: Site, producer: Client, consumer: Client
) -> None:
    dead = site.queue("dead")
    queue = site.queue(max_messages=1, full="dmq", dead_queue="dead")
    producer.publish(queue, "a", "b", "c")
    consumer.consume(dead)
    assert consumer.texts() == ["b", "c"]
    assert site.depth(queue) == 1


def test_a_queue_is_limited_in_bytes(site: Site, producer: Client) -> None:
    queue = site.queue(max_bytes=10, full="reject")
    producer.publish(queue, "1234", "1234", "1234")
    assert [each.first for each in producer.take(Rejected)] == [3]


def test_a_message_that_is_too_large_is_rejected_alone(site: Site, producer: Client) -> None:
    queue = site.queue(max_message_bytes=5)
    producer.publish(queue, "ok", "too large", "ok")
    (rejected,) = producer.take(Rejected)
    assert (rejected.first, rejected.reason) == (2, "too-large")
    assert "9 bytes; queue orders takes 5 at most" in rejected.text
    assert site.depth(queue) == 2


def test_a_second_message_with_a_duplicate_id_is_dropped(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    producer.publish(queue, "a", "b", "c", duplicate=["1", "2", "1"])
    (confirmed,) = producer.publish(queue, "d", "e", duplicate=["2", None])
    assert confirmed.upto == 5
    consumer.consume(queue)
    assert consumer.texts() == ["a", "b", "e"]


# Bad input


def test_a_producer_that_is_not_open_is_told(site: Site, producer: Client) -> None:
    queue = site.queue()
    (rejected,) = producer.tell(queue, Publish(5, 1, Pack.of([b"a", b"b"])))
    assert isinstance(rejected, Rejected)
    assert (rejected.producer, rejected.first, rejected.count, rejected.reason) == (5, 1, 2, "not-open")


def test_a_damaged_pack_is_rejected(site: Site, producer: Client) -> None:
    queue = site.queue()
    producer.produce(queue)
    came = producer.tell(queue, Publish(1, 1, Pack(b"abc", b"\x01\x00\x00\x00")))
    (rejected,) = (each for each in came if isinstance(each, Rejected))
    assert rejected.reason == "bad-request"
    assert site.depth(queue) == 0


@pytest.mark.parametrize(
    ("options", "reason", "text"),
    [
        ({"selector": "a ="}, "bad-selector", "line 1, column 4"),
        ({"window": -1}, "bad-request", "a window of -1 messages"),
        ({"window_bytes": 0}, "bad-request", "0 bytes is none"),
        ({"subscription": "s"}, "bad-request", "orders is a queue"),
        ({"durable": True}, "bad-request", "orders is a queue"),
    ],
)
def test_a_consumer_that_cannot_be_is_refused(
    site: Site, consumer: Client, options: dict[str, object], reason: str, text: str
) -> None:
    queue = site.queue()
    (refused,) = consumer.tell(queue, OpenConsumer(1, **options))  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert refused.reason == reason
    assert text in refused.text
    assert site.agent(queue).places == {}


def test_a_number_is_used_once(site: Site, consumer: Client) -> None:
    queue = site.queue()
    consumer.consume(queue)
    consumer.produce(queue)
    (refused,) = consumer.tell(queue, OpenConsumer(1))[-1:]
    assert isinstance(refused, Refused)
    (refused,) = consumer.tell(queue, OpenProducer(1))[-1:]
    assert isinstance(refused, Refused)
    assert refused.reason == "in-use"


def test_ranges_that_are_none_change_nothing(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    producer.publish(queue, "a")
    consumer.consume(queue)
    consumer.tell(queue, Settle(1, Settlement.ACCEPTED, [1]))
    assert site.depth(queue) == 1


# Selectors and exclusive consumers


def test_a_selector_gets_what_matches_and_leaves_the_rest(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    regions = {".region": ["EU", "US", "EU", None]}
    producer.publish(queue, *"abcd", **regions)
    consumer.consume(queue, selector="region = 'EU'")
    site.advance(0)
    assert consumer.texts() == ["a", "c"]
    producer.publish(queue, *"efgh", **regions)
    assert consumer.texts() == ["e", "g"]
    other = site.client()
    other.consume(queue)
    assert other.texts() == ["b", "d", "f", "h"]


def test_a_match_behind_a_long_backlog_is_found(site: Site, producer: Client, consumer: Client) -> None:
    queue = site.queue()
    for _ in range(20):
        producer.publish(queue, *(["x"] * 1000), **{".region": "US"})
    producer.publish(queue, "match", **{".region": "EU"})
    consumer.consume(queue, selector="region = 'EU'")
    for _ in range(20):
        site.advance(0)
    assert consumer.texts() == ["match"]


def test_a_message_that_returns_is_offered_to_selectors_again(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    consumer.consume(queue, selector="region = 'EU'", window=1)
    producer.publish(queue, "a", "b", **{".region": "EU"})
    assert consumer.messages() == [("a", 1, 0)]
    consumer.settle(queue, 1, settlement=Settlement.RETURNED)
    assert consumer.messages() == [("a", 1, 1)]


def test_only_the_exclusive_consumer_gets_messages_until_it_closes(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    other = site.client()
    consumer.consume(queue, exclusive=True, window=1)
    other.consume(queue, exclusive=True)
    producer.publish(queue, "a", "b")
    assert (consumer.texts(), other.texts()) == (["a"], [])
    consumer.settle(queue, 1)
    assert (consumer.texts(), other.texts()) == (["b"], [])
    consumer.close(queue)
    assert other.texts() == ["b"]


def test_a_consumer_is_opened_once_it_can_get_messages(site: Site, consumer: Client) -> None:
    queue = site.queue()
    assert consumer.tell(queue, OpenConsumer(1))[-1] == ConsumerOpened(1)


def test_the_next_exclusive_consumer_follows_one_whose_connection_has_ended(
    site: Site, producer: Client, consumer: Client
) -> None:
    queue = site.queue()
    consumer.consume(queue, exclusive=True)
    plain, heir = site.client(), site.client()
    plain.consume(queue)
    heir.consume(queue, exclusive=True)
    producer.publish(queue, "a", "b")
    assert (consumer.texts(), plain.texts(), heir.texts()) == (["a", "b"], [], [])
    consumer.end(queue)
    assert (plain.texts(), heir.texts()) == ([], ["a", "b"])
    heir.close(queue, seen=[1, 2])
    assert plain.texts() == ["a", "b"]
