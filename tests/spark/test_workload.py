"""The load of recorded servers, without names and contents, and its way back onto servers."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from quorate import Servers
from quorate.__main__ import cli
from quorate.replay import NoTrace, ReplayError, workload
from quorate.replay.stand_in import branches
from quorate.replay.workload import Workload

from .two_servers import TOURS, World, write

XML = """<config>
  <domain name="D1"/>
  <server id="0" name="s0" hostname="localhost">
    <network domain="D1" port="16301"/>
    <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
    <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="2560"/>
    <property name="administrators" value="root"/>
  </server>
</config>"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two servers did: tours of several servers, and a client that is answered."""
    world = World()
    client = world.client()
    client.send(1, "near", "near")
    client.send(3, "near")
    client.ask(4, "mirror", 5)
    for _ in range(3):
        world.near.now_ns += 1_000_000_000
        world.post("near")
    place = tmp_path_factory.mktemp("recorded")
    write(place, world.rows)
    return place


def test_each_chain_has_what_one_notification_caused(session: Any, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "load.parquet"
    report = workload(session, [str(data)], target)
    assert (report.servers, report.connections) == (2, 1)
    chains = list(Workload(target).chains())
    assert len(chains) == report.chains
    assert [chain.at_ns for chain in chains] == sorted(chain.at_ns for chain in chains)
    tours = [chain for chain in chains if len(chain.steps) == 3]
    assert len(tours) == TOURS
    for chain in tours:
        # far on s1, far again, and near on s0: each causes the next one.
        assert [(server, size) for server, _, _, size in chain.steps] == [(1, 3), (1, 2), (0, 1)]
        assert chain.connection == 0
    own = [chain for chain in chains if chain.connection]
    assert [len(chain.steps) for chain in own] == [0, 0, 0, 5]
    # The mirror answers the client, which is agent 0.
    assert [step[1] for step in own[-1].steps] == [0] * 5


def test_the_file_names_nobody(session: Any, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "load.parquet"
    workload(session, [str(data)], target)
    table = parquet.read_table(target)
    assert {str(field.type) for field in table.schema} <= {"int32", "int64"}
    raw = target.read_bytes()
    assert not any(name in raw for name in (b"near", b"Station", b"Tour", b"s1"))


def test_later_notifications_are_left_out_with_all_that_they_cause(
    session: Any, data: Path, tmp_path: Path
) -> None:
    whole = workload(session, [str(data)], tmp_path / "whole.parquet")
    report = workload(session, [str(data)], tmp_path / "part.parquet", rows=whole.reactions - 2)
    assert (report.reactions, report.left_out) == (whole.reactions - 2, 2)
    some = list(Workload(tmp_path / "part.parquet").chains())
    assert some == list(Workload(tmp_path / "whole.parquet").chains())[: len(some)]


def test_traces_without_agents_of_applications_have_no_load(session: Any, tmp_path: Path) -> None:
    world = World()
    write(tmp_path / "data", {"s0": world.near.rows[:1]})
    with pytest.raises(NoTrace, match="no notification to an agent of an application"):
        workload(session, [str(tmp_path / "data")], tmp_path / "load.parquet")


def test_another_file_is_no_workload(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.write_text("nothing")
    with pytest.raises(ReplayError, match="cannot be read"):
        Workload(other)
    trace = next(Path(tmp_path).glob("*"))
    assert trace == other
    with pytest.raises(ValueError, match="no steps of a workload"):
        list(branches([(0, 1, 10, 5)]))


def test_a_bench_puts_the_load_on_a_server(local: Any, data: Path, tmp_path: Path) -> None:
    load = tmp_path / "load.parquet"
    workload(local, [str(data)], load)
    config = tmp_path / "a3servers.xml"
    config.write_text(XML)

    def bench(*words: str) -> Any:
        return CliRunner().invoke(
            cli, ["bench", servers.url("s0"), "--workload", str(load), "--json", *words]
        )

    with Servers(config, free_ports=True) as servers:
        done = bench("--speed", "0")
        assert done.exit_code == 0, done.output
        result = json.loads(done.output)
        sent = len(list(Workload(load).chains()))
        assert (result["sent"], result["received"], result["other"]) == (sent, 5, 0)
        with servers.connect("s0") as connection:
            assert list(connection.agents(name="workload-*")) == []
        wrong = bench("--on", "s0")
        assert wrong.exit_code == 1
        assert "The load has 2 servers: give --on for each of them, or for none" in wrong.output
        both = bench("--queue", "q")
        assert both.exit_code == 2
        elsewhere = bench("--on", "s0", "--on", "nowhere")
        assert elsewhere.exit_code == 1
        assert "nowhere" in elsewhere.output
