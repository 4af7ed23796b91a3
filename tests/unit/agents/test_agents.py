import enum
from datetime import date, datetime
from typing import Any, ClassVar

import attrs
import msgspec
import pytest

from quorate import Agent, AgentError, AgentId, Context, Notification, Opaque, reacts
from quorate.agents import agent_spec, decode, encode, known_type


@attrs.frozen
class Deposit(Notification):
    amount: int


class Stamp(msgspec.Struct, Notification, array_like=True, frozen=True):
    at: datetime


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Line:
    text: str
    colour: Colour = Colour.RED


@attrs.define
class Book(Agent):
    title: str
    lines: list[Line] = attrs.field(factory=list)
    seen: dict[str, int] = attrs.field(factory=dict)
    _tags: set[str] = attrs.field(factory=set)
    count: int = attrs.field(init=False, default=7)

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None: ...

    @reacts
    def rest(self, ctx: Context, note: Opaque) -> None: ...


def refused(cls: type[Any]) -> str:
    with pytest.raises(AgentError) as caught:
        agent_spec(cls)
    return str(caught.value)


def test_an_id_reads_back_from_its_text() -> None:
    assert AgentId.parse("#0.1.1025") == AgentId(0, 1, 1025)
    assert str(AgentId(0, 1, 1025)) == "#0.1.1025"


@pytest.mark.parametrize(
    "text", ["", "#", "0.0.1025", "#0.0", "#0.0.x", "#0.0.1025 ", "#٣.0.1025", "#-1.0.5"]
)
def test_a_wrong_id_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(ValueError, match="write it as #creator"):
        AgentId.parse(text)


def test_a_notification_reads_back_and_is_found_by_its_type_name() -> None:
    assert decode(Deposit, encode(Deposit(5))) == Deposit(5)
    assert known_type(Deposit.type_name) is Deposit
    assert Deposit.type_name.endswith(":Deposit")


def test_a_notification_may_be_a_msgspec_struct() -> None:
    stamp = Stamp(datetime(2013, 1, 1))
    assert decode(Stamp, encode(stamp)) == stamp
    assert known_type(Stamp.type_name) is Stamp


def test_what_is_not_a_notification_is_not_encoded() -> None:
    with pytest.raises(TypeError, match="derive it from quorate"):
        encode(5)  # type: ignore[arg-type]


def test_a_payload_that_does_not_fit_names_the_field() -> None:
    with pytest.raises(ValueError, match="amount"):
        decode(Deposit, encode(Deposit("x")))  # type: ignore[arg-type]


def test_state_is_saved_and_loaded_with_private_and_uninitialised_attributes() -> None:
    spec = agent_spec(Book)
    book = spec.build(msgspec.msgpack.encode({"title": "t", "lines": [Line("a")], "tags": {"x"}}))
    assert isinstance(book, Book)
    book.seen = {"z": 1, "a": 2}
    again = spec.load(spec.save(book))
    assert again == book
    assert isinstance(again, Book)
    assert list(again.seen) == ["z", "a"], "agents see the order of a dict, so it must survive"


def test_the_canonical_form_does_not_depend_on_the_order_within_sets() -> None:
    spec = agent_spec(Book)
    for size in range(2, 9):
        one = Book("t", tags=set("abcdefgh"[:size]))
        other = Book("t", tags=set())
        for tag in (*"zyxwvutsr", *reversed("abcdefgh"[:size])):
            other._tags.add(tag)
        other._tags.difference_update("zyxwvutsr")
        assert spec.canonical(one) == spec.canonical(other)


def test_the_canonical_form_shows_the_order_of_dicts_because_agents_see_it() -> None:
    spec = agent_spec(Book)
    one, other = Book("t", seen={"a": 1, "b": 2}), Book("t", seen={"b": 2, "a": 1})
    assert spec.canonical(one) != spec.canonical(other)


def test_a_state_may_have_dicts_with_keys_of_any_kind() -> None:
    @attrs.define
    class Ledger(Agent):
        by_number: dict[int, set[int]]
        by_day: dict[date, int]
        by_pair: dict[tuple[int, str], list[Line]]
        by_agent: dict[AgentId, Colour]

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    spec = agent_spec(Ledger)
    ledger = Ledger(
        {1: {2, 3}}, {date(2013, 1, 1): 4}, {(1, "x"): [Line("y")]}, {AgentId(0, 0, 1): Colour.RED}
    )
    assert spec.load(spec.save(ledger)) == ledger
    assert spec.canonical(ledger)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"titel": "t"}, "has no attribute 'titel'; it has: title"),
        ({"title": 5}, "Expected `str`, got `int`"),
        ({}, "title"),
        ({"title": "t", "count": 5}, "has no attribute 'count'"),
    ],
)
def test_an_agent_is_not_built_from_a_state_that_does_not_fit(state: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentError, match=message):
        agent_spec(Book).build(msgspec.msgpack.encode(state))


def test_a_state_that_is_not_messagepack_is_refused() -> None:
    with pytest.raises(AgentError, match="cannot be created"):
        agent_spec(Book).build(b"\xc1")


def test_an_agent_must_be_an_attrs_class() -> None:
    class Plain(Agent):
        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    assert "decorate the class with @attrs.define" in refused(Plain)


def test_an_attribute_of_a_type_that_cannot_be_stored_is_refused() -> None:
    class Socket: ...

    @attrs.define
    class Holder(Agent):
        sockets: list[Socket]

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    assert "sockets" in refused(Holder)
    assert "cannot be stored" in refused(Holder)


def test_a_private_attribute_inside_the_state_is_refused_because_it_would_be_lost() -> None:
    @attrs.define
    class Inner:
        _secret: int = 0

    @attrs.define
    class Holder(Agent):
        inner: list[Inner]

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    assert "Inner._secret would be lost" in refused(Holder)


def test_an_attribute_without_type_is_refused() -> None:
    @attrs.define
    class Holder(Agent):
        items = []  # noqa: RUF012

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    assert "items has no type" in refused(Holder)


def test_a_number_without_type_is_refused_unless_it_is_a_constant() -> None:
    @attrs.define
    class Counter(Agent):
        count = 0

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    @attrs.define
    class Limited(Agent):
        LIMIT = 5
        factor: ClassVar[int] = 3

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None: ...

    assert "count has no type" in refused(Counter)
    assert agent_spec(Limited).attributes == ()


def test_two_reactions_to_one_type_are_refused() -> None:
    @attrs.define
    class Twice(Agent):
        @reacts
        def one(self, ctx: Context, note: Deposit) -> None: ...

        @reacts
        def two(self, ctx: Context, note: Deposit | Stamp) -> None: ...

    assert "one reacts to Deposit already" in refused(Twice)


def test_an_agent_without_reactions_is_refused() -> None:
    @attrs.define
    class Deaf(Agent):
        x: int = 0

    assert "reacts to nothing" in refused(Deaf)


def test_a_reaction_to_what_is_no_notification_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(AgentError, match="is not a notification"):

        @reacts
        def wrong(self: Any, ctx: Context, note: int) -> None: ...


def test_a_reaction_without_annotation_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(AgentError, match="annotate what it reacts to"):

        @reacts
        def wrong(self: Any, ctx: Context, note) -> None: ...  # type: ignore[no-untyped-def]


def test_an_asynchronous_reaction_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(AgentError, match="without async"):

        @reacts  # type: ignore[arg-type]
        async def wrong(self: Any, ctx: Context, note: Deposit) -> None: ...


def test_an_unresolvable_annotation_is_one_sentence() -> None:
    @attrs.define
    class Lost(Agent):
        @reacts
        def deposit(self, ctx: Context, note: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert "a type cannot be resolved" in refused(Lost)


def test_a_subclass_inherits_and_overrides_reactions() -> None:
    @attrs.define
    class Sequel(Book):
        volume: int = 2

        @reacts
        def deposit(self, ctx: Context, note: Deposit) -> None:
            self.volume += 1

    spec = agent_spec(Sequel)
    assert spec.attributes[-1] == "volume"
    assert spec.handlers[Deposit.type_name][0] is Sequel.deposit
