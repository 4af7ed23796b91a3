"""Scenarios of a mesh, each with a virtual network and virtual disks."""

from typing import cast

import pytest

from quorate.mesh.frames import Ask, Cursor
from quorate.mesh.model import Dot, MeshLimits, Origin, TopicOptions
from quorate.mesh.requests import Refusal
from quorate.testing.mesh.simulated_clients import SimulatedSubscriber
from quorate.testing.mesh.simulated_mesh import SimulatedMesh


def mesh(daemons: int = 3, topic: str = "t", limits: MeshLimits | None = None) -> SimulatedMesh:
    """Return a mesh that is connected and has a topic."""
    made = SimulatedMesh(1, daemons, limits)
    made.run(2.0)
    if topic:
        made.command(0, "create", topic=topic)
        made.run(1.0)
    return made


def bodies(subscriber: SimulatedSubscriber) -> list[bytes]:
    return [each.body for each in subscriber.messages]


def end(made: SimulatedMesh) -> None:
    made.settle()
    made.check_end()


def region(made: SimulatedMesh, id: int) -> tuple[int, ...]:
    return made.daemon(id).region


def test_each_part_of_a_partition_goes_on_and_all_of_it_meets_in_the_end() -> None:
    made = mesh(6)
    readers = [made.subscriber("t", f"r{id}", id) for id in (0, 2, 4)]
    made.run(1.0)
    made.partition((0, 1), (2, 3), (4, 5))
    made.run(1.0)
    assert [region(made, id) for id in (0, 2, 4)] == [(0, 1), (2, 3), (4, 5)]
    writers = [made.publisher("t", id) for id in (1, 3, 5)]
    for number in range(20):
        for writer in writers:
            writer.publish(b"%d-%d" % (writer.number, number))
        made.run(0.05)
    made.run(1.0)
    assert all(not writer.core.unacknowledged for writer in writers)
    assert [len(reader.messages) for reader in readers] == [20, 20, 20]
    end(made)
    assert [len(reader.messages) for reader in readers] == [60, 60, 60]


def test_messages_pass_a_line_of_daemons() -> None:
    made = mesh(5)
    for one, other in ((0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)):
        made.cut_link(one, other)
    made.run(1.0)
    assert region(made, 0) == (0, 1, 2, 3, 4)
    reader = made.subscriber("t", "end", 4)
    made.run(3.0)
    made.publisher("t", 0).publish(b"a", b"b")
    made.run(3.0)
    assert bodies(reader) == [b"a", b"b"]
    end(made)


def test_a_daemon_that_meets_others_one_after_the_other_carries_messages() -> None:
    made = mesh(3)
    reader = made.subscriber("t", "far", 2)
    made.run(1.0)
    made.partition((0, 1), (2,))
    made.run(1.0)
    made.publisher("t", 0).publish(b"carried")
    made.run(1.0)
    made.kill(0)
    made.partition((0,), (1, 2))
    made.run(3.0)
    assert bodies(reader) == [b"carried"]
    end(made)


def test_clients_go_on_while_connections_change_all_the_time() -> None:
    made = mesh(4)
    reader, writer = made.subscriber("t", "r", 0), made.publisher("t", 1)
    made.run(1.0)
    for turn in range(60):
        made.partition(*(((0, 1), (2, 3)) if turn % 2 else ((0, 2), (1, 3))))
        writer.publish(b"%d" % turn)
        made.run(0.05)
    made.run(0.5)
    assert not writer.core.unacknowledged
    end(made)
    assert len(reader.messages) == 60


def test_repair_goes_on_when_the_daemon_that_sends_dies() -> None:
    made = mesh(3, limits=MeshLimits(chunk_bytes=200))
    reader = made.subscriber("t", "r", 2)
    made.run(1.0)
    made.partition((0, 1), (2,))
    writer = made.publisher("t", 0)
    writer.publish(*(b"%d" % number for number in range(200)))
    made.run(3.0)
    made.heal()
    made.run(0.4)
    made.kill(0)
    made.run(5.0)
    assert len(reader.messages) == 200
    end(made)


def test_a_topic_that_both_sides_create_is_one_topic() -> None:
    made = mesh(2, topic="")
    made.partition((0,), (1,))
    made.run(1.0)
    for id in (0, 1):
        made.command(id, "create", topic="t")
    readers = [made.subscriber("t", f"r{id}", id) for id in (0, 1)]
    made.run(1.0)
    for id in (0, 1):
        made.publisher("t", id).publish(b"%d" % id)
    made.run(1.0)
    made.heal()
    made.run(3.0)
    for id in (0, 1):
        made.publisher("t", id).publish(b"later %d" % id)
    end(made)
    (topic,) = cast("list[dict[str, object]]", made.command(0, "topics"))
    assert topic["creations"] == 2
    for own, reader in enumerate(readers):
        assert {b"%d" % own, b"later 0", b"later 1"} <= set(bodies(reader))


def test_a_deletion_leaves_what_the_other_side_has_created() -> None:
    made = mesh(2)
    made.partition((0,), (1,))
    made.run(1.0)
    made.command(0, "delete", topic="t")
    made.command(1, "delete", topic="t")
    made.command(1, "create", topic="t")
    reader = made.subscriber("t", "r", 1)
    end(made)
    assert reader.ended is None
    made.publisher("t", 0).publish(b"kept")
    made.run(2.0)
    assert bodies(reader) == [b"kept"]


def test_a_subscription_ends_with_its_topic() -> None:
    made = mesh(2)
    reader, passing = made.subscriber("t", "r", 1), made.subscriber("t", "", 1)
    made.run(1.0)
    made.command(0, "delete", topic="t")
    made.run(1.0)
    for each in (reader, passing):
        assert each.ended is not None
        assert each.ended.code == "no topic"
    with pytest.raises(Refusal, match="no topic 't'"):
        made.command(1, "delete", topic="t")


def test_a_subscriber_that_is_faster_than_its_subscription_goes_on_with_its_cursor() -> None:
    made = mesh(3)
    made.partition((0,), (1, 2))
    made.run(1.0)
    reader = made.subscriber("t", "r", 0)
    made.run(1.0)
    made.publisher("t", 0).publish(b"before")
    made.run(1.0)
    reader.move(1)
    made.run(1.0)
    made.publisher("t", 1).publish(b"after")
    made.run(1.0)
    assert bodies(reader) == [b"before", b"after"]
    end(made)
    assert bodies(reader) == [b"before", b"after"]


def test_a_claim_to_the_place_of_a_later_subscription_takes_nothing_from_it() -> None:
    made = mesh(3)
    made.run(1.0)
    directory = made.daemon(1).state.directory
    life = made.daemon(1).life
    place = directory.ctx.get(Origin(1, life), 0)
    claimed = [Dot(1, life, place + ahead) for ahead in (1, 2, 3)]
    thief = made.subscriber("t", "theirs")
    thief.core.cursor = Cursor("t", "theirs", "invented", claimed)
    thief.core.dots = list(claimed)
    thief.connect(2)
    made.run(1.0)
    reader = made.subscriber("t", "mine", 1)
    made.run(1.0)
    (dot,) = reader.core.dots
    assert dot in claimed
    for id in made.members:
        assert made.daemon(id).state.directory.subscriptions[dot].name == "mine"
    made.publisher("t", 0).publish(b"x")
    made.run(1.0)
    assert bodies(reader) == [b"x"]


def test_a_publisher_that_moves_keeps_its_order_and_sends_nothing_twice() -> None:
    made = mesh(3)
    reader = made.subscriber("t", "r", 2)
    made.run(1.0)
    writer = made.publisher("t", 0)
    for number in range(30):
        writer.publish(b"%d" % number)
        made.run(0.02)
        if number % 3 == 2:
            writer.move((number // 3) % 3)
    end(made)
    assert bodies(reader) == [b"%d" % number for number in range(30)]


def test_a_publisher_waits_for_its_message_that_is_behind_a_cut() -> None:
    made = mesh(2)
    reader = made.subscriber("t", "r", 1)
    made.run(1.0)
    made.partition((0,), (1,))
    made.run(1.0)
    writer = made.publisher("t", 0)
    writer.publish(b"first")
    made.run(1.0)
    writer.move(1)
    writer.publish(b"second")
    made.run(3.0)
    assert writer.core.unacknowledged == 1
    made.heal()
    made.run(3.0)
    assert not writer.core.unacknowledged
    assert bodies(reader) == [b"first", b"second"]


def test_a_publisher_goes_on_as_another_one_when_its_daemon_lost_its_disk() -> None:
    made = mesh(2)
    reader = made.subscriber("t", "r", 1)
    made.run(1.0)
    made.partition((0,), (1,))
    made.run(1.0)
    writer = made.publisher("t", 0)
    writer.publish(b"lost with the disk")
    made.run(1.0)
    made.checker.lost_disks = True
    made.kill(0)
    made.nodes[0].disk.lose()
    made.start(0)
    writer.connect(1)
    writer.publish(b"goes on")
    made.heal()
    made.run(5.0)
    assert writer.core.orders_lost == 1
    assert bodies(reader) == [b"goes on"]
    end(made)


def test_daemons_that_lost_their_disks_get_everything_from_the_last_one() -> None:
    made = mesh(3)
    reader = made.subscriber("t", "r", 2)
    made.run(1.0)
    reader.disconnect()
    made.publisher("t", 0).publish(b"a", b"b", b"c")
    made.run(2.0)
    made.checker.lost_disks = True
    for id in (0, 1):
        made.kill(id)
        made.nodes[id].disk.lose()
    made.run(1.0)
    for id in (0, 1):
        made.start(id)
    made.run(3.0)
    made.kill(2)
    reader.connect(0)
    made.run(2.0)
    assert bodies(reader) == [b"a", b"b", b"c"]
    end(made)


def test_an_old_copy_of_a_disk_repeats_no_number() -> None:
    made = mesh(2)
    reader = made.subscriber("t", "r", 1)
    made.run(1.0)
    image = made.nodes[0].disk.image()
    writer = made.publisher("t", 0)
    writer.publish(b"one", b"two")
    made.run(2.0)
    made.checker.lost_disks = True
    made.partition((0,), (1,))
    made.kill(0)
    made.nodes[0].disk.restore(image)
    made.start(0)
    other = made.publisher("t", 0)
    other.publish(b"three")
    made.run(2.0)
    made.heal()
    end(made)
    assert bodies(reader) == [b"one", b"two", b"three"]


def test_a_daemon_that_was_away_gets_what_is_kept_and_no_more() -> None:
    made = mesh(3)
    made.kill(2)
    reader = made.subscriber("t", "r", 0)
    made.run(1.0)
    writer = made.publisher("t", 1)
    for number in range(300):
        writer.publish(b"%d" % number)
        made.run(0.02)
    made.run(2.0)
    assert len(reader.messages) == 300
    assert made.daemon(0).state.streams.message_bytes(made.daemon(0).state.directory.topics) == 0
    made.start(2)
    end(made)
    assert not made.nodes[2].disk.records


def test_a_slow_subscriber_fills_its_own_topic_only() -> None:
    made = mesh(2, limits=MeshLimits(topic_bytes=2_000))
    made.command(0, "create", topic="other")
    made.run(1.0)
    slow = made.subscriber("t", "slow", 1, acknowledges=False)
    quick = made.subscriber("other", "quick", 1)
    made.run(1.0)
    writers = [made.publisher(topic, 0) for topic in ("t", "other")]
    for number in range(100):
        for writer in writers:
            writer.publish(b"%040d" % number)
        made.run(0.1)
    made.run(2.0)
    assert {refused.code for refused in writers[0].refusals} == {"full"}
    assert not writers[1].refusals
    assert len(quick.messages) == 100
    (found,) = cast("list[dict[str, object]]", made.command(0, "subscriptions", topic="t", slow=True))
    assert found["name"] == "slow"
    assert cast("int", found["behind"]) > 20
    (explained, *_) = cast("list[dict[str, list[dict[str, object]]]]", made.command(0, "explain", topic="t"))
    assert explained["behind"][0]["what"] == "subscription slow"
    slow.acknowledges = True
    slow.acknowledge()
    made.run(3.0)
    writers[0].refusals.clear()
    writers[0].publish(b"room again")
    made.run(2.0)
    assert not writers[0].refusals


def test_the_slowest_subscription_ends_where_a_topic_is_to_stay_open() -> None:
    made = mesh(2, topic="", limits=MeshLimits(topic_bytes=2_000))
    made.command(0, "create", topic="t", options=TopicOptions(0, "end"))
    made.run(1.0)
    slow = made.subscriber("t", "slow", 0, acknowledges=False)
    quick = made.subscriber("t", "quick", 0)
    made.run(1.0)
    writer = made.publisher("t", 0)
    for number in range(100):
        writer.publish(b"%040d" % number)
        made.run(0.1)
    made.run(2.0)
    assert slow.ended is not None
    assert quick.ended is None
    assert bodies(quick)[-1] == b"%040d" % 99


def test_a_forgotten_daemon_refuses_publishers_until_it_is_added() -> None:
    made = mesh(3)
    made.kill(2)
    made.run(1.0)
    assert made.command(0, "forget", daemon=2) is True
    made.checker.members.discard(2)
    made.run(1.0)
    made.publisher("t", 0).publish(b"not kept for it")
    made.run(2.0)
    assert not made.nodes[0].disk.records
    made.start(2)
    made.run(2.0)
    writer = made.publisher("t", 2)
    writer.publish(b"refused")
    made.run(1.0)
    assert [refused.code for refused in writer.refusals] == ["forgotten"]
    assert made.command(0, "add", daemon=2, address="") is True
    made.run(3.0)
    writer.publish(b"taken")
    end(made)
    assert len(writer.refusals) == 1


def test_a_daemon_is_not_forgotten_while_it_is_connected() -> None:
    made = mesh(2)
    with pytest.raises(Refusal, match="connected: stop it first"):
        made.command(0, "forget", daemon=1)


def test_a_name_that_both_sides_subscribed_gets_what_is_due_to_either() -> None:
    made = mesh(2)
    made.partition((0,), (1,))
    made.run(1.0)
    readers = [made.subscriber("t", "same", id) for id in (0, 1)]
    made.run(1.0)
    for each in readers:
        each.disconnect()
    for id in (0, 1):
        made.publisher("t", id).publish(b"side %d" % id)
    made.run(1.0)
    made.heal()
    made.run(3.0)
    # The checker counts what is due to the subscriptions of each: this one takes both over.
    for each in readers:
        each.over = True
    both = made.subscriber("t", "same", 0)
    made.run(3.0)
    assert set(bodies(both)) == {b"side 0", b"side 1"}
    assert len(both.core.dots) == 2


def test_a_temporary_subscriber_gets_what_comes_while_it_is_attached() -> None:
    made = mesh(2)
    writer = made.publisher("t", 0)
    writer.publish(b"before")
    made.run(1.0)
    reader = made.subscriber("t", "", 1)
    made.run(1.0)
    writer.publish(b"during")
    made.run(1.0)
    reader.disconnect()
    writer.publish(b"away")
    made.run(1.0)
    reader.connect(1)
    made.run(1.0)
    writer.publish(b"again")
    made.run(1.0)
    assert bodies(reader) == [b"during", b"again"]
    assert not made.nodes[0].disk.records


def test_changing_a_subscription_is_one_step() -> None:
    made = mesh(2)
    made.command(0, "create", topic="u")
    made.run(1.0)
    reader = made.subscriber("t", "r", 1)
    made.run(1.0)
    other = SimulatedSubscriber(made, 99, type(reader.core)("u", "r", "t99"), acknowledges=True)
    made.clients[99] = other
    other.at = 1
    other.send(other.core.attach(1, 1, 0, reader.core.dots))
    made.run(1.0)
    assert reader.ended is not None
    (found,) = cast("list[dict[str, object]]", made.command(0, "subscriptions"))
    assert (found["topic"], found["name"]) == ("u", "r")
    made.publisher("u", 0).publish(b"x")
    end(made)
    assert bodies(other) == [b"x"]


def test_a_publisher_is_told_what_is_wrong() -> None:
    made = mesh(2, limits=MeshLimits(body_bytes=100))
    strange = made.publisher("nowhere", 0)
    strange.publish(b"x")
    long = made.publisher("t", 0)
    long.publish(bytes(200))
    made.run(1.0)
    assert [each.code for each in strange.refusals] == ["no topic"]
    assert [each.code for each in long.refusals] == ["too large"]


def test_users_administer_nothing_and_see_their_own_subscriptions() -> None:
    made = mesh(2)
    mine = made.subscriber("t", "mine", 0)
    made.run(1.0)
    client = made.publisher("t", 0)
    client.send(Ask(1, "create", "mine"))
    made.run(1.0)
    assert [each.code for each in client.refusals] == ["rights"]
    assert mine.core.dots


def test_a_daemon_that_lost_its_disk_takes_the_state_before_lives_are_forgotten() -> None:
    made = mesh(3)
    made.kill(0)
    made.start(0)
    made.run_until(lambda: 0 in made.daemon(0).state.directory.retired)
    made.kill(1)
    made.checker.lost_disks = True
    made.kill(2)
    made.nodes[2].disk.lose()
    made.start(2)
    made.run(5.0)
    directory = made.daemon(2).state.directory
    assert (set(directory.uids_of), directory.retired) == ({"t"}, made.daemon(0).state.directory.retired)
    end(made)
