"""The trace of a replica: what its files say of the configuration and of the lives."""

import json
from pathlib import Path

import pytest
from twisted.internet.defer import maybeDeferred

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.hachannel import ViewEvent
from quorate.hachannel.model.view import ViewNumber
from quorate.replay.files import Footer, footer
from quorate.replay.schema import EVENTS_SUFFIX
from quorate.server.config import load
from quorate.server.context import ReplicaContext
from quorate.server.metrics import Metrics
from quorate.server.node.outputs import RoleChange
from quorate.server.replica.trace import TraceLives
from quorate.server.settings import ReplicaSettings

pytest.importorskip("pyarrow")

CONFIG = """<config><property name="secret" value="x"/><domain name="D1"/>
<cluster id="0" name="s0" nbClusterExpected="2">
  <server id="0" hostname="a"><network domain="D1" port="100"/></server>
  <server id="1" hostname="b"><network domain="D1" port="100"/>
    <property name="trace" value="false"/></server>
  <server id="2" hostname="c"><network domain="D1" port="100"/></server>
  <server id="3" hostname="d" witness="true"><network domain="D1" port="100"/></server>
</cluster>
<server id="7" name="s7" hostname="e"><network domain="D1" port="100"/></server></config>"""


def row(position: int) -> Reaction:
    agent = AgentId(0, 0, 1025)
    return Reaction(
        position=position,
        index=position,
        step=0,
        now_ns=1,
        agent=agent,
        cls="bank:Account",
        kind="react",
        sender=agent,
        type="bank:Deposit",
        payload=b"\x80",
        request=0,
        error="",
        sends=0,
        outputs=b"",
        stamp=1100,
    )


@pytest.fixture(autouse=True)
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close has ended when it returns."""
    monkeypatch.setattr("quorate.server.replica.trace.deferToThread", maybeDeferred)


@pytest.fixture
def context(tmp_path: Path) -> ReplicaContext:
    path = tmp_path / "a3servers.xml"
    path.write_text(CONFIG)
    config = load(path)
    server = config.server("s0")
    replica = server.replicas[0]
    return ReplicaContext(
        config,
        server,
        replica,
        ReplicaSettings.read(config, server, replica),
        tmp_path / "s0" / "0",
        5,
        None,
        Metrics(),
        print,
        print,
    )


def footers(context: ReplicaContext) -> list[Footer]:
    found = [footer(path) for path in sorted((context.directory / "trace").glob("*.parquet"))]
    assert all(isinstance(each, Footer) for each in found)
    return [each for each in found if isinstance(each, Footer)]


def test_files_name_all_servers_and_the_replicas_that_write_a_trace(context: ReplicaContext) -> None:
    trace = TraceLives(context)
    trace.open(5)
    trace.write([row(1)])
    trace.close()
    (found,) = footers(context)
    assert found.origin.servers == {"s0": 0, "s7": 7}
    assert found.origin.replicas == {"s0": [0, 2], "s7": [0]}


def test_the_life_that_begins_with_an_accepted_change_of_code_says_so(context: ReplicaContext) -> None:
    trace = TraceLives(context)
    trace.open(5, [row(1), row(2)], "entry 2 ended otherwise than before")
    trace.write([row(3)])
    trace.write([row(9)])
    trace.close()
    lives = [(found.rows, found.origin.incarnation, found.origin.accepted) for found in footers(context)]
    assert lives == [(3, 5, "entry 2 ended otherwise than before"), (1, 6, "")]


def test_views_and_mastership_are_lines_beside_the_files(context: ReplicaContext) -> None:
    trace = TraceLives(context)
    trace.open(5)
    trace.write([row(1)])
    trace.view(ViewEvent(1, ViewNumber(3, 2, 9), 2, (2, 0), False, "replica 1 is silent"))
    trace.role(RoleChange(True, False, "it is master"))
    trace.close()
    lines = (context.directory / "trace" / f"5{EVENTS_SUFFIX}").read_text().splitlines()
    view, role = (json.loads(line) for line in lines)
    assert (view["event"], view["view"], view["master"], view["members"]) == ("view", "3.2", 2, [2, 0])
    assert (role["event"], role["position"], role["incarnation"]) == ("master", 1, 5)
