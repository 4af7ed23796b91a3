"""The administrator's side: finding the master, waiting out a failover, and saying what is not known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.server.admin import client, wire
from quorate.server.admin.client import ServerAdmin
from quorate.server.admin.connection import (
    AdminError,
    CallFailed,
    Endpoint,
    Lost,
    Silent,
    SocketConnection,
    Unreachable,
    connect,
)
from quorate.server.admin.replica_status import gather, nobody_there
from quorate.server.config import load

Answer = Callable[[], Any]


POST = wire.Post("a", "m:T", b"")


class Cluster:
    """Three replicas by script: each attempt on a port takes the next of its items; the last stays."""

    def __init__(self, tmp: Callable[..., Path], **script: list[Any]) -> None:
        config = load(tmp(1001, 1002, 1003))
        self.script = {int(port[1:]): list(items) for port, items in script.items()}
        self.now = 0.0
        self.tried: list[int] = []
        self.admin = ServerAdmin(
            config,
            config.server("s0"),
            connect=self.connect,
            seconds=lambda: self.now,
            sleep=self.sleep,
            jitter=lambda _low, high: high,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def connect(self, endpoint: Endpoint, secret: str | None, timeout_s: float) -> "Scripted":
        self.tried.append(endpoint.port)
        items = self.script.get(endpoint.port) or [Unreachable(f"{endpoint}: Connection refused")]
        item = items.pop(0) if len(items) > 1 else items[0]
        if item == "mute":
            self.now += timeout_s
            raise Silent(f"{endpoint}: no answer in time")
        if isinstance(item, Unreachable):
            raise item
        return Scripted(item, self)

    def ask(
        self,
        *,
        repeatable: bool = True,
        master_timeout_s: float = client.FAILOVER_TIMEOUT_S,
        body: wire.Body = POST,
        **times: float,
    ) -> int:
        return self.admin.ask_master(
            body, int, repeatable=repeatable, master_timeout_s=master_timeout_s, **times
        )


class Scripted:
    behind = ""

    def __init__(self, item: Any, cluster: Cluster) -> None:
        self.item = item
        self.cluster = cluster

    def call(self, body: wire.Body, timeout_s: float) -> msgspec.Raw:
        if self.item == "hangs":
            self.cluster.now += timeout_s
            raise Lost("localhost: no answer in time")
        if self.item == "no reply":
            assert isinstance(body, wire.Request)
            self.cluster.now += body.timeout_s
            raise failure("timeout")
        if isinstance(self.item, Exception):
            raise self.item
        return wire.pack(self.item)

    def close(self) -> None:
        pass


def failure(kind: Any, master: tuple[str, int] | None = None) -> CallFailed:
    return CallFailed(wire.Failure(1, kind, f"it was {kind}", master))


def test_a_slave_leads_to_the_master_at_once(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("not master", ("localhost", 1003))], p1003=[5])
    assert cluster.ask() == 5
    assert cluster.tried == [1001, 1003]
    assert cluster.now == 0


def test_a_wait_for_a_master_is_explained_once(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("not master")] * 8 + [5])
    said: list[str] = []
    cluster.admin.warn = said.append
    assert cluster.ask() == 5
    (sentence,) = said
    assert sentence.startswith("Server s0 has no master yet: localhost:1001: it was not master; ")
    assert sentence.endswith("; waiting up to 28 s.")


def test_a_server_without_answers_is_not_reported_as_waiting_for_a_master(xml: Any) -> None:
    cluster = Cluster(xml)
    said: list[str] = []
    cluster.admin.warn = said.append
    with pytest.raises(Unreachable, match="is down"):
        cluster.ask()
    assert not said


def test_a_short_failover_is_not_reported(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("not master")] * 3 + [5])
    said: list[str] = []
    cluster.admin.warn = said.append
    assert cluster.ask() == 5
    assert not said


def test_a_hint_to_somebody_unknown_is_never_followed(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("not master", ("evil", 80))], p1002=[5])
    assert cluster.ask() == 5
    assert set(cluster.tried) == {1001, 1002}


def test_a_master_that_the_file_lacks_is_followed_where_its_host_is_known(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("not master", ("localhost", 1009))], p1009=[5])
    assert cluster.ask() == 5
    assert cluster.tried == [1001, 1009]


def test_replicas_of_the_cluster_that_the_file_lacks_are_asked_too(xml: Any) -> None:
    replicas = {str(id): {"at": f"h{id}", "address": ["localhost", 1001 + id]} for id in range(4)}
    replicas["4"] = {"at": "evil", "address": ["evil", 80]}
    slave = {"role": "slave", "view": 3, "agreed": True, "replicas": replicas}
    cluster = Cluster(xml, p1001=[slave], p1004=[{**slave, "role": "master"}])
    ((_, found),) = gather([cluster.admin])
    assert [(each.endpoint.replica, each.role) for each in found] == [
        (0, "slave"),
        (1, "down"),
        (2, "down"),
        (3, "master"),
    ]


def seated(**places: int) -> dict[str, Any]:
    return {name[1:]: {"address": ["localhost", port]} for name, port in places.items()}


def test_a_moved_replica_is_asked_at_the_address_the_cluster_has(xml: Any) -> None:
    master = {"role": "master", "agreed": True, "view": 2, "replicas": seated(r0=1001, r1=1009, r2=1003)}
    cluster = Cluster(xml, p1001=[master], p1009=[{"role": "slave", "replica": 1}])
    ((_, found),) = gather([cluster.admin])
    assert [(each.endpoint.replica, each.endpoint.port, each.role) for each in found] == [
        (0, 1001, "master"),
        (1, 1009, "slave"),
        (2, 1003, "down"),
    ]
    cluster = Cluster(xml, p1001=[master])
    ((_, found),) = gather([cluster.admin])
    assert [each.endpoint.port for each in found] == [1001, 1002, 1003], "it is nowhere"


def test_another_replica_than_the_file_has_there_is_not_taken_for_it(xml: Any) -> None:
    cluster = Cluster(
        xml, p1001=[{"role": "master", "replica": 0, "server": "s0"}], p1002=[{"role": "slave", "replica": 2}]
    )
    ((_, found),) = gather([cluster.admin])
    assert [each.role for each in found] == ["master", "refused", "down"]
    assert found[1].reason == ("localhost:1002 is s0.2, not s0.1: correct the ids and the ports in the file.")


def test_a_failover_is_waited_out(xml: Any) -> None:
    leaderless = failure("not master")
    cluster = Cluster(xml, p1002=[*[leaderless] * 5, 5], p1003=[leaderless])
    assert cluster.ask() == 5
    assert 0 < cluster.now < client.FAILOVER_TIMEOUT_S


def test_replicas_that_name_each_other_as_master_are_asked_with_pauses(xml: Any) -> None:
    cluster = Cluster(
        xml,
        p1001=[failure("not master", ("localhost", 1002))],
        p1002=[failure("not master", ("localhost", 1001))],
    )
    with pytest.raises(AdminError, match="no master"):
        cluster.ask()
    assert len(cluster.tried) < 500


def test_without_a_master_the_error_has_the_reason_of_each_replica(xml: Any) -> None:
    cluster = Cluster(
        xml, p1001=[failure("not master")], p1002=[Lost("localhost:1002: the connection was closed")]
    )
    with pytest.raises(AdminError) as told:
        cluster.ask(master_timeout_s=5)
    assert str(told.value) == (
        "Server s0 had no master for 5 s: localhost:1001: it was not master; "
        "localhost:1002: the connection was closed; localhost:1003: Connection refused; see `quorate status`."
    )
    assert 5 <= cluster.now < 5 + client.RETRY_LAST_S


def test_a_server_without_answers_is_down_soon(xml: Any) -> None:
    cluster = Cluster(xml)
    with pytest.raises(Unreachable, match=r"s0 is down: .*1001: Connection refused.*1003"):
        cluster.ask()
    assert cluster.now < 2 * client.DOWN_TIMEOUT_S


@pytest.mark.parametrize("total_timeout_s", [0.1, 0.7, 2.0, 20.0])
@pytest.mark.parametrize("first", ["mute", "hangs", "no reply", failure("not master")])
@pytest.mark.parametrize("second", ["mute", "hangs", failure("not master"), None])
def test_all_of_the_wait_is_bounded(xml: Any, first: Any, second: Any, total_timeout_s: float) -> None:
    cluster = Cluster(xml, p1001=[first], p1003=[] if second is None else [second])
    request = wire.Request("a", "m:T", b"", 5.0)
    with pytest.raises(AdminError):
        cluster.ask(body=request, master_timeout_s=total_timeout_s, total_timeout_s=total_timeout_s)
    assert cluster.now <= total_timeout_s + 0.001


def test_a_frozen_replica_leaves_time_to_ask_the_master(xml: Any) -> None:
    cluster = Cluster(xml, p1001=["mute"], p1002=["mute"], p1003=[5])
    assert cluster.ask(total_timeout_s=0.5) == 5


def test_a_missing_reply_is_reported_by_the_replica_before_the_timeout(xml: Any) -> None:
    cluster = Cluster(xml, p1001=["no reply"])
    request = wire.Request("a", "m:T", b"", 5.0)
    with pytest.raises(CallFailed, match="it was timeout"):
        cluster.ask(body=request, repeatable=False, total_timeout_s=2.0)
    with pytest.raises(AdminError, match=r"gave no answer in 2 s: localhost:1001: it was timeout; .*see"):
        cluster.ask(body=request, master_timeout_s=2.0, total_timeout_s=2.0)


@pytest.mark.parametrize("trouble", [Lost("cut"), failure("interrupted"), failure("timeout")])
def test_a_repeatable_call_is_made_again(xml: Any, trouble: Exception) -> None:
    cluster = Cluster(xml, p1001=[trouble, 5])
    assert cluster.ask() == 5


@pytest.mark.parametrize("trouble", [Lost("cut"), failure("interrupted")])
def test_a_call_that_must_not_be_repeated_is_not(xml: Any, trouble: Exception) -> None:
    cluster = Cluster(xml, p1001=[trouble, 5], p1002=[5])
    with pytest.raises(Lost, match="not known"):
        cluster.ask(repeatable=False)
    assert cluster.tried == [1001]


def test_an_error_that_a_retry_cannot_mend_is_raised_at_once(xml: Any) -> None:
    cluster = Cluster(xml, p1001=[failure("unknown"), 5])
    with pytest.raises(CallFailed, match="it was unknown"):
        cluster.ask()


def test_a_result_of_another_type_is_an_error(xml: Any) -> None:
    with pytest.raises(AdminError, match="cannot be read"):
        Cluster(xml, p1001=["five"]).ask()


@pytest.mark.parametrize("secret", [None, "s3cret"])
def test_calls_go_over_a_socket(serve: Any, target: Any, secret: str | None) -> None:
    served = serve(target(), secret=secret)
    connection = SocketConnection(Endpoint(0, "localhost", served.port), secret, 5.0)
    for _ in range(2):
        answer = wire.unpack(connection.call(wire.Status(), 5.0), dict)
        assert answer["commit"] == 99
    connection.close()


def test_a_wrong_secret_is_a_sentence(serve: Any, target: Any) -> None:
    served = serve(target(), secret="one")
    with pytest.raises(AdminError, match=r"refuses: .*secret"):
        SocketConnection(Endpoint(0, "localhost", served.port), "two", 5.0)
    with pytest.raises(AdminError, match=r"refuses: .*has none"):
        SocketConnection(Endpoint(0, "localhost", served.port), None, 5.0)


def test_another_host_without_a_secret_is_told_what_to_do(serve: Any, target: Any) -> None:
    served = serve(target(), loopback=False)
    with pytest.raises(AdminError, match="this host only"):
        SocketConnection(Endpoint(0, "localhost", served.port), None, 5.0)


NAT = "replica.invalid"
"""A host name that does not lead to this machine."""


@pytest.mark.parametrize("secret", [None, "s3cret"])
def test_a_replica_of_this_machine_is_reached_though_its_host_leads_elsewhere(
    serve: Any, target: Any, secret: str | None
) -> None:
    served = serve(target(), secret=secret, host=NAT)
    connection = connect(Endpoint(0, NAT, served.port), secret, 5.0)
    assert wire.unpack(connection.call(wire.Status(), 5.0), dict)["commit"] == 99
    connection.close()


def test_another_replica_at_the_port_of_this_machine_is_asked_nothing(serve: Any, target: Any) -> None:
    served = serve(target(), host="other.invalid")
    with pytest.raises(Unreachable, match=rf"^{NAT}:{served.port}: "):
        connect(Endpoint(0, NAT, served.port), None, 5.0)
    assert served.calls == 0


def test_a_connection_cut_during_the_call_is_lost(serve: Any, target: Any) -> None:
    served = serve(target())
    served.drop_calls = 1
    connection = SocketConnection(Endpoint(0, "localhost", served.port), None, 5.0)
    with pytest.raises(Lost, match="closed"):
        connection.call(wire.Status(), 5.0)


def test_a_closed_port_differs_from_a_silent_listener(free_port: int) -> None:
    with pytest.raises(Unreachable) as caught:
        SocketConnection(Endpoint(0, "localhost", free_port), None, 1.0)
    assert nobody_there(caught.value)
    assert not nobody_there(Silent("no answer"))
    assert not nobody_there(Lost("cut"))


def test_a_server_that_runs_with_another_id_is_an_error(serve: Any, target: Any, xml: Any) -> None:
    file = xml(serve(target()).port)
    file.write_text(file.read_text().replace('id="0" name="s0"', 'id="7" name="s0"'))
    config = load(file)
    ((_, (found,)),) = gather([ServerAdmin(config, config.server("s0"))])
    assert found.role == "refused"
    assert found.reason.endswith(
        "runs as s0 with id 0, and the file says id 7: a server keeps its id; correct the file."
    )


def test_every_replica_is_asked_for_its_status(serve: Any, target: Any, xml: Any, free_port: int) -> None:
    config = load(xml(serve(target()).port, free_port))
    ((server, replicas),) = gather([ServerAdmin(config, config.server("s0"))])
    assert server.name == "s0"
    assert [replica.role for replica in replicas] == ["master", "down"]
    assert replicas[1].nobody_there
