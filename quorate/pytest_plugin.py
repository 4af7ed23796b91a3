"""The pytest plugin: simulated clusters under many seeds, and real servers that end with their test.

pytest loads it by itself where quorate is installed. docs/testing-agents.md is the guide.
"""

import importlib
import inspect
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["quorate_cluster", "quorate_seed", "quorate_servers"]

SHOWN_LINES: Final = 60
"""Lines of the logs that a failure shows."""
_FINISH: Final = pytest.StashKey[list[Callable[[], None]]]()
"""What is checked at the end of a test that has passed so far."""
_SECTIONS: Final = pytest.StashKey[list[Callable[[], str]]]()
"""What a failure shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("quorate", "simulated clusters of agents")
    group.addoption(
        "--quorate-seeds",
        type=int,
        metavar="N",
        help="Run each test of a simulated cluster under the seeds 0 to N - 1; default: the ini option "
        "quorate_seeds, or else 1.",
    )
    group.addoption("--quorate-seed", type=int, metavar="SEED", help="Run them under this seed only.")
    group.addoption(
        "--quorate-hash-seeds",
        action="store_true",
        help="At the end of each such test, run its reactions again in processes with other hash seeds.",
    )
    parser.addini("quorate_seeds", "Number of seeds of a test with a simulated cluster.", default="1")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line(
        "markers",
        "quorate(seeds=N, **options): the seeds of a test with quorate_cluster, and the arguments of its "
        "SimulatedCluster",
    )
    config.addinivalue_line(
        "markers", "quorate_servers(config, **options): the arguments of the Servers of quorate_servers"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with a seed under each seed."""
    if "quorate_seed" not in metafunc.fixturenames:
        return
    config = metafunc.config
    one, many = config.getoption("quorate_seed"), config.getoption("quorate_seeds")
    marker = metafunc.definition.get_closest_marker("quorate")
    if many is None:
        many = int(config.getini("quorate_seeds"))
        if marker is not None:
            many = int(marker.kwargs.get("seeds", many))
    if many < 1:
        raise pytest.UsageError(f"a test runs under {many} seeds; give a number of 1 or more")
    if one is None and many > 1:
        metafunc.parametrize("quorate_seed", range(many), ids=[f"seed{seed}" for seed in range(many)])


@pytest.fixture
def quorate_seed(request: pytest.FixtureRequest) -> int:
    """The seed of the test: see the options ``--quorate-seeds`` and ``--quorate-seed``."""
    seed = request.config.getoption("quorate_seed")
    return 0 if seed is None else int(seed)


@pytest.fixture
def quorate_cluster(request: pytest.FixtureRequest, quorate_seed: int) -> Any:
    """A `quorate.testing.SimulatedCluster` under the seed of the test.

    Its arguments are those of the marker ``quorate``. When the test has passed, the faults end and the states
    of the replicas are compared. A failure shows the last lines of the logs, and how the test is run again.
    """
    marker = request.node.get_closest_marker("quorate")
    options = {} if marker is None else {k: v for k, v in marker.kwargs.items() if k != "seeds"}
    testing: Any = importlib.import_module("quorate.testing")
    known = inspect.signature(testing.SimulatedCluster).parameters
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise pytest.UsageError(
            f"the marker quorate has no argument {unknown[0]}; it has seeds, {', '.join(known)}"
        )
    cluster = testing.SimulatedCluster(seed=quorate_seed, **options)
    node: pytest.Item = request.node

    def finish() -> None:
        cluster.finish()
        if request.config.getoption("quorate_hash_seeds"):
            cluster.check_hash_seeds()

    def section() -> str:
        lines = [f"Run it again with: pytest {_quoted(_unseeded(node.nodeid))} --quorate-seed={quorate_seed}"]
        return "\n".join([*lines, *list(cluster.log)[-SHOWN_LINES:]])

    node.stash.setdefault(_FINISH, []).append(finish)
    node.stash.setdefault(_SECTIONS, []).append(section)
    return cluster


@pytest.fixture
def quorate_servers(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Real servers, a `quorate.Servers` that has started, as the marker ``quorate_servers`` says.

    By default they run the a3servers.xml of the directory of the test, on free ports. A failure shows the
    last lines of their output.
    """
    marker = request.node.get_closest_marker("quorate_servers")
    arguments = () if marker is None else marker.args
    options: dict[str, Any] = {"free_ports": True, **({} if marker is None else marker.kwargs)}
    beside = Path(request.path).parent
    config = beside / (arguments[0] if arguments else "a3servers.xml")
    options.setdefault("pythonpath", [beside, request.config.rootpath])
    processes: Any = importlib.import_module("quorate.server.processes.servers")
    servers = processes.Servers(config, **options)
    node: pytest.Item = request.node
    node.stash.setdefault(_SECTIONS, []).append(lambda: "\n".join(list(servers.output)[-SHOWN_LINES:]))
    with servers:
        yield servers


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the clusters of a test that has passed; what they raise is a failure of the test."""
    result = yield
    if _FINISH in item.stash:
        for finish in item.stash[_FINISH]:
            finish()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs to the report of a failure."""
    report = yield
    if report.failed and _SECTIONS in item.stash:
        for section in item.stash[_SECTIONS]:
            report.sections.append(("quorate", section()))
    return report


def _unseeded(nodeid: str) -> str:
    """Return the name of a test without its seed."""
    name, bracket, parameters = nodeid.partition("[")
    kept = [each for each in parameters.rstrip("]").split("-") if not _is_seed(each)]
    return f"{name}[{'-'.join(kept)}]" if bracket and kept else name


def _is_seed(text: str) -> bool:
    return text.startswith("seed") and text[4:].isdigit()


def _quoted(text: str) -> str:
    return f"'{text}'" if set(text) & set(' []*?$&|;<>()"') else text
