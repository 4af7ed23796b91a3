"""Messages of AMQP and of the server: nothing that a client sends comes out otherwise."""
# ruff: noqa: E402  what follows needs Proton, which may be missing

import contextlib
import uuid
from typing import Any

import pytest

proton = pytest.importorskip("proton", reason="Qpid Proton is not installed: pip install quorate[amqp]")

from hypothesis import given
from hypothesis import strategies as st

from quorate.gateways.amqp.messages import BadMessage, decode_message, encode_message
from quorate.gateways.amqp.values import Unknown, plain, typed
from quorate.messaging import Queue, Topic

from .memory_client import received

NOW_MS = 1_000_000

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1).map(proton.int32),
    st.integers(-128, 127).map(proton.byte),
    st.integers(0, 255).map(proton.ubyte),
    st.integers(-(2**15), 2**15 - 1).map(proton.short),
    st.integers(0, 2**16 - 1).map(proton.ushort),
    st.integers(0, 2**32 - 1).map(proton.uint),
    st.integers(0, 2**64 - 1).map(proton.ulong),
    st.integers(0, 2**60).map(proton.timestamp),
    st.floats(width=32, allow_nan=False).map(proton.float32),
    st.characters(codec="utf-8").map(proton.char),
    st.uuids(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, with their types."""
    if isinstance(left, memoryview):
        left = bytes(left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def passed(message: Any) -> Any:
    """A message as another AMQP client gets it."""
    came = decode_message(message.encode(), NOW_MS)
    found = proton.Message()
    found.decode(encode_message(received(7, came.body, **came.columns), NOW_MS))
    return found


@given(values)
def test_values_come_back_with_their_types(value: Any) -> None:
    found, code = plain(value)
    assert same(typed(found, code), value) or (type(value) is int and typed(found, code) == value)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_a_map_comes_out_as_it_came(body: dict[str, Any]) -> None:
    assert same(passed(proton.Message(body=body)).body, body)


@given(values)
def test_any_body_comes_out_as_it_came(body: Any) -> None:
    assert same(passed(proton.Message(body=body)).body, body)


def test_what_has_no_like_in_python_is_kept_as_it_came() -> None:
    body = proton.Described(proton.symbol("x"), [1, b"y"])
    message = passed(proton.Message(body=body))
    assert (message.body.descriptor, bytes(message.body.value[1])) == ("x", b"y")
    with pytest.raises(Unknown):
        plain(body)


def test_sections_of_data_and_of_a_sequence() -> None:
    for body in (b"bytes", ["a", 1]):
        for inferred in (False, True):
            found = passed(proton.Message(body=body, inferred=inferred))
            assert found.inferred is inferred
            assert same(found.body, body)


def test_a_client_of_another_protocol_reads_what_was_sent() -> None:
    message = proton.Message(
        body={"n": proton.short(3)},
        properties={"count": proton.int32(2), "id": uuid.UUID(int=5)},
        correlation_id=proton.ulong(9),
        subject="kind",
        group_id="g",
        priority=12,
        ttl=2,
        reply_to="topic://answers",
        address="orders",
    )
    came = decode_message(message.encode(), NOW_MS)
    found = received(1, came.body, **came.columns)
    assert found.body == {"n": 3}
    assert found.properties == {"count": 2, "id": str(uuid.UUID(int=5))}
    assert (found.correlation_id, found.type, found.group, found.priority) == ("9", "kind", "g", 9)
    assert (came.columns["ttl"], found.reply_to, came.to) == (2000, Topic("answers"), Queue("orders"))


def test_fields_that_only_amqp_has_come_out_as_they_came() -> None:
    message = proton.Message(
        id=uuid.UUID(int=7),
        user_id=b"anna",
        correlation_id=b"\x01\x02",
        creation_time=12.5,
        reply_to_group_id="r",
    )
    message.content_type, message.content_encoding = "text/plain", "gzip"
    found = passed(message)
    assert (found.id, bytes(found.user_id), bytes(found.correlation_id)) == (
        uuid.UUID(int=7),
        b"anna",
        b"\x01\x02",
    )
    assert (found.creation_time, found.reply_to_group_id) == (12.5, "r")
    assert (found.content_type, found.content_encoding) == ("text/plain", "gzip")


def test_times() -> None:
    def columns(**fields: Any) -> Any:
        return decode_message(proton.Message(body="x", **fields).encode(), NOW_MS).columns

    assert columns(expiry_time=NOW_MS / 1000 + 3)["ttl"] == 3000
    assert columns(expiry_time=1)["ttl"] == 1
    at = {proton.symbol("x-opt-delivery-time"): NOW_MS + 500}
    assert columns(annotations=at)["delay"] == 500
    assert columns(annotations={proton.symbol("x-opt-delivery-delay"): 70})["delay"] == 70


def test_a_delivery_says_how_often_it_came() -> None:
    found = proton.Message()
    found.decode(encode_message(received(1, deliveries=2, expires=NOW_MS + 5000), NOW_MS))
    assert (found.delivery_count, found.first_acquirer, found.ttl) == (2, False, 5)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            proton.Message(properties={"p": [1]}),
            "the property p is no number of 64 bits, no text and no bool",
        ),
        (proton.Message(properties={"p": proton.ulong(2**64 - 1)}), "the property p is no number of 64 bits"),
        (proton.Message(reply_to=" x"), "the field reply-to: ' x' is not the name of a destination"),
    ],
)
def test_messages_that_cannot_be_taken(message: Any, why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        decode_message(message.encode(), NOW_MS)


@given(st.binary(max_size=100))
def test_bytes_that_are_no_message(data: bytes) -> None:
    with contextlib.suppress(BadMessage):
        assert decode_message(data, NOW_MS).columns["mode"] == "NON_PERSISTENT"
