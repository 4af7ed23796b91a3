"""Agents that are told when a client's connection ends."""

import attrs
import pytest

from quorate import Agent, AgentId, Context, ExceptionNotification, Notification, UnknownAgent, reacts
from quorate.agents import FIRST_CONNECTION_STAMP, agent_spec, connection_manager, factory, outside
from quorate.agents import proxy as proxies
from quorate.agents.builtin import Create
from quorate.agents.manager import ConnectionManagerAgent, Open, Opened
from quorate.agents.proxy import CloseConnection, ConnectionEnded, WatchConnection
from quorate.testing.harness import Harness

PROXY = AgentId(0, 0, FIRST_CONNECTION_STAMP)


@attrs.frozen
class Watch(Notification):
    times: int = 1


@attrs.define
class Watcher(Agent):
    """Watches a connection, and keeps what it is told."""

    told: list[str] = attrs.field(factory=list[str])

    @reacts
    def watch(self, ctx: Context, note: Watch) -> None:
        for _ in range(note.times):
            ctx.send(PROXY, WatchConnection())

    @reacts
    def hear(self, ctx: Context, note: ConnectionEnded | UnknownAgent | ExceptionNotification) -> None:
        assert ctx.sender in (PROXY, outside(0))
        self.told.append(type(note).__name__)


def _watcher(harness: Harness, name: str) -> Watcher:
    agent = harness.agent(name)
    assert isinstance(agent, Watcher)
    return agent


@pytest.fixture
def harness() -> Harness:
    """Return a server with a client's connection and two agents that may watch it."""
    harness = Harness()
    harness.send(factory(0), Create(agent_spec(ConnectionManagerAgent).location, id=connection_manager(0)))
    assert Opened(PROXY) in harness.send(connection_manager(0), Open("u", 60.0, 10))
    harness.deploy(Watcher, name="one")
    harness.deploy(Watcher, name="two")
    return harness


def test_each_watching_agent_is_told_once_when_the_connection_ends(harness: Harness) -> None:
    harness.send("one", Watch(times=3))
    harness.send("two", Watch())
    assert (_watcher(harness, "one").told, _watcher(harness, "two").told) == ([], [])
    harness.send(PROXY, CloseConnection())
    assert (_watcher(harness, "one").told, _watcher(harness, "two").told) == (
        ["ConnectionEnded"],
        ["ConnectionEnded"],
    )


def test_an_agent_that_watches_too_late_learns_that_the_connection_is_over(harness: Harness) -> None:
    harness.send(PROXY, CloseConnection())
    harness.send("one", Watch())
    assert _watcher(harness, "one").told == ["UnknownAgent"]


def test_no_more_agents_watch_than_a_proxy_can_tell(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "MAX_WATCHERS", 1)
    harness.send("one", Watch(times=2))
    harness.send("two", Watch())
    assert _watcher(harness, "two").told == ["ExceptionNotification"]
    harness.send(PROXY, CloseConnection())
    assert _watcher(harness, "one").told == ["ConnectionEnded"]
