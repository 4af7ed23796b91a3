"""Lists of agents, timers and dead letters, and what is done with them."""

import attrs
import pytest

from quorate import Agent, AgentId, Context, Delete, ExceptionNotification, Notification, reacts
from quorate.agents import AgentPage, ListAgents, Note, Pause, factory, outside
from quorate.agents.lifecycle import CancelTimer, DropDeadLetters, ResendDeadLetters, Settled, TimerCancelled
from quorate.testing.harness import Harness

FACTORY = factory(0)


@attrs.frozen
class Add(Notification):
    number: int
    later_s: float = 0.0
    text: bytes = b""


@attrs.define
class Sum(Agent, name="lists-test.sum"):
    seen: list[int] = attrs.field(factory=list[int])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.later_s:
            ctx.timer(note.later_s, Add(note.number))
        else:
            self.seen.append(note.number)


@attrs.define
class Other(Agent):
    @reacts
    def add(self, ctx: Context, note: Add) -> None: ...


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    for number in range(6):
        harness.deploy(Sum if number % 2 else Other, name=f"agent{number}")
    harness.deploy(Sum)
    return harness


def listed(harness: Harness, ask: ListAgents) -> list[str]:
    """The names of the agents of all pages."""
    names: list[str] = []
    while True:
        (page,) = harness.send(FACTORY, ask)
        assert isinstance(page, AgentPage)
        names += [row.name for row in page.agents]
        if not page.next:
            return names
        ask = attrs.evolve(ask, after=page.next)


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_the_pages_of_a_list_have_each_agent_once_in_order(harness: Harness, limit: int) -> None:
    assert listed(harness, ListAgents(limit=limit)) == [*(f"agent{number}" for number in range(6)), ""]


@pytest.mark.parametrize("name", ["lists-test.sum/1", f"{__name__}:Sum"])
def test_a_list_by_class_has_its_agents(harness: Harness, name: str) -> None:
    assert listed(harness, ListAgents(class_name=name, limit=2)) == ["agent1", "agent3", "agent5", ""]


def test_a_list_by_name_has_the_one_agent_or_those_that_begin_so(harness: Harness) -> None:
    harness.deploy(Sum, name="agent10")
    assert listed(harness, ListAgents(name="agent1")) == ["agent1"]
    assert listed(harness, ListAgents(name="agent1*", limit=1)) == ["agent1", "agent10"]
    assert listed(harness, ListAgents(name="agent*", class_name="lists-test.sum/1", limit=1)) == [
        "agent1",
        "agent10",
        "agent3",
        "agent5",
    ]
    assert listed(harness, ListAgents(name="nobody")) == []


def test_a_list_shows_what_is_paused_and_not_what_is_deleted(harness: Harness) -> None:
    harness.send(FACTORY, Pause("agent0"))
    harness.send("agent0", Add(1))
    harness.send(FACTORY, Delete("agent2"))
    (page,) = harness.send(FACTORY, ListAgents(limit=2))
    assert isinstance(page, AgentPage)
    assert [(row.name, row.paused, row.held) for row in page.agents] == [
        ("agent0", True, 1),
        ("agent1", False, 0),
    ]
    assert listed(harness, ListAgents(name="agent2*")) == []


def test_a_replica_that_receives_the_state_lists_the_same(harness: Harness) -> None:
    other = Harness()
    other.know(Sum, Other)
    other.engine.restore(harness.engine.snapshot())
    assert listed(other, ListAgents(limit=3)) == listed(harness, ListAgents(limit=3))


def test_a_place_that_is_none_is_refused(harness: Harness) -> None:
    (refused,) = harness.send(FACTORY, ListAgents(after="here"))
    assert isinstance(refused, ExceptionNotification)
    assert "is not an agent id" in refused.message


def test_timers_are_listed_as_they_are_due_and_one_can_be_cancelled(harness: Harness) -> None:
    for number in range(4):
        harness.send("agent1" if number % 2 else "agent3", Add(number, later_s=10.0 - number))
    first = harness.engine.timers(limit=3)
    rest = harness.engine.timers(after=(first[-1].due_ns, first[-1].timer))
    assert [timer.due_ns for timer in (*first, *rest)] == sorted(
        timer.due_ns for timer in harness.engine.timers()
    )
    cell = harness.engine.find("agent1")
    assert cell is not None
    own = harness.engine.timers(cell.identity)
    assert len(own) == 2
    assert harness.send(FACTORY, CancelTimer("agent1", own[0].timer)) == [TimerCancelled(own[0].timer)]
    assert harness.engine.timers(cell.identity) == own[1:]
    (refused,) = harness.send(FACTORY, CancelTimer("agent1", own[0].timer))
    assert isinstance(refused, ExceptionNotification)
    assert "has no timer" in refused.message


def test_a_dead_letter_is_kept_and_sent_again_once(harness: Harness) -> None:
    harness.send("late", Add(7))
    (letter,) = harness.engine.letters()
    assert (letter.number, letter.reason, letter.note.to) == (1, "unknown agent", "late")
    harness.deploy(Sum, name="late")
    assert harness.send(FACTORY, ResendDeadLetters([1, 5])) == [Settled([1], [5], [])]
    assert harness.agent("late") == Sum([7])
    assert harness.send(FACTORY, ResendDeadLetters([1])) == [Settled([], [1], [])]


def test_a_dead_letter_goes_to_another_agent_or_back_to_the_dead_letters(harness: Harness) -> None:
    harness.send("gone", Add(7))
    harness.send(FACTORY, ResendDeadLetters([1]))
    assert [letter.number for letter in harness.engine.letters()] == [2]
    harness.send(FACTORY, ResendDeadLetters([2], to="agent1"))
    assert harness.agent("agent1") == Sum([7])


def test_a_dead_letter_that_is_too_large_is_kept_without_its_payload(harness: Harness) -> None:
    harness.send("gone", Add(7, text=bytes(300_000)))
    (letter,) = harness.engine.letters()
    assert not letter.whole
    assert letter.size_bytes > 300_000
    assert harness.send(FACTORY, ResendDeadLetters([1])) == [Settled([], [], [1])]
    assert harness.send(FACTORY, DropDeadLetters([1])) == [Settled([1], [], [])]
    assert harness.engine.letters() == []


def test_the_oldest_dead_letters_make_room_for_new_ones(harness: Harness) -> None:
    note = harness.note("gone", Add(1))
    harness.post(*[note] * 1500)
    letters = harness.engine.letters(limit=5000)
    assert (letters[0].number, letters[-1].number) == (501, 1500)
    assert len(harness.engine.letters(after=1400)) == 100
    other = Harness()
    other.know(Sum, Other)
    other.engine.restore(harness.engine.snapshot())
    assert other.engine.letters() == letters
    assert other.engine.digest() == harness.engine.digest()


def test_the_answer_to_a_dead_letter_sent_again_answers_no_request(harness: Harness) -> None:
    sender = AgentId(0, 0, 1025)
    harness.post(Note("gone", outside(0), f"{__name__}:Nothing", b"", 17))
    effects = harness.post(harness.note(FACTORY, ResendDeadLetters([1], to=str(sender))))
    assert [reply.request for reply in effects.replies] == [0, 0]
