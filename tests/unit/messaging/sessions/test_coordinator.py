"""The coordinator of distributed transactions, with participants that fail at each step."""

import itertools
from pathlib import Path

import pytest

from quorate.messaging import CommitUnfinished, Coordinator, CoordinatorError, Recovered, Xid


class Failed(Exception):
    """A participant has failed."""


class Participant:
    """Keeps what is prepared and committed, as a database does, and fails where it is told."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.prepared: dict[Xid, str] = {}
        self.committed: list[str] = []
        self.pending = ""
        self._xid: Xid | None = None

    def xid(self, format_id: int, gtrid: str, bqual: str) -> Xid:
        """Return an identifier."""
        return Xid(format_id, gtrid, bqual)

    def _step(self, name: str) -> None:
        if self.fails == name:
            raise Failed(name)

    def tpc_begin(self, xid: Xid) -> None:
        """Begin."""
        self._step("begin")
        self._xid = xid

    def tpc_prepare(self) -> None:
        """Prepare."""
        self._step("prepare")
        assert self._xid is not None
        self.prepared[self._xid] = self.pending
        self._step("prepared")

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit."""
        self._step("commit")
        found = xid or self._xid
        assert found is not None
        self.committed.append(self.prepared.pop(found))
        self._step("committed")

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Roll back."""
        self._step("rollback")
        found = xid or self._xid
        assert found is not None
        self.prepared.pop(found, None)
        self.pending = ""

    def tpc_recover(self) -> list[Xid]:
        """Return what is prepared."""
        return list(self.prepared)


def transfer(coordinator: Coordinator, *participants: Participant) -> None:
    """Do something with all participants in one transaction."""
    with coordinator.begin(*participants):
        for each in participants:
            each.pending = "paid"


def test_all_participants_commit(tmp_path: Path) -> None:
    one, two = Participant(), Participant()
    with Coordinator(tmp_path / "decisions.db") as coordinator:
        transfer(coordinator, one, two)
        assert (one.committed, two.committed) == (["paid"], ["paid"])
        assert coordinator.recover(one, two) == Recovered(0, 0)


@pytest.mark.parametrize(
    ("place", "step"),
    [*itertools.product([0, 1], ["begin", "prepare", "prepared", "commit", "committed"])],
)
def test_a_failure_at_any_step_ends_alike_at_all_after_recovery(
    tmp_path: Path, place: int, step: str
) -> None:
    participants = [Participant(), Participant()]
    participants[place].fails = step
    with Coordinator(tmp_path / "decisions.db") as coordinator:
        with pytest.raises(CommitUnfinished if step.startswith("commit") else Failed):
            transfer(coordinator, *participants)
        for each in participants:
            each.fails = ""
        coordinator.recover(*participants)
        expected = ["paid"] if step.startswith("commit") else []
        assert [each.committed for each in participants] == [expected, expected]
        assert [each.prepared for each in participants] == [{}, {}]


def test_a_program_that_died_before_its_decision_is_rolled_back_by_the_next_one(tmp_path: Path) -> None:
    one, two = Participant(), Participant("prepare")
    one.fails = "rollback"
    with Coordinator(tmp_path / "decisions.db") as coordinator, pytest.raises(Failed):
        # Neither is told of the end, as if the program had been killed.
        transfer(coordinator, one, two)
    one.fails = two.fails = ""
    assert len(one.prepared) == 1
    with Coordinator(tmp_path / "decisions.db") as coordinator:
        assert coordinator.recover(one, two) == Recovered(0, 1)
    assert (one.prepared, one.committed) == ({}, [])


def test_branches_of_another_coordinator_are_left_alone(tmp_path: Path) -> None:
    one = Participant()
    one.prepared[Xid(1, "somebody else's", "0")] = "theirs"
    with Coordinator(tmp_path / "decisions.db") as coordinator:
        assert coordinator.recover(one) == Recovered(0, 0)
    assert len(one.prepared) == 1


def test_an_exception_in_the_block_rolls_all_back(tmp_path: Path) -> None:
    one = Participant()
    with Coordinator(tmp_path / "decisions.db") as coordinator:
        one.pending = "paid"
        with pytest.raises(RuntimeError, match="changed my mind"), coordinator.begin(one):
            raise RuntimeError("changed my mind")
        assert (one.pending, one.committed) == ("", [])


def test_one_process_uses_a_file_of_decisions(tmp_path: Path) -> None:
    with (
        Coordinator(tmp_path / "decisions.db"),
        pytest.raises(CoordinatorError, match="another process may have it open"),
    ):
        Coordinator(tmp_path / "decisions.db")


def test_recovery_waits_for_no_transaction(tmp_path: Path) -> None:
    with (
        Coordinator(tmp_path / "decisions.db") as coordinator,
        coordinator.begin(Participant()),
        pytest.raises(CoordinatorError, match="is under way"),
    ):
        coordinator.recover()
