"""Notification and agent classes that cannot work are refused, with the remedy, before an agent reacts."""

import dataclasses
from typing import Any, ClassVar, Optional

import attrs
import msgspec
import pytest

from quorate import Agent, AgentError, Context, Notification, reacts
from quorate.agents import agent_spec, decode, encode
from quorate.agents.nesting import MAX_NESTING


@attrs.frozen
class Ping(Notification):
    number: int = 0


@attrs.frozen
class Tree(Notification):
    branches: list[object]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# Notifications.


def test_a_notification_without_decorator_is_refused_when_it_is_encoded() -> None:
    class Bare(Notification):
        number: int = 1

    with pytest.raises(AgentError, match=r"Bare: decorate the class with @attrs\.frozen"):
        encode(Bare())


def test_a_notification_without_decorator_is_refused_by_the_reaction_that_names_it() -> None:
    class Bare(Notification):
        number: int = 1

    with pytest.raises(AgentError, match=r"Bare: decorate the class with @attrs\.frozen"):

        @reacts
        def bare(self: Any, ctx: Context, note: Bare) -> None: ...


def test_a_subclass_of_a_notification_needs_its_own_decorator() -> None:
    class Louder(Ping):
        pass

    with pytest.raises(AgentError, match=r"Louder: decorate the class with @attrs\.frozen"):
        encode(Louder(1))


def test_fields_of_a_base_without_decorator_are_refused_when_first_encoded() -> None:
    class Base(Notification):
        number: int = 1

    @attrs.frozen
    class Sub(Base):
        text: str = ""

    with pytest.raises(AgentError, match=r"Base: decorate the class with @attrs\.frozen"):
        encode(Sub())


def test_a_base_without_fields_needs_no_decorator() -> None:
    class Base(Notification):
        limit: ClassVar[int] = 5

    @attrs.frozen
    class Sub(Base):
        text: str = ""

    assert decode(Sub, encode(Sub("x"))) == Sub("x")


def test_a_notification_that_can_be_changed_is_refused_when_it_is_defined() -> None:
    with pytest.raises(AgentError, match=r"Loose can be changed.*decorate the class with @attrs\.frozen"):

        @attrs.define
        class Loose(Notification):
            number: int


def test_a_notification_without_slots_that_can_be_changed_is_refused_when_it_is_encoded() -> None:
    @attrs.define(slots=False)
    class Loose(Notification):
        number: int

    with pytest.raises(AgentError, match=r"Loose can be changed.*decorate the class with @attrs\.frozen"):
        encode(Loose(1))


def test_a_dataclass_and_a_struct_are_notifications_if_frozen() -> None:
    @dataclasses.dataclass(frozen=True)
    class Data(Notification):
        number: int

    @dataclasses.dataclass
    class LooseData(Notification):
        number: int

    class Record(msgspec.Struct, Notification, frozen=True):
        number: int

    class LooseRecord(msgspec.Struct, Notification):
        number: int

    assert decode(Data, encode(Data(1))) == Data(1)
    assert decode(Record, encode(Record(1))) == Record(1)
    for loose in (LooseData(1), LooseRecord(1)):
        with pytest.raises(AgentError, match="can be changed"):
            encode(loose)


def test_a_private_field_is_refused_when_the_notification_is_defined() -> None:
    with pytest.raises(
        AgentError, match=r"Secret: the value of _token would not be sent.*without underscore"
    ):

        class Secret(Notification):
            _token: str = "default"


def test_a_private_field_without_annotation_is_refused_when_the_notification_is_defined() -> None:
    with pytest.raises(AgentError, match="the value of _token would not be sent"):

        @attrs.frozen
        class Secret(Notification):
            _token = attrs.field(default="default")


def test_a_private_field_of_a_value_in_a_notification_is_refused_when_it_is_encoded() -> None:
    @attrs.frozen
    class Inner:
        _secret: int = 0

    @attrs.frozen
    class Outer(Notification):
        inner: list[Inner]

    with pytest.raises(AgentError, match=r"Inner\._secret would be lost"):
        encode(Outer([Inner(1)]))


def test_a_private_class_variable_is_no_field() -> None:
    @attrs.frozen
    class Cached(Notification):
        _cache: ClassVar[dict[str, int]] = {}
        _text: "ClassVar[str]" = ""
        number: int

    assert decode(Cached, encode(Cached(1))) == Cached(1)


@pytest.mark.parametrize("field", ["type_name", "type_names"])
def test_a_field_named_like_an_attribute_of_the_base_is_refused_when_defined(field: str) -> None:
    with pytest.raises(AgentError, match=f"{field} holds the name of the class; give the field another name"):
        type("Typed", (Notification,), {"__annotations__": {field: str}})
    with pytest.raises(AgentError, match=f"{field} holds the name of the class"):
        type("Typed", (Notification,), {field: "bank.typed"})


@pytest.mark.parametrize("depth", [MAX_NESTING - 1, 500, 5_000])
def test_a_value_nested_too_deep_is_a_type_error_that_names_the_notification(depth: int) -> None:
    with pytest.raises(TypeError, match="Tree cannot be encoded"):
        encode(Tree(nested(depth)))


def test_a_value_nested_up_to_the_bound_is_encoded_and_decoded() -> None:
    tree = Tree(nested(MAX_NESTING - 2))
    assert decode(Tree, encode(tree)) == tree


@attrs.frozen
class Inner:
    numbers: dict[str, int]


@attrs.frozen
class Order(Notification):
    amount: int = 0
    text: str = ""
    items: list[Inner] = attrs.Factory(list[Inner])
    anything: object = None


@pytest.mark.parametrize(
    ("order", "kind", "sentence"),
    [
        (
            Order(amount=2**64),
            ValueError,
            r"its field amount is an integer of more than 64 bits; give one from",
        ),
        (Order(text="a\ud800b"), ValueError, r"its field text is 'a\\ud800b', which has half of a surrogate"),
        (
            Order(items=[Inner({}), Inner({"x": -(2**70)})]),
            ValueError,
            r"items\[1\]\.numbers\['x'\] is an int",
        ),
        (
            Order(anything=[1, object]),
            TypeError,
            r"anything\[1\] is <class 'object'>, a type; use numbers, text",
        ),
        (Order(anything={2j: 1}), TypeError, r"anything \(a key of it\) is 2j, a complex"),
        (Order(anything={"\udc80"}), ValueError, r"anything \(an element of it\) is '\\udc80'"),
    ],
)
def test_a_value_that_cannot_be_encoded_is_refused_by_the_name_of_its_field(
    order: Order, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(
        kind, match=f"Order cannot be encoded: its field {sentence.removeprefix('its field ')}"
    ):
        encode(order)


def test_a_list_that_contains_itself_is_refused_by_the_name_of_its_field() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TypeError, match=r"Order cannot be encoded: its field anything.* nested"):
        encode(Order(anything=loop))


@pytest.mark.parametrize("kind", [Any, list[Any], dict[str, Any] | None])
def test_a_field_of_any_type_is_refused_when_the_notification_is_defined(kind: Any) -> None:
    plain = type("Loose", (Notification,), {"__annotations__": {"value": kind}})
    with pytest.raises(AgentError, match=r"Loose: value may be of any type.*name the types"):
        attrs.frozen(plain)


def test_a_field_of_any_type_within_a_notification_is_refused_when_it_is_sent() -> None:
    @attrs.frozen
    class Line:
        value: Any

    @attrs.frozen
    class Lines(Notification):
        lines: list[Line]

    with pytest.raises(AgentError, match="Lines: lines may be of any type"):
        encode(Lines([Line(1)]))


# Agents.


@pytest.mark.parametrize("kind", [Any, list[Any], dict[str, Any] | None, Optional[tuple[int, Any]]])  # noqa: UP045
def test_an_attribute_of_any_type_is_refused_when_the_agent_is_defined(kind: Any) -> None:
    with pytest.raises(AgentError, match=r"Loose: value may be of any type.*name the types"):
        type("Loose", (Agent,), {"__annotations__": {"value": kind}})


def test_an_attribute_of_any_type_is_refused_when_its_annotation_is_text() -> None:
    @attrs.define
    class Loose(Agent):
        value: "list[Any]"

        @reacts
        def ping(self, ctx: Context, note: Ping) -> None: ...

    with pytest.raises(AgentError, match="Loose: value may be of any type"):
        agent_spec(Loose)


def test_an_attribute_of_any_type_within_the_state_is_refused() -> None:
    @attrs.frozen
    class Line:
        value: Any

    @attrs.define
    class Loose(Agent):
        lines: list[Line]

        @reacts
        def ping(self, ctx: Context, note: Ping) -> None: ...

    with pytest.raises(AgentError, match="Loose: lines may be of any type"):
        agent_spec(Loose)


def test_an_agent_that_cannot_be_changed_is_refused_when_it_is_defined() -> None:
    with pytest.raises(AgentError, match=r"Stone cannot be changed.*decorate the class with @attrs\.define"):

        @attrs.frozen
        class Stone(Agent):
            number: int = 0


def test_an_agent_without_slots_that_cannot_be_changed_is_refused_when_it_is_examined() -> None:
    @attrs.frozen(slots=False)
    class Stone(Agent):
        number: int = 0

        @reacts
        def ping(self, ctx: Context, note: Ping) -> None: ...

    with pytest.raises(AgentError, match=r"Stone cannot be changed.*decorate the class with @attrs\.define"):
        agent_spec(Stone)


def test_a_class_in_place_of_its_object_and_a_text_in_place_of_a_class_are_named() -> None:
    with pytest.raises(TypeError, match=r"Ping is a class; give an object of it: Ping\(\.\.\.\)"):
        encode(Ping)  # type: ignore[arg-type]
    with pytest.raises(AgentError, match="'bank:Account' is text; give the class itself"):
        agent_spec("bank:Account")  # type: ignore[arg-type]
