"""Services hear of the roles of every replica, in order, and whatever they raise ends nothing."""

from pathlib import Path
from typing import Any

import pytest

from quorate.server.config import load
from quorate.server.replica.composition import make_replica
from quorate.server.replica.replica import Replica
from quorate.services import ReplicaInfo, RoleCallback, Service, ServiceContext
from quorate.testing.servers.memory_network import MemoryNet

happened: list[str] = []


class Following(Service):
    @classmethod
    def on_replica(cls, replica: ReplicaInfo) -> RoleCallback | None:
        happened.append(f"on replica {replica.server_name} {replica.replica} {replica.args}")
        replica.log("hears")
        return lambda role: happened.append(str(role))

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        happened.append("init")

    def stop(self) -> None:
        happened.append("stop")


class Broken(Following):
    """Raises in each hook."""

    fault: BaseException = OSError("out of order")

    @classmethod
    def on_replica(cls, replica: ReplicaInfo) -> RoleCallback | None:
        return cls.raise_fault

    @classmethod
    def raise_fault(cls, *_: object) -> None:
        raise cls.fault

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        raise self.fault

    def stop(self) -> None:
        raise self.fault


class Hopeless(Broken):
    """Cannot even give its callback."""

    @classmethod
    def on_replica(cls, replica: ReplicaInfo) -> RoleCallback | None:
        raise cls.fault


def make(net: MemoryNet, place: Path, *services: type[Service]) -> Replica:
    declared = "".join(f'<service class="{__name__}:{cls.__name__}" args="x"/>' for cls in services)
    path = place / "a3servers.xml"
    path.write_text(
        '<config><domain name="D1"/><server id="0" name="s0" hostname="localhost" durability="memory">'
        f'<network domain="D1" port="100"/>{declared}<property name="trace" value="false"/></server></config>'
    )
    config = load(path, check_imports=False)
    server, reactor = config.server("s0"), net.machine("localhost")
    return make_replica(
        config, server, server.replicas[0], data=place, expected=None, incarnation=1, reactor=reactor
    )


def run(net: MemoryNet, replica: Replica) -> None:
    """Run a replica until it serves, then stop it in order."""
    replica.start()
    net.until(lambda: replica.node.serving)
    left: list[Any] = []
    replica.stop().addBoth(left.append)
    net.until(lambda: left == [None])


@pytest.fixture(autouse=True)
def forget() -> None:
    happened.clear()


def test_a_service_hears_of_each_role_in_order(net: MemoryNet, tmp_path: Path) -> None:
    run(net, make(net, tmp_path, Following))
    assert happened == ["on replica s0 0 x", "joining", "master", "init", "stop", "stopped"]


@pytest.mark.parametrize("fault", [OSError("out of order"), SystemExit("out of order")])
def test_a_service_that_raises_in_every_hook_ends_nothing(
    net: MemoryNet, tmp_path: Path, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broken, "fault", fault)
    replica = make(net, tmp_path, Broken, Hopeless, Following)
    run(net, replica)
    assert happened == ["on replica s0 0 x", "joining", "master", "init", "stop", "stopped"]
    log = (tmp_path / "s0" / "0" / "log").read_text()
    for role in ("joining", "master", "stopped"):
        assert (
            f"the callback of Broken for the role {role} failed: {type(fault).__name__}: out of order" in log
        )
    assert "on_replica of Hopeless failed" in log
    assert replica.context.metrics.counters["service_errors"] == 4
