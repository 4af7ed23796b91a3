"""Payloads that are not what their type says: whoever sent them is told, and nobody else pays for it."""

import attrs
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, reacts
from quorate.agents import Create, Note, encode, factory, outside
from quorate.engine import EngineSettings
from quorate.testing.harness import Harness


@attrs.frozen
class Say(Notification):
    text: str


@attrs.define
class Echo(Agent):
    @reacts
    def say(self, ctx: Context, note: Say) -> None:
        ctx.send(ctx.sender, note)


@pytest.fixture
def harness() -> Harness:
    harness = Harness(settings=EngineSettings(stop_on_exception=True))
    harness.deploy(Echo, name="echo")
    return harness


def nonsense(note: Notification) -> list[bytes]:
    """Text that is no UTF-8, and lists in lists without an end."""
    return [encode(note).replace(b"zzz", b"z\xffz"), b"\x81\xa1x" + b"\x91" * 3000 + b"\xc0"]


@pytest.mark.parametrize("payload", nonsense(Say("zzz")), ids=["text", "depth"])
def test_to_an_agent_it_is_no_failure_of_that_agent(harness: Harness, payload: bytes) -> None:
    effects = harness.post(Note("echo", outside(0), Say.type_name, payload))
    (answer,) = harness.decoded(effects.replies)
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Unfit"


@pytest.mark.parametrize("payload", nonsense(Create("zzz")), ids=["text", "depth"])
def test_to_the_factory_it_costs_the_rest_of_its_entry_nothing(harness: Harness, payload: bytes) -> None:
    request = Note(factory(0), outside(0), Create.type_name, payload)
    effects = harness.post(request, harness.note("echo", Say("here")))
    refused, answer = harness.decoded(effects.replies)
    assert isinstance(refused, ExceptionNotification)
    assert refused.error == "Unfit"
    assert answer == Say("here")
