"""Judgements on a server from the statuses of its replicas."""

from pathlib import Path
from typing import Any

from quorate.server.admin.connection import Endpoint
from quorate.server.admin.health import cluster_conflict, differences_from_file, is_led, masters, problems
from quorate.server.admin.replica_status import ReplicaStatus
from quorate.server.config import load

HERE = Endpoint(replica=0, host="localhost", port=1)


def test_a_service_that_could_not_start_is_named() -> None:
    status = {
        "role": "master",
        "services_failed": {"quorate.services.tcp:TcpProxyService": "port 1 is taken"},
    }
    (line,) = problems(ReplicaStatus(HERE, status))
    assert line == "the service quorate.services.tcp:TcpProxyService cannot start: port 1 is taken"


def test_a_trace_that_is_not_written_is_named() -> None:
    assert problems(ReplicaStatus(HERE, {"trace_problem": "the disk is full"})) == ["trace: the disk is full"]


def test_the_last_replica_that_differed_is_named() -> None:
    status = {"divergence": "replica 1 is in another state than the others: entry 7 ended otherwise"}
    assert problems(ReplicaStatus(HERE, status)) == [f"last difference: {status['divergence']}"]


def test_a_replica_without_problems_adds_nothing() -> None:
    assert (
        problems(ReplicaStatus(HERE, {"role": "slave", "services_failed": {}, "trace_problem": None})) == []
    )
    assert problems(ReplicaStatus(HERE, None, "no answer")) == []


def compared(found: dict[str, Any], place: Path) -> list[str] | None:
    file = place / "a3servers.xml"
    file.write_text(
        '<config><property name="secret" value="x"/><domain name="D1"/>'
        '<cluster id="0" name="s0"><server id="0" hostname="h">'
        '<network domain="D1" port="1000"/></server></cluster></config>'
    )
    return differences_from_file(
        load(file).server("s0"), [ReplicaStatus(HERE, None), ReplicaStatus(HERE, found)]
    )


def test_the_cluster_is_compared_with_the_file(tmp_path: Path) -> None:
    here, there = {"at": "h (D1 h:1000)"}, {"at": "far (D1 far:1)"}
    status: dict[str, Any] = {"agreed": True, "view": 2, "replicas": {"0": here}}
    assert compared(status, tmp_path) == []
    status["replicas"] = {"0": there, "1": there}
    assert compared(status, tmp_path) == [
        "replica 0 is at far (D1 far:1), not at h (D1 h:1000)",
        "replica 1 at far (D1 far:1) is not in the file",
    ]
    status["replicas"] = {"1": here}
    assert (compared(status, tmp_path) or [])[0] == "replica 0 is in the file only"
    assert compared({**status, "agreed": False}, tmp_path) is None


def test_the_file_a_replica_was_started_with_does_not_matter_where_the_present_one_is_right() -> None:
    status = ReplicaStatus(HERE, {"role": "slave", "difference": "it was started with another file"})
    assert problems(status) == ["it was started with another file"]
    assert problems(status, same_file=True) == []


def test_a_master_without_a_majority_reports_that_and_not_the_missing_lease() -> None:
    status: dict[str, Any] = {"role": "master", "waits_for": "the lease", "diagnosis": ""}
    assert problems(ReplicaStatus(HERE, status)) == ["its services wait for the lease"]
    assert ReplicaStatus(HERE, status).in_charge
    status["diagnosis"] = "too few replicas can be reached"
    assert problems(ReplicaStatus(HERE, status)) == ["too few replicas can be reached"]
    assert not ReplicaStatus(HERE, status).in_charge


def test_several_masters_are_several_clusters() -> None:
    other = Endpoint(replica=1, host="localhost", port=2)
    statuses = [ReplicaStatus(HERE, {"role": "master"}), ReplicaStatus(other, {"role": "master"})]
    assert masters(statuses) == [0, 1]
    assert cluster_conflict(statuses).startswith("replicas 0, 1 are all master: there are several clusters")
    assert not is_led(statuses)


def test_a_slave_of_another_master_is_in_another_cluster() -> None:
    def at(replica: int, role: str, members: list[int]) -> ReplicaStatus:
        return ReplicaStatus(Endpoint(replica, "localhost", 1), {"role": role, "members": members})

    master = at(3, "master", [3, 4])
    statuses = [at(2, "slave", [0, 1, 2]), master, at(4, "slave", [3, 4]), at(5, "joining", [])]
    assert cluster_conflict(statuses).startswith("master 3 and replica 2 are in different clusters. ")
    assert not is_led(statuses)
    assert cluster_conflict(statuses[1:]) == ""
    assert is_led(statuses[1:])
    assert cluster_conflict([each for each in statuses if each is not master]) == ""


def test_the_last_stopped_turn_is_shown_for_the_master_only() -> None:
    status = {"role": "master", "stopped_turn": "entry 7: the turn of x was stopped"}
    assert problems(ReplicaStatus(HERE, status)) == [
        "last stopped turn, in entry 7: the turn of x was stopped"
    ]
    assert problems(ReplicaStatus(HERE, status | {"role": "slave"})) == []
