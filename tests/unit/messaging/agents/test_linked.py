"""Destinations of several servers: forwarding, clustered queues and clustered topics."""

import random

import pytest

from quorate import Pack
from quorate.engine import NetInput
from quorate.messaging.agents.administered import Describe, Described
from quorate.messaging.agents.linked import Linked
from quorate.messaging.agents.links import Link, LinkState
from quorate.messaging.agents.protocol import (
    Deliver,
    OpenConsumer,
    OpenProducer,
    Publish,
    Reason,
    Refused,
    Settlement,
)
from quorate.messaging.agents.settings import DestinationSettings, Kind

from .clients import Client, Site


class Region:
    """Servers whose links the test works: nothing travels between them before `run`."""

    def __init__(self, count: int = 3) -> None:
        self.sites = [Site(server) for server in range(count)]
        self.cut: set[int] = set()
        """Servers that nothing reaches, and that nothing leaves."""
        for site in self.sites:
            for other in self.sites:
                if other is not site:
                    site.harness.apply(NetInput(other.server, 1, 1, []))

    def step(self, sender: Site, receiver: Site) -> bool:
        """Carry what a server has for another one. Return whether it had anything."""
        if self.cut & {sender.server, receiver.server}:
            return False
        first, notes = sender.harness.engine.pending(receiver.server)
        if not notes:
            return False
        receiver.harness.apply(NetInput(sender.server, 1, first, notes))
        sender.harness.acknowledge(receiver.server, first + len(notes) - 1)
        receiver.advance(0.0)
        return True

    def run(self, rng: random.Random | None = None) -> None:
        """Carry everything until nothing is left, in any order."""
        pairs = [(one, two) for one in self.sites for two in self.sites if one is not two]
        moving = True
        while moving:
            if rng is not None:
                rng.shuffle(pairs)
            moving = sum([self.step(*pair) for pair in pairs]) > 0

    def clustered(self, kind: str = "queue", **settings: object) -> str:
        """Make a clustered destination, and return its address."""
        for site in self.sites:
            peers = tuple(f"work@s{each.server}" for each in self.sites if each is not site)
            make = site.queue if kind == "queue" else site.topic
            make("work", peers=peers, **settings)
        return f"{kind}:work"

    def depths(self, address: str) -> list[int]:
        return [site.depth(address) for site in self.sites]


def _links(client: Client, address: str) -> list[LinkState]:
    return _described(client, address).links


def _described(client: Client, address: str) -> Described:
    found = client.tell(address, Describe())[-1]
    assert isinstance(found, Described)
    return found


# Forwarding


@pytest.fixture
def pair() -> Region:
    """Return two servers: all of queue here@s0 goes on to queue there@s1."""
    region = Region(2)
    region.sites[0].queue("here", forward="there@s1")
    return region


def test_messages_are_forwarded_in_order_with_what_they_carry(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there")
    producer, consumer = here.client(), there.client()
    consumer.consume("queue:there")
    producer.publish("queue:here", "a", "b", priority=7, **{".region": "EU"})
    producer.publish("queue:here", "c", priority=7)
    pair.run()
    one, *others = consumer.take(Deliver)
    bodies = [*one.pack.bodies(), *(body for each in others for body in each.pack.bodies())]
    assert bodies == [b"a", b"b", b"c"]
    columns = [(one.pack.value(name, 0)) for name in (".region", "priority", "serial", "hops")]
    assert columns == ["EU", 7, 1, 1]
    assert str(one.pack.value("id", 0)).startswith(str(producer.id))
    assert here.depth("queue:here") == 0


def test_a_producer_is_confirmed_while_the_other_server_is_away(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there")
    pair.cut = {1}
    producer = here.client()
    (confirmed,) = producer.publish("queue:here", *map(str, range(500)))
    assert confirmed.upto == 500
    pair.run()
    assert here.depth("queue:here") == 500
    pair.cut = set()
    pair.run()
    assert (here.depth("queue:here"), there.depth("queue:there")) == (0, 500)


def test_a_link_carries_no_more_than_the_other_side_takes(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there", max_messages=100)
    producer, consumer = here.client(), there.client()
    for first in range(0, 3000, 500):
        producer.publish("queue:here", *map(str, range(first, first + 500)))
    pair.run()
    assert there.depth("queue:there") == 1000
    assert here.depth("queue:here") == 2000
    got: list[str] = []
    consumer.consume("queue:there")
    for _ in range(10):
        messages = consumer.messages()
        got += [text for text, _, _ in messages]
        consumer.settle("queue:there", *[number for _, number, _ in messages])
        pair.run()
    assert got == [str(number) for number in range(3000)]


def test_a_queue_that_does_not_exist_yet_gets_its_messages_later(pair: Region) -> None:
    here, there = pair.sites
    client = here.client()
    client.publish("queue:here", "a")
    pair.run()
    assert _links(client, "queue:here") == [
        LinkState("queue:there@s1", "forwards", 0, 0, "there is no queue there@s1")
    ]
    there.queue("there")
    here.advance(6.0)
    pair.run()
    assert there.depth("queue:there") == 1
    assert _links(client, "queue:here") == [LinkState("queue:there@s1", "forwards", 1, 0, "")]


def test_what_the_other_side_refuses_is_dead(pair: Region) -> None:
    here, there = pair.sites
    here.queue("dead")
    here.queue("small", forward="there@s1", dead_queue="dead")
    there.queue("there", max_message_bytes=3)
    here.client().publish("queue:small", "abc", "abcd", "ab")
    pair.run()
    assert there.depth("queue:there") == 2
    undertaker = here.client()
    undertaker.consume("queue:dead")
    (delivered,) = undertaker.take(Deliver)
    assert delivered.pack.bodies() == [b"abcd"]
    assert delivered.pack.value("dead_reason", 0) == Reason.TOO_LARGE


def test_messages_that_go_in_a_circle_end(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there", forward="here@s0")
    here.client().publish("queue:here", "a", "b")
    pair.run()
    assert (here.depth("queue:here"), there.depth("queue:there")) == (0, 0)
    assert here.agent("queue:here").dead + there.agent("queue:there").dead == 2


def test_nobody_consumes_where_messages_are_sent_on(pair: Region) -> None:
    client = pair.sites[0].client()
    (refused,) = client.tell("queue:here", OpenConsumer(1))
    assert refused == Refused(
        Reason.BAD_REQUEST, "queue here sends its messages on to there@s1; consume there"
    )


def test_times_of_a_message_stay_when_it_is_forwarded(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there")
    pair.cut = {1}
    here.client().publish("queue:here", "short", ttl=5_000)
    here.client().publish("queue:here", "late", delay=10_000)
    for site in pair.sites:
        site.advance(6.0)
    pair.cut = set()
    pair.run()
    consumer = there.client()
    consumer.consume("queue:there")
    assert consumer.texts() == []
    for site in pair.sites:
        site.advance(5.0)
    pair.run()
    assert consumer.texts() == ["late"]


def test_a_producer_that_the_other_side_has_lost_is_opened_anew(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there")
    client = here.client()
    client.publish("queue:here", "a")
    pair.run()
    link = there.agent("queue:there")
    link._drop_producer(next(iter(link.producers.open)))
    client.publish("queue:here", "b", "c")
    pair.run()
    consumer = there.client()
    consumer.consume("queue:there")
    assert consumer.texts() == ["a", "b", "c"]


def test_a_forwarded_topic_keeps_its_subscribers(pair: Region) -> None:
    here, there = pair.sites
    here.topic("news", forward="news@s1")
    there.topic("news")
    near, far = here.client(), there.client()
    near.consume("topic:news")
    far.consume("topic:news")
    here.client().publish("topic:news", "a", "b")
    pair.run()
    assert (near.texts(), far.texts()) == (["a", "b"], ["a", "b"])


def test_a_paused_queue_forwards_nothing(pair: Region) -> None:
    here, there = pair.sites
    there.queue("there")
    here.agent("queue:here").paused = True
    here.client().publish("queue:here", "a")
    pair.run()
    assert (here.depth("queue:here"), there.depth("queue:there")) == (1, 0)


# Links by themselves


def test_a_link_knows_which_messages_are_under_way() -> None:
    link = Link("queue:there@s1", "", member=False)
    link.opening(1)
    assert link.room == 0
    link.opened(10, 1000)
    assert link.sending([(100, 103), (200, 204)], 70) == 1
    assert (link.room, link.unconfirmed) == (3, 7)
    assert link.confirmed(2) == [(100, 102)]
    assert link.taken_out(4, 6) == [(200, 202)]
    assert link.under_way == [(3, 102, 1), (6, 202, 2)]
    assert link.closed("gone") == [(102, 103), (202, 204)]
    assert (link.room, link.problem) == (0, "gone")


@pytest.mark.parametrize(
    ("kind", "settings", "flaw"),
    [
        (Kind.QUEUE, {"forward": "there"}, "'there' is not a destination of another server"),
        (Kind.QUEUE, {"forward": "a@s1", "peers": ("a@s1",)}, "either clustered or forwarded"),
        (Kind.QUEUE, {"peers": ("a@s1",), "last_value": True}, "neither clustered nor forwarded"),
        (Kind.TOPIC, {"peers": ("a@b@s1",)}, "write name@server"),
    ],
)
def test_settings_that_cannot_be_have_a_sentence(kind: Kind, settings: dict[str, object], flaw: str) -> None:
    assert flaw in DestinationSettings(**settings).flaw(kind)  # type: ignore[arg-type]


# Clustered queues


def test_a_member_without_messages_fetches_those_of_the_others() -> None:
    region = Region(3)
    address = region.clustered()
    producer, consumer = region.sites[0].client(), region.sites[2].client()
    producer.publish(address, "a", "b", "c")
    consumer.consume(address, window=10)
    region.run()
    assert consumer.texts() == ["a", "b", "c"]
    assert region.depths(address) == [0, 0, 3]
    consumer.settle(address, 1, 2, 3)
    assert region.depths(address) == [0, 0, 0]


def test_consumers_of_the_own_server_come_first() -> None:
    region = Region(2)
    address = region.clustered()
    own, other = region.sites[0].client(), region.sites[1].client()
    own.consume(address, window=2)
    other.consume(address, window=10)
    region.run()
    region.sites[0].client().publish(address, "a", "b", "c", "d")
    region.run()
    assert own.texts() == ["a", "b"]
    assert other.texts() == ["c", "d"]


def test_messages_that_nobody_here_selects_go_to_who_does() -> None:
    region = Region(2)
    address = region.clustered()
    own, other = region.sites[0].client(), region.sites[1].client()
    own.consume(address, selector="x = 1")
    other.consume(address, selector="x = 2")
    region.run()
    region.sites[0].client().publish(address, "one", "two", "three", **{".x": [1, 2, 3]})
    region.run()
    assert (own.texts(), other.texts()) == (["one"], ["two"])
    assert region.depths(address) == [2, 1]


def test_consumers_that_only_look_at_each_other_do_not_pass_messages_round() -> None:
    region = Region(3)
    address = region.clustered()
    for site in region.sites:
        site.client().consume(address, window=0)
    region.sites[0].client().publish(address, *map(str, range(100)))
    region.run()
    assert region.depths(address) == [100, 0, 0]


def test_a_member_asks_for_no_more_than_its_consumers_have_room_for() -> None:
    region = Region(2)
    address = region.clustered()
    region.sites[0].client().publish(address, *map(str, range(500)))
    consumer = region.sites[1].client()
    consumer.consume(address, window=10)
    region.run()
    assert region.depths(address) == [490, 10]
    numbers = [number for _, number, _ in consumer.messages()]
    consumer.settle(address, *numbers[:5])
    region.run()
    assert region.depths(address) == [485, 10]
    assert len(consumer.texts()) == 5


def test_a_message_keeps_its_count_when_another_member_fetches_it() -> None:
    region = Region(2)
    address = region.clustered(max_deliveries=3, dead_queue="dead")
    region.sites[1].queue("dead")
    here, there = region.sites[0].client(), region.sites[1].client()
    here.consume(address)
    region.sites[0].client().publish(address, "a")
    here.settle(address, 1, settlement=Settlement.RETURNED)
    assert [deliveries for _, _, deliveries in here.messages()] == [0, 1]
    here.close(address, seen=[1])
    there.consume(address)
    region.run()
    assert there.messages() == [("a", 1, 2)]
    there.settle(address, 1, settlement=Settlement.RETURNED)
    assert there.texts() == []
    assert region.sites[1].depth("queue:dead") == 1


def test_messages_that_are_fetched_while_the_consumer_leaves_are_not_lost() -> None:
    region = Region(2)
    address = region.clustered()
    one, two = region.sites
    consumer = two.client()
    consumer.consume(address)
    region.step(two, one)
    region.step(one, two)
    one.client().publish(address, "a")
    consumer.close(address)
    region.run()
    assert sum(region.depths(address)) == 1
    consumer.consume(address)
    region.run()
    assert [text for text, _, _ in consumer.messages()] == ["a"]


def test_messages_of_groups_stay_at_their_member() -> None:
    region = Region(2)
    address = region.clustered()
    consumer = region.sites[1].client()
    consumer.consume(address)
    region.run()
    region.sites[0].client().publish(address, "a", "b", "c", group=["g", None, "g"])
    region.run()
    assert consumer.texts() == ["b"]
    assert region.depths(address) == [2, 1]


def test_a_clustered_queue_has_no_exclusive_consumer_and_no_strangers_as_members() -> None:
    region = Region(2)
    address = region.clustered()
    client = region.sites[0].client()
    (exclusive, stranger) = client.tell(address, OpenConsumer(1, exclusive=True), OpenConsumer(2, peer=True))
    assert isinstance(exclusive, Refused)
    assert exclusive.text == "queue work is clustered: no consumer can have it exclusively"
    assert isinstance(stranger, Refused)
    assert stranger.text == "queue work has no such member in its cluster"


def test_a_member_that_does_not_exist_yet_is_found_later() -> None:
    region = Region(2)
    one, two = region.sites
    one.queue("work", peers=("work@s1",))
    consumer = one.client()
    consumer.consume("queue:work")
    region.run()
    assert _links(consumer, "queue:work")[0].problem == "there is no queue work@s1"
    two.queue("work", peers=("work@s0",))
    two.client().publish("queue:work", "a")
    one.advance(6.0)
    region.run()
    assert consumer.texts() == ["a"]


@pytest.mark.parametrize("seed", range(6))
def test_each_message_of_a_clustered_queue_is_consumed_once(seed: int) -> None:
    rng = random.Random(seed)
    region = Region(3)
    address = region.clustered()
    producers = [site.client() for site in region.sites]
    consumers: list[tuple[Client, Site]] = []
    sent, got = 0, []
    pairs = [(one, two) for one in region.sites for two in region.sites if one is not two]
    for _ in range(300):
        action = rng.random()
        if action < 0.25:
            count = rng.randint(1, 20)
            rng.choice(producers).publish(address, *map(str, range(sent, sent + count)))
            sent += count
        elif action < 0.30 and len(consumers) < 5:
            site = rng.choice(region.sites)
            consumers.append((site.client(), site))
            consumers[-1][0].consume(address, window=rng.choice([1, 3, 50]))
        elif action < 0.34 and consumers:
            client, _ = consumers.pop(rng.randrange(len(consumers)))
            client.close(address)
        elif action < 0.75 and consumers:
            client, _ = rng.choice(consumers)
            messages = client.messages()
            got += [text for text, _, _ in messages]
            if messages:
                client.settle(address, *[number for _, number, _ in messages])
        else:
            region.step(*rng.choice(pairs))
    for _ in range(2000):
        if not consumers:
            consumers.append((region.sites[0].client(), region.sites[0]))
            consumers[0][0].consume(address)
        region.run(rng)
        for client, _ in consumers:
            messages = client.messages()
            got += [text for text, _, _ in messages]
            if messages:
                client.settle(address, *[number for _, number, _ in messages])
        if not sum(region.depths(address)):
            break
    assert sorted(map(int, got)) == list(range(sent))
    for site in region.sites:
        agent = site.agent(address)
        assert len(agent.packs) == 0
        assert agent.subscriptions[""].in_hand == 0


# Clustered topics


def test_each_subscriber_of_a_clustered_topic_gets_each_message_once() -> None:
    region = Region(3)
    address = region.clustered("topic")
    subscribers = [site.client() for site in region.sites]
    for each in subscribers:
        each.consume(address)
    region.sites[0].client().publish(address, "a", "b")
    region.sites[1].client().publish(address, "c")
    region.run()
    for each in subscribers:
        assert sorted(each.texts()) == ["a", "b", "c"]
    for site in region.sites:
        for client in subscribers:
            client.settle(address, 1, 2, 3)
        agent = site.agent(address)
        assert isinstance(agent, Linked)
        assert all(each.unconfirmed == 0 for each in agent.links.values())


def test_a_clustered_topic_keeps_messages_for_a_member_that_is_away() -> None:
    region = Region(2)
    address = region.clustered("topic")
    far = region.sites[1].client()
    far.consume(address, subscription="audit", client_id="c", durable=True)
    region.cut = {1}
    region.sites[0].client().publish(address, *map(str, range(50)))
    region.run()
    assert region.depths(address) == [50, 0]
    region.cut = set()
    region.run()
    assert far.texts() == [str(number) for number in range(50)]
    assert region.depths(address) == [0, 50]


def test_a_clustered_tree_of_topics_carries_the_topics() -> None:
    region = Region(2)
    address = region.clustered("topic", tree=True)
    far = region.sites[1].client()
    far.consume(address, pattern="work.eu.*")
    near = region.sites[0].client()
    near.tell(address, OpenProducer(1, "work.eu.de"), Publish(1, 1, Pack.of([b"a"])))
    near.tell(address, OpenProducer(2, "work.us"), Publish(2, 1, Pack.of([b"b"])))
    region.run()
    assert far.texts() == ["a"]
