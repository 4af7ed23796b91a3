"""The examples of groups do what they say, with real processes."""

import signal
import socket
import subprocess
import sys

import pytest

from .conftest import Start
from .running import BOUND_S, ROOT

pytestmark = pytest.mark.processes

CHAT = ("-m", "examples.group_chat")


def test_the_counter_counts_everywhere_and_tells_who_comes_late(start: Start, ports: list[int]) -> None:
    members = [start("-m", "examples.counter", me, *ports) for me in range(2)]
    for member in members:
        member.until(lambda line: line.startswith("members"))
    members[0].say("5")
    members[1].say("seven")
    members[1].say("7")
    for member in members:
        member.until(lambda line: line.endswith("the sum is 12"))
    late = start("-m", "examples.counter", 2, *ports)
    late.until(lambda line: line.startswith("members") and line.endswith("the sum is 12"))
    members[0].process.send_signal(signal.SIGKILL)
    late.say("-2")
    members[1].until(lambda line: line.endswith("member 2 adds -2, the sum is 10"))
    late.hang_up()
    assert late.process.wait(BOUND_S) == 0


def test_the_tally_of_the_guide_adds_up_and_is_kept_by_those_that_stay(
    start: Start, ports: list[int]
) -> None:
    members = [start("-m", "examples.tally", me, number, *ports) for me, number in enumerate((5, 7, 30))]
    for member in members:
        member.until(lambda line: line.endswith("the sum is 42"))
    members[0].process.terminate()
    members[1].until(lambda line: line.startswith("members (1, 2), master 1"))
    assert members[0].process.wait(BOUND_S) == 0
    again = start("-m", "examples.tally", 0, 8, *ports)
    again.until(lambda line: line.endswith("member 0 adds 8, the sum is 50"))


def test_the_guide_shows_the_tally_as_it_is() -> None:
    code = (ROOT / "examples" / "tally.py").read_text(encoding="utf-8").split('"""\n\n', 1)[1]
    assert f"```python\n{code}```" in (ROOT / "docs" / "group.md").read_text(encoding="utf-8")


def _is_said(line: str) -> bool:
    """Whether it is a line of the chat, which has a number; not what a member says that waits."""
    return line[:4].strip().isdigit()


def test_a_chat_has_one_order_and_a_history(start: Start, ports: list[int]) -> None:
    ann, bob = (start(*CHAT, me, name, *ports) for me, name in enumerate(["ann", "bob"]))
    for member in (ann, bob):
        member.until(lambda line: "2 here" in line)
    ann.say("hello")
    bob.say("hi")
    for member in (ann, bob):
        for _ in range(2):
            member.until(_is_said)
    assert [line for line in ann.lines if _is_said(line)] == [line for line in bob.lines if _is_said(line)]
    cid = start(*CHAT, 2, "cid", *ports)
    cid.until(lambda line: "ann: hello" in line)
    cid.say("late")
    ann.until(lambda line: line == "   3 cid: late")


def test_a_line_that_is_too_long_is_refused_and_the_chat_goes_on(start: Start, ports: list[int]) -> None:
    ann, bob = (start(*CHAT, me, name, *ports) for me, name in enumerate(["ann", "bob"]))
    for member in (ann, bob):
        member.until(lambda line: "2 here" in line)
    ann.say("x" * 100_000)
    ann.until(lambda line: line == "a line has at most 16384 bytes: this one is not sent")
    ann.say("y" * 16_384)
    ann.say("hello")
    bob.until(lambda line: line == "   2 ann: hello")
    said = [line for line in bob.lines if _is_said(line)]
    assert said == ["   1 ann: " + "y" * 16_384, "   2 ann: hello"]


@pytest.mark.parametrize("words", [("examples.counter", 0), ("examples.group_chat", 0, "ann")])
def test_a_member_that_is_alone_prints_whom_it_waits_for(
    start: Start, ports: list[int], words: tuple[object, ...]
) -> None:
    alone = start("-m", *words, *ports)
    alone.until(lambda line: line.startswith("waits for the others before the very first start: 1 of 2 "))


def run_example(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


@pytest.mark.parametrize(
    "words", [("examples.counter", 0), ("examples.group_chat", 0, "ann"), ("examples.tally", 0, 5)]
)
def test_an_example_whose_port_is_taken_ends_with_one_sentence(
    ports: list[int], words: tuple[object, ...]
) -> None:
    with socket.create_server(("", ports[0])):
        done = run_example(*words, *ports)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith(f"port {ports[0]} cannot be listened on")


@pytest.mark.parametrize("arguments", [(), (0, "five"), (7, 1)])
def test_the_tally_with_wrong_arguments_says_which_it_needs(arguments: tuple[object, ...]) -> None:
    done = run_example("examples.tally", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("usage: python -m examples.tally MEMBER NUMBER")
