"""The inbox of a service: what is sent to it is handled in order, and not lost with a master."""

from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from quorate import ExceptionNotification, Notification
from quorate.agents.service_inbox import InboxHandled
from quorate.services import Service, ServiceContext
from quorate.testing import ServiceHarness


@attrs.frozen
class Job(Notification):
    number: int


@attrs.frozen
class Printed(Notification):
    number: int


class Printer(Service):
    handled: list[int]
    waiting: "list[Deferred[None]]"
    hold = False

    async def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        self.handled, self.waiting = [], []
        await ctx.receive("printer", self.print)

    async def print(self, sender: object, note: Job) -> Printed | None:
        self.handled.append(note.number)
        if self.hold:
            self.waiting.append(Deferred())
            await self.waiting[-1]
        if note.number < 0:
            raise ValueError("no such page")
        return Printed(note.number) if note.number else None


@pytest.fixture
def harness() -> ServiceHarness:
    return ServiceHarness()


def asked(harness: ServiceHarness, number: int) -> "Deferred[Any]":
    """Ask the service through its inbox, as a client does."""
    other = Plain()
    harness.start(other)
    return other.ctx.ask("printer", Job(number), timeout_s=5)


class Plain(Service):
    ctx: ServiceContext

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        self.ctx = ctx


def test_a_service_answers_what_is_sent_to_its_name(harness: ServiceHarness) -> None:
    harness.start(Printer())
    assert harness.result(asked(harness, 5)) == Printed(5)


def test_what_a_service_raises_is_the_answer_and_the_next_one_is_handled(harness: ServiceHarness) -> None:
    printer = harness.start(Printer())
    with pytest.raises(Exception, match="ValueError: no such page"):
        harness.result(asked(harness, -1))
    assert harness.result(asked(harness, 6)) == Printed(6)
    assert printer.handled == [-1, 6]


def test_notifications_are_handled_one_after_the_other(harness: ServiceHarness) -> None:
    printer = harness.start(Printer())
    printer.hold = True
    for number in range(3):
        harness.send("printer", Job(number))
    assert printer.handled == [0]
    printer.waiting[0].callback(None)
    harness.settle()
    assert printer.handled == [0, 1]


def test_what_a_killed_master_has_not_handled_comes_to_the_next_one_in_order(harness: ServiceHarness) -> None:
    printer = harness.start(Printer())
    harness.send("printer", Job(1))
    printer.hold = True
    for number in (2, 3):
        harness.send("printer", Job(number))
    harness.kill()
    assert harness.start(Printer()).handled == [2, 3]
    harness.kill()
    assert harness.start(Printer()).handled == []


def test_an_inbox_that_is_full_refuses(harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.agents.service_inbox.MAX_INBOX_NOTES", 1)
    harness.start(Printer()).hold = True
    harness.send("printer", Job(1))
    (answer,) = harness.send("printer", Job(2))
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "OverflowError"


def test_a_report_about_what_was_handled_before_changes_nothing(harness: ServiceHarness) -> None:
    harness.start(Printer())
    harness.send("printer", Job(1))
    assert harness.send("printer", InboxHandled(1, Printed.type_name, b"")) == []


def test_what_comes_while_the_next_service_starts_is_handled_once_in_order(harness: ServiceHarness) -> None:
    harness.start(Printer()).hold = True
    harness.send("printer", Job(1))
    harness.kill()
    printer = Printer()
    printer.handled, printer.waiting = [], []
    ctx = harness.start(Plain()).ctx
    harness.held = True
    opened = ctx.receive("printer", printer.print)
    harness.send("printer", Job(2))
    harness.held = False
    harness.result(opened)
    harness.settle()
    assert printer.handled == [1, 2]
