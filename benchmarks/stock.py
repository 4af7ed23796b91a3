"""Agents with any amount of state, for the benchmarks of servers."""

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Fill(Notification):
    """Request to make agents."""

    count: int
    size_bytes: int


@attrs.frozen
class Filled(Notification):
    """Answer to `Fill`."""


@attrs.frozen
class Touch(Notification):
    """Request to change an agent."""

    number: int
    text: str = ""
    """Padding."""


@attrs.define
class Item(Agent):
    """An agent with some state: a table, and how often it was touched."""

    table: dict[str, str] = attrs.field(factory=dict)
    touched: int = 0

    @reacts
    def touch(self, ctx: Context, note: Touch) -> None:
        """Change one entry of the table."""
        del ctx
        self.touched += 1
        self.table[f"key{note.number % 100}"] = f"{note.number:099}"


@attrs.define
class Stock(Agent):
    """An agent that makes items and touches them in turn."""

    made: int = 0
    touched: int = 0

    @reacts
    def fill(self, ctx: Context, note: Fill) -> None:
        """Create items."""
        table = {f"key{number}": f"{number:099}" for number in range(max(1, note.size_bytes // 108))}
        for _ in range(note.count):
            ctx.create(Item, name=f"item{self.made}", state={"table": table})
            self.made += 1
        ctx.send(ctx.sender, Filled())

    @reacts
    def touch(self, ctx: Context, note: Touch) -> None:
        """Touch the next item."""
        self.touched += 1
        if self.made:
            ctx.send(f"item{self.touched * 7919 % self.made}", note)
