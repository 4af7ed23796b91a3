"""Rows: tables beside the state of an agent, against dicts of Python."""

import random
from typing import Any

import attrs
import pytest

from quorate import Agent, AgentError, AgentId, Context, ExceptionNotification, Notification, Rows, reacts
from quorate.agents import Create, agent_spec, encode, factory
from quorate.agents.row_agent import RowAgent
from quorate.engine import AgentState, Engine, SnapshotError
from quorate.testing import Harness


@attrs.frozen
class Entry:
    amount: int
    text: str = ""


@attrs.frozen
class Change(Notification):
    """Puts and removes rows, in this order; fails afterwards if it is told to."""

    put: dict[int, int]
    remove: list[int] = attrs.field(factory=list[int])
    drop: tuple[int, int] | None = None
    fail: bool = False


@attrs.frozen
class Note(Notification):
    key: str
    value: bytes


@attrs.frozen
class Contents(Notification):
    entries: dict[int, int]
    first: int | None
    last: int | None


@attrs.frozen
class Leave(Notification):
    pass


@attrs.define
class Ledger(Agent, name="tests.ledger"):
    total: int = 0
    entries: Rows[int, Entry] = attrs.field(factory=Rows[int, Entry])
    notes: Rows[str, bytes] = attrs.field(factory=Rows[str, bytes])

    @reacts
    def change(self, ctx: Context, note: Change) -> None:
        self.total += 1
        for key, amount in note.put.items():
            self.entries[key] = Entry(amount)
        for key in note.remove:
            self.entries.pop(key, Entry(0))
        if note.drop is not None:
            self.entries.drop(*note.drop)
        found = {key: entry.amount for key, entry in self.entries.items()}
        assert len(found) == len(self.entries)
        if note.fail:
            raise ValueError("told to")
        ctx.send(ctx.sender, Contents(found, self.entries.first(), self.entries.last()))

    @reacts
    def note(self, ctx: Context, note: Note) -> None:
        self.notes[note.key] = note.value

    @reacts
    def leave(self, ctx: Context, note: Leave) -> None:
        ctx.delete()


class Model:
    """A harness with ledgers, and dicts that say what their entries are."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.harness = Harness()
        self.entries: dict[str, dict[int, int]] = {}
        for name in ("one", "two"):
            self.harness.deploy(Ledger, name=name)
            self.entries[name] = {}

    def step(self) -> None:
        """Change one of the ledgers, and compare its answer."""
        draw, name = self.random, self.random.choice(list(self.entries))
        put = {draw.randrange(40): draw.randrange(100) for _ in range(draw.randrange(4))}
        remove = [draw.randrange(40) for _ in range(draw.randrange(3))]
        low = draw.randrange(40)
        drop = (low, low + draw.randrange(6)) if draw.random() < 0.2 else None
        fail = draw.random() < 0.2
        expected = {**self.entries[name], **put}
        for key in remove:
            expected.pop(key, None)
        if drop is not None:
            expected = {key: value for key, value in expected.items() if not drop[0] <= key < drop[1]}
        (answer,) = self.harness.send(name, Change(put, remove, drop, fail))
        if fail:
            assert isinstance(answer, ExceptionNotification)
        else:
            self.entries[name] = expected
            keys = sorted(expected)
            assert answer == Contents(expected, min(keys, default=None), max(keys, default=None))
            assert isinstance(answer, Contents)
            assert list(answer.entries) == keys
        self.check(self.harness.engine)

    def check(self, engine: Engine) -> None:
        """Compare all entries that an engine has."""
        for name, expected in self.entries.items():
            cell = engine.find(name)
            assert cell is not None
            assert isinstance(cell.agent, Ledger)
            assert {key: entry.amount for key, entry in cell.agent.entries.items()} == expected

    def engine(self) -> Engine:
        """Return another engine of the same server."""
        harness = Harness()
        harness.know(Ledger)
        return harness.engine


@pytest.mark.parametrize("seed", range(10))
def test_rows_are_what_reactions_that_succeeded_have_put(seed: int) -> None:
    model = Model(seed)
    for _ in range(60):
        model.step()


@pytest.mark.parametrize("seed", range(10))
def test_captures_store_what_changed_and_load_to_the_same_state(seed: int) -> None:
    model = Model(seed)
    store: dict[AgentId, AgentState] = {}
    header = b""
    for _ in range(8):
        capture = model.harness.engine.capture()
        digest = model.harness.engine.digest()
        entries = {name: dict(rows) for name, rows in model.entries.items()}
        # Entries are applied while the capture is encoded.
        while not capture.step(2):
            model.step()
        if capture.full:
            store.clear()
        for identity in capture.deleted:
            store.pop(identity, None)
        store.update({each.identity: each for each in capture.agents})
        header = capture.header
        loaded = model.engine()
        loaded.load(header, store.values())
        assert loaded.digest() == digest
        now, model.entries = model.entries, entries
        model.check(loaded)
        model.entries = now
        for _ in range(5):
            model.step()


@pytest.mark.parametrize("seed", range(10))
def test_a_transfer_sends_only_rows_that_changed(seed: int) -> None:
    model = Model(seed)
    for _ in range(40):
        model.step()
    engine, copy = model.harness.engine, model.engine()
    copy.restore(engine.snapshot())
    model.check(copy)
    for _ in range(6):
        model.step()
    source, staging = engine.source(have=copy.applied), copy.staging()
    kept = sent = 0
    while not source.over:
        part = source.next()
        if part is not None:
            sent += len(staging.accept(part.data).agents)
            kept = len(staging.cells)
            if not source.over and model.random.random() < 0.5:
                model.step()
    copy.install(staging)
    assert sent < kept
    # The parts are as of one entry, and the copy goes on from there like the original.
    for _ in range(5):
        model.step()
    for entry in model.harness.log:
        if entry[0] > copy.applied:
            copy.apply(*entry)
    assert copy.digest() == engine.digest()
    model.check(copy)


def test_an_incoming_state_that_is_refused_leaves_the_rows_as_they_are() -> None:
    model = Model(0)
    for _ in range(20):
        model.step()
    other = Model(1)
    for _ in range(20):
        other.step()
    staging = model.harness.engine.staging()
    for part in other.harness.engine.snapshot():
        staging.accept(part)
    assert staging.end is not None
    staging.end = type(staging.end)(staging.end.header, b"another digest!!")
    with pytest.raises(SnapshotError):
        model.harness.engine.install(staging)
    for _ in range(10):
        model.step()


def test_the_rows_of_a_deleted_agent_are_gone() -> None:
    model = Model(0)
    model.harness.send("one", Change({1: 1, 2: 2}))
    model.harness.send("one", Note("k", b"v"))
    model.harness.send("one", Leave())
    assert [cell for cell in model.harness.engine.cells() if isinstance(cell.agent, RowAgent)] == []
    copy = model.engine()
    copy.restore(model.harness.engine.snapshot())
    assert copy.digest() == model.harness.engine.digest()


def test_replicas_that_differ_in_rows_only_have_other_outcomes() -> None:
    marks: list[Any] = []
    for amount in (1, 2):
        model = Model(0)
        effects = model.harness.post(model.harness.note("one", Note("k", b"%d" % amount)))
        marks.append(effects.marks)
    assert marks[0] != marks[1]


def test_nobody_addresses_a_row() -> None:
    model = Model(0)
    model.harness.send("one", Change({1: 1}))
    (row,) = (cell for cell in model.harness.engine.cells() if isinstance(cell.agent, RowAgent))
    (answer,) = model.harness.send(row.identity, Leave())
    assert isinstance(answer, ExceptionNotification)
    assert "is a row of agent #0.0.1025, and takes no" in answer.message


@attrs.define
class Shrunk(Agent, name="tests.shrunk"):
    """What the ledger would be without its entries."""

    total: int = 0
    notes: Rows[str, bytes] = attrs.field(factory=Rows[str, bytes])

    @reacts
    def leave(self, ctx: Context, note: Leave) -> None:
        ctx.delete()


def test_a_class_that_would_lose_rows_does_not_load_them() -> None:
    model = Model(0)
    model.harness.send("one", Change({1: 1, 2: 2}))
    capture = model.harness.engine.capture()
    capture.step()
    agents = [
        attrs_free if attrs_free.cls != "tests.ledger/1" else _renamed(attrs_free)
        for attrs_free in capture.agents
    ]
    harness = Harness()
    harness.know(Shrunk)
    with pytest.raises(
        SnapshotError, match=r"agent #0\.0\.1025 has stored rows of entries, 2 of them, and tests"
    ):
        harness.engine.load(capture.header, agents)


def _renamed(state: AgentState) -> AgentState:
    spec = agent_spec(Shrunk)
    return AgentState(
        state.identity, state.name, spec.name, state.reactions, b"\x81\xa5total\x00", location=spec.location
    )


# Wrong input


@attrs.frozen
class Misuse(Notification):
    what: str


@attrs.define
class Misused(Agent):
    table: Rows[int, Entry] = attrs.field(factory=Rows[int, Entry])

    @reacts
    def misuse(self, ctx: Context, note: Misuse) -> None:
        wrong: Any = self.table
        match note.what:
            case "text as key":
                wrong["x"] = Entry(1)
            case "bool as key":
                wrong[True] = Entry(1)
            case "large key":
                wrong[2**63] = Entry(1)
            case "other value":
                wrong[1] = "x"
            case "missing":
                wrong[5]
            case "missing to remove":
                del wrong[5]
            case _:
                self.table = {}  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("text as key", "TypeError", "a key of these rows is int, not str"),
        ("bool as key", "TypeError", "a key of these rows is int, not bool"),
        ("large key", "ValueError", "has more than 64 bits"),
        ("other value", "ValidationError", "Expected `object`, got `str`"),
        ("missing", "KeyError", "5"),
        ("missing to remove", "KeyError", "5"),
        ("replaced", "Unstorable", "table of tests.unit.engine.test_rows:Misused is dict"),
    ],
)
def test_what_cannot_be_a_row_fails_the_reaction(what: str, error: str, text: str) -> None:
    harness = Harness()
    harness.deploy(Misused, name="misused")
    (answer,) = harness.send("misused", Misuse(what))
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == error
    assert text in answer.message
    agent = harness.agent("misused")
    assert isinstance(agent, Misused)
    assert len(agent.table) == 0


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Rows, r"write Rows\[int, V\] or Rows\[str, V\]"),
        (Rows[bytes, int], r"write Rows\[int, V\] or Rows\[str, V\]"),  # type: ignore[type-var]
        (Rows[int, object], "cannot be stored"),
        (Rows[int, Any], "may be of any type"),
        (Rows[int, set[int]], "has no sets"),
    ],
)
def test_types_that_cannot_be_rows_are_refused(annotation: Any, text: str) -> None:
    body = {"__module__": __name__, "__annotations__": {"table": annotation}, "leave": Ledger.leave}
    with pytest.raises(AgentError, match=text):
        agent_spec(attrs.define(type("Wrong", (Agent,), {**body, "table": attrs.field(factory=Rows)})))


@attrs.define
class Filled(Agent):
    table: Rows[int, int] = attrs.field(factory=Rows[int, int])

    def __attrs_post_init__(self) -> None:
        self.table[1] = 1

    @reacts
    def leave(self, ctx: Context, note: Leave) -> None:
        ctx.delete()


def test_a_table_that_is_filled_before_its_agent_exists_is_refused() -> None:
    harness = Harness()
    harness.know(Filled)
    (answer,) = harness.send(factory(0), Create(agent_spec(Filled).location))
    assert "table begins empty; put its first rows in a reaction" in str(answer)


def test_rows_work_without_a_server() -> None:
    ledger = Ledger()
    for key in (5, 1, 3):
        ledger.entries[key] = Entry(key)
    del ledger.entries[3]
    assert list(ledger.entries) == [1, 5]
    assert [ledger.entries.floor(key) for key in (0, 1, 4, 9)] == [None, 1, 1, 5]
    assert [ledger.entries.ceiling(key) for key in (0, 1, 4, 9)] == [1, 1, 5, None]
    assert list(ledger.entries.keys(2, 9)) == [5]
    assert list(ledger.entries.keys(reverse=True)) == [5, 1]
    assert (ledger.entries.get(1), ledger.entries.get(2), 5 in ledger.entries) == (Entry(1), None, True)
    assert bool(ledger.entries)
    assert repr(ledger.entries) == "<Rows, 2>"
    assert ledger.entries != Ledger().entries
    assert encode(Leave()) == b"\x80"


def test_a_value_is_a_copy() -> None:
    table: Rows[int, list[int]] = Rows[int, list[int]]()
    table[1] = [1]
    table[1].append(2)
    assert table[1] == [1]


def test_rows_without_types_say_how_they_are_given() -> None:
    table: Rows[int, int] = Rows()
    with pytest.raises(AgentError, match=r"write Rows\[int, V\]"):
        table[1] = 1
