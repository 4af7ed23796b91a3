"""When a replica is ready, and when it is the master that clients use."""

from typing import Any

import pytest

from quorate.server.http.probes import readiness, serves


def status(role: str, **given: Any) -> dict[str, Any]:
    return {"role": role, "serving": role == "master", "diagnosis": "", "services_failed": {}, **given}


@pytest.mark.parametrize("role", ["master", "slave", "witness"])
def test_a_replica_that_takes_part_is_ready(role: str) -> None:
    assert readiness(status(role)) == ""


def test_a_replica_without_a_majority_is_not_ready_and_says_why() -> None:
    blocked = status("blocked", diagnosis="it reaches 0 of 2 others")
    assert readiness(blocked) == "it reaches 0 of 2 others"


def test_a_joining_replica_is_not_ready() -> None:
    assert readiness(status("joining")) == "the replica is joining"


def test_a_master_is_ready_when_its_services_run() -> None:
    assert readiness(status("master", serving=False, waits_for="copies")) == "the master waits for copies"
    failed = status("master", services_failed={"x:TcpProxyService": "port 2560 is taken"})
    assert readiness(failed) == "services could not start: x:TcpProxyService"


def test_a_daemon_serves_alone_unless_it_is_forgotten() -> None:
    assert readiness(status("daemon", mesh={"forgotten": False})) == ""
    forgotten = status("daemon", mesh={"forgotten": True})
    assert (
        readiness(forgotten) == serves(forgotten) == "the other daemons of the mesh have forgotten this one"
    )


def test_clients_use_the_master_only() -> None:
    assert serves(status("master")) == ""
    assert serves(status("slave")) == "the replica is slave"
