"""Replicas whose releases do not fit turn each other away, and say so."""

from pathlib import Path

import pytest

from .conftest import MakeSite
from .replicas import Part

pytestmark = pytest.mark.processes

LATER = """
from pathlib import Path

import attrs

from ledger import Entry
from quorate import Agent, reacts
from quorate.engine import rules


@attrs.define
class Idle(Agent):
    @reacts
    def entry(self, _, note: Entry):
        pass


if Path("{marker}").exists():
    rules.RULES += 1
"""
SENTENCE = "works by other rules than replica"


def test_a_replica_of_a_release_that_does_not_fit_stays_outside_until_it_fits(
    make_site: MakeSite, tmp_path: Path
) -> None:
    marker = tmp_path / "later"
    part = Part("s0", 3, attributes='durability="disk"')
    site = make_site(part, modules={"later": LATER.format(marker=marker)})
    # The module is imported at each start from here on, before the replica connects: the first agent is then
    # known to be committed.
    for name in ("first", "second"):
        site.deploy("later:Idle", name=name)
    site.whole()
    slave = (site.master() + 1) % 3
    site.kill(slave)
    marker.touch()
    site.start(slave)
    site.until(lambda _: SENTENCE in site.run("status", str(site.xml), "--wait", "0").stderr)
    assert site.master() != slave
    site.kill(slave)
    marker.unlink()
    site.start(slave)
    site.whole()
