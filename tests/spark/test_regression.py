"""New code on old traffic, the first time that a condition held, and what is left over."""

import importlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.agents import Create, Delete, Note, Notification, encode, factory, outside
from quorate.engine import Engine, Posts, Reaction, encode_batch
from quorate.replay import ReplayError, bisect, garbage, regress
from quorate.replay.command import command
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

CODE = """
import attrs
from quorate import Agent, Context, Notification, reacts

@attrs.frozen
class Sold(Notification):
    pieces: int

@attrs.frozen
class Low(Notification):
    left: int

@attrs.define
class Shelf(Agent):
    pieces: int = 100
    warned: int = 0

    @reacts
    def sold(self, ctx: Context, note: Sold) -> None:
        self.pieces -= note.pieces
        if self.pieces < LIMIT:
            self.warned += 1
            ctx.send("clerk", Low(self.pieces))
        if note.pieces == 99:
            ctx.delete()

@attrs.define
class Clerk(Agent):
    heard: int = 0

    @reacts
    def low(self, ctx: Context, note: Low) -> None:
        self.heard += 1
"""


def code(place: Path, limit: int) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "shop_shelf.py").write_text(CODE.replace("LIMIT", str(limit)))
    return place


class Shop:
    """A server on which shelves sell 10 pieces at a time, the first one every time, the others less often."""

    def __init__(self, module: ModuleType) -> None:
        self.engine = Engine(0, {"s0": 0})
        self.engine.traces_requests = True
        self.rows: list[Reaction] = []
        self.now_ns = 1_700_000_000_000_000_000
        sold: Any = module.Sold
        for name in ("first", "second", "third", "gone"):
            self.post(factory(0), Create("shop_shelf:Shelf", name=name))
        self.post(factory(0), Create("shop_shelf:Clerk", name="clerk"))
        for turn in range(11):
            self.post("first", sold(10))
            if turn % 3 == 0:
                self.post("second", sold(10))
        self.post("gone", sold(99))
        self.post("third", sold(1))
        self.post(factory(0), Delete("second"))
        self.post("second", sold(1))

    def post(self, to: Any, message: Notification) -> None:
        self.now_ns += 1_000_000_000
        note = Note(to, outside(0), message.type_name, encode(message))
        effects = self.engine.apply(self.engine.applied + 1, self.now_ns, encode_batch([Posts([note])]))
        self.rows += effects.trace


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = code(tmp_path_factory.mktemp("old"), 20)
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))
    sys.modules.pop("shop_shelf", None)


@pytest.fixture(scope="module")
def shop(old: Path) -> Shop:
    return Shop(importlib.import_module("shop_shelf"))


@pytest.fixture(scope="module")
def data(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data")
    writer = TraceWriter(place / "s0" / "0" / "trace", Origin("s0", 0, 0, 5, {"s0": 0}))
    writer.write(shop.rows)
    writer.close()
    return place


def ident(shop: Shop, name: str) -> str:
    return next(str(row.agent) for row in shop.rows if row.kind == "create" and row.name == name)


def sales(shop: Shop, name: str) -> list[int]:
    """The positions at which a shelf sold something."""
    agent = ident(shop, name)
    return [row.position for row in shop.rows if str(row.agent) == agent and row.kind == "react"]


def test_the_same_code_does_the_same(session: Any, data: Path, old: Path) -> None:
    found = regress(session, data, [str(old)])
    assert found.ok, found.problems
    assert (found.agents, found.different) == (5, 0)


def test_new_code_is_told_by_outputs_and_final_states(
    session: Any, data: Path, shop: Shop, tmp_path: Path
) -> None:
    """With a limit of 35 the first shelf warns for two sales more, the others never reach it."""
    found = regress(session, data, [str(code(tmp_path, 35))])
    (change,) = found.changes
    assert change.agent == ident(shop, "first")
    assert (change.position, change.different) == (sales(shop, "first")[6], 2)
    assert change.state == {"warned": (3, 5)}
    assert "shop_shelf:Low" in change.difference
    assert change.difference.endswith("the trace has: nothing more")
    assert (found.agents, found.not_run, found.notes) == (5, (), ())


def test_the_code_before_may_be_another_one_than_what_is_imported(
    session: Any, data: Path, tmp_path: Path
) -> None:
    new, other = code(tmp_path / "new", 35), code(tmp_path / "other", 50)
    found = regress(session, data, [str(new)], before=[str(other)])
    assert found.notes[0].startswith("the code before does not do what the trace says either, for 1 agents")
    assert found.changes[0].state == {"warned": (6, 5)}


def test_new_code_that_cannot_be_loaded_is_one_sentence(session: Any, data: Path, tmp_path: Path) -> None:
    (tmp_path / "shop_shelf.py").write_text("raise RuntimeError('not today')")
    found = regress(session, data, [str(tmp_path)])
    assert found.changes == ()
    assert len(found.not_run) == 2  # the shelves, and the clerk
    assert all("not today" in sentence for sentence in found.not_run)


def test_the_first_notification_after_which_a_condition_holds_is_found(
    session: Any, data: Path, shop: Shop
) -> None:
    found = bisect(session, data, "pieces <= 30 and warned == 0")
    (breach,) = found.breaches
    assert (breach.agent, breach.position) == (ident(shop, "first"), sales(shop, "first")[6])
    assert (breach.before, breach.after) == ({"pieces": 40, "warned": 0}, {"pieces": 30, "warned": 0})
    assert (breach.type, found.agents, found.problems) == ("shop_shelf:Sold", 4, ())
    assert found.breached == 1


def test_a_condition_that_never_holds_has_no_place(session: Any, data: Path) -> None:
    found = bisect(session, data, "pieces > 100", cls="shop_shelf:Shelf")
    assert (found.breaches, found.breached, found.agents, found.problems) == ((), 0, 4, ())


def test_a_condition_that_is_none_or_fails_is_told(session: Any, data: Path) -> None:
    with pytest.raises(ReplayError, match="is no Python expression"):
        bisect(session, data, "pieces <")
    assert bisect(session, data, "colour == 1").problems == (
        "no agent was found that has all attributes of the condition 'colour == 1'",
    )
    failing = bisect(session, data, "pieces / warned > 3", agent="#0.0.1025")
    assert "the condition cannot be evaluated: ZeroDivisionError" in failing.problems[0]


def test_agents_that_nobody_writes_to_are_told_and_deleted_ones_are_not(
    session: Any, data: Path, shop: Shop
) -> None:
    found = garbage(session, data, idle_s=3)
    agents = {each.agent: each for each in found.idle}
    assert ident(shop, "first") in agents
    assert ident(shop, "third") not in agents
    assert found.live == 3  # one has deleted itself, one was deleted
    (dead,) = found.dead
    assert (dead.type, dead.letters, dead.position) == ("shop_shelf:Sold", 1, shop.rows[-1].position)


def test_the_commands_exit_by_what_they_find(data: Path, old: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(command, [arguments[0], str(data), *arguments[1:], "--engine", "local"])

    changed = run("regress", "--code", str(code(tmp_path / "new", 35)), "--json")
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["changes"][0]["state"] == {"warned": [3, 5]}
    assert run("regress", "--code", str(old)).exit_code == 0
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "shop_shelf.py").write_text("import nothing_of_the_kind")
    assert run("regress", "--code", str(broken)).exit_code == 3
    held = run("bisect", "--until", "warned > 0")
    assert held.exit_code == 1
    assert "attribute" in held.stdout
    assert run("bisect", "--until", "warned > 9").exit_code == 0
    assert run("garbage", "--idle", "3").exit_code == 0


def test_the_state_at_a_time_is_that_after_the_last_reaction_up_to_it(
    data: Path, old: Path, shop: Shop
) -> None:
    """Each entry takes a second of the log's time."""

    def show(*when: str) -> Any:
        agent = ident(shop, "first")
        return CliRunner().invoke(command, ["show", str(data), "--agent", agent, "--engine", "local", *when])

    row = next(row for row in shop.rows if row.position == sales(shop, "first")[2])
    moment = datetime.fromtimestamp(row.now_ns // 10**9, UTC).isoformat()
    assert json.loads(show("--time", moment).stdout)["state"]["pieces"] == 70
    assert json.loads(show("--time", "2099-01-01").stdout)["position"] == sales(shop, "first")[-1]
    page = data.parent / "shelf.html"
    assert show("--at", str(row.position), "--report", str(page)).exit_code == 0
    assert "<td>pieces</td><td>70</td>" in page.read_text()
    early = show("--time", "2001-01-01")
    assert (early.exit_code, early.stderr[-14:]) == (1, "at that time.\n")
    assert show("--time", "yesterday").exit_code == 2
    assert show("--time", "2099-01-01", "--at", "5").exit_code == 2
