"""The queue of writes: which requests share a transaction, and when the reactor thread waits."""

import threading

import pytest

from quorate.agents import AgentId
from quorate.engine import AgentState, Capture, StagedPart
from quorate.hachannel.model.log import Appended, Committed
from quorate.server.storage import write_queue
from quorate.server.storage.write_queue import (
    BackgroundSave,
    Batch,
    WriteQueue,
    WriteRequest,
    capture_slices,
)
from quorate.testing.harness import Harness

from ..disk_rig import BOUND_S, Sum, captured, entry

PART_BYTES = 100


def next_batch(queue: WriteQueue) -> Batch:
    return queue.next_batch(lambda: True, BOUND_S, PART_BYTES)


def records(token: int, size: int = 10) -> WriteRequest:
    return WriteRequest.of_records([Appended((entry(token, size),))], token, None, PART_BYTES)


def capture() -> Capture:
    harness = Harness()
    harness.know(Sum)
    for number in range(3):
        harness.deploy(Sum, name=f"sum{number}")
    return captured(harness)


def part(size: int) -> WriteRequest:
    agent = AgentState(AgentId(0, 0, 1025), None, "m:C", 0, bytes(size), 0, 0, 0, (), "")
    return WriteRequest.of_part(StagedPart((agent,), anew=False))


def test_requests_that_are_queued_make_one_batch_in_their_order() -> None:
    queue = WriteQueue()
    for token in (1, 2, 3):
        queue.put(records(token))
    batch = next_batch(queue)
    assert [request.token for request in batch.requests] == [1, 2, 3]
    assert (batch.more, batch.closing) == (False, False)


def test_a_capture_ends_a_batch_that_begins_with_it() -> None:
    queue = WriteQueue()
    queue.put(records(1))
    queue.put(WriteRequest.of_records([Committed(3)], 2, capture(), PART_BYTES))
    queue.put(records(3))
    tokens = [[request.token for request in next_batch(queue).requests] for _ in range(3)]
    assert tokens == [[1], [2], [3]]


def test_parts_of_an_incoming_state_fill_a_batch() -> None:
    queue = WriteQueue()
    for _ in range(3):
        queue.put(part(PART_BYTES // 2))
    batches = [next_batch(queue) for _ in range(2)]
    assert [len(batch.requests) for batch in batches] == [2, 1]
    assert batches[0].more


def test_a_background_save_starts_with_the_requests_around_it() -> None:
    queue = WriteQueue()
    state = capture()
    save = BackgroundSave(state, 0, lambda: None, capture_slices(state, 1))
    queue.put(records(1))
    queue.put(WriteRequest(background_save=save))
    queue.put(records(2))
    batch = next_batch(queue)
    assert batch.background_save is save
    assert [request.token for request in batch.requests] == [1, 2]


def test_a_full_queue_lets_the_reactor_thread_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "MAX_QUEUED_BYTES", 1000)
    queue = WriteQueue()
    queue.put(records(1, 5000))
    second = threading.Thread(target=queue.put, args=(records(2, 900),))
    second.start()
    assert [request.token for request in next_batch(queue).requests] == [1]
    second.join(BOUND_S)
    assert not second.is_alive()
    assert [request.token for request in next_batch(queue).requests] == [2]


@pytest.mark.parametrize("end", ["close", "fail"])
def test_no_request_is_queued_after_the_end(end: str) -> None:
    queue = WriteQueue()
    queue.put(records(1))
    getattr(queue, end)()
    queue.put(records(2))
    batch = next_batch(queue)
    assert [request.token for request in batch.requests] == ([1] if end == "close" else [])
    assert batch.closing == (end == "close")


def test_only_a_commit_index_alone_can_be_deferred() -> None:
    assert WriteRequest.of_records([Committed(4)], 0, None, PART_BYTES).deferrable
    assert not records(1).deferrable
    assert not part(1).deferrable
    assert not WriteRequest.of_records([Committed(4)], 0, capture(), PART_BYTES).deferrable


@pytest.mark.parametrize(("slice_bytes", "sizes"), [(1, [1, 1, 1]), (1 << 20, [3])])
def test_a_capture_is_cut_into_slices_of_about_the_given_size(slice_bytes: int, sizes: list[int]) -> None:
    assert [len(agents) for agents in capture_slices(capture(), slice_bytes)] == sizes
