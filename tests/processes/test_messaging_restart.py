"""What a durable server has of its queues and topics after it was killed as a whole."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.messaging import Ack, Session, Topic, XASession

from .running import BOUND_S

pytestmark = pytest.mark.processes

DELAY_S = 4.0
XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <server id="0" name="s0" hostname="localhost" durability="disk"><network domain="D1" port="16300"/>
    <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
    <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="2560"/>
    <queue name="orders" max_deliveries="3" dead_queue="dead"/><queue name="dead"/>
    <queue name="large" max_bytes="0"/><topic name="prices"/>
  </server>
</config>"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Return a plain server that keeps its state on the disk."""
    path = tmp_path / "a3servers.xml"
    path.write_text(XML)
    with Servers(path, free_ports=True, data=tmp_path / "data") as servers:
        yield servers


def _restart(servers: Servers) -> None:
    servers.kill("s0")
    servers.start_replica("s0")
    servers.master("s0")


def test_counts_delays_and_subscriptions_outlive_the_death_of_the_whole_server(servers: Servers) -> None:
    with (
        servers.connect("s0") as connection,
        Session(connection, ack=Ack.INDIVIDUAL, client_id="a", timeout=BOUND_S) as session,
    ):
        session.consumer(Topic("prices"), durable="audit").close()
        session.send(Topic("prices"), "one")
        session.send("orders", "often")
        session.send("orders", "late", delay_s=DELAY_S)
        sent = time.monotonic()
        consumer = session.consumer("orders")
        for _ in range(2):
            consumer.receive(BOUND_S).reject(requeue=True)
        session.sync()
        _restart(servers)
        # The consumer is still open: the connection goes on.
        often = consumer.receive(BOUND_S)
        assert (often.body, often.redelivered, often.delivery_count) == ("often", True, 3)
        often.reject(requeue=True)
        late = consumer.receive(BOUND_S)
        assert (late.body, late.redelivered) == ("late", False)
        assert time.monotonic() - sent >= DELAY_S - 0.1
        late.ack()
        (dead,) = session.browse("dead")
        assert (dead.body, dead.dead_reason, dead.dead_origin) == ("often", "undeliverable", "queue:orders")
        audit = session.consumer(Topic("prices"), durable="audit")
        assert audit.receive(BOUND_S).body == "one"


def test_a_prepared_transaction_outlives_its_connection_and_the_death_of_the_server(servers: Servers) -> None:
    with servers.connect("s0") as connection, XASession(connection, timeout=BOUND_S) as session:
        with Session(connection, timeout=BOUND_S) as plain:
            plain.send("orders", "in")
        xid = session.xid(7, "transfer", "q")
        session.tpc_begin(xid)
        assert session.consumer("orders").receive(BOUND_S).body == "in"
        session.send("dead", "out")
        session.tpc_prepare()
    _restart(servers)
    with servers.connect("s0") as connection, XASession(connection, timeout=BOUND_S) as session:
        assert session.tpc_recover() == [xid]
        with (
            Session(connection, timeout=BOUND_S) as plain,
            plain.consumer("orders", timeout_s=0.5) as consumer,
        ):
            assert list(consumer) == []
        session.tpc_commit(xid)
        session.tpc_commit(xid)  # As after an answer that was lost.
        with Session(connection, timeout=BOUND_S) as plain:
            assert [each.body for each in plain.browse("dead")] == ["out"]
            assert list(plain.browse("orders")) == []


def test_a_large_backlog_is_there_after_the_death_of_the_server_in_order(servers: Servers) -> None:
    count, body = 30_000, b"x" * 1000
    with servers.connect("s0") as connection, Session(connection, timeout=BOUND_S) as session:
        producer = session.producer("large")
        for number in range(count):
            producer.send_nowait(body + number.to_bytes(4))
        producer.flush()
        _restart(servers)
        with session.consumer("large", timeout_s=10) as consumer:
            for number in range(count):
                assert consumer.receive(BOUND_S).data[-4:] == number.to_bytes(4)
