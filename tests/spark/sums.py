"""An agent that the rows of a frame are sent to, and a cluster for it."""

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Add(Notification):
    number: int
    label: str = ""


@attrs.frozen
class AskSum(Notification):
    pass


@attrs.frozen
class Sum(Notification):
    count: int
    total: int
    falls: int
    """How often a number was followed by a smaller one of the same label."""


@attrs.define
class Adder(Agent):
    count: int = 0
    total: int = 0
    falls: int = 0
    last: dict[str, int] = attrs.field(factory=dict[str, int])

    @reacts
    def add(self, _: Context, note: Add) -> None:
        if note.number < 0:
            raise ValueError("a number is at least 0")
        self.count += 1
        self.total += note.number
        self.falls += note.number < self.last.get(note.label, 0)
        self.last[note.label] = note.number

    @reacts
    def ask(self, ctx: Context, _: AskSum) -> None:
        ctx.send(ctx.sender, Sum(self.count, self.total, self.falls))
