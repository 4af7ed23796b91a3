"""Reactions whose state or outputs cannot be encoded: they are undone, and nothing else is."""

import attrs
import pytest

from quorate import (
    Agent,
    AgentError,
    Context,
    ExceptionNotification,
    Notification,
    ReplyTo,
    UnknownAgent,
    reacts,
)
from quorate.testing.harness import Harness


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int


@attrs.frozen
class Go(Notification):
    n: int = 0


@attrs.frozen
class Reach(Notification):
    """Sent nowhere."""


@attrs.define
class Account(Agent):
    balance: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        self.balance += note.amount
        ctx.send(ctx.sender, Balance(self.balance))


@attrs.define
class Careless(Agent):
    """Leaves states that cannot be stored."""

    total: int = 0
    text: str = ""
    ballast: str = ""

    @reacts
    def add(self, ctx: Context, note: Deposit) -> None:
        self.total += note.amount

    @reacts
    def spoil(self, ctx: Context, note: Go) -> None:
        self.text = note.n  # type: ignore[assignment]


@pytest.mark.parametrize("ballast", [0, 4000])
def test_a_state_that_cannot_be_stored_is_undone_with_its_reaction(ballast: int) -> None:
    harness = Harness()
    harness.deploy(Careless, name="careless", ballast="x" * ballast)
    harness.send("careless", Deposit(2**63))
    answers = [harness.send("careless", Deposit(2**63)) for _ in range(200)]
    careless = harness.agent("careless")
    assert isinstance(careless, Careless)
    assert all(isinstance(found, ExceptionNotification) for (found,) in answers)
    assert careless.total == 2**63
    assert harness.engine.snapshot()
    (answer,) = harness.send("careless", Go(n=5))
    assert isinstance(answer, ExceptionNotification)
    assert "can no longer be stored" in answer.message
    careless = harness.agent("careless")
    assert isinstance(careless, Careless)
    assert careless.text == ""


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@attrs.define
class Reckless(Agent):
    """Asks for what cannot be encoded."""

    asked: int = 0

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        self.asked += 1
        if note.n == 1:
            ctx.timer(1e12, Reach())
        elif note.n == 2:
            ctx.send(ReplyTo(ctx.agent, 2**64), Reach())
        elif note.n == 3:
            ctx.cancel(2**70)
        elif note.n == 4:
            ctx.send(None, Reach())  # type: ignore[arg-type]
        elif note.n == 5:
            raise Mute
        elif note.n == 6:
            raise KeyboardInterrupt


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_a_reaction_that_asks_for_the_impossible_is_undone_and_the_entry_goes_on(n: int) -> None:
    harness = Harness()
    harness.deploy(Reckless, name="reckless")
    harness.deploy(Account, name="alice")
    effects = harness.post(harness.note("reckless", Go(n=n)), harness.note("alice", Deposit(1)))
    failure, balance = harness.decoded(effects.replies)
    assert isinstance(failure, ExceptionNotification)
    assert balance == Balance(1)
    reckless = harness.agent("reckless")
    assert isinstance(reckless, Reckless)
    assert reckless.asked == 0


def test_an_agent_whose_defaults_cannot_be_stored_is_refused() -> None:
    @attrs.define
    class Huge(Agent):
        number: int = 2**70

        @reacts
        def go(self, ctx: Context, note: Go) -> None: ...

    with pytest.raises(AgentError, match="serialize"):
        Harness().deploy(Huge)


def test_an_address_of_any_length_does_not_stay_in_memory() -> None:
    harness = Harness()
    name = "x" * 100_000
    assert harness.send(name, Go()) == [UnknownAgent(name, Go.type_name)]
    assert harness.send(name + "@s0", Go()) == [UnknownAgent(name + "@s0", Go.type_name)]
    assert not harness.engine.find(name)
