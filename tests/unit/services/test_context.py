"""The context of a service: typed notifications, commits, answers, and agents that are made once."""

from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from quorate import Agent, AgentError, AgentId, Context, Notification, ReplyTo, reacts
from quorate.client import ReactionError, UnexpectedReply, UnknownAgentError
from quorate.services import NotMaster, Service, ServiceContext
from quorate.testing import ServiceHarness


@attrs.frozen
class Add(Notification):
    amount: int


@attrs.frozen
class Total(Notification):
    amount: int


@attrs.frozen
class Quiet(Notification):
    """Not answered."""


@attrs.define
class Sum(Agent):
    total: int = 0
    kept: ReplyTo | None = None

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.amount < 0:
            raise ValueError("too low")
        self.total += note.amount
        ctx.send(ctx.sender, Total(self.total))

    @reacts
    def quiet(self, _: Context, __: Quiet) -> None: ...


@attrs.define
class Other(Agent):
    @reacts
    def quiet(self, _: Context, __: Quiet) -> None: ...


class Plain(Service):
    """Keeps its context for the test."""

    ctx: ServiceContext

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        self.ctx, self.args, self.first_time = ctx, args, first_time


class Site:
    def __init__(self) -> None:
        self.harness = ServiceHarness()
        self.harness.agents.deploy(Sum, name="sum")
        self.ctx: Any = self.harness.start(Plain()).ctx

    @property
    def total(self) -> int:
        agent = self.harness.agents.agent("sum")
        assert isinstance(agent, Sum)
        return agent.total


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_notification_that_a_service_sends_reaches_the_agent(site: Site) -> None:
    site.ctx.send("sum", Add(2))
    site.harness.settle()
    assert site.total == 2


def test_a_submitted_notification_is_reported_once_it_is_committed(site: Site) -> None:
    site.harness.held = True
    done: list[Any] = []
    site.ctx.submit("sum", Add(2)).addCallback(done.append)
    site.harness.settle()
    assert done == []
    site.harness.held = False
    site.harness.settle()
    assert (done, site.total) == ([None], 2)


@pytest.mark.parametrize(
    ("to", "amount", "error"), [("sum", -1, ReactionError), ("nobody", 1, UnknownAgentError)]
)
def test_a_failure_of_the_agent_comes_to_the_submitter_and_to_the_asker(
    site: Site, to: str, amount: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        site.harness.result(site.ctx.submit(to, Add(amount)))
    with pytest.raises(error):
        site.harness.result(site.ctx.ask(to, Add(amount)))


def test_the_answer_of_an_agent_is_decoded(site: Site) -> None:
    assert site.harness.result(site.ctx.ask("sum", Add(2))) == Total(2)
    assert site.harness.result(site.ctx.ask("sum", Add(2), reply=Total)) == Total(4)
    with pytest.raises(UnexpectedReply):
        site.harness.result(site.ctx.ask("sum", Add(2), reply=Add))


def test_an_answer_is_awaited_in_a_coroutine(site: Site) -> None:
    async def twice() -> int:
        first = await site.ctx.ask("sum", Add(2), reply=Total)
        second = await site.ctx.ask("sum", Add(first.amount), reply=Total)
        return int(second.amount)

    assert site.harness.result(Deferred.fromCoroutine(twice())) == 4


def test_an_answer_that_does_not_come_is_a_timeout(site: Site) -> None:
    asked = site.ctx.ask("sum", Quiet(), timeout_s=3)
    site.harness.advance(4)
    with pytest.raises(TimeoutError):
        site.harness.result(asked)


@pytest.mark.parametrize("method", ["submit", "ask"])
def test_the_end_of_the_mastership_fails_what_waits_and_what_comes(site: Site, method: str) -> None:
    site.harness.held = True
    waiting = getattr(site.ctx, method)("sum", Add(1))
    site.harness.kill()
    with pytest.raises(NotMaster):
        site.harness.result(waiting)
    with pytest.raises(NotMaster):
        site.harness.result(getattr(site.ctx, method)("sum", Add(1)))
    site.ctx.send("sum", Add(1))
    site.harness.settle()
    assert site.total == 0


@pytest.mark.parametrize("method", ["send", "submit", "ask"])
@pytest.mark.parametrize(("to", "note"), [(5, Add(1)), ("sum", "text"), (AgentId(0, 0, -1), Add(1))])
def test_what_cannot_be_sent_raises_at_the_call(site: Site, method: str, to: Any, note: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        getattr(site.ctx, method)(to, note)


# Agents made once


def test_an_agent_of_a_name_is_made_once_whatever_fails(site: Site) -> None:
    first = site.harness.result(site.ctx.create(Sum, name="own", state={"total": 5}))
    site.harness.send("own", Add(1))
    site.harness.kill()
    ctx: Any = site.harness.start(Plain()).ctx
    assert site.harness.result(ctx.create(Sum, name="own", state={"total": 5})) == first
    (answer,) = [site.harness.result(ctx.ask("own", Add(0)))]
    assert answer == Total(6)


def test_an_agent_of_a_reserved_stamp_has_the_same_id_in_every_life(site: Site) -> None:
    made = site.harness.result(site.ctx.create(Sum, stamp=600))
    assert made == AgentId(0, 0, 600)
    assert site.harness.result(site.ctx.create(Sum, stamp=600)) == made
    named = site.harness.result(site.ctx.create(Sum, stamp=601, name="well-known"))
    assert named == AgentId(0, 0, 601)
    assert site.harness.result(site.ctx.create(Sum, stamp=601, name="well-known")) == named


def test_a_name_of_an_agent_of_another_class_is_refused(site: Site) -> None:
    with pytest.raises(AgentError, match=r"sum is an agent of the class .*Sum; choose another"):
        site.harness.result(site.ctx.create(Other, name="sum"))
    site.harness.result(site.ctx.create(Sum, stamp=600))
    with pytest.raises(AgentError, match="give its own name and id"):
        site.harness.result(site.ctx.create(Sum, stamp=600, name="other"))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"stamp": 5}, "5 is not a stamp for services; give a number from 512 to 1024"),
        ({"stamp": 1025}, "is not a stamp for services"),
        ({}, "needs a name or a stamp"),
        ({"name": 5}, "5 is not a name"),
        ({"name": "own", "state": {"totl": 5}}, "has no attribute 'totl'"),
        ({"name": "own", "state": {"total": object()}}, "cannot be created from this state"),
    ],
)
def test_an_agent_that_cannot_be_made_raises_at_the_call(
    site: Site, arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises((TypeError, ValueError, AgentError), match=error):
        site.ctx.create(Sum, **arguments)


def test_a_name_that_the_server_refuses_fails_the_deferred(site: Site) -> None:
    with pytest.raises(AgentError, match="cannot be a name"):
        site.harness.result(site.ctx.create(Sum, name="a@b"))


# The harness itself


def test_the_first_service_starts_for_the_first_time_and_later_ones_do_not() -> None:
    harness = ServiceHarness()
    assert harness.start(Plain(), "some args").first_time
    harness.send("nobody", Quiet())
    again = harness.start(Plain(), first_time=None)
    assert (again.first_time, again.args) == (False, "")


class Late(Plain):
    async def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # type: ignore[override]
        super().init(ctx, args, first_time)
        await ctx.ask("sum", Quiet(), timeout_s=60)


def test_a_service_that_does_not_come_to_its_start_is_named(site: Site) -> None:
    with pytest.raises(AssertionError, match="advance the clock"):
        site.harness.start(Late())
    assert [type(each) for each in site.harness.running] == [Plain]


def test_the_calls_of_a_killed_master_are_not_made(site: Site) -> None:
    called: list[str] = []
    site.ctx.reactor.callLater(1, called.append, "former")
    site.harness.kill()
    site.harness.start(Plain()).ctx.reactor.callLater(1, called.append, "present")
    site.harness.advance(2)
    assert called == ["present"]


def test_logs_counters_gauges_and_the_status_are_there_for_the_test(site: Site) -> None:
    site.ctx.log("hello")
    site.ctx.count("seen")
    site.ctx.count("seen", 2)
    site.ctx.gauge("depth", 3)
    site.ctx.status("idle")
    harness = site.harness
    assert (harness.lines, harness.counters, harness.gauges) == (["Plain: hello"], {"seen": 3}, {"depth": 3})
    assert harness.statuses == {"Plain": "idle"}
