"""An agent that sends its client more than it takes for a while: for servers, and for their clients."""

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Start(Notification, name="feed.start"):
    count: int


@attrs.frozen
class Large(Notification, name="feed.large"):
    parts: int


@attrs.frozen
class Tick(Notification, name="feed.tick"):
    number: int


@attrs.frozen
class Chunk(Notification, name="feed.chunk"):
    data: bytes


@attrs.frozen
class Done(Notification, name="feed.done"):
    pass


@attrs.define
class Feed(Agent):
    number: int = 0

    @reacts
    def start(self, ctx: Context, note: Start) -> None:
        for _ in range(note.count):
            self.number += 1
            ctx.send(ctx.sender, Tick(self.number))
        ctx.send(ctx.reply_to, Done())

    @reacts
    def large(self, ctx: Context, note: Large) -> None:
        for _ in range(note.parts):
            ctx.send(ctx.sender, Chunk(bytes(1_000_000)))
        ctx.send(ctx.reply_to, Done())
