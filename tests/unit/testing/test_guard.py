"""What the guard of the harness reports, and what it lets pass."""

import copy
import datetime
import json
import logging
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from quorate.agents import Agent, Context, Notification, reacts
from quorate.testing import Guard, Harness, NondeterministicReaction

counter = 0


@attrs.frozen
class Key:
    name: str

    def __hash__(self) -> int:
        return hash(self.name)


def count() -> None:
    global counter
    counter += 1


def log(ctx: Context) -> None:
    logging.getLogger("test").warning("at %s", ctx.now)


USES: dict[str, tuple[str, Callable[[Context], object]]] = {
    "time.time": ("clock", lambda _: time.time()),
    "datetime.now": ("clock", lambda _: datetime.datetime.now()),
    "date.today": ("clock", lambda _: datetime.date.today()),
    "time.sleep": ("clock", lambda _: time.sleep(0)),
    "the random module (random)": ("randomness", lambda _: random.random()),
    "the random module (getrandbits)": ("randomness", lambda _: random.choice([1, 2, 3])),
    "random.Random() without a seed": ("randomness", lambda _: random.Random().random()),
    "uuid.uuid4": ("randomness", lambda _: uuid.uuid4()),
    "os.urandom": ("randomness", lambda _: os.urandom(4)),
    "os.environ": ("environment", lambda _: os.getenv("HOME")),
    "os.getpid": ("environment", lambda _: os.getpid()),
    "open()": ("file", lambda _: Path(__file__).read_bytes()),
    "os.stat": ("file", lambda _: Path(__file__).exists()),
    "a socket": ("socket", lambda _: socket.socket().close()),
    "a thread": ("thread", lambda _: threading.Thread(target=int).start()),
    "id()": ("identity", id),
    "hash() of str": ("hash", lambda _: hash("text")),
    "hash() of tuple": ("hash", lambda _: hash(("text", 1))),
    "the global variable counter, assigned there": ("global", lambda _: count()),
}
HARMLESS: dict[str, Callable[[Context], object]] = {
    "logging": log,
    "copy": lambda ctx: copy.deepcopy([[ctx.now_ns]]),
    "json": lambda ctx: json.dumps({"now": [ctx.now]}),
    "seeded": lambda ctx: random.Random(f"{ctx.agent}").random() + ctx.random.random(),
    "numbers": lambda ctx: hash(3) + hash((1, 2.5)) + hash(ctx.agent),
    "keys": lambda _: {Key("a"): 1}[Key("a")],
    "dates": lambda ctx: datetime.datetime.fromtimestamp(ctx.now, datetime.UTC).isoformat(),
    "import": lambda _: __import__("colorsys"),
    "names": lambda _: uuid.uuid5(uuid.NAMESPACE_URL, "x"),
    "print": lambda ctx: print(ctx.now),
}


@attrs.frozen
class Use(Notification):
    name: str


@attrs.define
class User(Agent):
    uses: int = 0

    @reacts
    def use(self, ctx: Context, note: Use) -> None:
        self.uses += 1
        (USES[note.name][1] if note.name in USES else HARMLESS[note.name])(ctx)


@pytest.fixture
def harness() -> Iterator[Harness]:
    one = Harness()
    one.deploy(User, name="user")
    yield one
    assert sys.getprofile() is None


@pytest.mark.parametrize("name", USES)
def test_a_reaction_that_differs_between_replicas_is_reported_with_its_line(
    name: str, harness: Harness
) -> None:
    with pytest.raises(NondeterministicReaction) as raised:
        harness.send("user", Use(name))
    finding = raised.value.findings[0]
    assert (finding.kind, finding.used) == (USES[name][0], name)
    function = USES[name][1]
    lines = {function.__code__.co_firstlineno} if hasattr(function, "__code__") else set[int]()
    assert finding.file == __file__
    if function is not id and finding.kind != "global":
        assert finding.line in lines
    assert f"{__file__}:{finding.line}: " in str(raised.value)
    assert "User reacts to" in str(raised.value)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_nothing_in_a_reaction_is_not_reported(name: str, harness: Harness) -> None:
    for module in ("colorsys",):
        sys.modules.pop(module, None)
    harness.send("user", Use(name))


def test_a_place_is_reported_once(harness: Harness) -> None:
    with pytest.raises(NondeterministicReaction):
        harness.send("user", Use("time.time"))
    harness.send("user", Use("time.time"))


def test_a_test_uses_clocks_and_files_between_reactions(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "note").write_text(str(time.time()))
    harness.send("user", Use("seeded"))
    assert hash("text") == hash("te" + "xt")


def test_a_harness_without_guard_reports_nothing() -> None:
    harness = Harness(guard=False)
    harness.deploy(User, name="user")
    harness.send("user", Use("time.time"))


def test_an_allowed_module_may_use_what_it_likes() -> None:
    harness = Harness(guard=Guard(allow=[__name__.partition(".")[0]]))
    harness.deploy(User, name="user")
    harness.send("user", Use("time.time"))
