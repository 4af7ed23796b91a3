"""Queues from agents to the threads of every replica: items, gaps, bounds, and the digest."""

from typing import Any

import attrs
import pytest

from quorate import AgentId, ConnectionClosed, QueueGap, QueueItem, RequestTimeout
from quorate.agents import encode
from quorate.agents.thread_queue import Put, QueuePut
from quorate.client.local.thread_queue import ThreadQueue
from quorate.server.local import thread_queues
from quorate.server.local.thread_queues import ThreadQueues
from quorate.server.node.outputs import QueuePuts

from .conftest import Account, Balance, Deposit, Place

ALICE = AgentId(0, 0, 1025)


def deposit(place: Place, *amounts: int) -> None:
    for amount in amounts:
        sent = place.master().local.direct_send_to("alice", Deposit(amount))
        place.net.until(sent.done)


def read(queue: ThreadQueue) -> list[Any]:
    """All that waits in a queue."""
    return [queue.get(0) for _ in range(len(queue))]


def balances(items: list[Any]) -> list[int]:
    return [each.notification.amount for each in items if isinstance(each, QueueItem)]


def whole(place: Place) -> bool:
    """Whether all replicas have applied the same entries."""
    roles = [each.node.role for each in place.replicas.values()]
    applied = {each.node.engine.applied for each in place.replicas.values()}
    return sorted(roles) == ["master", *["slave"] * (len(roles) - 1)] and len(applied) == 1


def test_every_replica_gets_every_item_in_order_with_its_own_status(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    queues = {id: replica.local.queue("balances") for id, replica in place.replicas.items()}
    deposit(place, 1, 2, 3)
    place.net.until(lambda: all(len(queue) == 3 for queue in queues.values()))
    items = {id: read(queue) for id, queue in queues.items()}
    me = master.context.replica.id
    for id, seen in items.items():
        assert balances(seen) == [1, 3, 6]
        assert {each.master for each in seen} == {id == me}
        assert [each.number for each in seen] == [each.number for each in items[me]]
        assert {each.agent for each in seen} == {ALICE}


def test_a_slave_that_becomes_master_has_what_the_former_master_was_given(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    deposit(place, 1, 2)
    place.net.until(lambda: whole(place))
    place.kill(master)
    heir = place.master()
    deposit(place, 3)
    seen = read(heir.local.queue("balances"))
    assert [(each.notification.amount, each.master) for each in seen] == [(1, False), (3, False), (6, True)]


def test_a_replica_that_gets_the_state_of_another_one_has_a_gap_up_to_it(place: Place) -> None:
    master = place.master()
    for replica in place.replicas.values():
        # Their logs are short, so that a new replica needs the state.
        replica.node.channel.state.settings = attrs.evolve(replica.node.channel.state.settings, keep=0)
    place.deploy(master, Account, "alice")
    slave = place.slaves()[0]
    place.kill(slave)
    deposit(place, *[0] * 200, 1, 2)
    place.net.advance(5)
    back = place.start(slave.context.replica.id, 2)
    place.net.until(lambda: whole(place))
    deposit(place, 3)
    place.net.until(lambda: whole(place))
    gap, *items = read(back.local.queue("balances"))
    assert isinstance(gap, QueueGap)
    assert gap.dropped is None
    assert "the state after entry" in gap.reason
    assert balances(items)[-1] == 6
    assert len(items) < 200


def test_reading_or_not_makes_no_difference_to_the_digest(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    deposit(place, 1, 2)
    place.net.until(lambda: whole(place))
    slave = place.slaves()[0]
    read(slave.local.queue("balances"))
    deposit(place, 3)
    place.net.until(lambda: whole(place))
    assert len({replica.node.engine.digest() for replica in place.replicas.values()}) == 1


def test_a_reaction_that_raises_puts_nothing(place: Place) -> None:
    place.deploy(place.master(), Account, "alice")
    queue = place.master().local.queue("balances")
    deposit(place, -1)
    place.net.advance(0.2)
    assert len(queue) == 0


def test_a_queue_ends_with_its_replica_after_what_waits(place: Place) -> None:
    master = place.master()
    place.deploy(master, Account, "alice")
    deposit(place, 1)
    queue = master.local.queue("balances")
    with pytest.raises(RuntimeError, match="own thread"):
        master.local.queue("empty").get()
    place.kill(master)
    assert balances(list(queue)) == [1]
    with pytest.raises(ConnectionClosed, match="has stopped"):
        queue.get()


# One replica's queues, without the replica.


def filled(queues: ThreadQueues, name: str, numbers: range, **options: Any) -> None:
    for number in numbers:
        message = QueuePut(name, Balance.type_name, encode(Balance(number)))
        queues.put(QueuePuts(number, [Put(ALICE, number, 0, message)], **options))


def queues(lines: list[str] | None = None) -> ThreadQueues:
    return ThreadQueues([].append if lines is None else lines.append, lambda: False)


def test_items_that_nobody_reads_are_dropped_oldest_first_and_counted() -> None:
    queue = ThreadQueue("q", max_items=3)
    made = queues()
    made._queues["q"] = queue
    filled(made, "q", range(1, 8))
    gap, *items = read(queue)
    assert gap == QueueGap(4, "the queue q was full, so its oldest items were dropped")
    assert balances(items) == [5, 6, 7]
    assert len(queue) == 0


def test_a_gap_of_unknown_size_that_is_dropped_leaves_the_number_unknown() -> None:
    queue = ThreadQueue("q", max_items=2)
    made = queues()
    made._queues["q"] = queue
    made.state_replaced("the state came from another replica")
    filled(made, "q", range(1, 5))
    gap, *items = read(queue)
    assert gap.dropped is None
    assert balances(items) == [3, 4]


def test_a_queue_is_bounded_by_the_bytes_of_its_items_too() -> None:
    queue = ThreadQueue("q", max_bytes=3 * len(encode(Balance(1))))
    made = queues()
    made._queues["q"] = queue
    filled(made, "q", range(1, 6))
    assert balances(read(queue)) == [3, 4, 5]


def test_a_thread_that_asks_late_gets_what_a_queue_holds_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_queues, "UNREAD_ITEMS", 2)
    made = queues()
    filled(made, "q", range(1, 5))
    queue = made.queue("q")
    filled(made, "q", range(5, 9))
    gap, *items = read(queue)
    assert gap.dropped == 2
    assert balances(items) == [3, 4, 5, 6, 7, 8]


def test_queues_that_nobody_reads_are_bounded_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_queues, "MAX_QUEUES", 2)
    lines: list[str] = []
    made = queues(lines)
    for name in ("a", "b", "c", "d"):
        filled(made, name, range(1, 3))
    assert len(lines) == 1
    assert "more than 2 queues" in lines[0]
    assert balances(read(made.queue("a"))) == [1, 2]
    (gap,) = read(made.queue("d"))
    assert gap.dropped is None


def test_a_start_with_a_saved_state_begins_with_a_gap_and_what_was_applied_again() -> None:
    made = queues()
    message = QueuePut("q", Balance.type_name, encode(Balance(7)))
    made.begin(40, [(41, [Put(ALICE, 99, 0, message)])])
    gap, item = read(made.queue("q"))
    assert gap.dropped is None
    assert "saved state after entry 40" in gap.reason
    assert (item.notification, item.recovered, item.master, item.number) == (Balance(7), True, False, (99, 0))


def test_a_start_without_a_saved_state_has_no_gap() -> None:
    made = queues()
    made.begin(0, [])
    with pytest.raises(RequestTimeout):
        made.queue("q").get(0)


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_queue_has_a_name_of_some_length(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        queues().queue(name)
