"""The check of what replicas delivered sees every wrong, also when real replicas are broken on purpose."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Start
from .members import MEMBER, Member, in_one_view
from .sequences import Wrong, check

HASTY = """
import runpy
import sys

from quorate.hachannel.replication.normal_case import Replication

append = Replication._append


def hasty(self, *args):
    slaves, self._slaves = self._slaves, {}
    index = append(self, *args)
    self._slaves = slaves
    self._state.replicated.commit_to(index)
    return index


Replication._append = hasty
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A member that commits at once, as master, and leaves it to the repair that the others get it."""

ORDER = ["a1", "b1", "a2", "a3", "b2"]
SENT = {"a": ["a1", "a2", "a3", "a4"], "b": ["b1", "b2"]}

Change = Callable[[list[str]], object]


def test_replicas_that_keep_the_promises_pass() -> None:
    order = check({"0": ORDER, "1": ORDER[:4]}, sent=SENT, acknowledged=["a3", "b1"], ended={"2": ORDER[:2]})
    assert order == ORDER


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda one: one.pop(), "has lost 1 that were acknowledged"),
        (lambda one: one.pop(2), "at place 2"),
        (lambda one: one.reverse(), "at place 0"),
        (lambda one: one.append(one[0]), "more than once"),
    ],
)
def test_one_replica_that_differs_is_seen(change: Change, what: str) -> None:
    other = list(ORDER)
    change(other)
    with pytest.raises(Wrong, match=what):
        check({"0": ORDER, "1": other}, sent=SENT, acknowledged=["b2"])
    if len(other) > len(ORDER):
        with pytest.raises(Wrong, match="the longest of the living"):
            check({"0": ORDER}, sent=SENT, acknowledged=[], ended={"1": other})


@pytest.mark.parametrize(
    ("order", "what"),
    [
        (["a1", "x"], "nobody sent it"),
        (["a1", "a3"], "a sent a2 as number 1, and a3"),
        (["a2", "a1"], "a sent a1 as number 0, and a2"),
    ],
)
def test_what_all_replicas_do_wrong_together_is_seen(order: list[str], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        check({"0": order, "1": order}, sent=SENT, acknowledged=[])


@pytest.mark.processes
def test_a_master_that_confirms_what_the_others_do_not_hold_is_seen(
    start: Start, ports: list[int], tmp_path: Path
) -> None:
    (tmp_path / "hasty.py").write_text(HASTY)
    members = [Member(start, me, ports, program=(tmp_path / "hasty.py", MEMBER)) for me in range(3)]
    master = members[in_one_view(members)]
    others = [member for member in members if member is not master]
    for member in others:
        member.signal(signal.SIGSTOP)
    master.say("send 5")
    master.until_confirmed(5)
    recorded = master.delivered()
    master.kill()
    for member in others:
        member.signal(signal.SIGCONT)
    in_one_view(others)
    sequences = {member.name: member.delivered() for member in others}
    sent = {master.name: master.messages()}
    with pytest.raises(Wrong, match="has lost 5 that were acknowledged"):
        check(sequences, sent=sent, acknowledged=master.confirmed())
    with pytest.raises(Wrong, match=f"{master.name} delivered 5, and the longest of the living 0"):
        check(sequences, sent=sent, acknowledged=[], ended={master.name: recorded})
