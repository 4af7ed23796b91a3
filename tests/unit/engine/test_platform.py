"""What belongs to the platform is made by the platform, and an address has one form."""

from typing import Any, cast

import attrs
import pytest

from quorate import Agent, AgentError, AgentId, Context, CreateFailed, Notification, UnknownAgent, reacts
from quorate.agents import (
    FIRST_CONNECTION_STAMP,
    Create,
    Created,
    Delete,
    ExceptionNotification,
    Note,
    agent_spec,
    connection_manager,
    encode,
    factory,
    outside,
)
from quorate.agents.manager import ConnectionManagerAgent
from quorate.agents.proxy import ProxyAgent
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1}


@attrs.frozen
class Go(Notification):
    to: str


@attrs.define
class Sender(Agent):
    sent: int = 0

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        ctx.send(note.to, note)
        self.sent += 1


@pytest.mark.parametrize("cls", [ConnectionManagerAgent, ProxyAgent])
def test_an_agent_of_the_platform_is_not_deployed(cls: type[Agent]) -> None:
    (answer,) = Harness().send(factory(0), Create(agent_spec(cls).location))
    assert isinstance(answer, CreateFailed)
    assert "belongs to the platform" in answer.reason


def test_a_service_makes_the_agent_of_the_platform_that_it_needs() -> None:
    asked = Create(agent_spec(ConnectionManagerAgent).location, id=connection_manager(0))
    assert Harness().send(factory(0), asked) == [Created(connection_manager(0))]


def test_the_ids_of_connections_are_for_connections_only() -> None:
    harness = Harness()
    sender = harness.deploy(Sender)
    identity = AgentId(0, 0, FIRST_CONNECTION_STAMP)
    asked = Create(agent_spec(Sender).name, id=identity)
    harness.post(Note(factory(0), sender, Create.type_name, encode(asked)))
    assert harness.engine.find(identity) is None


@attrs.define
class Parent(Agent):
    """Creates a `Sender` from an impossible state."""

    refused: list[str] = attrs.field(factory=list[str])

    @reacts
    def go(self, ctx: Context, note: Go) -> None:
        for state in ({"sent": 1, "sant": 2}, {"sent": object()}, {"sent": "x"}, {1: 2}):
            try:
                ctx.create(Sender, state=cast("Any", state), server=note.to)
            except AgentError as error:
                self.refused.append(str(error))


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_a_state_that_an_agent_cannot_have_is_refused_where_it_is_asked_for(server: str) -> None:
    harness = Harness(0, SERVERS)
    harness.deploy(Parent, name="parent")
    harness.send("parent", Go(server))
    parent = harness.agent("parent")
    assert isinstance(parent, Parent)
    assert "has no attribute 'sant'; it has: sent" in parent.refused[0]
    assert len(parent.refused) == 4
    assert all("Sender" in sentence for sentence in parent.refused)
    assert harness.engine.backlog == 0


@pytest.mark.parametrize("to", ["far@s1@s0", "far@s1@s0@s1", "@s0@s1", "far@s9"])
def test_an_address_with_two_servers_goes_nowhere(to: str) -> None:
    harness = Harness(0, SERVERS)
    harness.deploy(Sender, name="sender")
    assert harness.send(to, Go("x")) == [UnknownAgent(to, Go.type_name)]
    harness.send("sender", Go(to))
    sender = harness.agent("sender")
    assert isinstance(sender, Sender)
    assert sender.sent == 0
    assert harness.engine.backlog == 0


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (Go("x"), "Unhandled", "the factory creates and deletes agents, and got"),
        (Delete("#0.0.3"), "PermissionError", "#0.0.3 belongs to the platform and cannot be deleted"),
        (Delete("#0.0.2"), "PermissionError", "#0.0.2 belongs to the platform and cannot be deleted"),
    ],
)
def test_what_the_factory_cannot_do_is_answered_with_the_reason(
    asked: Notification, error: str, message: str
) -> None:
    harness = Harness()
    harness.send(factory(0), Create(agent_spec(ConnectionManagerAgent).location, id=connection_manager(0)))
    (answer,) = harness.send(factory(0), asked)
    assert isinstance(answer, ExceptionNotification)
    assert (answer.agent, answer.error) == (factory(0), error)
    assert message in answer.message


def test_a_creation_that_cannot_be_read_is_answered() -> None:
    (answer,) = Harness.decoded(
        Harness().post(Note(factory(0), outside(0), Create.type_name, b"\x01", 4)).replies
    )
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Unfit"


@pytest.mark.parametrize("failure", [UnknownAgent("x", "y"), CreateFailed("x", "y")])
def test_the_factory_does_not_answer_reports_of_failures(failure: Notification) -> None:
    assert Harness().send(factory(0), failure) == []
