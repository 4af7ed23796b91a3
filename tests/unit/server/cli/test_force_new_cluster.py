"""`quorate replica force-new-cluster`: what it refuses, what it says, and that it asks before it acts."""

from collections.abc import Callable
from pathlib import Path

import attrs
import msgspec
import pytest
from click.testing import CliRunner, Result

from quorate import Agent, Context, Notification, reacts
from quorate.hachannel.journal.journal import Journal
from quorate.hachannel.model.log import Accepted, Activated, Appended, Committed
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Seat, View, ViewNumber, Voter
from quorate.server.cli.replica import command
from quorate.server.config import load
from quorate.server.network.addresses import ReplicaAddress
from quorate.server.storage.data_directory import DataDirectory
from quorate.server.storage.durability import identity_of
from quorate.server.storage.state_store import SCHEMA, StateStore
from quorate.testing.harness import Harness

Write = Callable[..., Path]
SECOND_NS = 10**9


@attrs.frozen
class Noticed(Notification):
    """Nothing is in it."""


@attrs.define
class Nothing(Agent):
    """An agent that does nothing."""

    @reacts
    def notice(self, ctx: Context, note: Noticed) -> None:
        """Do nothing."""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration of three replicas that nobody runs: nothing listens on such ports."""

    def write(attributes: str = "", witness: int = -1) -> Path:
        role = {witness: 'witness="true"'}
        replicas = [
            f'<server id="{id}" hostname="localhost" {role.get(id, "")}>'
            f'<network domain="D1" port="{id + 1}"/></server>'
            for id in range(3)
        ]
        path = tmp_path / "a3servers.xml"
        cluster = f'<cluster id="0" name="s0" {attributes}>{"".join(replicas)}</cluster>'
        path.write_text(f'<config><domain name="D1"/>{cluster}</config>')
        return path

    return write


def journal(
    path: Path, replica: int, members: tuple[int, ...] = (0, 2), seats: tuple[Seat, ...] = ()
) -> Path:
    """What replica `replica` has on its disk: three entries, of which two are known to be committed."""
    server = load(path).server("s0")
    directory = path.parent / "data" / "s0" / str(replica)
    directory.mkdir(parents=True)
    made = Journal.open(directory / "journal.db", identity_of(server, replica), 10, schema=SCHEMA)
    number = ViewNumber(7, 0, 1)
    config = tuple(Voter(id, id) for id in range(3))
    view = View(number, config, tuple(Voter(id, id) for id in members), 2, 0, seats=seats)
    entries = tuple(Entry(number, index, index * SECOND_NS, b"x") for index in (1, 2, 3))
    made.write([Accepted(view), Activated(number), Appended(entries), Committed(2)])
    made.close()
    return directory / "journal.db"


def run(path: Path, *words: str, replica: int = 2) -> Result:
    arguments = ["force-new-cluster", str(path), "--server", "s0", "--replica", str(replica), *words]
    return CliRunner().invoke(command, arguments)


def voter(path: Path, file: Path, replica: int = 2) -> int:
    found = Journal.open(file, identity_of(load(path).server("s0"), replica), 11, existing=True)
    found.close()
    return found.incarnation


def test_it_says_what_is_lost_and_changes_nothing_unless_that_is_accepted(
    write: Write,
) -> None:
    path = write()
    file = journal(path, 2)
    asked = run(path)
    assert asked.exit_code == 1
    assert "s0.2 holds what was done up to entry 3, of 1970-01-01 00:00:03 UTC.\n" in asked.output
    assert "The last view it knows of is 7, of the replicas 0, 2.\n" in asked.output
    assert "the entries 3 to 3 were acknowledged" in asked.output
    assert "Nothing was changed. Give --accept-loss to accept the loss." in asked.output
    assert voter(path, file) == 10
    done = run(path, "--accept-loss")
    assert done.exit_code == 0, done.output
    assert f"Start it first: quorate start {path} --server s0 --replica 2\n" in done.output
    assert voter(path, file) > 10


def test_a_replica_outside_the_last_view_reports_the_loss_in_that_view(write: Write) -> None:
    path = write()
    journal(path, 2, members=(0, 1))
    assert "what 0, 1 acknowledged in it is LOST" in run(path, "--accept-loss").output


def test_a_file_that_leaves_out_replicas_of_the_cluster_is_refused_unless_accepted(write: Write) -> None:
    path = write()
    far = msgspec.msgpack.encode(ReplicaAddress("far", (("D1", "far", 7),)))
    file = journal(path, 2, seats=(*(Seat(id) for id in range(3)), Seat(3, far), Seat(4)))
    refused = run(path)
    assert refused.exit_code == 1
    assert "leaves out replicas that the last view lists: s0.3 at far (D1 far:7), s0.4" in refused.output
    assert voter(path, file) == 10
    done = run(path, "--accept-loss")
    assert done.exit_code == 0, done.output
    assert "WARNING: the file leaves out replicas that the last view lists: s0.3" in done.output
    assert voter(path, file) > 10


@pytest.mark.parametrize(
    ("attributes", "witness", "sentence"),
    [
        ("", 2, "Replica 2 of s0 is a witness: it holds no data"),
        ('durability="memory"', -1, "s0 keeps nothing on disks"),
        ("", -1, "has no journal of s0.2; give its directory with --data"),
    ],
)
def test_a_replica_without_data_is_refused(
    write: Write, attributes: str, witness: int, sentence: str
) -> None:
    refused = run(write(attributes, witness), "--accept-loss")
    assert refused.exit_code == 1
    assert sentence in refused.output


def test_a_replica_that_runs_or_is_damaged_or_is_another_ones_is_refused(write: Write) -> None:
    path = write()
    file = journal(path, 2)
    lock = DataDirectory.open(path.parent / "data", "s0", 2)
    assert "s0.2 runs already as process" in run(path, "--accept-loss").output
    lock.close()
    content = file.read_bytes()
    file.write_bytes(b"no database" * 1000)
    assert "is damaged" in run(path, "--accept-loss").output
    another = path.parent / "data" / "s0" / "1"
    another.mkdir()
    (another / "journal.db").write_bytes(content)
    assert "belongs to replica 2 of s0" in run(path, "--accept-loss", replica=1).output


def test_a_replica_killed_during_a_large_save_can_begin_a_cluster(write: Write) -> None:
    path = write()
    file = journal(path, 2)
    harness = Harness()
    harness.know(Nothing)
    harness.deploy(Nothing)
    capture = harness.engine.capture()
    capture.step()
    opened, store = Journal.open(file, identity_of(load(path).server("s0"), 2), 11), StateStore(file)
    opened.write([], also=lambda disk: store.write_slice(disk, capture.agents, full=True, first=True))
    # From here on it is the state, and its agents are yet to move to their place.
    opened.write([], also=lambda disk: store.save(disk, capture, slices_written=True))
    opened.close()
    done = run(path, "--accept-loss")
    assert done.exit_code == 0, done.output
    assert voter(path, file) > 11
