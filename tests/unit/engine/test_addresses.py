"""Addresses, and numbers, of the wrong type: they could be written, and nobody could read them."""

from typing import Any

import attrs
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, ReplyTo, reacts
from quorate.agents import AgentId
from quorate.engine import NetInput
from quorate.testing.harness import Harness

AWAY = AgentId(0, 1, 1025)
HALF = "caf\udce9@s1"


@attrs.frozen
class Try(Notification):
    number: int


ATTEMPTS: list[Any] = [
    lambda ctx: ctx.send(AgentId(0, 1, 1.5), Try(0)),
    lambda ctx: ctx.send(AgentId(0, 1, "x"), Try(0)),
    lambda ctx: ctx.send(AgentId(None, 1, 1025), Try(0)),
    lambda ctx: ctx.send(AgentId(0, 1.0, 1025), Try(0)),
    lambda ctx: ctx.send(AgentId(0, 1, True), Try(0)),
    lambda ctx: ctx.send(AgentId([1], 1, 1025), Try(0)),
    lambda ctx: ctx.send(AgentId(0, 1, 2**63), Try(0)),
    lambda ctx: ctx.send(AgentId(0, 1, -1), Try(0)),
    lambda ctx: ctx.send(HALF, Try(0)),
    lambda ctx: ctx.send(ReplyTo(AWAY, 3.5), Try(0)),
    lambda ctx: ctx.send(ReplyTo(AgentId(0, 1, 1.5), 3), Try(0)),
    lambda ctx: ctx.send(ReplyTo(7, 3), Try(0)),
    lambda ctx: ctx.forward(AWAY, 5, b""),
    lambda ctx: ctx.forward(AWAY, "a:B", "text"),
    lambda ctx: ctx.forward(AWAY, "a:B", bytearray(1)),
    lambda ctx: ctx.forward(AWAY, "a:B", b"", "1"),
    lambda ctx: ctx.forward(AWAY, "a:B", b"", 2**64 - 1),
    lambda ctx: ctx.forward(AWAY, "a:\ud800", b""),
    lambda ctx: ctx.cancel([1]),
    lambda ctx: ctx.cancel("1"),
    lambda ctx: ctx.create(Careless, name=5),
]


@attrs.define
class Careless(Agent):
    reactions: int = 0

    @reacts
    def go(self, ctx: Context, note: Try) -> None:
        self.reactions += 1
        ctx.timer(5.0, Try(0))
        ATTEMPTS[note.number](ctx)
        ctx.send("neighbour@s1", Try(0))


@pytest.mark.parametrize("number", range(len(ATTEMPTS)))
def test_the_reaction_fails_and_leaves_nothing(number: int) -> None:
    harness = Harness(0, {"s0": 0, "s1": 1})
    harness.apply(NetInput(1, 7, 1, []))
    harness.deploy(Careless, name="careless")
    effects = harness.post(harness.note("careless", Try(number)))
    (answer,) = harness.decoded(effects.replies)
    assert isinstance(answer, ExceptionNotification)
    assert answer.error in ("TypeError", "ValueError", "UnicodeEncodeError")
    assert effects.network == {}
    careless = harness.agent("careless")
    assert isinstance(careless, Careless)
    assert careless.reactions == 0
    # Whoever gets the state can read it.
    Harness(0, {"s0": 0, "s1": 1}).engine.restore(harness.engine.snapshot())
