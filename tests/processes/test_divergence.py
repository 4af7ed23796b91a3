"""Replicas whose agents do something else than those of the others, as processes."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.client import connect

from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger

pytestmark = pytest.mark.processes

ODD = """
import os
import time

import attrs

from ledger import Ask, Entry, Sum
from quorate import Agent, Context, reacts

WRONG = os.path.join(os.path.dirname(__file__), "wrong")


@attrs.define
class Ledger(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        wrong = note.number == 2 and os.path.exists(f"{WRONG}-{os.getpid()}")
        self.numbers.append(100 if wrong else note.number)

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        ctx.send(ctx.sender, Sum(self.numbers))


@attrs.define
class Clock(Agent):
    read_ns: int = 0

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.read_ns = time.time_ns()
"""
"""The module `odd`: a ledger that is wrong in a process for which the test has made a file, and an agent that
reads a clock."""


INSTALLED = " was installed, "
"""In the log of a replica that has received the state of another one."""


def whole(site: Site) -> None:
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave", "witness"])


def differ(site: Site, replica: int, send: Callable[[], object]) -> None:
    """Send what a replica handles otherwise than the others, and wait until that is noticed."""

    def found(all: list[dict[str, Any]]) -> str:
        return next((each["divergence"] for each in all if each["replica"] == replica), "")

    before = found(site.statuses())
    send()
    site.until(lambda all: found(all) not in ("", before))


def pid_of(site: Site, replica: int) -> int:
    return next(each["pid"] for each in site.statuses() if each["replica"] == replica)


def test_a_slave_with_a_wrong_state_never_serves_it_and_gets_the_state_of_the_master(
    make_site: MakeSite,
) -> None:
    site = make_site(
        Part("s0", 3, witnesses=1, attributes='durability="disk"'), modules={"odd": ODD}, digest_every=0
    )
    whole(site)
    site.deploy("odd:Ledger")
    master = site.master()
    slave = 1 - master
    voter = site.incarnations(slave)
    (site.place / f"wrong-{pid_of(site, slave)}").touch()
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(1))
        # The pauses before a replica that differs again gets the state grow: 0, 1, 2, then 4 s.
        for installed in range(1, 4):
            differ(site, slave, lambda: client.send("ledger", Entry(2)))
            site.until(lambda _, installed=installed: site.log(slave).count(INSTALLED) == installed)
            whole(site)
        differ(site, slave, lambda: client.send("ledger", Entry(2)))
        site.kill(master)
        blocked = site.until(
            lambda all: any(
                each["role"] == "joining" or each["diagnosis"] for each in all if each["replica"] == slave
            )
        )
        assert not any(each["serving"] for each in blocked)
        site.start(master)
        whole(site)
        client.send("ledger", Entry(3))
        assert ask_ledger(client) == [1, 2, 2, 2, 2, 3]
        site.kill(master)
        assert site.master() == slave
        assert ask_ledger(client) == [1, 2, 2, 2, 2, 3]
    assert site.incarnations(slave) == voter
    named = f"replica {slave} is in another state than the others: entry "
    assert named in site.log(slave)
    assert "(odd:Ledger) reacted to ledger:Entry with another result" in site.log(slave)
    assert named in site.log(master)


def test_an_agent_that_reads_a_clock_is_named(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3, attributes='durability="memory"'), modules={"odd": ODD})
    site.deploy("odd:Clock")
    with connect(site.url(), user="root", password="root") as client:
        client.send("clock", Entry(1))
        site.until(lambda all: all and any(each["divergence"] for each in all))
    stderr = site.run("status", str(site.xml)).stderr
    assert "last difference: replica" in stderr
    assert "(odd:Clock) reacted to ledger:Entry with another result" in stderr
    assert any("(odd:Clock) reacted to ledger:Entry with another result" in line for line in site.said)
