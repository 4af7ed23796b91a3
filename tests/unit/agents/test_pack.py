"""Packs: many opaque bodies in one value."""

import struct
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate import Agent, Context, Notification, Pack, reacts
from quorate.agents import ColumnValue, decode, encode
from quorate.testing import Harness

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
BODIES = st.lists(st.binary(max_size=20), max_size=12)
VALUES: Any = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)


@st.composite
def packs(draw: Any) -> tuple[list[bytes], list[ColumnValue], Pack]:
    """Return bodies, a column, and the pack of both."""
    bodies = draw(BODIES)
    column = draw(st.lists(VALUES, min_size=len(bodies), max_size=len(bodies)))
    return bodies, column, Pack.of(bodies, key=column)


@attrs.frozen
class Orders(Notification):
    orders: Pack


@attrs.frozen
class Large(Notification):
    orders: Pack


@attrs.define
class Sieve(Agent):
    """Keeps the last orders, and sends those with a priority above 4 back."""

    last: Pack = attrs.field(factory=lambda: Pack.of([]))

    @reacts
    def sort(self, ctx: Context, note: Orders) -> None:
        self.last = note.orders
        priorities = note.orders.column("priority")
        high = [place for place, value in enumerate(priorities) if isinstance(value, int) and value > 4]
        ctx.send(ctx.reply_to, Large(note.orders.take(high)))


def _same(pack: Pack, bodies: list[bytes], column: list[ColumnValue]) -> None:
    pack.check()
    assert pack.bodies() == bodies
    assert [(type(value), value) for value in pack.column("key")] == [(type(each), each) for each in column]


@PATIENT
@given(packs())
def test_a_pack_returns_the_bodies_and_the_column_that_it_was_made_of(made: Any) -> None:
    bodies, column, pack = made
    _same(pack, bodies, column)
    assert len(pack) == len(bodies)
    assert [pack.body(place) for place in range(len(pack))] == bodies
    assert [pack.value("key", place) for place in range(len(pack))] == column
    assert pack.sizes() == [pack.size_of(place) for place in range(len(pack))] == [len(b) for b in bodies]


@PATIENT
@given(packs())
def test_a_pack_is_the_same_after_it_was_sent(made: Any) -> None:
    bodies, column, pack = made
    _same(decode(Orders, encode(Orders(pack))).orders, bodies, column)


@PATIENT
@given(packs(), st.data())
def test_a_part_has_the_bodies_and_values_of_its_range(made: Any, data: Any) -> None:
    bodies, column, pack = made
    first = data.draw(st.integers(0, len(bodies)))
    count = data.draw(st.integers(0, len(bodies) - first))
    _same(pack.part(first, count), bodies[first : first + count], column[first : first + count])


@PATIENT
@given(packs(), st.data())
def test_taken_bodies_come_in_the_order_of_their_indexes(made: Any, data: Any) -> None:
    bodies, column, pack = made
    places = data.draw(st.lists(st.integers(0, len(bodies) - 1))) if bodies else []
    _same(pack.take(places), [bodies[place] for place in places], [column[place] for place in places])


@PATIENT
@given(st.lists(packs(), max_size=4))
def test_joined_packs_have_the_bodies_of_all(made: Any) -> None:
    bodies = [body for each, _, _ in made for body in each]
    column = [value for _, each, _ in made for value in each]
    _same(Pack.joined([pack for _, _, pack in made]), bodies, column)


def test_bodies_of_a_pack_without_a_column_have_none_there_after_joining() -> None:
    joined = Pack.joined([Pack.of([b"a", b"b"], priority=7), Pack.of([b"c"])])
    assert joined.column("priority") == [7, 7, None]


def test_one_value_describes_all_bodies() -> None:
    pack = Pack.of([b"a", b"b"], region="EU")
    assert pack.column("region") == ["EU", "EU"]
    assert pack.part(1, 1).value("region", 0) == "EU"


def test_equal_values_are_kept_once() -> None:
    assert Pack.of([b""] * 1000, priority=[4] * 1000).columns == {"priority": 4}


@pytest.mark.parametrize("values", [[1, True], [0, False], [0.0, -0.0]])
def test_values_that_only_compare_equal_are_kept_apart(values: list[ColumnValue]) -> None:
    column = Pack.of([b"a", b"b"], key=values).column("key")
    assert repr(column) == repr(values)


def test_columns_can_be_added_and_replaced() -> None:
    pack = Pack.of([b"a", b"b"], region="EU", priority=4).with_columns(priority=[1, 2], delay=5)
    assert pack.column("priority") == [1, 2]
    assert pack.column("region") == ["EU", "EU"]
    assert pack.column("delay") == [5, 5]


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(
        ValueError, match="the column 'priority' has 1 values for 2 bodies; give one for each"
    ):
        Pack.of([b"a", b"b"], priority=[1])


@pytest.mark.parametrize("index", [-1, 2])
def test_a_body_that_a_pack_does_not_have_is_refused(index: int) -> None:
    pack = Pack.of([b"a", b"b"])
    for asked in (pack.body, pack.size_of, lambda place: pack.value("key", place)):
        with pytest.raises(IndexError, match=f"the pack has 2 bodies, and none with index {index}"):
            asked(index)
    with pytest.raises(IndexError):
        pack.take([0, index])


@pytest.mark.parametrize(("first", "count"), [(0, 3), (-1, 1), (2, 1), (0, -1)])
def test_a_part_that_a_pack_does_not_have_is_refused(first: int, count: int) -> None:
    with pytest.raises(IndexError, match=f"there are no {count} from {first} on"):
        Pack.of([b"a", b"b"]).part(first, count)


@pytest.mark.parametrize(
    ("pack", "flaw"),
    [
        (Pack(b"ab", b"\x01\x00\x00"), "its ends have 3 bytes, no multiple of 4"),
        (Pack(b"ab", struct.pack("<2I", 1, 3)), "the ends of its bodies do not fit its data"),
        (Pack(b"ab", struct.pack("<3I", 2, 1, 2)), "the ends of its bodies do not fit its data"),
        (Pack(b"ab", b""), "the ends of its bodies do not fit its data"),
        (Pack(b"a", struct.pack("<I", 1), {"key": [1, 2]}), "its column 'key' has 2 values for 1 bodies"),
    ],
)
def test_a_damaged_pack_is_named(pack: Pack, flaw: str) -> None:
    with pytest.raises(ValueError, match=f"^a pack is damaged: {flaw}$"):
        pack.check()


def test_agents_get_keep_and_send_packs() -> None:
    harness = Harness()
    harness.deploy(Sieve, name="sieve")
    orders = Pack.of([b"a", b"b", b"c"], priority=[9, 4, 5])
    (answer,) = harness.send("sieve", Orders(orders))
    assert isinstance(answer, Large)
    assert answer.orders.bodies() == [b"a", b"c"]
    assert answer.orders.column("priority") == [9, 5]
    sieve = harness.agent("sieve")
    assert isinstance(sieve, Sieve)
    assert sieve.last == orders
