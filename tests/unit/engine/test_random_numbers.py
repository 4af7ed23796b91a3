"""Random numbers of a reaction are seeded by its position among the reactions of the server."""

import attrs

from quorate import Agent, Context, Notification, reacts
from quorate.testing.harness import Harness


@attrs.frozen
class Go(Notification):
    n: int = 0


@attrs.define
class Dice(Agent):
    rolls: list[float] = attrs.field(factory=list)

    @reacts
    def roll(self, ctx: Context, note: Go) -> None:
        self.rolls += [ctx.random.random(), ctx.random.random()]
        if note.n:
            ctx.timer(1.0, Go())
            ctx.send("other", Go())


def test_random_numbers_differ_between_reactions_and_not_with_how_they_are_batched() -> None:
    def rolls(entries: list[int]) -> list[float]:
        harness = Harness()
        for name in ("dice", "other"):
            harness.deploy(Dice, name=name)
        for count in entries:
            harness.post(*[harness.note("dice", Go(n=1))] * count)
        harness.advance(1.0)
        agents = [harness.agent(name) for name in ("dice", "other")]
        return [roll for agent in agents if isinstance(agent, Dice) for roll in agent.rolls]

    together = rolls([3])
    assert len(together) == len(set(together)) == 18
    assert together == rolls([1, 1, 1]) == rolls([2, 1])
