"""What a supervisor reads in the lines of a replica."""

import pytest

from quorate.server.cli.replica_output import MAX_LINE_CHARS, OutputEvent, ReplicaOutput


@pytest.fixture
def output() -> ReplicaOutput:
    return ReplicaOutput("s0.1")


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("s0.1 master, network localhost:1, network localhost:2\n", "master"),
        ("s0.1 slave, no network\n", "slave"),
        ("s0.1 witness, network [::1]:1\n", "witness"),
    ],
)
def test_the_first_role_makes_the_replica_ready(output: ReplicaOutput, line: str, role: str) -> None:
    assert output.role == ""
    assert output.read(line) == OutputEvent("ready", f"ready, {line[5:].strip()}")
    assert output.role == role


def test_another_role_is_a_change_and_the_same_role_is_no_news(output: ReplicaOutput) -> None:
    output.read("s0.1 slave, no network")
    assert output.read("s0.1 slave, no network") is None
    assert output.read("s0.1 master, no network") == OutputEvent("role", "slave -> master")


def test_a_role_after_a_wait_is_settled_once(output: ReplicaOutput) -> None:
    output.read("s0.1 slave, no network")
    assert output.read("s0.1 blocked: start replica 2") == OutputEvent("output", "blocked: start replica 2")
    assert output.role == "slave"
    assert output.read("s0.1 slave, no network") == OutputEvent("settled", "slave again")
    assert output.read("s0.1 slave, no network") is None


def test_a_wait_of_a_replica_that_is_stopping_is_not_shown(output: ReplicaOutput) -> None:
    assert output.read("s0.1 blocked: start replica 2", stopping=True) is None
    assert output.read("bye", stopping=True) == OutputEvent("output", "bye")


def test_other_lines_are_passed_on_and_long_ones_are_cut(output: ReplicaOutput) -> None:
    assert output.read("hello \n") == OutputEvent("output", "hello")
    assert output.read("y" * 5000) == OutputEvent("output", "y" * MAX_LINE_CHARS)
