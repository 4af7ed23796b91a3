"""Sites and processes that end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .replicas import Part, Site
from .running import BOUND_S, Running, free_ports

MakeSite = Callable[..., Site]
Start = Callable[..., Running]


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
