"""The log of a new view at a member: parts in order, and the reasons not to adopt it."""

import pytest

from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import Entry, NewView
from quorate.hachannel.model.view import NO_TAG, Tag, View, ViewNumber, Voter
from quorate.hachannel.view_change.staged_log import StagedLog

OLD, NEW = ViewNumber(1, 0, 1), ViewNumber(2, 1, 1)
ONE = Voter(1, 1)


def entry(index: int, view: ViewNumber = OLD) -> Entry:
    return Entry(view, index, 0, b"")


def part(offset: int, *indices: int, base: Tag = NO_TAG, number: ViewNumber = NEW) -> NewView:
    view = View(number, (ONE,), (ONE,), 1, 4)
    return NewView(view, base, offset, tuple(map(entry, indices)), False)


def held(*indices: int) -> MemoryLog:
    log = MemoryLog()
    for index in indices:
        log.append(entry(index))
    return log


def test_parts_that_follow_each_other_make_up_the_log() -> None:
    staged = StagedLog(NEW, NO_TAG, [entry(1), entry(2)])
    assert staged.append(part(2, 3, 4))
    assert [each.index for each in staged.entries] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "other", [part(1, 2), part(3, 4), part(2, 3, base=Tag(OLD, 1)), part(2, 3, number=OLD)]
)
def test_a_part_that_does_not_follow_changes_nothing(other: NewView) -> None:
    staged = StagedLog(NEW, NO_TAG, [entry(1), entry(2)])
    assert not staged.append(other)
    assert len(staged.entries) == 2


@pytest.mark.parametrize(
    ("base", "indices", "flaw"),
    [
        (Tag(OLD, 2), [3, 4], ""),
        (Tag(OLD, 2), [3], "its log is incomplete"),
        (Tag(OLD, -1), [0, 1, 2, 3, 4], "its log is incomplete"),
        (Tag(OLD, 2), [4, 5], "its first entry does not follow its base"),
        (Tag(OLD, 3), [4], "this log ends at 2, before 3"),
        (Tag(NEW, 2), [3, 4], "entry 2 differs"),
    ],
)
def test_a_log_is_adopted_only_if_it_is_complete_and_follows_an_entry_that_the_member_has(
    base: Tag, indices: list[int], flaw: str
) -> None:
    staged = StagedLog(NEW, base, [entry(index) for index in indices])
    assert staged.flaw(4, held(1, 2)) == flaw


def test_an_adopted_log_may_follow_an_entry_that_the_member_has_trimmed() -> None:
    log = held(1, 2, 3)
    log.trim(3)
    assert StagedLog(NEW, Tag(OLD, 2), [entry(3), entry(4)]).flaw(4, log) == ""
