"""Files of a replica are for their owner only."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.server.config import load
from quorate.server.replica.composition import make_replica
from quorate.server.storage.data_directory import DataDirectory
from quorate.server.storage.private_files import exposure
from quorate.server.storage.skip_orders import SkipOrder, SkipOrders
from quorate.server.trace.writer import open_file
from quorate.testing.servers.memory_network import MemoryNet


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """A umask that forbids nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_everything_a_replica_writes_is_for_its_owner_only(net: MemoryNet, tmp_path: Path) -> None:
    path = tmp_path / "a3servers.xml"
    path.write_text(
        '<config><property name="trace" value="false"/><domain name="D1"/>'
        '<server id="0" name="s0" hostname="localhost">'
        '<network domain="D1" port="100"/></server></config>'
    )
    config = load(path)
    server = config.server("s0")
    data = tmp_path / "new" / "data"
    reactor: Any = net.machine("localhost")
    reactor.callFromThread = lambda function, *args: net.clock.callLater(0, function, *args)
    directory = DataDirectory.open(data, "s0", 0)
    replica = make_replica(
        config,
        server,
        server.replicas[0],
        data=data,
        expected=None,
        incarnation=directory.incarnation,
        reactor=reactor,
    )
    said: list[str] = []
    replica.log.on_announce = said.append
    replica.start()
    SkipOrders(directory.path).add(SkipOrder(1, 1, 1))
    net.advance(1)
    replica._finish(None)
    net.advance(1)
    directory.close()
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {"journal.db", "journal.db-frames", "log", "pid", "incarnation"} <= {each.name for each in made}
    for each in made:
        # The database removes its log when its last connection closes, which may be only now.
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(each.stat().st_mode)
            assert mode & 0o077 == 0, f"{each} has mode {mode:o}"
    assert not [line for line in said if "chmod" in line]


def test_a_file_of_the_trace_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "1-000001.parquet.part"
    open_file(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_open_directory_that_exists_is_left_and_named(tmp_path: Path) -> None:
    path = tmp_path / "data" / "s0" / "0"
    path.mkdir(parents=True)
    DataDirectory.open(tmp_path / "data", "s0", 0).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    assert f"run `chmod 700 {path}`" in exposure(path)
    path.parent.parent.chmod(0o700)
    assert exposure(path) == "", "nobody else comes so far"
    path.parent.parent.chmod(0o755)
    path.chmod(0o700)
    assert exposure(path) == ""
