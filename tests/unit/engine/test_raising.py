"""Whatever an agent's code raises, and whatever its text is: the sender is told, and nothing else is lost."""

import itertools
import sys

import attrs
import pytest

from quorate import Agent, AgentError, Context, ExceptionNotification, Notification, reacts
from quorate.agents import AgentId, Note, encode
from quorate.engine import EngineSettings, EngineStopped, NetInput, Nondeterministic
from quorate.engine.error_text import MAX_ERROR_CHARS
from quorate.testing.harness import Harness

HALF = "report-\udce9.pdf"
"""A file's name with a byte that is no UTF-8, as Python shows it."""
SENDER = AgentId(1, 1, 1025)


@attrs.frozen
class Mark(Notification):
    number: int


@attrs.frozen
class Plan(Notification):
    """To be reminded of so many marks at a time."""

    count: int


class Wordless(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__


def fault(number: int) -> BaseException:
    faults: list[BaseException] = [
        ValueError(HALF),
        ValueError("\udce9" * MAX_ERROR_CHARS),
        OSError(2, "No such file", HALF),
        SystemExit(HALF),
        KeyboardInterrupt(),
        GeneratorExit(),
        Wordless(),
        ValueError("x" * 10_000_000),
    ]
    return faults[number]


FAULTS = range(8)


@attrs.define
class Book(Agent):
    """Raises at negative numbers."""

    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def mark(self, ctx: Context, note: Mark) -> None:
        self.numbers.append(note.number)
        if note.number < 0:
            raise fault(-1 - note.number)

    @reacts
    def plan(self, ctx: Context, note: Plan) -> None:
        for number in range(1, note.count + 1):
            ctx.timer(1.0, Mark(-1 if number == note.count // 2 else number))


def numbers(harness: Harness) -> list[int]:
    book = harness.agent("book")
    assert isinstance(book, Book)
    return book.numbers


def mark(number: int) -> Note:
    return Note("book", SENDER, Mark.type_name, encode(Mark(number)))


@pytest.fixture
def harness() -> Harness:
    made = Harness(0, {"s0": 0, "s1": 1})
    made.deploy(Book, name="book")
    return made


@pytest.mark.parametrize("number", FAULTS)
def test_the_sender_is_told(harness: Harness, number: int) -> None:
    (answer,) = harness.send("book", Mark(-1 - number))
    assert isinstance(answer, ExceptionNotification)
    assert len(answer.message) <= MAX_ERROR_CHARS
    assert numbers(harness) == []
    (line,) = harness.reports
    assert line.isprintable()


def test_of_half_a_character_the_sender_gets_its_number(harness: Harness) -> None:
    (answer,) = harness.send("book", Mark(-1))
    assert isinstance(answer, ExceptionNotification)
    assert (answer.error, answer.message) == ("ValueError", r"report-\udce9.pdf")


@pytest.mark.parametrize("number", FAULTS)
def test_what_came_with_it_from_another_server_is_taken(harness: Harness, number: int) -> None:
    harness.apply(NetInput(1, 7, 1, [mark(1), mark(-1 - number), mark(2)]))
    effects = harness.apply(NetInput(1, 7, 4, [mark(3)]))
    assert numbers(harness) == [1, 2, 3]
    assert effects.net_acks == {1: (7, 4)}


def test_timers_of_the_same_time_all_fire(harness: Harness) -> None:
    harness.send("book", Plan(10))
    harness.advance(1.0)
    assert numbers(harness) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


@attrs.define
class Moody(Agent):
    """Its constructor raises."""

    number: int = 0

    def __attrs_post_init__(self) -> None:
        if self.number < len(FAULTS):
            raise fault(self.number)

    @reacts
    def mark(self, ctx: Context, note: Mark) -> None: ...


@pytest.mark.parametrize("number", FAULTS)
def test_the_creator_receives_what_the_constructor_raised(harness: Harness, number: int) -> None:
    with pytest.raises(AgentError, match=r"Moody|no words"):
        harness.deploy(Moody, number=number)
    harness.deploy(Moody, name="moody", number=len(FAULTS))
    assert harness.agent("moody")


def test_a_constructor_that_exits_does_not_end_the_server(harness: Harness) -> None:
    @attrs.define
    class Quitter(Agent):
        def __attrs_post_init__(self) -> None:
            sys.exit(3)

        @reacts
        def mark(self, ctx: Context, note: Mark) -> None: ...

    with pytest.raises(AgentError, match="Quitter cannot be created: SystemExit: 3"):
        harness.deploy(Quitter)


def test_a_server_that_is_to_stop_then_says_why_in_text_that_can_be_sent() -> None:
    harness = Harness(settings=EngineSettings(stop_on_exception=True))
    harness.deploy(Book, name="book")
    with pytest.raises(EngineStopped) as stopped:
        harness.send("book", Mark(-1))
    assert r"report-\udce9.pdf" in str(stopped.value).encode().decode()


def test_what_makes_a_replica_stop_can_be_said() -> None:
    once = False

    @attrs.define
    class Fickle(Agent):
        """Raises when run again."""

        ballast: str = ""

        @reacts
        def mark(self, ctx: Context, note: Mark) -> None:
            nonlocal once
            if note.number < 0 or once:
                raise ValueError(HALF)

    harness = Harness()
    harness.deploy(Fickle, name="fickle", ballast="x" * 5000)
    harness.send("fickle", Mark(1))
    once = True
    with pytest.raises(Nondeterministic) as stopped:
        harness.send("fickle", Mark(-1))
    assert r"report-\udce9.pdf" in str(stopped.value).encode().decode()


# A defect of the engine itself, which nobody knows yet


@pytest.mark.parametrize(
    ("part", "method", "call"), [("_mail", "route", 2), ("", "_before_change", 2), ("_mail", "refuse", 1)]
)
def test_a_defect_costs_one_notification(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, part: str, method: str, call: int
) -> None:
    owner = getattr(harness.engine, part) if part else harness.engine
    right, calls = getattr(owner, method), itertools.count(1)

    def wrong(*args: object) -> object:
        if next(calls) == call:
            raise RuntimeError("it has a defect")
        return right(*args)

    monkeypatch.setattr(owner, method, wrong)
    effects = harness.apply(NetInput(1, 7, 1, [mark(1), mark(-1), mark(3)]))
    assert numbers(harness) == [1, 3]
    assert effects.net_acks == {1: (7, 3)}
    assert any("defect of the engine: RuntimeError: it has a defect" in line for line in effects.reports)
    # No position is left out, or the trace would seem to lack rows.
    first = effects.trace[0].position
    assert [each.position for each in effects.trace] == [first, first + 1, first + 2]
    assert harness.engine.position == first + 2
