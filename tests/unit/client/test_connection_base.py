"""The arguments of a send are checked and encoded before anything is queued."""

from typing import Any

import attrs
import pytest

from quorate import Notification, ReplyTo
from quorate.agents import AgentId
from quorate.client import SessionSettings
from quorate.client.arguments import send_arguments
from quorate.client.connection_base import new_driver


@attrs.frozen
class Go(Notification):
    number: int = 0


@pytest.mark.parametrize(
    "to",
    [
        "\ud800",
        "caf\udce9@s1",
        5,
        None,
        AgentId(0, 0, 1.5),  # type: ignore[arg-type]
        AgentId(0, 0, -1),
        ReplyTo(AgentId(0, 0, 1025), "1"),  # type: ignore[arg-type]
        ReplyTo("alice", -1),  # type: ignore[arg-type]
    ],
)
def test_an_address_that_no_server_could_read_is_refused_at_once(to: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="is not"):
        send_arguments(to, Go(), 1)


def test_an_address_that_can_be_read_is_accepted() -> None:
    agent = AgentId(0, 0, 1025)
    assert send_arguments("zoë@s1", Go(), 3)[::3] == ("zoë@s1", 3)
    assert send_arguments(agent, Go(), 0)[::3] == (agent, 0)
    assert send_arguments(ReplyTo(agent, 7), Go(), 0)[::3] == (agent, 7)


@pytest.mark.parametrize(
    ("timeout", "settings", "limit_s"),
    [
        (None, None, 300.0),
        (5, None, 5.0),
        (None, SessionSettings(open_timeout_s=7.0), 7.0),
        (5, SessionSettings(open_timeout_s=7.0), 5.0),
    ],
)
def test_the_first_master_is_waited_for_as_long_as_a_later_one_unless_said_otherwise(
    timeout: float | None, settings: SessionSettings | None, limit_s: float
) -> None:
    driver = new_driver("quorate://localhost:2560", "root", "root", timeout, 300, settings)
    assert driver.session.settings.open_timeout_s == limit_s
