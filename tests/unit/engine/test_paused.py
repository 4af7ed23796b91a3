"""Agents that are paused: what is sent to them waits, until they are resumed."""

import attrs
import pytest

from quorate import Agent, AgentId, Context, Delete, Deleted, ExceptionNotification, Notification, reacts
from quorate.agents import Pause, Paused, Resume, Resumed, UnknownAgent, connection_manager, factory
from quorate.engine import EngineSettings
from quorate.testing.harness import Harness

FACTORY = factory(0)


@attrs.frozen
class Add(Notification):
    number: int
    later_s: float = 0.0


@attrs.frozen
class Total(Notification):
    amount: int


@attrs.frozen
class Relay(Notification):
    to: str
    numbers: list[int]


@attrs.define
class Sum(Agent):
    seen: list[int] = attrs.field(factory=list[int])
    failures: list[str] = attrs.field(factory=list[str])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.later_s:
            ctx.timer(note.later_s, Add(note.number))
        else:
            self.seen.append(note.number)
            ctx.send(ctx.sender, Total(sum(self.seen)))

    @reacts
    def relay(self, ctx: Context, note: Relay) -> None:
        for number in note.numbers:
            ctx.send(note.to, Add(number))

    @reacts
    def answered(self, ctx: Context, note: Total) -> None: ...

    @reacts
    def failed(self, ctx: Context, note: ExceptionNotification | UnknownAgent) -> None:
        self.failures.append(type(note).__name__)


@pytest.fixture
def harness() -> Harness:
    harness = Harness(settings=EngineSettings(max_held=5, max_all_held=8, max_turn=20))
    for name in ("alice", "bob", "carol"):
        harness.deploy(Sum, name=name)
    return harness


def seen(harness: Harness, name: str) -> list[int]:
    agent = harness.agent(name)
    assert isinstance(agent, Sum)
    return agent.seen


def failures(harness: Harness, name: str) -> list[str]:
    agent = harness.agent(name)
    assert isinstance(agent, Sum)
    return agent.failures


def pause(harness: Harness, name: str) -> None:
    assert isinstance(harness.send(FACTORY, Pause(name))[0], Paused)


def copy_of(harness: Harness) -> Harness:
    """A replica that has received the state of this one."""
    other = Harness(settings=harness.engine.settings)
    other.know(Sum)
    other.engine.restore(harness.engine.snapshot())
    other.now_ns = harness.now_ns
    return other


def test_a_paused_agent_reacts_to_what_waited_in_its_order_once_resumed(harness: Harness) -> None:
    pause(harness, "alice")
    assert harness.send("alice", Add(1)) == []
    harness.send("bob", Relay("alice", [2, 3]))
    assert seen(harness, "alice") == []
    answers = harness.send(FACTORY, Resume("alice"))
    assert answers == [Resumed(AgentId(0, 0, 1025), 3), Total(1)]
    assert seen(harness, "alice") == [1, 2, 3]
    assert harness.send("alice", Add(4)) == [Total(10)]


def test_what_waits_comes_before_what_the_turn_of_the_resumption_sends(harness: Harness) -> None:
    pause(harness, "alice")
    harness.send("alice", Add(1))
    harness.post(harness.note(FACTORY, Resume("alice")), harness.note("alice", Add(2)))
    assert seen(harness, "alice") == [1, 2]


def test_a_replica_that_receives_the_state_goes_on_with_the_paused_agents(harness: Harness) -> None:
    pause(harness, "alice")
    harness.send("alice", Add(1))
    other = copy_of(harness)
    assert other.engine.digest() == harness.engine.digest()
    for each in (harness, other):
        each.send("alice", Add(2))
    assert other.engine.digest() == harness.engine.digest()
    other.send(FACTORY, Resume("alice"))
    assert seen(other, "alice") == [1, 2]


def test_timers_of_a_paused_agent_wait_even_beyond_the_bound(harness: Harness) -> None:
    for number in range(7):
        harness.send("alice", Add(number, later_s=1.0 + number))
    pause(harness, "alice")
    harness.advance(60)
    assert seen(harness, "alice") == []
    harness.send(FACTORY, Resume("alice"))
    assert seen(harness, "alice") == list(range(7))


def test_too_many_notifications_for_one_paused_agent_are_refused_to_the_sender(harness: Harness) -> None:
    pause(harness, "alice")
    harness.send("bob", Relay("alice", list(range(6))))
    assert failures(harness, "bob") == ["ExceptionNotification"]
    refused = harness.send("alice", Add(9))[0]
    assert isinstance(refused, ExceptionNotification)
    assert refused.error == "Backlog"
    assert "is paused, and 5 notifications" in refused.message


def test_too_many_notifications_for_all_paused_agents_are_refused(harness: Harness) -> None:
    pause(harness, "alice")
    pause(harness, "carol")
    harness.send("bob", Relay("alice", list(range(5))))
    harness.send("bob", Relay("carol", list(range(5))))
    assert failures(harness, "bob") == ["ExceptionNotification"] * 2
    harness.send(FACTORY, Resume("carol"))
    assert seen(harness, "carol") == [0, 1, 2]


def test_the_senders_to_a_deleted_paused_agent_are_told(harness: Harness) -> None:
    pause(harness, "alice")
    harness.send("bob", Relay("alice", [1, 2]))
    assert isinstance(harness.send(FACTORY, Delete("alice"))[0], Deleted)
    assert failures(harness, "bob") == ["UnknownAgent"] * 2
    assert harness.engine.paused_agents == 0
    harness.deploy(Sum, name="alice")
    assert harness.send("alice", Add(1)) == [Total(1)]


def test_a_resumption_of_many_that_wait_is_no_runaway_turn() -> None:
    harness = Harness(settings=EngineSettings(max_turn=10))
    harness.deploy(Sum, name="alice")
    pause(harness, "alice")
    for number in range(100):
        harness.send("alice", Add(number))
    harness.send(FACTORY, Resume("alice"))
    assert seen(harness, "alice") == list(range(100))
    assert harness.engine.dead_letters == 0


@attrs.define
class Spreader(Agent):
    """Tells each number to two others, and what it gets itself to itself once more, as long as it is even."""

    seen: list[int] = attrs.field(factory=list[int])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.seen.append(note.number)
        ctx.send("bob", note)
        ctx.send("carol", note)
        if note.number == 0:
            ctx.send(ctx.agent, note)

    @reacts
    def answered(self, ctx: Context, note: Total) -> None: ...


def test_what_follows_from_each_notification_that_waited_has_the_bound_of_a_turn() -> None:
    harness = Harness(settings=EngineSettings(max_turn=10))
    for name in ("bob", "carol"):
        harness.deploy(Sum, name=name)
    harness.deploy(Spreader, name="spreader")
    pause(harness, "spreader")
    for number in range(1, 101):
        harness.send("spreader", Add(number))
    assert isinstance(harness.send(FACTORY, Resume("spreader"))[0], Resumed)
    assert seen(harness, "bob") == seen(harness, "carol") == list(range(1, 101))
    assert harness.engine.dead_letters == 0
    assert harness.engine.paused_agents == 0


def test_an_agent_that_sends_to_itself_for_ever_stays_paused_and_loses_nothing() -> None:
    harness = Harness(settings=EngineSettings(max_turn=10))
    for name in ("bob", "carol"):
        harness.deploy(Sum, name=name)
    harness.deploy(Spreader, name="spreader")
    pause(harness, "spreader")
    harness.send("spreader", Add(0))
    harness.send(FACTORY, Resume("spreader"))
    assert harness.engine.paused_agents == 1
    assert "stays paused, with" in harness.reports[-1]
    assert harness.engine.dead_letters == 0


def test_pausing_again_while_what_waited_is_delivered_keeps_the_rest(harness: Harness) -> None:
    harness.deploy(Breaker, name="breaker")
    pause(harness, "breaker")
    for number in (1, 2, 3):
        harness.send("breaker", Add(number))
    harness.send(FACTORY, Resume("breaker"))
    breaker = harness.agent("breaker")
    assert isinstance(breaker, Breaker)
    assert breaker.seen == [1]
    harness.send(FACTORY, Resume("breaker"))
    assert breaker.seen == [1, 2]


@attrs.define
class Breaker(Agent):
    """Pauses itself after each number."""

    seen: list[int] = attrs.field(factory=list[int])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.seen.append(note.number)
        ctx.send(factory(0), Pause("breaker"))

    @reacts
    def paused(self, ctx: Context, note: Paused) -> None: ...


@attrs.define
class Pauser(Agent):
    """Pauses and resumes a sum for ever."""

    rounds: int = 0

    @reacts
    def go(self, ctx: Context, note: Relay) -> None:
        self.rounds += 1
        ctx.send(factory(0), Pause(note.to))
        ctx.send(note.to, Add(1))
        ctx.send(factory(0), Resume(note.to))
        ctx.send(ctx.agent, note)

    @reacts
    def done(self, ctx: Context, note: Paused | Resumed | Total) -> None: ...


def test_pausing_and_resuming_for_ever_within_a_turn_is_stopped(harness: Harness) -> None:
    harness.deploy(Pauser, name="pauser")
    harness.send("pauser", Relay("alice", []))
    assert "was stopped after" in harness.reports[-1]


def test_an_agent_of_the_platform_and_an_unknown_one_cannot_be_paused(harness: Harness) -> None:
    refused = harness.send(FACTORY, Pause("#0.0.2"))[0]
    assert isinstance(refused, ExceptionNotification)
    assert refused.error == "PermissionError"
    assert isinstance(harness.send(FACTORY, Pause("dora"))[0], UnknownAgent)
    assert isinstance(harness.send(FACTORY, Pause(str(connection_manager(0))))[0], UnknownAgent)


def test_pausing_twice_and_resuming_what_is_not_paused_change_nothing(harness: Harness) -> None:
    pause(harness, "alice")
    harness.send("alice", Add(1))
    pause(harness, "alice")
    assert harness.send(FACTORY, Resume("alice"))[0] == Resumed(AgentId(0, 0, 1025), 1)
    assert seen(harness, "alice") == [1]
    assert harness.send(FACTORY, Resume("alice")) == [Resumed(AgentId(0, 0, 1025), 0)]
