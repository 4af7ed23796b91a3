"""What systemd is told."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from quorate.server.cli.service_manager import ServiceManager


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def test_states_are_lines(heard: socket.socket) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": heard.getsockname()})
    manager.tell(READY="1", STATUS="blocked: start\nreplica 1")
    assert heard.recv(1000) == b"READY=1\nSTATUS=blocked: start replica 1"


def test_the_abstract_namespace_is_used() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0quorate-test-notify")
        ServiceManager({"NOTIFY_SOCKET": "@quorate-test-notify"}).tell(READY="1")
        assert listening.recv(1000) == b"READY=1"


def test_it_lives_twice_in_each_interval(heard: socket.socket) -> None:
    clock = Clock()
    environment = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"}
    ServiceManager(environment, pid=7).keep_alive(clock.callLater)
    for _ in range(3):
        assert heard.recv(1000) == b"WATCHDOG=1"
        with pytest.raises(BlockingIOError):
            heard.recv(1000)
        clock.advance(5)


def test_the_watchdog_of_another_process_is_not_ours(heard: socket.socket) -> None:
    clock = Clock()
    environment = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"}
    ServiceManager(environment, pid=8).keep_alive(clock.callLater)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/there"}])
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    ServiceManager(environment).tell(READY="1")
