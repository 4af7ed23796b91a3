"""Logs that are applied again in processes with other hash seeds."""

import linecache

import attrs
import pytest

from quorate.agents import Agent, Context, Notification, reacts
from quorate.testing import Harness, HashSeedError, NondeterministicReaction


@attrs.frozen
class Names(Notification):
    names: list[str]


@attrs.frozen
class Sorted(Notification):
    names: list[str]


@attrs.frozen
class Kept(Notification):
    names: list[str]


@attrs.define
class Team(Agent):
    names: set[str] = attrs.field(factory=set[str])
    order: list[str] = attrs.field(factory=list[str])

    @reacts
    def join(self, ctx: Context, note: Names) -> None:
        self.names |= set(note.names)
        for name in self.names:  # in any order
            ctx.send(ctx.sender, Names([name]))

    @reacts
    def sort(self, ctx: Context, note: Sorted) -> None:
        self.names |= set(note.names)
        for name in sorted(self.names):
            ctx.send(ctx.sender, Names([name]))

    @reacts
    def keep(self, ctx: Context, note: Kept) -> None:
        known = set(note.names)
        self.order = list(known)  # in any order


NAMES = ["ann", "bob", "cid", "dan", "eve", "fay"]


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.deploy(Team, name="team")
    return harness


@pytest.mark.parametrize("cls", [Names, Kept])
def test_a_reaction_that_depends_on_the_order_of_a_set_is_found_with_its_line(
    cls: type[Names | Kept], harness: Harness
) -> None:
    harness.send("team", Sorted(["zoe"]))
    harness.send("team", cls(NAMES))
    with pytest.raises(NondeterministicReaction) as raised:
        harness.check_hash_seeds([0, 1])
    (finding,) = raised.value.findings
    assert finding.kind == "order"
    assert "# in any order" in linecache.getline(finding.file, finding.line)
    assert finding.notification == cls.type_name


def test_a_reaction_that_sorts_its_set_passes(harness: Harness) -> None:
    harness.send("team", Sorted(NAMES))
    harness.check_hash_seeds([0, 1])


def test_a_class_that_another_process_cannot_import_is_refused() -> None:
    @attrs.define
    class Inner(Team):
        pass

    harness = Harness()
    harness.deploy(Inner)
    with pytest.raises(HashSeedError, match="Inner cannot be imported in another process"):
        harness.check_hash_seeds()
