"""What a client takes into its inbox, and when it tells the server."""

import pytest

from quorate.agents import AgentId
from quorate.client.driver import Driver
from quorate.client.events import Delivered, SessionSettings
from quorate.client.frames import ServerNote
from quorate.client.inbox_window import InboxWindow
from quorate.client.pending import PendingRequests, Received
from quorate.client.session import Session


def note(request=0, payload=b"\x80"):
    return ServerNote(AgentId(0, 0, 1030), "bank:Balance", payload, request)


class Waiter:
    """A waiter that keeps its outcome."""

    result = None
    exception = None

    def set_result(self, result):
        self.result = result

    def set_exception(self, exception):
        self.exception = exception

    def done(self):
        return self.result is not None or self.exception is not None


@pytest.fixture
def inbox():
    """The pending requests of a session whose inbox holds four notifications, and its window."""
    session = Session([("a", 1)], "root", "root", lambda: 0.5, SessionSettings(inbox_notes=4))
    pending = PendingRequests(4)
    Driver(session, pending)
    return pending, session.inbox_window


def receive(pending):
    waiter = Waiter()
    pending.expect_notification(waiter)
    return waiter.result


def test_the_first_window_is_the_whole_inbox():
    window = InboxWindow(SessionSettings(inbox_notes=4, inbox_bytes=100))
    assert not window.due
    assert window.name() == (4, 100)


def test_the_window_grows_with_what_the_program_receives_and_is_named_when_half_is_free():
    window = InboxWindow(SessionSettings(inbox_notes=4, inbox_bytes=100))
    window.received(note())
    assert not window.due
    window.received(note())
    assert window.due
    assert window.name() == (6, 102)
    assert not window.due


def test_bytes_count_too():
    window = InboxWindow(SessionSettings(inbox_notes=100, inbox_bytes=100))
    window.received(note(payload=bytes(50)))
    assert window.due
    assert window.name() == (101, 150)


def test_answers_do_not_count():
    window = InboxWindow(SessionSettings(inbox_notes=2))
    window.received(note(request=7))
    assert not window.due


def test_after_a_reconnection_the_window_is_named_again():
    window = InboxWindow(SessionSettings(inbox_notes=4))
    window.reopened()
    assert not window.due
    window.received(note())
    window.reopened()
    assert window.due
    window.name()
    assert not window.due


def test_without_an_inbox_no_limit_is_named():
    window = InboxWindow(SessionSettings(inbox_notes=0))
    for _ in range(10):
        window.received(note())
    assert not window.due
    assert window.name() == (0, 0)


def test_what_the_program_receives_is_counted_once(inbox):
    pending, window = inbox
    pending.handle(Delivered([note(), note(), note()]))
    assert isinstance(receive(pending), Received)
    assert window.name()[0] == 5
    waiter = Waiter()
    receive(pending)
    receive(pending)
    pending.expect_notification(waiter)
    pending.handle(Delivered([note()]))
    assert isinstance(waiter.result, Received)
    assert window.name()[0] == 8


def test_late_answers_take_no_room_from_notifications(inbox):
    pending, _ = inbox
    pending.handle(Delivered([note(request=n) for n in range(1, 6)]))
    assert pending.dropped == 1
    pending.handle(Delivered([note()] * 4))
    assert pending.dropped == 1
    assert [receive(pending) is not None for _ in range(9)] == [True] * 8 + [False]
