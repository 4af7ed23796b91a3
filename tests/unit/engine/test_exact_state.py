"""After a reaction an agent is as another replica would load it from its saved state."""

import attrs

from quorate import Agent, Context, Notification, reacts
from quorate.testing import Harness


@attrs.frozen
class Learn(Notification):
    """Changes an agent."""


@attrs.define
class Measure(Agent):
    """Leaves an integer where a float is declared."""

    value: float = 0.5

    @reacts
    def learn(self, ctx: Context, note: Learn) -> None:
        """Set an integer."""
        del ctx, note
        self.value = 3


@attrs.define(slots=False)
class Hoarder(Agent):
    """Keeps something beside its state."""

    count: int = 0

    @reacts
    def learn(self, ctx: Context, note: Learn) -> None:
        """Count, and keep an attribute that is not declared."""
        del ctx, note
        self.count += 1
        self.__dict__["hidden"] = self.__dict__.get("hidden", 0) + 1
        if self.__dict__["hidden"] > 1:
            raise RuntimeError("what no other replica has was still there")


@attrs.define
class Plain(Agent):
    """Has nothing but values that are loaded as they were saved."""

    count: int = 0
    note: str | None = None
    fails: bool = False

    @reacts
    def learn(self, ctx: Context, note: Learn) -> None:
        """Count, and raise the second time, with a changed state."""
        del ctx, note
        self.count += 1
        self.note = f"reaction {self.count}"
        if self.count == 2 and not self.fails:
            raise RuntimeError("undo this")


def test_a_value_of_another_type_is_converted_after_the_reaction() -> None:
    harness = Harness()
    harness.deploy(Measure, name="m")
    harness.send("m", Learn())
    found = harness.agent("m")
    assert isinstance(found, Measure)
    assert type(found.value) is float


def test_what_is_no_part_of_the_state_is_gone_after_the_reaction() -> None:
    harness = Harness()
    harness.deploy(Hoarder, name="h")
    for _ in range(3):
        harness.send("h", Learn())
    found = harness.agent("h")
    assert isinstance(found, Hoarder)
    assert found.count == 3


def test_a_reaction_of_a_plain_agent_is_undone() -> None:
    harness = Harness()
    harness.deploy(Plain, name="p")
    for _ in range(3):
        harness.send("p", Learn())
    found = harness.agent("p")
    assert isinstance(found, Plain)
    assert (found.count, found.note) == (1, "reaction 1")
