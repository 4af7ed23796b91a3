"""Replicas that ought to have a trace and have none."""

from pathlib import Path

from quorate.replay.discovery import ReplicaDirectory
from quorate.replay.replicas import find_absences
from quorate.replay.schema import Origin

SERVERS = {"s0": 0, "s1": 1}


def origin(replica: int, incarnation: int = 5, **replicas: list[int]) -> Origin:
    return Origin("s0", 0, replica, incarnation, SERVERS, replicas)


def bare(server: str, replica: int) -> ReplicaDirectory:
    return ReplicaDirectory(Path("data") / server / str(replica), server, replica)


def test_a_replica_that_the_configuration_declares_is_missed() -> None:
    both = [origin(0, s0=[0, 1], s1=[0]), origin(1, s0=[0, 1], s1=[0])]
    assert find_absences(both, []).problems == ()
    assert find_absences(both[:1], [bare("s0", 1)], "s0").problems == (
        "s0: replica 1 has no readable trace, though the configuration declares it and data/s0/1 is its "
        "directory",
    )


def test_a_server_without_any_trace_is_a_note() -> None:
    """An idle server has none."""
    only = [origin(0, s0=[0], s1=[0, 1])]
    for directories in ([], [bare("s1", 0)]):
        found = find_absences(only, directories)
        assert found.problems == ()
        assert found.notes == (
            "s1: none of its replicas has a readable trace, so none of it was checked: did no agent react?",
        )
    assert find_absences(only, [], "s0").notes == ()


def test_a_replica_that_writes_no_trace_by_the_configuration_is_passed_over() -> None:
    found = find_absences([origin(0, s0=[0])], [bare("s0", 1)])
    assert (found.problems, found.notes) == ((), ())


def test_a_replica_that_was_removed_from_the_configuration_is_a_note() -> None:
    found = find_absences(
        [origin(0, 5, s0=[0, 1, 2]), origin(0, 6, s0=[0, 1]), origin(1, 5, s0=[0, 1, 2])], []
    )
    assert found.problems == ()
    assert found.notes == (
        "s0: replica 2 has no readable trace; it was declared by an earlier configuration, and is no longer",
    )


def test_without_a_configuration_the_directory_of_a_replica_tells_that_it_is_missing() -> None:
    found = find_absences([origin(0)], [bare("s0", 1), bare("s0", 0)])
    assert found.problems == ("s0: replica 1 has no readable trace, though data/s0/1 is its directory",)
