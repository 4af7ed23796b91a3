"""Messages of Kombu and of the server: nothing that a program sends comes out otherwise."""

from typing import Any

import pytest

pytest.importorskip("kombu", reason="Kombu is not installed: pip install quorate[celery]")

from hypothesis import given
from hypothesis import strategies as st

from quorate.agents import Pack
from quorate.gateways.kombu.messages import Received, received, sent
from quorate.messaging import Message
from quorate.messaging.client.bodies import encode_body

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
headers = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name != "compression"), values)


def message(**given: Any) -> dict[str, Any]:
    plain = {"body": "[]", "content_type": "application/json", "content_encoding": "utf-8"}
    return {**plain, "headers": {}, "properties": {}, **given}


def arrived(body: bytes, columns: dict[str, Any]) -> Message:
    pack = Pack.of([body], **{name: [value] for name, value in columns.items()})
    return Message(None, pack, 0, 1)  # type: ignore[arg-type]


def carried(given: dict[str, Any], exchange: str = "", key: str = "celery") -> Received:
    outgoing = sent(given, exchange, key)
    return received(arrived(outgoing.body, outgoing.columns), "celery")


@given(st.text(max_size=30), headers, st.integers(0, 9), values)
def test_a_message_comes_out_as_it_went_in(body: str, given: dict[str, Any], priority: int, x: Any) -> None:
    properties = {"priority": priority, "reply_to": "answers", "correlation_id": "7", "x": x}
    found = carried(message(body=body, headers=given, properties=dict(properties)), "tasks", "a.b")
    assert found == Received(body.encode(), "application/json", "utf-8", given, properties, "tasks", "a.b")


@given(st.binary(max_size=30))
def test_bytes_come_out_as_they_went_in(body: bytes) -> None:
    given = message(body=body, content_type="application/x-python-serialize", content_encoding="binary")
    found = carried(given)
    assert (found.body, found.content_type, found.content_encoding) == (
        body,
        "application/x-python-serialize",
        "binary",
    )


def test_other_programs_read_the_body_the_task_and_the_type() -> None:
    outgoing = sent(message(body="[[1], {}]", headers={"task": "tasks.add"}), "", "celery")
    found = arrived(outgoing.body, outgoing.columns)
    assert (found.body, found.type, found.properties) == (
        "[[1], {}]",
        "tasks.add",
        {"content-type": "application/json"},
    )


def test_a_compressed_body_is_no_text() -> None:
    outgoing = sent(message(body=b"\x78\x9c\xff", headers={"compression": "application/x-gzip"}), "", "q")
    assert arrived(outgoing.body, outgoing.columns).body == b"\x78\x9c\xff"


def test_a_message_without_priority_is_the_least_urgent() -> None:
    assert carried(message(properties={"priority": None})).properties["priority"] == 0
    assert carried(message(properties={"priority": 200})).properties["priority"] == 9
    assert carried(message(properties={"priority": -1})).properties["priority"] == 0


def test_an_expiration_counts_in_milliseconds() -> None:
    assert sent(message(properties={"expiration": "1500"}), "", "q").columns["ttl"] == 1500


def test_delivery_mode_1_waits_for_nobody() -> None:
    assert sent(message(properties={"delivery_mode": 1}), "", "q").transient
    assert not sent(message(properties={"delivery_mode": 2}), "", "q").transient


def test_other_programs_send_tasks() -> None:
    encoding, body = encode_body([[2, 3], {}, {}])
    columns = {"encoding": encoding, ".task": "tasks.add", ".id": "t1", "reply": "queue:answers"}
    found = received(arrived(body, columns), "celery")
    assert (found.body, found.content_type, found.headers, found.exchange, found.routing_key) == (
        b"[[2, 3], {}, {}]",
        "application/json",
        {"task": "tasks.add", "id": "t1"},
        "",
        "celery",
    )
    assert found.properties["reply_to"] == "answers"


def test_a_text_of_another_program_has_its_type() -> None:
    found = received(arrived(b"[]", {"encoding": "text", ".content-type": "application/json"}), "celery")
    assert (found.content_type, found.content_encoding) == ("application/json", "utf-8")


@pytest.mark.parametrize("kept", ["{", "[]", "7", '{"h": []}', '{"e": 3}'])
def test_what_another_program_puts_into_the_column_stops_no_worker(kept: str) -> None:
    found = received(arrived(b"x", {"kombu": kept, ".task": "tasks.add"}), "celery")
    assert (found.body, found.headers) == (b"x", {"task": "tasks.add"})


def test_a_body_that_cannot_be_read_arrives_as_it_is() -> None:
    found = received(arrived(b"\xc1", {"encoding": "map"}), "celery")
    assert (found.body, found.content_type) == (b"\xc1", "application/data")
