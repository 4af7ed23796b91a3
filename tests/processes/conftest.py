"""Sites and processes that end with the test."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.server.processes.free_ports import free_ports
from quorate.testing.servers.namespaces import Namespaces, NamespacesUnavailable

from .members import Member
from .replicas import Part, Site
from .running import BOUND_S, Running
from .seeds import cuts_allowed

MakeSite = Callable[..., Site]
Start = Callable[..., Running]
MakeNet = Callable[[int], Namespaces]
MakeMembers = Callable[..., list[Member]]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[MakeSite]:
    """Start servers and wait until all replicas are ready; the arguments are those of `Site`."""
    sites: list[Site] = []

    def make(*parts: Part, **options: object) -> Site:
        site = Site(tmp_path, *parts, **options)  # type: ignore[arg-type]
        site.supervisor.start()
        sites.append(site)
        site.supervisor.wait_ready(BOUND_S)
        return site

    yield make
    for site in sites:
        site.supervisor.stop()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python with arguments; the process is killed at the end of the test."""
    started: list[Running] = []

    def run(*arguments: object, **options: object) -> Running:
        started.append(Running(arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    yield run
    for running in started:
        running.end()


@pytest.fixture
def ports() -> list[int]:
    """Three free ports."""
    return free_ports(3)


@pytest.fixture
def make_net() -> Iterator[MakeNet]:
    """Make a network of namespaces, or skip the test where the machine does not allow it."""
    with contextlib.ExitStack() as stack:

        def make(replicas: int) -> Namespaces:
            try:
                return stack.enter_context(Namespaces(replicas))
            except NamespacesUnavailable as error:
                pytest.skip(str(error))

        yield make


@pytest.fixture
def make_members(start: Start) -> MakeMembers:
    """Start the members of a group, each in its namespace if there is a network, else all on this host."""

    def make(count: int, *options: object, net: Namespaces | None = None) -> list[Member]:
        if net is None:
            ports = free_ports(count)
            return [Member(start, me, ports, *options) for me in range(count)]
        addresses = [f"{host}:7300" for host in net.addresses]
        return [Member(start, me, addresses, *options, before=net.command(me)) for me in range(count)]

    return make


@pytest.fixture(scope="session")
def cuts() -> bool:
    """Whether connections can be cut here."""
    return cuts_allowed()
