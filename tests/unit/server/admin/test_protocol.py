"""The handler of one administration connection."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from quorate.agents import AgentId, ExceptionNotification, Note, Notification, UnknownAgent, encode, outside
from quorate.server.admin import wire
from quorate.server.admin.protocol import (
    MAX_PENDING,
    MAX_SENTENCE_CHARS,
    AdminProtocol,
    NotMaster,
    serve_admin,
)
from quorate.server.network.hello import ProtocolError

ALICE = AgentId(0, 0, 1025)
Target = Callable[..., Any]


@attrs.frozen
class Balance(Notification):
    amount: int


def ask(target: Any, body: wire.Body) -> Any:
    frames: list[bytes] = []
    serve_admin(target, frames.append).frame_received(wire.encode(wire.Call(7, body)))
    (frame,) = frames
    message = wire.decode_answer(frame)
    assert message.id == 7
    return message if isinstance(message, wire.Failure) else msgspec.msgpack.decode(message.result)


def test_any_replica_answers_with_its_status(target: Target) -> None:
    assert ask(target(role="slave"), wire.Status())["role"] == "slave"


def test_agents_come_in_pages_by_id(target: Target) -> None:
    many = [(AgentId(0, 0, stamp), "", "m:C", 0) for stamp in (1030, 1026, 1028, 1027, 1029)]
    first = ask(target(known=many), wire.Agents("", 2))
    assert [row[0][2] for row in first[0]] == [1026, 1027]
    second = ask(target(known=many), wire.Agents(first[1], 9))
    assert [row[0][2] for row in second[0]] == [1028, 1029, 1030]


@pytest.mark.parametrize("body", [wire.Agents(), wire.Inspect("alice")])
def test_a_slave_names_the_master_unless_asked_for_its_own_state(target: Target, body: Any) -> None:
    slave = target(role="slave", master=("h", 1), states={"alice": b"\x80"})
    failure = ask(slave, body)
    assert (failure.kind, failure.master) == ("not master", ("h", 1))
    waiting = ask(target(role="blocked", waits="too few copies"), body)
    assert waiting.sentence == "This replica is not the master (too few copies)."
    assert not isinstance(ask(slave, msgspec.structs.replace(body, anywhere=True)), wire.Failure)


@pytest.mark.parametrize("body", [wire.Agents(), wire.Inspect("alice")])
def test_a_witness_asked_for_agents_refuses_and_names_other_replicas(target: Target, body: Any) -> None:
    witness = target(role="witness", master=("h", 1), known=[], watches="a witness: ask replica 0.")
    assert ask(witness, body).kind == "not master"
    failure = ask(witness, msgspec.structs.replace(body, anywhere=True))
    assert (failure.kind, failure.sentence) == ("refused", "a witness: ask replica 0.")


def test_an_agent_is_found_by_name_and_by_id(target: Target, state: bytes) -> None:
    served = target(states={"alice": state, ALICE: state})
    assert ask(served, wire.Inspect("alice")) == ask(served, wire.Inspect(ALICE))
    assert ask(served, wire.Inspect("bob")).kind == "unknown"


def note(notification: Notification) -> Note:
    return Note(outside(0), ALICE, notification.type_name, encode(notification), 1)


def test_a_notification_comes_from_outside(target: Target) -> None:
    served = target(server_id=3)
    assert ask(served, wire.Post("alice", "m:T", b"\x80")) is None
    assert served.posted == [Note("alice", outside(3), "m:T", b"\x80")]


def test_a_post_to_a_missing_agent_fails(target: Target) -> None:
    served = target(failure=note(UnknownAgent("bob", "m:T")))
    for address in ("bob", "bob@s0"):
        failure = ask(served, wire.Post(address, "m:T", b"\x80"))
        assert (failure.kind, failure.sentence) == ("unknown", f"There is no agent {address} on this server.")
    failure = ask(served, wire.Post("alice", "m:T", b"\x80"))
    assert (failure.kind, failure.sentence) == ("refused", "There is no agent bob.")


def test_a_post_on_which_the_agent_fails_fails_with_the_reason(target: Target) -> None:
    served = target(failure=note(ExceptionNotification(ALICE, "m:T", "Unfit", "the payload does not fit")))
    failure = ask(served, wire.Post("alice", "m:T", b"\x80"))
    assert failure.kind == "refused"
    assert failure.sentence == "#0.0.1025 failed on m:T: Unfit: the payload does not fit"


def test_a_reply_is_handed_back(target: Target) -> None:
    served = target(answer=lambda _note: Balance(12))
    sender, kind, payload = ask(served, wire.Request("alice", "m:T", b"\x80", 5.0))
    assert (kind, payload) == (Balance.type_name, encode(Balance(12)))
    assert sender == list(ALICE)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 1e9, float("nan")])
def test_the_wait_for_a_reply_is_bounded(target: Target, timeout_s: float) -> None:
    assert ask(target(), wire.Request("alice", "m:T", b"", timeout_s)).kind == "refused"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "timeout"),
        (NotMaster(None), "not master"),
        (ConnectionError("no longer master"), "interrupted"),
    ],
)
def test_every_way_to_fail_has_its_kind(target: Target, error: Exception, kind: str) -> None:
    failure = ask(target(answer=lambda _note: error), wire.Request("alice", "m:T", b"", 1.0))
    assert failure.kind == kind


def test_the_answer_to_stop_leaves_before_the_replica_stops(target: Target) -> None:
    order: list[str] = []
    served = target(on_stop=lambda: order.append("stop"))
    AdminProtocol(served, lambda _frame: order.append("answer")).frame_received(
        wire.encode(wire.Call(1, wire.Stop()))
    )
    assert order == ["answer", "stop"]


def test_calls_under_way_are_bounded_and_dropped_with_the_connection(target: Target) -> None:
    waiting: list[Deferred[Note]] = []

    def never(_note: Note) -> "Deferred[Note]":
        waiting.append(Deferred())
        return waiting[-1]

    frames: list[bytes] = []
    protocol = AdminProtocol(target(answer=never), frames.append)
    call = wire.encode(wire.Call(1, wire.Request("alice", "m:T", b"", 1.0)))
    for _ in range(MAX_PENDING):
        protocol.frame_received(call)
    assert not frames
    protocol.frame_received(call)
    (frame,) = frames
    refused = wire.decode_answer(frame)
    assert isinstance(refused, wire.Failure)
    assert refused.kind == "refused"
    protocol.connection_lost()
    for deferred in waiting:
        deferred.callback(Note("alice", outside(0), "m:T", b""))
    assert len(frames) == 1


def test_the_largest_state_that_is_shown_fits_into_an_answer(target: Target) -> None:
    largest = {"alice": bytes(wire.MAX_STATE_BYTES)}
    behind = "x" * MAX_SENTENCE_CHARS
    _, state = ask(target(states=largest, waits=behind), wire.Inspect("alice"))
    assert state == largest["alice"]


def test_a_state_that_is_too_large_is_refused_in_a_sentence(target: Target) -> None:
    huge = {"alice": bytes(wire.MAX_FRAME_BYTES)}
    failure = ask(target(states=huge), wire.Inspect("alice"))
    assert failure.kind == "refused"
    assert failure.sentence == (
        "The state of agent alice is too large to be shown: it has 16777216 bytes, and at most 16711680 "
        "can be sent."
    )


@given(st.binary(max_size=100))
def test_garbage_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        AdminProtocol(None, lambda _frame: None).frame_received(frame)  # type: ignore[arg-type]
