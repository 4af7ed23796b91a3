"""Real processes: an agent whose reaction does not end is named, skipped, and stays skipped."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from .conftest import MakeSite
from .replicas import Part, Site
from .running import until

pytestmark = pytest.mark.processes

STUCK = """
import re
import time

import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Add(Notification):
    number: int


@attrs.frozen
class Total(Notification):
    number: int


@attrs.define
class Loop(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        ctx.send(ctx.sender, Total(self.total))
        if note.number == 13:
            while True:
                pass
        if note.number == 14:
            time.sleep(1e6)
        if note.number == 15:
            re.match("(a+)+$", "a" * 50 + "b")
"""


def add(site: Site, number: int, *options: str) -> "subprocess.CompletedProcess[str]":
    command = ("send", str(site.xml), "--server", "s0", "loop", "stuck:Add", f'{{"number": {number}}}')
    return site.run(*command, *options)


def total(site: Site, number: int) -> str:
    """The answer to a notification, once a master serves."""
    answer = add(site, number, "--request")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def until_named(site: Site) -> int:
    """Wait until every replica has told its starter what it runs; return the entry."""
    part = "agent #0.0.1025 'loop' (stuck:Loop) reacts to stuck:Add"
    said: list[str] = []

    def told(replica: int) -> Callable[[], bool]:
        begin = f"{site.name}.{replica} entry "
        return lambda: any(line.startswith(begin) and part in line for line in site.said)

    for replica in site.replicas:
        until(told(replica), f"the words of replica {replica}")
    said += [line for line in site.said if part in line]
    return int(said[-1].split()[2])


def skip(site: Site, entry: int) -> None:
    done = site.run("skip", str(site.xml), "--server", "s0", str(entry))
    assert done.returncode == 0, done.stdout + done.stderr
    for replica in site.replicas:
        assert f"s0.{replica} goes on" in done.stdout


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_reaction_that_runs_for_ever_is_named_and_skipped_also_after_a_kill_of_all(
    make_site: MakeSite, replicas: int
) -> None:
    site = make_site(Part("s0", replicas, clients=False), modules={"stuck": STUCK})
    site.deploy("stuck:Loop")
    assert total(site, 1) == 'stuck:Total {"number":1}'
    add(site, 13, "--timeout", "1")
    entry = until_named(site)
    shown = site.run("status", str(site.xml), "--wait", "0")
    assert shown.stdout.count("runs, does not answer") == replicas
    assert f"entry {entry} has been running" in shown.stderr
    assert f"quorate skip {site.xml} --server s0 {entry}" in shown.stderr

    site.kill(*site.replicas)
    site.said.clear()
    site.start(*site.replicas)
    assert until_named(site) == entry, "it is applied again, and named again"
    skip(site, entry)
    assert total(site, 2) == 'stuck:Total {"number":3}'

    site.kill(*site.replicas)
    site.start(*site.replicas)
    assert total(site, 4) == 'stuck:Total {"number":7}'
    if replicas > 1:
        site.whole()
    words = "was skipped, as the administrator ordered"
    until(lambda: all(site.log(replica).count(words) == 2 for replica in site.replicas), "the second skip")


def test_a_reaction_that_sleeps_is_skipped_and_the_order_goes_with_the_next_saved_state(
    make_site: MakeSite,
) -> None:
    site = make_site(Part("s0", clients=False), modules={"stuck": STUCK})
    site.deploy("stuck:Loop")
    add(site, 14, "--timeout", "1")
    skip(site, until_named(site))
    assert total(site, 1) == 'stuck:Total {"number":1}'
    orders = site.directory() / "skips"
    assert len(list(orders.iterdir())) == 1
    site.stop()
    site.start(0)
    assert total(site, 1) == 'stuck:Total {"number":2}'
    until(lambda: not list(orders.iterdir()), "the removal of the order")


def test_a_regular_expression_that_does_not_end_is_named_on_request_and_skipped(make_site: MakeSite) -> None:
    site = make_site(Part("s0", clients=False), modules={"stuck": STUCK})
    site.deploy("stuck:Loop")
    add(site, 15, "--timeout", "1")
    pid = site.supervisor.pid("s0", 0)
    assert pid is not None
    shown = site.run("status", str(site.xml), "--wait", "0")
    assert f"`kill -USR2 {pid}` makes it tell which" in shown.stderr
    os.kill(pid, signal.SIGUSR2)
    until(lambda: (site.directory() / "running").exists(), "its word")
    shown = site.run("status", str(site.xml), "--wait", "0")
    assert "runs: agent #0.0.1025 'loop' (stuck:Loop) reacts to stuck:Add" in shown.stderr
    skip(site, int(shown.stderr.partition("answer: entry ")[2].split()[0]))
    assert total(site, 1) == 'stuck:Total {"number":1}'
