"""The bridge: messages pass between a mesh and destinations once and in order, whoever fails."""

import itertools
from collections.abc import Callable

import msgspec
import pytest

from quorate.bridge.notes import Carried, InletOpened, InletPublishers, OutletBatch, OutletOpened
from quorate.bridge.running import InwardWay, OutwardWay
from quorate.mesh.client.subscriber import MeshMessage
from quorate.messaging.agents.protocol import Deliver
from quorate.services.base import ServiceError

from ...long import amount
from .bridged import BOTH, Bridged


def texts(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def bodies(prefix: str, count: int) -> list[bytes]:
    return [text.encode() for text in texts(prefix, count)]


def test_messages_of_the_mesh_arrive_at_a_destination_with_where_they_come_from() -> None:
    made = Bridged("mesh:prices->queue:prices")
    made.site.queue("prices")
    made.start()
    publisher = made.mesh.publisher("prices", at=2)
    publisher.publish(b"41", b"42")
    made.run(1)
    client = made.site.client()
    client.consume("queue:prices")
    (delivered,) = client.take(Deliver)
    pack = delivered.pack
    assert pack.bodies() == [b"41", b"42"]
    assert pack.column(".mesh_topic") == ["prices", "prices"]
    assert pack.column(".mesh_publisher") == [publisher.core.identifier] * 2
    assert pack.column(".mesh_number") == [1, 2]


def test_messages_of_a_destination_are_published_in_the_mesh() -> None:
    made = Bridged("queue:orders->mesh:prices")
    made.site.queue("orders")
    made.start()
    subscriber = made.mesh.subscriber("prices", "audit", at=2)
    made.run(1)
    made.site.client().publish("queue:orders", *texts("o", 5))
    made.run(1)
    assert [each.body for each in subscriber.messages] == bodies("o", 5)
    assert made.site.depth("queue:orders") == 0


def test_a_topic_bridged_both_ways_gets_nothing_back() -> None:
    made = Bridged(BOTH)
    made.site.topic("prices")
    made.start()
    here = made.listener("topic:prices")
    there = made.mesh.subscriber("prices", "audit", at=1)
    made.run(1)
    made.site.client().publish("topic:prices", *texts("s", 3))
    made.mesh.publisher("prices", at=2).publish(*bodies("m", 3))
    made.run(3)
    assert sorted(here.texts) == [*texts("m", 3), *texts("s", 3)]
    assert sorted(each.body for each in there.messages) == [*bodies("m", 3), *bodies("s", 3)]


def test_two_servers_share_a_topic_through_the_mesh_with_headers_and_properties() -> None:
    made = Bridged("topic:here->mesh:prices mesh:prices->topic:there whole=yes")
    made.site.topic("here")
    made.site.topic("there")
    made.start()
    reader = made.site.client()
    reader.consume("topic:there", selector="colour = 'red'")
    made.site.client().publish(
        "topic:here", "a", "b", encoding="text", priority=[7, 1], **{".colour": ["red", "blue"]}
    )
    made.run(2)
    (delivered,) = reader.take(Deliver)
    pack = delivered.pack
    assert pack.bodies() == [b"a"]
    assert pack.value("encoding", 0) == "text"
    assert pack.value("priority", 0) == 7


def failures(seed: int) -> None:
    """Let masters and daemons fail while messages go both ways, and check what has arrived."""
    made = Bridged(BOTH, seed)
    made.site.topic("prices")
    made.start()
    random = made.mesh.random
    here = made.listener("topic:prices")
    there = made.mesh.subscriber("prices", "audit", at=0)
    publisher = made.mesh.publisher("prices", at=1)
    client = made.site.client()
    made.run(1)
    sent = 0
    for _ in range(25):
        count = random.randrange(1, 6)
        client.publish("topic:prices", *[f"s{number}" for number in range(sent, sent + count)])
        publisher.publish(*[f"m{number}".encode() for number in range(sent, sent + count)])
        sent += count
        match random.randrange(5):
            case 0:
                made.fail_over()
            case 1:
                made.services.held = True
                made.run(0.1)
                made.fail_over()
            case 2:
                victim = random.randrange(3)
                made.mesh.kill(victim)
                made.run(random.random())
                made.mesh.start(victim)
            case 3:
                made.mesh.partition([0], [1, 2])
            case _:
                made.mesh.heal()
        made.run(random.random() * 0.5)
        for each in (there, publisher):
            if each.at is None:
                each.connect(random.randrange(3))
    made.mesh.settle()
    made.run(30)
    heard, carried = here.texts, [each.body.decode() for each in there.messages]
    for name, found in (("the destination", heard), ("the mesh", carried)):
        for prefix in "sm":
            mine = [text for text in found if text[0] == prefix]
            assert mine == texts(prefix, sent), f"seed {seed}: {name} has other messages {prefix}"
    assert made.services.gauges["mesh_bridge_problems"] == 0


def all_failures(seeds: range) -> None:
    for seed in seeds:
        failures(seed)


@pytest.mark.parametrize("seed", range(int(amount("QUORATE_BRIDGE_SEEDS", 8, 500))))
def test_nothing_is_lost_or_repeated_when_masters_and_daemons_fail(seed: int) -> None:
    failures(seed)


def forget_the_cursor(patch: pytest.MonkeyPatch) -> None:
    def emitted(way: InwardWay, note: msgspec.Struct) -> None:
        if isinstance(note, InletOpened):
            note = InletOpened(note.token, [], [])
        if isinstance(note, InletPublishers):
            note = InletPublishers({}, note.last)
        kept(way, note)

    kept = InwardWay.emitted
    patch.setattr(InwardWay, "emitted", emitted)


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    def received(way: InwardWay, messages: list[MeshMessage]) -> None:
        kept(way, messages)
        way._bridge.session.acknowledge(way.consumer)

    kept = InwardWay.received
    patch.setattr(InwardWay, "received", received)


def settle_on_arrival(patch: pytest.MonkeyPatch) -> None:
    def emitted(way: OutwardWay, note: msgspec.Struct) -> None:
        kept(way, note)
        if isinstance(note, OutletBatch):
            way._tell(Carried(note.first + len(note.pack) - 1, None))

    kept = OutwardWay.emitted
    patch.setattr(OutwardWay, "emitted", emitted)


def publish_under_a_new_name(patch: pytest.MonkeyPatch) -> None:
    def emitted(way: OutwardWay, note: msgspec.Struct) -> None:
        if isinstance(note, OutletOpened):
            note = msgspec.structs.replace(note, identifier=f"bridge-{next(names)}")
        kept(way, note)

    names = itertools.count()
    kept = OutwardWay.emitted
    patch.setattr(OutwardWay, "emitted", emitted)


@pytest.mark.parametrize(
    "mistake", [forget_the_cursor, acknowledge_at_once, settle_on_arrival, publish_under_a_new_name]
)
def test_a_bridge_with_a_mistake_is_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match="has other messages"):
        all_failures(range(20))


def test_what_the_destination_has_no_room_for_waits_in_the_mesh() -> None:
    made = Bridged("mesh:prices->queue:small")
    made.site.queue("small", max_messages=10)
    made.start()
    made.mesh.publisher("prices", at=0).publish(*[b"x" * 100] * 8000)
    made.run(20)
    waiting = made.services.agents.agent("mesh-inlet:prices:queue:small").brought  # type: ignore[attr-defined]
    assert waiting < 6000
    consumer = made.listener("queue:small")
    for _ in range(60):
        made.run(1)
        if len(consumer.texts) == 8000:
            break
    assert len(consumer.texts) == 8000


def test_a_destination_that_refuses_when_full_gets_everything_in_order_later() -> None:
    made = Bridged("mesh:prices->queue:small")
    made.site.queue("small", max_messages=5, full="reject")
    made.start()
    made.mesh.publisher("prices", at=0).publish(*bodies("m", 12))
    made.run(2)
    assert "queue:small is full" in made.status
    consumer = made.listener("queue:small")
    for _ in range(5):
        consumer.texts  # noqa: B018
        made.run(5)
    assert consumer.texts == texts("m", 12)


def test_a_destination_that_does_not_exist_yet_gets_everything_once_it_does() -> None:
    made = Bridged("mesh:prices->queue:late topic:late->mesh:prices")
    made.start()
    assert "there is no queue late" in made.status
    assert "there is no topic late" in made.status
    made.mesh.publisher("prices", at=0).publish(*bodies("m", 3))
    made.run(2)
    made.site.queue("late")
    made.site.topic("late")
    consumer = made.listener("queue:late")
    made.run(6)
    assert consumer.texts == texts("m", 3)
    made.site.client().publish("topic:late", *texts("s", 3))
    made.run(2)
    assert consumer.texts == [*texts("m", 3), *texts("s", 3)]


def test_a_topic_that_the_mesh_does_not_have_yet_gets_everything_once_it_does() -> None:
    made = Bridged("queue:orders->mesh:new mesh:prices->queue:in", topics=())
    made.site.queue("orders")
    made.site.queue("in")
    made.start()
    made.site.client().publish("queue:orders", *texts("o", 3))
    made.run(2)
    assert "there is no topic 'new'" in made.status
    assert "there is no topic 'prices'" in made.status
    made.mesh.command(1, "create", topic="new")
    made.mesh.command(1, "create", topic="prices")
    subscriber = made.mesh.subscriber("new", "audit", at=1)
    made.run(7)
    assert [each.body for each in subscriber.messages] == bodies("o", 3)
    made.mesh.publisher("prices", at=1).publish(b"1")
    consumer = made.listener("queue:in")
    made.run(2)
    assert consumer.texts == ["1"]


def test_a_message_that_is_too_large_for_the_mesh_goes_to_the_dead_message_queue() -> None:
    made = Bridged("queue:orders->mesh:prices")
    made.site.queue("dead")
    made.site.queue("orders", dead_queue="dead", max_message_bytes=4 * 1024 * 1024)
    made.start()
    subscriber = made.mesh.subscriber("prices", "audit", at=2)
    made.run(1)
    made.site.client().publish("queue:orders", "a", "x" * (1024 * 1024 + 1), "b")
    made.run(2)
    assert [each.body for each in subscriber.messages] == [b"a", b"b"]
    assert (made.site.depth("queue:orders"), made.site.depth("queue:dead")) == (0, 1)


def test_a_subscription_that_was_ended_in_the_mesh_begins_anew() -> None:
    made = Bridged("mesh:prices->queue:in")
    made.site.queue("in")
    made.start()
    publisher = made.mesh.publisher("prices", at=1)
    publisher.publish(b"1")
    made.run(1)
    made.unsubscribe("prices", "bridge-s0")
    made.run(1)
    publisher.publish(b"2")
    made.run(7)
    publisher.publish(b"3")
    made.run(1)
    assert made.listener("queue:in").texts == ["1", "3"]
    assert any("was ended" in line for line in made.services.lines)


@pytest.mark.parametrize(
    ("ways", "sentence"),
    [
        ("", "at least one way"),
        ("prices->topic:prices", "is no way of a bridge"),
        ("mesh:prices->mesh:other", "is no way of a bridge"),
        ("mesh:prices->topic:", "is no way of a bridge"),
        ("mesh:a->topic:b mesh:a->topic:b", "is there twice"),
        ("mesh:a->topic:b mesh:a->topic:c", "take from the same topic"),
        ("topic:b->mesh:a topic:c->mesh:a", "bring to the same topic"),
        ("mesh:a->queue:b queue:b->mesh:a", "use a topic"),
        ("mesh:a->queue:b whole=perhaps", "whole is yes or no"),
        ("mesh:a->queue:b colour=red", "has no option 'colour'"),
    ],
)
def test_arguments_that_make_no_bridge_are_refused_with_a_sentence(ways: str, sentence: str) -> None:
    with pytest.raises(ServiceError, match=sentence):
        Bridged(ways).start()
