"""Which received notifications are new, and when they are acknowledged."""

import pytest

from quorate.agents import AgentId
from quorate.client.delayed_ack import DelayedAck
from quorate.client.errors import ProtocolError
from quorate.client.events import SessionSettings
from quorate.client.frames import ServerNote


def notes(*sizes):
    return [ServerNote(AgentId(0, 0, 1030), "bank:Balance", bytes(size)) for size in sizes]


def delayed(**settings):
    return DelayedAck(SessionSettings(ack_delay_s=1.0, **settings))


def test_new_notifications_are_returned_with_their_size_and_due_after_the_delay():
    ack, batch = delayed(), notes(3, 4)
    assert ack.accept(5.0, 1, batch) == (batch, 7)
    assert (ack.last_seq, ack.deadline) == (2, 6.0)
    assert not ack.due(5.9)
    assert ack.due(6.0)


def test_later_notifications_do_not_move_the_deadline():
    ack = delayed()
    ack.accept(5.0, 1, notes(1))
    ack.accept(5.5, 2, notes(1))
    assert ack.deadline == 6.0


def test_notifications_received_before_are_dropped():
    ack, batch = delayed(), notes(1, 2, 3)
    ack.accept(0.0, 1, batch[:2])
    assert ack.accept(0.0, 1, batch) == (batch[2:], 3)
    ack.acknowledge()
    assert ack.accept(0.0, 2, batch[1:]) == ([], 0)
    assert ack.deadline is None


def test_a_missing_notification_is_a_protocol_error():
    with pytest.raises(ProtocolError, match="notification 1 from the server is missing"):
        delayed().accept(0.0, 2, notes(1))


@pytest.mark.parametrize("settings", [{"ack_notes": 2}, {"ack_bytes": 20}])
def test_many_notifications_or_bytes_are_due_at_once(settings):
    ack = delayed(**settings)
    ack.accept(0.0, 1, notes(10))
    assert not ack.due(0.0)
    ack.accept(0.0, 2, notes(10))
    assert ack.due(0.0)


def test_nothing_is_due_after_an_acknowledgement():
    ack = delayed(ack_notes=2)
    ack.accept(0.0, 1, notes(1))
    assert ack.acknowledge() == 1
    ack.accept(3.0, 2, notes(1))
    assert ack.deadline == 4.0
