"""More for a client than it takes for a while, with real processes."""

import attrs
import pytest

from quorate.agents import Notification
from quorate.client import SessionSettings, connect

from .conftest import MakeSite
from .replicas import Part
from .running import BOUND_S

pytestmark = pytest.mark.processes

FEED = """
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
"""


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


def test_everything_arrives_at_a_client_that_computes_meanwhile(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3), modules={"feed": FEED})
    site.deploy("feed:Feed", name="feed")
    tuning = SessionSettings(inbox_notes=10_000)
    with connect(site.url(), user="root", password="root", settings=tuning) as connection:
        # The client receives nothing yet, and is answered all the same.
        for _ in range(72):
            connection.request("feed", Start(1000), reply=Done, timeout=BOUND_S)
        site.kill(site.master())
        connection.request("feed", Large(6), reply=Done, timeout=BOUND_S)
        numbers = [connection.receive(BOUND_S).notification.number for _ in range(72_000)]
        assert numbers == list(range(1, 72_001))
        parts = [connection.receive(BOUND_S).notification.data for _ in range(6)]
        assert [len(part) for part in parts] == [1_000_000] * 6
        assert connection.inbox_dropped == 0
