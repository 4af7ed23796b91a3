"""Activities: done by a service for an agent, tried again, and each with exactly one outcome."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed

from quorate import (
    ActivityCompleted,
    ActivityFailed,
    Agent,
    Context,
    ExceptionNotification,
    Notification,
    UnknownAgent,
    reacts,
)
from quorate.agents import Note, activities, encode
from quorate.agents.activity import AttemptDone
from quorate.agents.activity_agent import ActivitiesAgent
from quorate.services import ActivityCall, ActivityService, PermanentError, ServiceError, activity
from quorate.testing import Harness, ServiceHarness


@attrs.frozen
class Charge(Notification):
    amount: int


@attrs.frozen
class Charged(Notification):
    receipt: str


@attrs.frozen
class Request(Notification):
    """Has the agent request an activity."""

    key: str
    amount: int = 1
    activity: str = "charge"
    attempts: int | None = None
    timeout_s: float | None = None
    expires_s: float | None = None


@attrs.frozen
class Stop(Notification):
    key: str


@attrs.define
class Order(Agent):
    completed: list[str] = attrs.field(factory=list[str])
    failed: list[str] = attrs.field(factory=list[str])
    messages: list[str] = attrs.field(factory=list[str])

    @reacts
    def request(self, ctx: Context, note: Request) -> None:
        ctx.activity(
            note.activity,
            Charge(note.amount),
            key=note.key or None,
            attempts=note.attempts,
            timeout_s=note.timeout_s,
            expires_s=note.expires_s,
        )

    @reacts
    def stop(self, ctx: Context, note: Stop) -> None:
        ctx.cancel_activity(note.key)

    @reacts
    def done(self, ctx: Context, note: ActivityCompleted) -> None:
        result = note.result(Charged).receipt if note.result_type else "nothing"
        self.completed.append(f"{note.key} {result}")

    @reacts
    def not_done(self, ctx: Context, note: ActivityFailed) -> None:
        self.failed.append(f"{note.key} {note.outcome} {note.attempts} {note.error}")
        self.messages.append(note.message)


class Bank:
    """The outside: what it was asked for, and how it answers."""

    def __init__(self) -> None:
        self.calls: list[ActivityCall] = []
        self.answer: Callable[[Charge], Any] = lambda charge: succeed(Charged(f"paid {charge.amount}"))
        self.cancelled = 0

    def wait(self, _: Charge) -> "Deferred[Charged]":
        return Deferred(self.count_cancelled)

    def count_cancelled(self, _: object) -> None:
        self.cancelled += 1

    def fail(self, _: Charge) -> None:
        raise OSError("the bank is closed")


class Payments(ActivityService):
    bank: Bank

    @activity("charge", attempts=3, first_pause_s=1, factor=2, timeout_s=10, concurrency=2)
    async def charge(self, call: ActivityCall, note: Charge) -> Charged | None:
        self.bank.calls.append(call)
        answered = self.bank.answer(note)
        return await answered if isinstance(answered, Deferred) else answered

    @activity("charge-blocking")
    def charge_blocking(self, call: ActivityCall, note: Charge) -> Charged:
        return Charged(f"blocking {note.amount}")


class Site:
    """A server with an agent and a service, and the bank outside."""

    def __init__(self) -> None:
        self.bank = Payments.bank = Bank()
        self.harness = ServiceHarness()
        self.harness.agents.deploy(Order, name="order")
        self.service = self.harness.start(Payments())

    @property
    def order(self) -> Order:
        agent = self.harness.agents.agent("order")
        assert isinstance(agent, Order)
        return agent

    @property
    def keeper(self) -> ActivitiesAgent:
        agent = self.harness.agents.agent(activities(0))
        assert isinstance(agent, ActivitiesAgent)
        return agent

    def request(self, key: str, **fields: Any) -> list[Notification]:
        return self.harness.send("order", Request(key, **fields))


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_result_of_an_activity_comes_to_its_agent(site: Site) -> None:
    site.request("a", amount=7)
    site.request("b", amount=8, activity="charge-blocking")
    assert site.order.completed == ["a paid 7", "b blocking 8"]
    assert site.keeper.pending == {}


def test_an_activity_without_a_result_completes_with_nothing(site: Site) -> None:
    site.bank.answer = lambda _: None
    site.request("a")
    assert site.order.completed == ["a nothing"]


def test_activities_without_a_key_are_different_ones(site: Site) -> None:
    site.request("")
    site.request("")
    assert len(site.order.completed) == 2
    assert len({call.idempotency_key for call in site.bank.calls}) == 2
    assert site.keeper.finished == {}


def test_the_same_request_again_is_the_same_activity(site: Site) -> None:
    site.bank.answer = site.bank.wait
    site.request("a")
    site.request("a")
    site.bank.answer = lambda charge: Charged("late")
    site.harness.advance(15)
    site.request("a")
    assert site.order.completed == ["a late"]


def test_another_input_under_a_used_key_is_refused(site: Site) -> None:
    site.request("a", amount=1)
    reports = len(site.harness.agents.reports)
    site.request("a", amount=2)
    assert "belongs to another activity" in "".join(site.harness.agents.reports[reports:])
    assert site.order.completed == ["a paid 1"]


def test_a_failed_attempt_is_repeated_after_growing_pauses_with_the_same_idempotency_key(site: Site) -> None:
    site.bank.answer = site.bank.fail
    site.request("a")
    times = [site.harness.clock.seconds()]
    while len(site.bank.calls) < 3:
        before = len(site.bank.calls)
        while len(site.bank.calls) == before:
            site.harness.advance(0.1)
        times.append(site.harness.clock.seconds())
    assert 0.7 < times[1] - times[0] < 1.4
    assert 1.5 < times[2] - times[1] < 2.6
    assert [call.attempt for call in site.bank.calls] == [1, 2, 3]
    assert len({call.idempotency_key for call in site.bank.calls}) == 1
    assert site.order.failed == ["a failed 3 OSError"]
    assert site.order.messages == ["activity 'charge': the bank is closed"]
    site.harness.advance(1000)
    assert len(site.bank.calls) == 3


def test_an_error_that_is_permanent_is_not_repeated(site: Site) -> None:
    def refuse(_: Charge) -> None:
        raise PermanentError("the card was stolen")

    site.bank.answer = refuse
    site.request("a")
    assert site.order.failed == ["a failed 1 PermanentError"]


@pytest.mark.parametrize(
    ("returned", "error"),
    [(5, "TypeError"), (Charged("x" * 5_000_000), "ValueError"), (Charged("\ud800"), "ValueError")],
)
def test_a_result_that_cannot_be_sent_fails_at_once(site: Site, returned: Any, error: str) -> None:
    site.bank.answer = lambda _: returned
    site.request("a")
    assert site.order.failed == [f"a failed 1 {error}"]


def test_an_attempt_that_takes_too_long_is_cancelled_and_repeated(site: Site) -> None:
    site.bank.answer = site.bank.wait
    site.request("a", attempts=2, timeout_s=3)
    site.harness.advance(10)
    assert site.bank.cancelled == 2
    assert site.order.failed == ["a failed 2 TimeoutError"]


def test_an_activity_that_is_not_done_in_time_expires_and_its_attempt_is_stopped(site: Site) -> None:
    site.bank.answer = site.bank.wait
    site.request("a", expires_s=5)
    site.harness.advance(6)
    assert (site.order.failed, site.bank.cancelled) == (["a expired 1 "], 1)
    assert site.keeper.pending == {}


def test_a_cancelled_activity_stops_and_has_one_outcome(site: Site) -> None:
    waiting: list[Deferred[Any]] = []

    def answer(note: Charge) -> "Deferred[Charged]":
        waiting.append(site.bank.wait(note))
        return waiting[-1]

    site.bank.answer = answer
    site.request("a")
    site.harness.send("order", Stop("a"))
    site.harness.send("order", Stop("a"))
    site.harness.send("order", Stop("never requested"))
    assert (site.order.failed, site.bank.cancelled) == (["a cancelled 1 "], 1)
    site.harness.advance(100)
    assert len(site.order.failed) == 1


def test_an_activity_that_waits_or_pauses_can_be_cancelled(site: Site) -> None:
    site.bank.answer = site.bank.wait
    for key in "abc":
        site.request(key)
    site.harness.send("order", Stop("c"))
    assert site.order.failed == ["c cancelled 0 "]
    site.bank.answer = site.bank.fail
    site.harness.send("order", Stop("a"))
    site.request("d")
    site.harness.send("order", Stop("d"))
    assert site.order.failed[1:] == ["a cancelled 1 ", "d cancelled 1 OSError"]
    site.harness.advance(100)
    assert len(site.bank.calls) == 5, "a, b and d once each, and b twice again after its time limit"


def test_no_more_attempts_run_than_declared(site: Site) -> None:
    waiting: list[Deferred[Charged]] = []

    def answer(_: Charge) -> "Deferred[Charged]":
        waiting.append(Deferred())
        return waiting[-1]

    site.bank.answer = answer
    for key in "abcde":
        site.request(key)
    assert len(waiting) == 2
    waiting[1].callback(Charged("x"))
    site.harness.settle()
    assert [call.key for call in site.bank.calls] == ["a", "b", "c"]
    assert site.harness.gauges["activities_running"] == 2


def test_an_activity_that_nobody_declares_fails_with_the_names_that_are_declared(site: Site) -> None:
    site.request("a", activity="chrage")
    assert site.order.failed == ["a unknown 0 "]
    assert site.order.messages == [
        "activity 'chrage': no service declares it; declared are: charge, charge-blocking"
    ]


def test_without_such_a_service_the_agent_learns_that_there_is_none() -> None:
    harness = Harness()
    order = harness.deploy(Order)
    effects = harness.post(harness.note(order, Request("a")))
    assert [reaction.type for reaction in effects.trace][-1] == UnknownAgent.type_name


def test_only_so_many_activities_are_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.agents.activity_agent.MAX_PENDING", 2)
    site.bank.answer = site.bank.wait
    for key in "abc":
        site.request(key)
    assert site.order.failed == ["c refused 0 "]
    assert "request it later" in site.order.messages[0]


def test_only_so_many_keys_are_remembered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.agents.activity_agent.MAX_REMEMBERED_KEYS", 2)
    for key in "abc":
        site.request(key)
    site.request("b")
    site.request("a")
    assert [line[0] for line in site.order.completed] == ["a", "b", "c", "a"]


def test_a_failover_repeats_what_ran_and_each_result_comes_once(site: Site) -> None:
    site.bank.answer = site.bank.wait
    for key in "abc":
        site.request(key)
    site.harness.kill()
    site.bank.answer = lambda charge: Charged("again")
    site.harness.start(Payments())
    assert [(call.key, call.attempt) for call in site.bank.calls] == [
        *(("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 1))
    ]
    assert site.bank.calls[0].idempotency_key == site.bank.calls[2].idempotency_key
    assert sorted(site.order.completed) == ["a again", "b again", "c again"]


def test_a_result_that_was_not_committed_is_got_again(site: Site) -> None:
    site.bank.answer = site.bank.wait
    site.request("a")
    site.harness.held = True
    site.harness.advance(11)
    site.harness.kill()
    site.bank.answer = lambda charge: Charged("again")
    site.harness.start(Payments())
    assert site.order.completed == ["a again"]


def test_a_pause_is_kept_over_a_failover(site: Site) -> None:
    site.bank.answer = site.bank.fail
    site.request("a")
    site.harness.kill()
    site.bank.answer = lambda charge: Charged("again")
    site.harness.start(Payments())
    assert len(site.bank.calls) == 1
    site.harness.advance(1.3)
    assert site.order.completed == ["a again"]


def test_an_activity_that_kills_every_master_ends_after_its_attempts(site: Site) -> None:
    site.bank.answer = site.bank.wait
    site.request("a", attempts=2)
    for _ in range(2):
        site.harness.kill()
        site.harness.start(Payments())
    assert site.order.failed == ["a failed 2 Interrupted"]
    assert len(site.bank.calls) == 2


def test_a_report_about_an_attempt_that_is_over_changes_nothing(site: Site) -> None:
    site.request("a")
    late = AttemptDone(1, 1, Charged.type_name, encode(Charged("twice")))
    site.harness.agents.post(site.harness.agents.note(activities(0), late))
    assert site.order.completed == ["a paid 1"]


class Refunds(ActivityService):
    @activity("charge")
    async def charge(self, call: ActivityCall, note: Charge) -> None: ...


class Less(ActivityService):
    """What `Payments` is after a change of its class: one activity is gone."""

    __qualname__ = "Payments"

    @activity("charge-blocking")
    def charge_blocking(self, call: ActivityCall, note: Charge) -> Charged:
        return Charged("x")


def test_a_name_that_another_service_declares_keeps_the_second_one_from_starting(site: Site) -> None:
    with pytest.raises(ServiceError, match="Payments declares the activity 'charge' already"):
        site.harness.start(Refunds())


def test_activities_that_are_declared_no_more_fail(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.agents.activity_agent._SWEEP", 2)
    site.bank.answer = site.bank.wait
    for key in "abcde":
        site.request(key)
    site.harness.kill()
    site.harness.start(Less())
    site.harness.advance(1)
    assert sorted(site.order.failed) == [
        *("a unknown 1 ", "b unknown 1 ", "c unknown 0 ", "d unknown 0 ", "e unknown 0 ")
    ]
    assert list(site.keeper.declared) == ["charge-blocking"]


def test_what_services_and_timers_send_is_not_taken_from_agents(site: Site) -> None:
    order = site.harness.agents.engine.find("order")
    assert order is not None
    forged = AttemptDone(1, 1, "", b"")
    note = Note(activities(0), order.identity, forged.type_name, encode(forged))
    site.harness.agents.post(note)
    assert "PermissionError" in site.harness.agents.reports[-1]


def test_outside_of_agents_nobody_requests_activities(site: Site) -> None:
    (answer,) = site.harness.send(activities(0), Stop("a"))
    assert isinstance(answer, ExceptionNotification)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"key": "@1"}, "cannot be the key of an activity"),
        ({"key": "k" * 201}, "cannot be the key of an activity"),
        ({"key": "a", "attempts": 0}, "cannot have 0 attempts"),
        ({"key": "a", "timeout_s": -1.0}, "cannot be limited to -1.0 s"),
        ({"key": "a", "activity": ""}, "is not the name of an activity"),
    ],
)
def test_a_request_that_cannot_be_used_fails_in_the_reaction(
    site: Site, fields: dict[str, Any], error: str
) -> None:
    (answer,) = site.request(**fields)
    assert isinstance(answer, ExceptionNotification)
    assert error in answer.message


def bad(kind: str) -> type[ActivityService]:
    if kind == "none":
        return type("Empty", (ActivityService,), {})

    def method(self: Any, call: ActivityCall, note: Any) -> None: ...

    def short(self: Any, note: Charge) -> None: ...

    declared: dict[str, Any] = {
        "input": {"a": activity("a")(method)},
        "parameters": {"a": activity("a")(short)},
    }
    return type("Bad", (ActivityService,), declared[kind])


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("none", "Empty declares no activity; mark a method with @activity"),
        ("input", "Bad.a: annotate note with the class of the notification"),
        ("parameters", r"Bad.a: an activity takes \(self, call, notification\)"),
    ],
)
def test_a_service_with_a_wrong_declaration_does_not_start(site: Site, kind: str, error: str) -> None:
    with pytest.raises(ServiceError, match=error):
        site.harness.start(bad(kind)())


@pytest.mark.parametrize("limits", [{"attempts": 0}, {"timeout_s": 0.0}, {"concurrency": 5000}])
def test_limits_that_cannot_be_used_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match="the activity 'charge' cannot be declared"):
        activity("charge", **limits)
