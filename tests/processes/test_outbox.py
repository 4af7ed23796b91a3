"""Outbox and inbox: a database and messages, exactly once without two-phase commit."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quorate import Connection, Servers
from quorate.messaging import Ack, Inbox, Outbox, Queue, Session

from . import postgres
from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <server id="0" name="s0" hostname="localhost"><network domain="D1" port="16300"/>
    <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
    <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="2560"/>
    <queue name="orders"/><queue name="answers"/>
  </server>
</config>"""


class Killed(Exception):
    """The program dies here."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    path = tmp_path_factory.mktemp("outbox") / "a3servers.xml"
    path.write_text(XML)
    with Servers(path, free_ports=True) as servers:
        yield servers


@pytest.fixture
def connection(servers: Servers) -> Iterator[Connection]:
    with servers.connect("s0") as connection:
        yield connection


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "data.db") as opened:
            yield opened
        return
    if postgres.unavailable():
        pytest.skip(postgres.unavailable())
    with postgres.running() as address, psycopg.connect(address) as opened:
        yield opened


def drain(connection: Connection) -> list[Any]:
    """Receive all orders."""
    with Session(connection, timeout=BOUND_S) as session:
        return [message.body for message in session.consumer("orders", timeout_s=0.5)]


def test_what_is_rolled_back_is_not_sent_and_what_is_committed_is_sent_once(
    connection: Connection, database: Any
) -> None:
    outbox = Outbox(database)
    outbox.create()
    outbox.put("orders", "given up")
    database.rollback()
    for number in range(600):
        outbox.put("orders", {"number": number}, priority=4, properties={"region": "EU"})
    database.commit()
    with Session(connection, timeout=BOUND_S) as session:
        assert outbox.forward(session) == 600
        assert outbox.forward(session) == 0
    assert drain(connection) == [{"number": number} for number in range(600)]


def test_a_forwarder_that_dies_before_it_removes_a_message_doubles_nothing(
    connection: Connection, tmp_path: Path
) -> None:
    class Dying(sqlite3.Connection):
        alive = True

        def commit(self) -> None:
            if not self.alive:
                self.rollback()
                raise Killed
            super().commit()

    database = sqlite3.connect(tmp_path / "data.db", factory=Dying)
    outbox = Outbox(database)
    outbox.create()
    outbox.put("orders", "once", reply_to=Queue("answers"))
    database.commit()
    with Session(connection, timeout=BOUND_S) as session:
        database.alive = False
        with pytest.raises(Killed):
            outbox.forward(session)
        database.alive = True
        assert outbox.forward(session) == 1
        with session.consumer("orders", timeout_s=0.5) as consumer:
            found = [(message.body, message.reply_to) for message in consumer]
    assert found == [("once", Queue("answers"))]
    database.close()


def test_a_message_that_comes_again_is_not_new(connection: Connection, database: Any) -> None:
    inbox = Inbox(database)
    inbox.create()
    handled: list[str] = []
    with Session(connection, timeout=BOUND_S) as session:
        session.send("orders", "work")
    for _ in range(2):
        with Session(connection, ack=Ack.CLIENT, timeout=BOUND_S) as session:
            message = session.consumer("orders").receive(BOUND_S)
            if inbox.is_new(message):
                handled.append(str(message.body))
            database.commit()
            # The first time the program dies before it acknowledges.
            if message.redelivered:
                message.ack()
    assert handled == ["work"]
    assert inbox.forget(3600) == 0
    assert inbox.forget(-1) == 1
    assert drain(connection) == []


def test_what_cannot_be_sent_is_refused_when_it_is_put(database: Any) -> None:
    outbox = Outbox(database)
    outbox.create()
    with pytest.raises(ValueError, match="priority is 17"):
        outbox.put("orders", "x", priority=17)
    with pytest.raises(TypeError, match="duplicate_id of its own"):
        outbox.put("orders", "x", duplicate_id="mine")
