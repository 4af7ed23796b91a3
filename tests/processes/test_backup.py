"""`quorate backup` and `quorate restore`: states of running servers are copied, and begin new clusters."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.messaging import Session

from .commands import quorate
from .foreign_clients import cluster, running
from .running import BOUND_S, until

pytestmark = pytest.mark.processes


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("StompService", "orders")) as found:
        yield found


def backup(config: Path, place: object, *options: str) -> list[dict[str, object]]:
    done = quorate("backup", config, place, "--json", *options)
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.stdout)["backups"]
    return found


def send(servers: Servers, queue: str, bodies: list[str], server: str = "s0") -> None:
    with servers.connect(server) as connection, Session(connection, timeout=BOUND_S) as session:
        for each in bodies:
            session.send(queue, each)
        session.sync(BOUND_S)


def take(servers: Servers, queue: str, server: str = "s0") -> list[str]:
    with servers.connect(server) as connection, Session(connection, timeout=BOUND_S) as session:
        return [str(each.body) for each in session.consumer(queue, timeout_s=2)]


def digests(servers: Servers, server: str = "s0") -> set[str]:
    found = json.loads(quorate("status", servers.config.path, "--server", server, "--json").stdout)
    return {each["digest"] for each in found["servers"][0]["replicas"]}


def test_a_cluster_is_restored_with_everything_up_to_the_last_backup(
    servers: Servers, tmp_path: Path
) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    send(servers, "orders", [f"{number}" for number in range(100)])
    (first,) = backup(config, place)
    send(servers, "orders", ["100"])
    (second,) = backup(config, place)
    assert (first["whole"], second["whole"]) == (True, False)
    assert int(str(second["size_bytes"])) < int(str(first["size_bytes"]))
    (digest,) = digests(servers)
    send(servers, "orders", ["later"])
    servers.stop()
    restored = quorate(
        *("restore", config, place, "--server", "s0", "--replica", "1", "--data", tmp_path / "new", "--json")
    )
    assert restored.exit_code == 0, restored.output
    found = json.loads(restored.stdout)
    assert (found["digest"], found["entry"]) == (digest, second["entry"])
    with Servers(config, data=tmp_path / "new") as again:
        assert take(again, "orders") == [f"{number}" for number in range(101)]
        until(lambda: len(digests(again)) == 1, "all replicas have the same state")


def test_backups_made_under_load_are_whole_states(servers: Servers, tmp_path: Path) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    stop = threading.Event()
    sent: list[int] = []

    def load() -> None:
        with servers.connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
            while not stop.is_set():
                session.send("orders", str(len(sent)), priority=len(sent) % 10)
                sent.append(len(sent))

    thread = threading.Thread(target=load)
    thread.start()
    for _ in range(5):
        before = len(sent)
        backup(config, place)
        until(lambda before=before: len(sent) > before + 20)
    stop.set()
    thread.join(BOUND_S)
    for number in range(1, 6):
        # It loads all agents, and compares their digest with that of the replica.
        checked = quorate("restore", config, place, "--server", "s0", "--check", "--backup", number)
        assert checked.exit_code == 0, checked.output


def test_a_replica_that_is_killed_meanwhile_leaves_nothing_and_another_is_copied(
    servers: Servers, tmp_path: Path
) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    send(servers, "orders", ["x" * 100_000 for _ in range(50)])
    slave = (servers.master() + 1) % 3
    servers.pause(replica=slave)
    killer = threading.Timer(1.0, servers.kill, kwargs={"replica": slave})
    killer.start()
    failed = quorate("backup", config, place, "--server", "s0", "--replica", slave)
    killer.join(BOUND_S)
    assert failed.exit_code == 1
    assert not [*place.rglob("*.backup")]
    (made,) = backup(config, place)
    assert made["replica"] != slave
    assert quorate("restore", config, place, "--server", "s0", "--check").exit_code == 0


def test_nothing_is_overwritten_and_nothing_that_runs_is_restored(servers: Servers, tmp_path: Path) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    backup(config, place)
    words = ("restore", config, place, "--server", "s0", "--data", tmp_path / "data")
    running_now = quorate(*words)
    assert running_now.exit_code == 1
    assert "and a restore begins a new cluster: stop all replicas first" in running_now.output
    servers.stop()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("journal*")}
    there = quorate(*words)
    assert there.exit_code == 1
    assert "is there already, and nothing was written" in there.output
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("journal*")} == before


def test_damaged_and_missing_backups_are_refused(servers: Servers, tmp_path: Path) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    check = ("restore", config, place, "--server", "s0", "--check")
    empty = quorate(*check)
    assert (empty.exit_code, "There is no backup of this server" in empty.output) == (1, True)
    for body in "ab":
        send(servers, "orders", [body])
        backup(config, place)
    whole, changes = sorted((place / "s0").iterdir())
    data = changes.read_bytes()
    changes.write_bytes(data[:-1])
    cut = quorate(*check)
    assert (cut.exit_code, "cannot be used: it is cut off" in cut.output) == (1, True)
    changes.write_bytes(data)
    whole.rename(place / "elsewhere")
    missing = quorate(*check)
    assert (missing.exit_code, "goes on from a whole backup that is missing" in missing.output) == (1, True)
    # The next one is whole again.
    (made,) = backup(config, place)
    assert made["whole"]
    assert quorate(*check).exit_code == 0


def test_old_backups_are_removed(servers: Servers, tmp_path: Path) -> None:
    config, place = servers.config.path, tmp_path / "backups"
    for _ in range(3):
        backup(config, place, "--whole")
        backup(config, place)
    backup(config, place, "--keep", "2")
    listed = json.loads(quorate("restore", config, place, "--server", "s0", "--list", "--json").stdout)
    assert [each["backup"] for each in listed["backups"]] == [3, 4, 5, 6, 7]
    assert quorate("restore", config, place, "--server", "s0", "--check", "--backup", 4).exit_code == 0


def test_a_place_of_fsspec(servers: Servers) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    config = servers.config.path
    send(servers, "orders", ["a"])
    assert backup(config, "memory://backups")[0]["whole"]
    send(servers, "orders", ["b"])
    assert not backup(config, "memory://backups", "--keep", "1")[0]["whole"]
    checked = quorate("restore", config, "memory://backups", "--server", "s0", "--check")
    assert checked.exit_code == 0, checked.output
    unknown = quorate("backup", config, "nowhere://backups")
    assert (unknown.exit_code, "cannot be used" in unknown.output) == (1, True)


TWO = """<config><domain name="D1"/><property name="secret" value="hidden"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16301"/>
    <service class="ConnectionManager" args="root root"/><service class="TcpProxyService" args="2560"/>
    <queue name="arrived"/></server>
  <server id="1" name="s1" hostname="localhost"><network domain="D1" port="16302"/>
    <service class="ConnectionManager" args="root root"/><service class="TcpProxyService" args="2561"/>
    <queue name="out" forward="arrived@s0"/></server></config>"""


def test_other_servers_go_on_with_a_server_that_was_restored(tmp_path: Path) -> None:
    with running(tmp_path, TWO) as servers:
        config, place = servers.config.path, tmp_path / "backups"

        def arrived() -> int:
            shown = quorate("queue", "show", config, "--server", "s0", "arrived", "--json")
            return int(json.loads(shown.stdout)["depth"]) if shown.exit_code == 0 else -1

        send(servers, "out", ["before 1", "before 2"], "s1")
        until(lambda: arrived() == 2, "they have come")
        backup(config, place, "--server", "s0")
        send(servers, "out", ["between"], "s1")
        until(lambda: arrived() == 3, "it has come")
        servers.kill("s0")
        (tmp_path / "data" / "s0").rename(tmp_path / "old")
        restored = quorate(*("restore", config, place, "--server", "s0", "--data", tmp_path / "data"))
        assert restored.exit_code == 0, restored.output
        servers.start_replica("s0", 0)
        send(servers, "out", ["after 1", "after 2"], "s1")
        until(lambda: arrived() == 4, "what was sent after the restore has come")
        assert take(servers, "arrived") == ["before 1", "before 2", "after 1", "after 2"]
