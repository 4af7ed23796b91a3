"""Queues and topics on three real replicas, whose masters are killed."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate import Connection, RequestTimeout, Servers
from quorate.messaging import Ack, Session, Topic

from .running import BOUND_S

pytestmark = pytest.mark.processes

XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <cluster id="0" name="s0">
    {replicas}
    <queue name="in"/><queue name="out"/><topic name="prices"/>
  </cluster>
</config>"""
REPLICA = """<server id="{id}" hostname="localhost"><network domain="D1" port="1630{id}"/>
  <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
  <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="256{id}"/></server>
"""
KILLS = 3


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Return a cluster of three replicas, with two queues and a topic, that starts again what was killed."""
    path = tmp_path / "a3servers.xml"
    path.write_text(XML.format(replicas="".join(REPLICA.format(id=id) for id in range(3))))
    with Servers(path, free_ports=True) as servers:
        yield servers


def _connect(servers: Servers) -> Connection:
    return servers.connect("s0")


def _kill_and_restart(servers: Servers) -> None:
    killed = servers.kill_master("s0")
    servers.master("s0")
    servers.start_replica("s0", killed)


def _at_once(*functions: Callable[[], None]) -> None:
    """Run functions in threads, and raise the first failure."""
    failures: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * BOUND_S)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_each_message_comes_once_and_in_order_while_masters_are_killed(servers: Servers) -> None:
    got: list[int] = []
    done = threading.Event()
    sent: list[int] = []

    def produce() -> None:
        with _connect(servers) as connection, Session(connection, timeout=BOUND_S) as session:
            producer = session.producer("in")
            number = 0
            while not done.is_set():
                for _ in range(50):
                    producer.send_nowait(str(number), timeout=BOUND_S)
                    number += 1
                producer.flush(BOUND_S)
            sent.append(number)
            producer.send("end", timeout=BOUND_S)

    def consume() -> None:
        with (
            _connect(servers) as connection,
            Session(connection, timeout=BOUND_S) as session,
            session.consumer("in") as consumer,
        ):
            while (text := consumer.receive(BOUND_S).body) != "end":
                assert isinstance(text, str)
                got.append(int(text))

    def kill() -> None:
        try:
            for _ in range(KILLS):
                _kill_and_restart(servers)
        finally:
            done.set()

    _at_once(produce, consume, kill)
    assert got == list(range(sent[0]))
    assert len(got) > 100


def test_a_transacted_relay_loses_and_doubles_nothing_while_masters_are_killed(servers: Servers) -> None:
    count = 200
    with _connect(servers) as connection, Session(connection, timeout=BOUND_S) as session:
        producer = session.producer("in")
        for number in range(count):
            producer.send_nowait(str(number))
        producer.flush()

        def relay() -> None:
            with _connect(servers) as own, Session(own, transacted=True, timeout=BOUND_S) as relaying:
                consumer, out = relaying.consumer("in"), relaying.producer("out")
                while True:
                    try:
                        message = consumer.receive(2)
                    except RequestTimeout:
                        return
                    out.send(message.body)
                    if int(str(message.body)) % 7 == 3 and not message.redelivered:
                        relaying.rollback()
                    else:
                        relaying.commit(BOUND_S)

        def kill() -> None:
            for _ in range(KILLS):
                _kill_and_restart(servers)

        _at_once(relay, kill)
        with session.consumer("out", timeout_s=2) as consumer:
            got = [int(str(message.body)) for message in consumer]
    assert sorted(got) == list(range(count))


def test_a_durable_subscriber_that_is_away_gets_all_after_a_failover(servers: Servers) -> None:
    bodies = [{"price": number} for number in range(20)]
    with (
        _connect(servers) as connection,
        Session(connection, client_id="auditor", timeout=BOUND_S) as session,
    ):
        session.consumer(Topic("prices"), durable="audit").close()
        for body in bodies:
            session.send(Topic("prices"), body, timeout=BOUND_S)
            if body == {"price": 10}:
                _kill_and_restart(servers)
    with _connect(servers) as connection, Session(connection, client_id="auditor") as session:
        consumer = session.consumer(Topic("prices"), durable="audit", timeout_s=1)
        assert [message.body for message in consumer] == bodies
        consumer.close()
        session.unsubscribe("prices", "audit")


def test_after_a_failover_nothing_is_redelivered_and_what_is_held_can_be_settled(servers: Servers) -> None:
    with (
        _connect(servers) as connection,
        Session(connection, ack=Ack.INDIVIDUAL, timeout=BOUND_S) as session,
        session.consumer("in") as consumer,
    ):
        for text in "abc":
            session.send("in", text)
        first = consumer.receive(BOUND_S)
        _kill_and_restart(servers)
        second = consumer.receive(BOUND_S)
        assert (first.body, second.body, second.redelivered) == ("a", "b", False)
        first.ack()
        second.reject(requeue=True)
        again = [consumer.receive(BOUND_S) for _ in range(2)]
        assert {(each.body, each.redelivered) for each in again} == {("c", False), ("b", True)}
        for each in again:
            each.ack()
        session.sync()
        assert list(session.browse("in")) == []
