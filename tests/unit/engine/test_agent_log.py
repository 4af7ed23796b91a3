"""Lines of agents: who writes them, when they are silent, and their bounds."""

import attrs
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.engine.agent_log import MAX_AGENT_LINES_PER_S, MAX_LINES_PER_S
from quorate.testing import Harness


@attrs.frozen
class Say(Notification):
    texts: list[str]
    fails: bool = False


@attrs.define
class Talker(Agent):
    heard: int = 0
    ballast: str = "x" * 5000  # a large state is not saved after each reaction: undoing runs reactions again

    @reacts
    def say(self, ctx: Context, note: Say) -> None:
        self.heard += 1
        for text in note.texts:
            ctx.log(text)
        if note.fails:
            raise ValueError("as ordered")


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.deploy(Talker, name="ann")
    return harness


def test_a_line_names_the_agent_and_stays_one_line(harness: Harness) -> None:
    harness.send("ann", Say(["hello", "two\nlines"]))
    begin = f"agent #0.0.1025 'ann' ({Talker.__module__}:Talker): "
    assert harness.agent_lines == [f"{begin}hello", f"{begin}two\\nlines"]


def test_a_reaction_that_raises_writes_nothing_and_undoing_it_repeats_nothing(harness: Harness) -> None:
    for number in range(3):
        harness.send("ann", Say([f"line {number}"]))
    harness.send("ann", Say(["of a failure"], fails=True))
    harness.send("ann", Say(["after"]))
    assert [line.partition("): ")[2] for line in harness.agent_lines] == [
        "line 0",
        "line 1",
        "line 2",
        "after",
    ]


def test_lines_are_no_part_of_what_replicas_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(log: bool) -> tuple[bytes, bytes]:
        harness = Harness()
        harness.deploy(Talker, name="ann")
        if not log:
            monkeypatch.setattr(Context, "log", lambda _self, _text: None)
        harness.send("ann", Say(["x"]))
        assert bool(harness.agent_lines) == log
        return harness.engine.digest(), harness.engine.chain

    assert outcome(log=True) == outcome(log=False)


def test_lines_of_a_reaction_an_agent_and_a_server_are_bounded_and_the_rest_is_counted(
    harness: Harness,
) -> None:
    harness.send("ann", Say(["x" * 2000] * 20))
    assert len(harness.agent_lines) == 16
    assert len(harness.agent_lines[0].partition("): ")[2]) == 1000
    harness.send("ann", Say(["y"] * 16))
    assert len(harness.agent_lines) == MAX_AGENT_LINES_PER_S
    for number in range(10):
        harness.deploy(Talker, name=f"a{number}")
        harness.send(f"a{number}", Say(["z"] * 12))
    assert len(harness.agent_lines) == MAX_LINES_PER_S
    left_out = 20 + 16 + 120 - MAX_LINES_PER_S
    harness.advance(1.0)
    harness.send("ann", Say(["next"]))
    assert harness.agent_lines[MAX_LINES_PER_S].startswith(f"{left_out} lines of agents were left out")
    assert harness.agent_lines[-1].endswith("): next")


def test_what_is_no_text_fails_the_reaction(harness: Harness) -> None:
    @attrs.define
    class Wrong(Agent):
        @reacts
        def say(self, ctx: Context, note: Say) -> None:
            ctx.log(5)  # type: ignore[arg-type]

    harness.deploy(Wrong, name="bob")
    (answer,) = harness.send("bob", Say([]))
    assert "ctx.log takes text, not int" in answer.message  # type: ignore[attr-defined]
