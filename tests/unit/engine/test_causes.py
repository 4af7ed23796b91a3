"""The trace tells what caused each reaction, and how many notifications each reaction caused."""

import attrs
import msgspec
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, UnknownAgent, reacts
from quorate.agents import Note, Pause, Resume, encode, factory, outside
from quorate.engine import EngineSettings, NetInput, NetPeer, Reaction, Tick
from quorate.testing.harness import Harness

SERVERS = {"s0": 0, "s1": 1}


@attrs.frozen
class Pass(Notification):
    """Goes on along `way`; `later` is how the first one of it gets it."""

    way: list[str]
    later: bool = False


@attrs.define
class Relay(Agent):
    @reacts
    def relay(self, ctx: Context, note: Pass) -> None:
        for place, to in enumerate(note.way[:1]):
            if note.later:
                ctx.timer(1.0, Pass(note.way))
            else:
                ctx.send(to, Pass(note.way[place + 1 :]))
        if not note.way:
            raise ValueError("the end")

    @reacts
    def failed(self, ctx: Context, note: ExceptionNotification | UnknownAgent) -> None: ...


@pytest.fixture
def harness() -> Harness:
    made = Harness(0, SERVERS)
    made.deploy(Relay, name="one")
    made.deploy(Relay, name="two")
    return made


def post(harness: Harness, to: str, *way: str, later: bool = False) -> list[Reaction]:
    note = Pass(list(way), later)
    return harness.post(Note(to, outside(0), note.type_name, encode(note))).trace


def test_each_reaction_tells_which_one_caused_it_and_how_many_it_caused(harness: Harness) -> None:
    rows = post(harness, "one", "two", "one")
    first, second, third, report = rows
    assert [row.cause for row in rows] == [0, first.position, second.position, third.position]
    assert [row.local for row in rows] == [1, 1, 1, 0]
    assert third.error
    assert report.type == ExceptionNotification.type_name


def test_a_timer_has_the_reaction_that_set_it_as_its_cause(harness: Harness) -> None:
    (setter,) = post(harness, "one", "two", later=True)
    fired = harness.advance(2.0).trace[0]
    assert (fired.type, fired.cause, setter.local) == (Pass.type_name, -setter.position, 0)


def test_a_dead_letter_is_the_cause_of_its_report(harness: Harness) -> None:
    sent, letter, report = post(harness, "one", "nobody")
    assert (letter.kind, letter.cause, sent.local) == ("deadletter", sent.position, 1)
    assert (report.cause, letter.local) == (letter.position, 1)


def test_a_notification_that_waited_keeps_its_cause(harness: Harness) -> None:
    two = harness.engine.find("two")
    assert two is not None
    harness.send(factory(0), Pause("two"))
    (sent,) = post(harness, "one", "two", "one")
    resumed = harness.post(harness.note(factory(0), Resume("two"))).trace
    assert [row.cause for row in resumed if row.agent == two.identity and row.type == Pass.type_name] == [
        sent.position
    ]
    assert sent.local == 1


def test_a_cause_and_a_number_come_with_a_notification_of_another_server(harness: Harness) -> None:
    other = Harness(1, SERVERS)
    other.deploy(Relay, name="far")
    harness.apply(Tick())
    other.apply(Tick())
    harness.apply(NetPeer(1, other.engine.birth))
    note = Pass(["far@s1"])
    effects = harness.post(*[Note("one", outside(0), note.type_name, encode(note)) for _ in range(2)])
    first, second = effects.trace
    assert (first.remote, second.remote, first.local) == ("1", "1", 0)
    numbered = effects.network[1]
    birth = harness.engine.birth
    rows = other.apply(NetInput(0, birth, numbered[0][0], [each for _, each in numbered])).trace
    arrived = [row for row in rows if row.type == Pass.type_name]
    assert [(row.cause, row.link, row.number) for row in arrived] == [
        (first.position, 0, 1),
        (second.position, 0, 2),
    ]
    assert [row.link for row in post(other, "far", "far")] == [-1, -1, -1]


def test_requests_and_durations_are_traced_where_they_are_wanted() -> None:
    harness = Harness(settings=EngineSettings())
    harness.deploy(Relay, name="one")
    ticks = iter(range(0, 10_000, 7))
    harness.engine.clock_ns = lambda: next(ticks)
    harness.engine.traces_requests = True
    first, second, _ = post(harness, "one", "one")
    (((to, *_), *_), *_) = msgspec.msgpack.decode(first.requests)
    assert (to, first.duration_ns, second.requests) == ("one", 7, b"")
