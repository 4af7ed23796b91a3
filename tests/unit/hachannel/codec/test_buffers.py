"""Messages in parts: the same bytes, and long payloads themselves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.hachannel import View, ViewNumber, Voter, encode_message
from quorate.hachannel.codec.buffers import LONG_BYTES, MOST_CARRIERS
from quorate.hachannel.model import messages as m
from quorate.hachannel.model.messages import CARRIERS, encode_body
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import Tag

N = ViewNumber(3, 1, 1 << 60)
TAG = Tag(N, 7)
VIEW = View(N, (Voter(0, 1),), (Voter(0, 1),), 1, 7, 2, "why")
SIZES = (0, 5, LONG_BYTES - 1, LONG_BYTES, (1 << 16) - 1, 1 << 16, 200_000)

payloads = st.sampled_from(SIZES).map(lambda size: b"x" * size)
sources = st.sampled_from([None, Source(2, 1 << 60, 1, 5)])
entries = st.builds(
    m.Entry, st.just(N), st.integers(1, 1 << 40), st.integers(0, 1 << 62), payloads, source=sources
)
several = st.lists(entries, max_size=20).map(tuple)
messages = st.one_of(
    st.builds(m.Data, entries, st.integers(0, 9), st.just(3), st.just(6)),
    st.builds(m.Chunk, st.just(5), st.just(0), payloads, st.booleans(), st.sampled_from([None, TAG])),
    st.builds(m.TailEntries, st.just(5), st.just(7), st.just(TAG), several),
    st.builds(m.CatchUp, st.just(5), st.just(N), st.just(TAG), several, st.just(6)),
    st.builds(m.Suffix, st.just(N), st.just(7), several),
    st.builds(m.NewView, st.just(VIEW), st.just(TAG), st.just(0), several, st.booleans()),
    st.builds(m.Forward, st.just(1), st.just(5), payloads),
    st.builds(m.DirectMessage, payloads),
    st.just(m.Ack(N, 8)),
)


@settings(max_examples=200, deadline=None)
@given(messages)
def test_in_parts_or_whole_a_message_has_the_same_bytes(message: m.Message) -> None:
    body = encode_body(message)
    assert (b"".join(body) if isinstance(body, list) else body) == encode_message(message)


@pytest.mark.parametrize(
    "message",
    [
        m.Data(m.Entry(N, 8, 0, b"x" * LONG_BYTES), 7, 3, 6),
        m.Chunk(5, 0, b"x" * LONG_BYTES, False, TAG),
        m.TailEntries(5, 7, TAG, (m.Entry(N, 8, 0, b"short"), m.Entry(N, 9, 0, b"x" * LONG_BYTES))),
        m.Forward(1, 5, b"x" * LONG_BYTES),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_long_payload_is_a_part_by_itself(message: m.Message) -> None:
    carried = getattr(message, CARRIERS[type(message)])
    if isinstance(carried, tuple):
        carried = carried[-1]
    payload = carried.payload if isinstance(carried, m.Entry) else carried
    body = encode_body(message)
    assert isinstance(body, list)
    assert any(part is payload for part in body)


def test_many_entries_are_encoded_together() -> None:
    entry = m.Entry(N, 8, 0, b"x" * LONG_BYTES)
    assert isinstance(encode_body(m.TailEntries(5, 7, TAG, (entry,) * MOST_CARRIERS)), list)
    assert isinstance(encode_body(m.TailEntries(5, 7, TAG, (entry,) * (MOST_CARRIERS + 1))), bytes)


def test_every_message_with_entries_or_data_is_known_to_carry_them() -> None:
    carrying = {"entry", "entries", "data", "payload"}
    for kind in m.Message.__args__:
        assert carrying & set(kind.__struct_fields__) == ({CARRIERS[kind]} if kind in CARRIERS else set())
