"""Client connections are bounded by what the open files of the process allow."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.server.config import Config, load
from quorate.server.replica import fd_limits
from quorate.server.replica.composition import make_replica
from quorate.server.replica.fd_limits import Room, make_room
from quorate.testing.servers.memory_network import MemoryNet

CLIENTS = (
    '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
    '<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="2560"/>'
)


def config_of(path: Path, inside: str = CLIENTS, before: str = "") -> Config:
    file = path / "a3servers.xml"
    file.write_text(
        f'<config><property name="trace" value="false"/>{before}<domain name="D1"/>'
        '<server id="0" name="s0" hostname="localhost" durability="memory">'
        f'<network domain="D1" port="100"/>{inside}</server></config>'
    )
    return load(file)


def room_of(config: Config) -> Room:
    server = config.server("s0")
    return make_room(config, server, server.replicas[0])


class Limits:
    """The limits of this process, which only the tests change."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)
        self.refuses = False

    def get(self, what: int) -> tuple[int, int]:
        assert what == resource.RLIMIT_NOFILE
        return self.now

    def set(self, what: int, limits: tuple[int, int]) -> None:
        assert what == resource.RLIMIT_NOFILE
        if self.refuses:
            raise ValueError("not allowed to raise maximum limit")
        self.now = limits


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Limits]:
    def allow(soft: int, hard: int) -> Limits:
        limits = Limits(soft, hard)
        monkeypatch.setattr(fd_limits.resource, "getrlimit", limits.get)
        monkeypatch.setattr(fd_limits.resource, "setrlimit", limits.set)
        return limits

    return allow


Allow = Callable[[int, int], Limits]


def test_the_limit_is_raised_as_far_as_it_may_be_needed(tmp_path: Path, allow: Allow) -> None:
    limits = allow(1024, 1 << 20)
    room = room_of(config_of(tmp_path))
    assert (room.connections, room.sentence) == (10_000, "")
    soft, hard = limits.now
    assert (20_000 < soft < 25_000, hard) == (True, 1 << 20)
    assert room_of(config_of(tmp_path)).limit == soft, "what is enough is left as it is"


@pytest.mark.parametrize("hard", [1 << 20, resource.RLIM_INFINITY])
def test_without_clients_little_is_needed(tmp_path: Path, allow: Allow, hard: int) -> None:
    limits = allow(256, hard)
    assert room_of(config_of(tmp_path, "")).sentence == ""
    assert 512 < limits.now[0] < 1024


def test_as_many_clients_are_taken_as_fit_beside_the_reserve(tmp_path: Path, allow: Allow) -> None:
    limits = allow(1024, 4096)
    room = room_of(config_of(tmp_path))
    assert limits.now == (4096, 4096)
    assert room.connections == (4096 - fd_limits.RESERVE) // 2
    assert room.sentence == (
        "takes 1952 client connections at most, and not the 10000 of max_connections: this process may have "
        "4096 open files, 2 are for each client and 192 for everything else; raise its hard limit "
        "(ulimit -n) or lower max_connections"
    )
    few = config_of(tmp_path, before='<property name="max_connections" value="100"/>')
    assert (room_of(few).connections, room_of(few).sentence) == (100, "")


def test_a_limit_that_cannot_be_raised_is_made_do_with(tmp_path: Path, allow: Allow) -> None:
    limits = allow(1024, 4096)
    limits.refuses = True
    assert room_of(config_of(tmp_path)).connections == (1024 - fd_limits.RESERVE) // 2


@pytest.mark.parametrize(("limit", "connections"), [(64, 8), (4, 1), (resource.RLIM_INFINITY, 10_000)])
def test_any_limit_leaves_some_clients(tmp_path: Path, allow: Allow, limit: int, connections: int) -> None:
    allow(limit, limit)
    assert room_of(config_of(tmp_path)).connections == connections


def test_the_services_of_a_replica_keep_to_it_and_its_log_says_so(
    net: MemoryNet, tmp_path: Path, allow: Allow
) -> None:
    allow(64, 64)
    config = config_of(tmp_path)
    server = config.server("s0")
    replica = make_replica(
        config,
        server,
        server.replicas[0],
        data=tmp_path,
        expected=None,
        incarnation=1,
        reactor=net.machine("localhost"),
    )
    replica.start()
    net.until(lambda: replica.node.role == "master")
    assert replica.master.services.bounded("max_connections", "10000") == "8"
    assert replica.master.services.bounded("max_connections", "5") == "5"
    assert replica.master.services.bounded("max_frame", "10000") == "10000"
    assert "takes 8 client connections at most" in (replica.context.directory / "log").read_text()
    ended: list[None] = []
    replica.stop().addBoth(ended.append)
    net.until(lambda: ended == [None])
