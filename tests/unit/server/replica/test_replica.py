"""The end of a replica, as whoever has started it hears of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from quorate.server.config import load
from quorate.server.replica.administration import Administration
from quorate.server.replica.composition import make_replica
from quorate.server.replica.replica import Replica, ReplicaFailed
from quorate.server.storage.durability import Durability
from quorate.testing.servers.memory_network import MemoryNet

FULL = "The journal journal.db cannot be written: no space is left on the disk."


class Refusing:
    """A disk that takes no state any more."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed

    def close(self, *, save: bool) -> "Deferred[None]":
        assert save
        self._failed(FULL)
        return succeed(None)


@pytest.fixture
def replica(net: MemoryNet, tmp_path: Path) -> Replica:
    path = tmp_path / "a3servers.xml"
    path.write_text(
        '<config><domain name="D1"/><server id="0" name="s0" hostname="localhost" durability="memory">'
        '<network domain="D1" port="100"/><property name="trace" value="false"/></server></config>'
    )
    config = load(path)
    server, reactor = config.server("s0"), net.machine("localhost")
    return make_replica(
        config, server, server.replicas[0], data=tmp_path, expected=None, incarnation=1, reactor=reactor
    )


def test_a_state_that_the_disk_refuses_at_a_stop_is_no_orderly_end(net: MemoryNet, replica: Replica) -> None:
    replica.start()
    net.until(lambda: replica.node.role == "master")
    replica.disk.durability = cast("Durability", Refusing(replica.disk.disk_failed))
    ended: list[Any] = []
    replica.stopped.addBoth(ended.append)
    left: list[Any] = []
    replica.stop().addBoth(left.append)
    net.until(lambda: left == [None])
    assert isinstance(ended[0], Failure)
    assert ended[0].type is ReplicaFailed
    assert str(ended[0].value).startswith(FULL)


def test_a_replica_whose_starter_reads_no_more_goes_on_and_ends_all_the_same(
    net: MemoryNet, replica: Replica
) -> None:
    def closed(line: str) -> None:
        raise BrokenPipeError

    replica.log.on_announce = closed
    replica.start()
    net.until(lambda: replica.node.role == "master")
    replica.context.announce("service Clock cannot start: no port")
    ended: list[Any] = []
    replica.stopped.addBoth(ended.append)
    replica._node_ended("This replica was removed.", False)
    net.until(lambda: ended == [None])
    assert "service Clock cannot start: no port" in (replica.context.directory / "log").read_text()


def one_of(net: MemoryNet, tmp_path: Path, count: int, me: int = 0, witnesses: int = 0) -> Replica:
    """A replica of a cluster; the last ones are witnesses."""
    path = tmp_path / "a3servers.xml"
    others = "".join(
        f'<server id="{id}" hostname="localhost" witness="{str(id >= count - witnesses).lower()}">'
        f'<network domain="D1" port="{100 + id}"/></server>'
        for id in range(count)
    )
    path.write_text(
        f'<config><domain name="D1"/><cluster id="0" name="s0" durability="memory">{others}'
        '<property name="trace" value="false"/></cluster></config>'
    )
    config = load(path)
    server, reactor = config.server("s0"), net.machine("localhost")
    return make_replica(
        config, server, server.replicas[me], data=tmp_path, expected=None, incarnation=1, reactor=reactor
    )


@pytest.mark.parametrize(
    ("count", "witnesses", "which"), [(3, 1, "0 or 1"), (3, 2, "0"), (5, 2, "0, 1 or 2")]
)
def test_a_witness_says_who_holds_agents(
    net: MemoryNet, tmp_path: Path, count: int, witnesses: int, which: str
) -> None:
    witness = one_of(net, tmp_path, count, count - 1, witnesses)
    assert Administration(witness).lacks_all() == (
        f"s0.{count - 1} is a witness, which holds no agents: ask replica {which}."
    )
    assert not Administration(one_of(net, tmp_path, count, 0, witnesses)).lacks_all()


def test_a_replica_that_stops_waits_for_nobody(net: MemoryNet, tmp_path: Path) -> None:
    replica = one_of(net, tmp_path, 3)
    replica.start()
    net.until(lambda: "start replicas 1, 2" in replica.diagnosis())
    # Its services have not ended.
    replica.master.stop = lambda reason: Deferred()  # type: ignore[method-assign]
    replica.stop()
    assert replica.node.role == "joining"
    assert replica.diagnosis() == ""
