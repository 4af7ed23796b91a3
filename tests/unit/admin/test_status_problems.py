"""What `quorate status` says besides its table."""

from quorate.server.admin_client import Endpoint, ReplicaStatus
from quorate.server.commands.status import problems

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


def test_a_replica_without_problems_adds_nothing() -> None:
    assert (
        problems(ReplicaStatus(HERE, {"role": "slave", "services_failed": {}, "trace_problem": None})) == []
    )
    assert problems(ReplicaStatus(HERE, None, "no answer")) == []
