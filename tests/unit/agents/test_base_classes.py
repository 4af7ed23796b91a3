"""Agent classes that derive from each other: what is inherited, replaced, dropped and refused."""

from typing import Any, ClassVar

import attrs
import pytest

from quorate import Agent, AgentError, Context, ExceptionNotification, Notification, reacts
from quorate.agents import agent_spec
from quorate.testing import Harness


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Reset(Notification):
    pass


@attrs.frozen
class Total(Notification):
    number: int


@attrs.define
class Counter(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        ctx.send(ctx.sender, Total(self.total))


class Resettable:
    """Reactions that several classes share."""

    total: int

    @reacts
    def reset(self, ctx: Context, note: Reset) -> None:
        self.total = 0
        ctx.send(ctx.sender, Total(0))


@attrs.define
class Limited(Resettable, Counter):
    limit: int = 5

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.number > self.limit:
            raise ValueError("more than the limit")
        super().add(ctx, note)


@attrs.define
class Silent(Resettable, Counter):
    add = None  # type: ignore[assignment]


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    for cls in (Counter, Limited, Silent):
        harness.deploy(cls, name=cls.__name__)
    return harness


def failure(harness: Harness, to: str, note: Notification) -> str:
    (answer,) = harness.send(to, note)
    assert isinstance(answer, ExceptionNotification)
    return answer.error


def test_a_replaced_reaction_calls_the_former_one_with_its_state(harness: Harness) -> None:
    assert harness.send("Limited", Add(3)) == [Total(3)]
    assert failure(harness, "Limited", Add(6)) == "ValueError"
    assert harness.agent("Limited") == Limited(total=3, limit=5)


def test_reactions_of_a_class_that_is_no_agent_are_shared(harness: Harness) -> None:
    harness.send("Limited", Add(3))
    assert harness.send("Limited", Reset()) == [Total(0)]
    assert failure(harness, "Counter", Reset()) == "Unhandled"


def test_a_reaction_that_is_set_to_none_is_dropped(harness: Harness) -> None:
    assert failure(harness, "Silent", Add(1)) == "Unhandled"
    assert harness.send("Silent", Reset()) == [Total(0)]


def refusal(namespace: dict[str, Any]) -> str:
    with pytest.raises(AgentError) as caught:
        agent_spec(attrs.define(type("Derived", (Counter,), {"__module__": __name__, **namespace})))
    return str(caught.value)


def test_a_method_that_replaces_a_reaction_without_the_mark_is_refused() -> None:
    def add(self: Any, ctx: Context, note: Add) -> None: ...

    assert "replaces a reaction of Counter: mark it with @reacts, too" in refusal({"add": add})


def test_a_second_reaction_to_an_inherited_class_is_refused() -> None:
    @reacts
    def more(self: Any, ctx: Context, note: Add) -> None: ...

    assert "add reacts to Add already; keep one of them" in refusal({"more": more})


def test_a_method_that_hides_a_reaction_to_something_else_is_refused() -> None:
    @reacts
    def add(self: Any, ctx: Context, note: Reset) -> None: ...

    sentence = refusal({"add": add})
    assert "add hides add of Counter, which reacts to Add: that reaction would be lost" in sentence


def test_two_bases_with_one_name_for_two_reactions_are_refused() -> None:
    class Other:
        @reacts
        def add(self, ctx: Context, note: Reset) -> None: ...

    with pytest.raises(AgentError, match="hides add of Other, which reacts to Reset"):
        agent_spec(attrs.define(type("Both", (Counter, Other), {"__module__": __name__})))


def test_a_reaction_may_take_more_than_the_one_that_it_replaces() -> None:
    @reacts
    def add(self: Any, ctx: Context, note: Add | Reset) -> None: ...

    derived = attrs.define(type("Derived", (Counter,), {"__module__": __name__, "add": add}))
    assert set(agent_spec(derived).handlers) == {Add.type_name, Reset.type_name}


def test_an_attribute_of_a_base_that_would_be_lost_is_refused() -> None:
    class Named:
        nickname: str = ""

    with pytest.raises(AgentError, match="nickname of its base Named is no part of the state") as caught:
        agent_spec(attrs.define(type("Derived", (Counter, Named), {"__module__": __name__})))
    assert "decorate Named with @attrs.define, or annotate nickname in Derived, too" in str(caught.value)


def test_a_class_variable_of_a_base_is_no_part_of_the_state() -> None:
    class Labelled:
        label: ClassVar[str] = "counter"

    derived = attrs.define(type("Derived", (Counter, Labelled), {"__module__": __name__}))
    assert agent_spec(derived).attributes == ("total",)
