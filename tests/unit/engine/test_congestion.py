"""Much waits for another server: who sends there is named, and nobody else."""

import attrs
import pytest

from quorate import Agent, AgentId, Context, Notification, reacts
from quorate.agents import ExceptionNotification, Note, encode, outside
from quorate.agents.congestion import CONGESTION_TOPIC, Congested, Uncongested
from quorate.engine import Effects, EngineSettings, NetInput
from quorate.testing import Harness

SERVERS = {"s0": 0, "s1": 1, "s2": 2}
SETTINGS = EngineSettings(high_water=3, high_water_bytes=1000, max_waiting_bytes=2000)


@attrs.frozen
class Relay(Notification):
    to: str
    data: bytes = b""


@attrs.define
class Relaying(Agent):
    @reacts
    def relay(self, ctx: Context, note: Relay) -> None:
        ctx.send(note.to, note)


@pytest.fixture
def harness() -> Harness:
    made = Harness(0, SERVERS, SETTINGS)
    made.deploy(Relaying, name="near")
    made.deploy(Relaying, name="nearer")
    return made


def relay(harness: Harness, *to: str, size: int = 0) -> Effects:
    near = harness.engine.find("near")
    assert near is not None
    return harness.post(*[harness.note(near.identity, Relay(each, bytes(size))) for each in to])


def congestion(effects: Effects) -> list[object]:
    return [(agent, message) for topic, agent, message in effects.emissions if topic == CONGESTION_TOPIC]


def near(harness: Harness) -> AgentId:
    cell = harness.engine.find("near")
    assert cell is not None
    return cell.identity


def test_above_the_mark_the_agent_that_a_service_posted_to_is_named_once_in_an_entry(
    harness: Harness,
) -> None:
    assert congestion(relay(harness, *["x@s1"] * 3)) == []
    assert congestion(relay(harness, *["x@s1"] * 3)) == [(near(harness), Congested(1))]


def test_another_server_is_not_concerned(harness: Harness) -> None:
    relay(harness, *["x@s1"] * 5)
    assert congestion(relay(harness, "x@s2")) == []


def test_bytes_count_too(harness: Harness) -> None:
    relay(harness, "x@s1", size=1000)
    assert congestion(relay(harness, "x@s1")) == [(near(harness), Congested(1))]


def test_who_sends_through_other_agents_is_named(harness: Harness) -> None:
    relay(harness, *["x@s1"] * 3)
    inner = Relay("x@s1")
    harness.deploy(Twice, name="twice")
    twice = harness.engine.find("twice")
    assert twice is not None
    effects = harness.post(harness.note(twice.identity, inner))
    assert congestion(effects) == [(twice.identity, Congested(1))]


@attrs.define
class Twice(Agent):
    """Has another agent send."""

    @reacts
    def relay(self, ctx: Context, note: Relay) -> None:
        ctx.send("near", note)


def test_what_comes_from_another_server_names_nobody(harness: Harness) -> None:
    relay(harness, *["x@s1"] * 3)
    far = Note("near", AgentId(2, 2, 2000), Relay.type_name, encode(Relay("x@s1")))
    assert congestion(harness.apply(NetInput(2, 9, 1, [far]))) == []


def test_the_end_of_congestion_is_reported_once(harness: Harness) -> None:
    relay(harness, *["x@s1"] * 5)
    assert congestion(harness.acknowledge(1, 2)) == []
    assert congestion(harness.acknowledge(1, 3)) == [(outside(0), Uncongested(1))]
    assert congestion(harness.acknowledge(1, 5)) == []


def test_a_restored_engine_knows_how_many_bytes_wait(harness: Harness) -> None:
    relay(harness, "x@s1", size=1500)
    restored = Harness(0, SERVERS, SETTINGS)
    restored.know(Relaying)
    restored.engine.restore(harness.engine.snapshot())
    assert congestion(relay(restored, "x@s1")) == [(near(restored), Congested(1))]


def test_above_the_bound_in_bytes_the_sender_gets_a_failure_that_names_the_server(harness: Harness) -> None:
    relay(harness, "x@s1", "x@s1", size=900)
    effects = harness.post(Note("x@s1", outside(0), Relay.type_name, bytes(500)))
    (failure,) = harness.decoded(effects.replies)
    assert isinstance(failure, ExceptionNotification)
    assert failure.error == "Backlog"
    assert "wait for server 1 already" in failure.message
    assert "2000 bytes" in failure.message
