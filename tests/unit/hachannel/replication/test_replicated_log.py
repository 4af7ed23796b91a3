"""The log of a replica with its commit index, alone."""

import pytest

from quorate.hachannel.model.events import Deliver, Stable
from quorate.hachannel.model.log import MemoryLog
from quorate.hachannel.model.messages import PAYLOAD, RECONFIG, Entry
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import Tag, ViewNumber
from quorate.hachannel.replication.durable_output import DurableOutput
from quorate.hachannel.replication.replicated_log import ReplicatedLog

OLD = ViewNumber(1, 0, 1)
NEW = ViewNumber(2, 1, 1)


def entry(index: int, view: ViewNumber = OLD, kind: int = PAYLOAD, source: Source | None = None) -> Entry:
    return Entry(view, index, 0, b"%d" % index, kind, source)


class Rig:
    """A log with three entries of the old view, none of them committed."""

    def __init__(self, *, emits_stable: bool = False) -> None:
        self.log = MemoryLog()
        self.output = DurableOutput(0, durable=False)
        self.changes = 0
        self.replicated = ReplicatedLog(self.log, self.output, self.change, emits_stable=emits_stable)
        for index in (1, 2, 3):
            self.log.append(entry(index))

    def change(self) -> None:
        self.changes += 1

    @property
    def delivered(self) -> list[int]:
        return [event.index for event in self.output.batch.events if isinstance(event, Deliver)]


def test_committed_entries_are_emitted_once_in_order() -> None:
    rig = Rig()
    for index in (2, 1, 2, 3):
        rig.replicated.commit_to(index)
    assert rig.delivered == [1, 2, 3]
    assert (rig.replicated.commit, rig.replicated.applied, rig.changes) == (3, 3, 0)


def test_a_committed_change_of_the_configuration_is_reported_and_not_emitted() -> None:
    rig = Rig()
    rig.log.append(entry(4, kind=RECONFIG))
    rig.replicated.commit_to(4)
    assert rig.delivered == [1, 2, 3]
    assert rig.changes == 1


@pytest.mark.parametrize(("emits_stable", "events"), [(True, [Stable(2)]), (False, [])])
def test_what_all_members_hold_is_emitted_in_mode_majority(emits_stable: bool, events: list[Stable]) -> None:
    rig = Rig(emits_stable=emits_stable)
    rig.replicated.stable_to(2)
    rig.replicated.stable_to(1)
    assert rig.output.batch.events == events
    assert rig.replicated.stable == 2


def test_what_is_committed_in_a_unanimous_view_is_stable() -> None:
    rig = Rig()
    rig.replicated.commit_to(1)
    assert rig.replicated.stable == 0
    rig.replicated.unanimous = True
    rig.replicated.commit_to(3)
    assert rig.replicated.stable == 3


def test_other_entries_replace_those_that_are_not_committed() -> None:
    rig = Rig()
    rig.replicated.commit_to(1)
    assert rig.replicated.splice([entry(1), entry(2, NEW), entry(3, NEW)], 3) == ""
    assert [rig.log.tag(index) for index in (1, 2, 3)] == [Tag(OLD, 1), Tag(NEW, 2), Tag(NEW, 3)]


@pytest.mark.parametrize(
    ("entries", "end", "reason"),
    [
        ([entry(1, NEW)], None, "entry 1 is committed and differs"),
        ([entry(5)], None, "entries 4 to 4 are missing"),
        ([entry(4), entry(6)], None, "entries out of order at 6"),
        ([entry(4)], 5, "the log would end at 4, not at 5"),
        ([], 0, "the log would end at 0, not at 1"),
    ],
)
def test_entries_that_do_not_fit_change_nothing(entries: list[Entry], end: int | None, reason: str) -> None:
    rig = Rig()
    rig.replicated.commit_to(1)
    assert rig.replicated.splice(entries, end) == reason
    assert [rig.log.tag(index) for index in (1, 2, 3)] == [Tag(OLD, 1), Tag(OLD, 2), Tag(OLD, 3)]


def test_a_snapshot_replaces_the_log_and_the_table_of_submitters() -> None:
    rig = Rig()
    rows = (Source(2, 1, 1, 9),)
    rig.replicated.reset(Tag(NEW, 7), rows)
    assert (rig.replicated.commit, rig.replicated.applied, rig.log.last) == (7, 7, Tag(NEW, 7))
    assert rig.replicated.submitters.rows == rows


def test_the_table_of_submitters_is_known_as_of_earlier_entries() -> None:
    rig = Rig()
    for number in (1, 2):
        rig.log.append(entry(3 + number, source=Source(2, 1, 1, number)))
    rig.replicated.commit_to(5)
    assert rig.replicated.submitters_at(5) == (Source(2, 1, 1, 2),)
    assert rig.replicated.submitters_at(4) == (Source(2, 1, 1, 1),)
    assert rig.replicated.submitters_at(3) == ()
