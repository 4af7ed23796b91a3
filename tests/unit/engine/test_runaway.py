"""Agents that do not come to an end: turns over their bounds, timers without pause, reactions that send
without end."""

import attrs
import pytest

from quorate import Agent, AgentId, Context, ExceptionNotification, Notification, reacts
from quorate.agents import context
from quorate.engine import EngineSettings
from quorate.testing.harness import Harness

FIRST, SECOND = AgentId(0, 0, 1025), AgentId(0, 0, 1026)


@attrs.frozen
class Spread(Notification):
    to: str
    text: str = ""


@attrs.frozen
class Beat(Notification):
    """Sent by a timer."""


@attrs.define
class Spreader(Agent):
    """Passes on what it gets `copies` times, with its own name as the next recipient."""

    copies: int = 1
    got: int = 0

    @reacts
    def spread(self, ctx: Context, note: Spread) -> None:
        self.got += 1
        for _ in range(self.copies):
            ctx.send(note.to, Spread(ctx.name or "", note.text))


@attrs.define
class Restless(Agent):
    """Sets a timer of 0 s whenever one fires."""

    beats: int = 0

    @reacts
    def beat(self, ctx: Context, note: Beat) -> None:
        self.beats += 1
        ctx.timer(0, note)


@attrs.define
class Flood(Agent):
    """Sends without end."""

    sent: int = 0

    @reacts
    def spread(self, ctx: Context, note: Spread) -> None:
        while True:
            self.sent += 1
            ctx.send(note.to, note)


def pair(copies: int, settings: EngineSettings) -> Harness:
    """Two agents that send to each other."""
    harness = Harness(settings=settings)
    for name in ("a", "b"):
        harness.deploy(Spreader, name=name, copies=copies)
    return harness


def test_a_turn_whose_waiting_notifications_exceed_the_bound_ends_at_once() -> None:
    harness = pair(100, EngineSettings(max_turn=20_000))
    effects = harness.post(harness.note("a", Spread("b")))
    assert len(effects.trace) < 300, "a hundred for each reaction fill the bound after two hundred"
    assert harness.engine.dead_letters > 19_000


def test_a_turn_that_ends_exactly_at_its_bound_is_not_stopped() -> None:
    harness = Harness(settings=EngineSettings(max_turn=11))
    harness.deploy(Spreader, name="a", copies=10)
    harness.deploy(Spreader, name="b", copies=0)
    assert harness.post(harness.note("a", Spread("b"))).reports == []
    harness.deploy(Spreader, name="c", copies=11)
    assert "max_turn" in harness.post(harness.note("c", Spread("b"))).reports[0]


def test_a_turn_whose_notifications_exceed_the_bytes_is_stopped() -> None:
    harness = pair(2, EngineSettings(max_turn_bytes=1_000_000))
    effects = harness.post(harness.note("a", Spread("b", "x" * 10_000)))
    assert len(effects.trace) < 60
    assert "max_turn_bytes, 1000000" in effects.reports[0]
    assert harness.post(harness.note("b", Spread("nobody"))).reports[0].startswith("dead letter"), (
        "the next turn begins with a count of its own"
    )


def test_the_report_of_a_runaway_turn_names_its_beginning_and_who_sends_most() -> None:
    harness = pair(3, EngineSettings(max_turn=100))
    harness.deploy(Spreader, name="quiet", copies=0)
    (report,) = harness.post(harness.note("a", Spread("b"))).reports
    assert f"the turn of {Spread.type_name} from #0.0.1 to a was stopped" in report
    assert str(FIRST) in report
    assert str(SECOND) in report
    assert f"by the class {Spreader.__module__}:Spreader" in report


def test_the_rest_of_a_runaway_turn_is_one_row_with_the_number_of_dead_letters() -> None:
    harness = pair(10, EngineSettings(max_turn=1000))
    effects = harness.post(harness.note("a", Spread("b")), harness.note("b", Spread("a")))
    rows = [reaction for reaction in effects.trace if reaction.kind == "deadletter"]
    assert len(rows) == 2, "one for each of the two turns"
    assert f"runaway turn: {harness.engine.dead_letters // 2} notifications" in rows[0].error
    positions = [reaction.position for reaction in effects.trace]
    assert positions == list(range(positions[0], positions[0] + len(positions))), "without a gap"


def test_many_runaway_turns_of_one_entry_take_little_more_than_one() -> None:
    harness = pair(1, EngineSettings(max_turn=4000))
    effects = harness.post(*[harness.note("a", Spread("b")) for _ in range(50)])
    assert len(effects.trace) < 2 * 4000 + 50 * 110
    assert "more than max_turn, 4000;" in effects.reports[0]
    assert "more than max_turn, 2000, which each such turn of an entry halves;" in effects.reports[1]
    again = harness.post(harness.note("a", Spread("b")))
    assert len(again.trace) == 4001, "the next entry has all"


def test_a_runaway_turn_takes_nothing_from_turns_of_other_recipients_and_types() -> None:
    harness = pair(1, EngineSettings(max_turn=1000))
    harness.deploy(Spreader, name="wide", copies=900)
    harness.deploy(Spreader, name="leaf", copies=0)
    runaways = [harness.note("a", Spread("b")) for _ in range(10)]
    effects = harness.post(*runaways, harness.note("wide", Spread("leaf")))
    assert len(effects.reports) == 10
    leaf = harness.agent("leaf")
    assert isinstance(leaf, Spreader)
    assert leaf.got == 900


def test_replicas_end_a_runaway_turn_at_the_same_reaction() -> None:
    one, other = pair(7, EngineSettings(max_turn=500)), Harness(settings=EngineSettings(max_turn=500))
    other.know(Spreader)
    one.post(one.note("a", Spread("b")), one.note("b", Spread("a")))
    for entry in one.log:
        other.replay(*entry)
    assert one.engine.digest() == other.engine.digest()


def test_an_agent_whose_timers_fire_without_pause_is_named_once_a_minute() -> None:
    harness = Harness()
    harness.deploy(Restless, name="restless")
    harness.send("restless", Beat())
    for _ in range(130):
        for _ in range(200):
            harness.advance(0.005)
    named = [line for line in harness.reports if "timers of agent" in line]
    assert len(named) == 3, "130 seconds"
    assert f"agent {FIRST} ({Restless.__module__}:Restless)" in named[0]


def test_timers_with_pauses_are_not_reported() -> None:
    harness = Harness()
    harness.deploy(Restless, name="restless")
    harness.send("restless", Beat())
    for _ in range(500):
        harness.advance(0.02)
    assert harness.reports == []


@pytest.mark.parametrize("limit", ["_MAX_SENDS", "_MAX_SENT_BYTES"])
def test_a_reaction_that_sends_without_end_is_undone_and_its_sender_told(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(context, limit, 1000)
    harness = Harness()
    harness.deploy(Flood, name="flood")
    (answer,) = harness.send("flood", Spread("flood"))
    assert isinstance(answer, ExceptionNotification)
    assert "send fewer" in answer.message
    flood = harness.agent("flood")
    assert isinstance(flood, Flood)
    assert flood.sent == 0
