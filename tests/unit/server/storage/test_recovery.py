"""The recovery of a replica from its journal: what returns, and which entries may not end otherwise."""

from pathlib import Path

import pytest

from quorate.engine import EngineSettings
from quorate.hachannel.model.log import Accepted, Fitness
from quorate.server.errors import StartError

from .. import durable_replica
from ..durable_replica import VIEW, Replica, total


def test_a_replica_recovers_as_the_same_voter_with_everything_committed(place: Path) -> None:
    again = Replica(place, 8)
    assert again.recovery.incarnation == 7
    assert total(again.engine) == 55
    assert again.recovery.lines == [
        "recovered: the state after entry 0, 11 entries applied again, 1 not known to be committed"
    ]
    assert len(again.recovery.trace) == 11
    log = again.recovery.log
    assert (log.recovered().commit, log.recovered().applied, log.last.at) == (11, 11, 12)
    assert (log.recovered().accepted, log.recovered().active) == (VIEW, True)
    again.end()


def test_only_entries_after_the_saved_state_are_applied_again(tmp_path: Path) -> None:
    first = Replica(tmp_path, 7, snapshot_entries=4)
    first.write(Accepted(VIEW))
    first.create()
    for number in range(1, 11):
        first.add(number)
    first.end()
    again = Replica(tmp_path, 8)
    assert 3 <= again.durability.saved <= 11
    assert len(again.recovery.trace) == 11 - again.durability.saved
    assert again.engine.digest() == first.engine.digest()
    assert again.recovery.log.base.at == 0
    again.end()


@pytest.mark.parametrize("bound", [{"snapshot_entries": 12}, {"snapshot_bytes": 700}])
def test_entries_applied_again_count_for_the_next_snapshot(tmp_path: Path, bound: dict[str, int]) -> None:
    """A replica that is killed again and again soon after its start has no more to apply each time."""
    again = []
    for start in range(8):
        replica = Replica(tmp_path, 7, **bound)
        again.append(len(replica.recovery.trace))
        if start == 0:
            replica.write(Accepted(VIEW))
            replica.create()
        for number in range(5):
            replica.add(number)
        replica.end()
    assert total(replica.engine) == 80
    assert max(again) < 20


def test_entries_that_end_otherwise_under_changed_code_are_refused_and_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_replica, "factor", 20)
    with pytest.raises(
        StartError, match=r"Entry 2, applied again, ended otherwise than before: agent #0\.0\.\d+ .*:Sum"
    ) as told:
        Replica(place, 8)
    assert "--accept-code-change" in str(told.value)
    assert "other replicas" not in str(told.value)
    with pytest.raises(StartError, match="it gets the state from them"):
        Replica(place, 8, clustered=True)
    monkeypatch.setattr(durable_replica, "factor", 1)
    again = Replica(place, 8)
    assert total(again.engine) == 55
    again.end()


def test_an_unfit_replica_starts_whatever_its_entries_end_in(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is replaced by that of another replica anyway."""
    before = Replica(place, 8)
    before.write(Fitness(True))
    before.end()
    monkeypatch.setattr(durable_replica, "factor", 20)
    again = Replica(place, 9)
    assert again.recovery.log.recovered().unfit
    again.end()


def test_a_code_change_that_is_accepted_is_told_and_holds_from_then_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_replica, "factor", 20)
    changed = Replica(place, 8, accept_code_change=True)
    assert total(changed.engine) == 1100
    assert [line for line in changed.host.lines if line.startswith("told: accepted, as asked: entry 2 ended")]
    assert changed.recovery.accepted.startswith("entry 2 ended otherwise than before: agent")
    changed.end()
    again = Replica(place, 9)
    assert total(again.engine) == 1100
    assert again.recovery.accepted == ""
    again.end()
    monkeypatch.setattr(durable_replica, "factor", 1)
    with pytest.raises(StartError, match="Entry 2, applied again, ended otherwise"):
        Replica(place, 10)


def test_code_may_change_after_the_state_was_saved(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = Replica(place, 8)
    saved.end(save=True)
    monkeypatch.setattr(durable_replica, "factor", 20)
    again = Replica(place, 9)
    assert total(again.engine) == 55
    again.end()


def test_a_failed_reaction_fails_again_at_recovery(place: Path) -> None:
    again = Replica(place, 8)
    again.commit_rest()
    again.add(13)
    again.end()
    third = Replica(place, 9)
    assert total(third.engine) == 155
    third.end()


def test_an_entry_that_stops_the_engine_is_reported_with_a_remedy_that_works(place: Path) -> None:
    replica = Replica(place, 8)
    replica.commit_rest()
    replica.add(13)
    replica.end()
    stopping = EngineSettings(stop_on_exception=True)
    for clustered in (False, True):
        with pytest.raises(
            StartError, match=r"Entry 13 .* raised ValueError: unlucky.* set that property to false"
        ):
            Replica(place, 9, clustered, engine=stopping)
    assert total(Replica(place, 9).engine) == 155


def test_an_orderly_stop_leaves_nothing_to_apply_again(place: Path) -> None:
    again = Replica(place, 8)
    again.end(save=True)
    third = Replica(place, 9)
    assert third.durability.saved == 11
    assert third.recovery.trace == []
    assert total(third.engine) == 55
    third.end()


def test_a_reaction_that_was_skipped_is_skipped_again_and_only_then_accepted(place: Path) -> None:
    replica = Replica(place, 8)
    replica.commit_rest()
    engine = replica.engine
    skips = {engine.position + 1: (engine.applied + 1, engine.birth)}
    engine.current.skips = skips
    replica.add(1000)
    replica.add(1)
    replica.end()
    with pytest.raises(
        StartError, match=r"Entry 13, applied again, .* with a failure then, and succeeds now"
    ):
        Replica(place, 9)
    again = Replica(place, 9, skips=skips)
    assert total(again.engine) == 156
    assert again.engine.digest() == engine.digest()
    again.end(save=True)
    assert total(Replica(place, 10).engine) == 156
