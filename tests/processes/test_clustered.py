"""A clustered queue and topic on two highly available servers, and a plain server that forwards to one.

The layout of the last section of the specification of HA Joram: each server is replicated on two hosts.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Connection, Servers
from quorate.messaging import Ack, Session, Topic

from .running import BOUND_S

pytestmark = pytest.mark.processes

COUNT = 2000
XML = """<config>
  <domain name="D1"/>
  <property name="trace" value="false"/><property name="insecure_network" value="true"/>
  <property name="secret" value="clustered"/>
  {clusters}
  <server id="3" name="s3" hostname="localhost"><network domain="D1" port="16330"/>
    {services}
    <queue name="outgoing" forward="QA@s1"/>
  </server>
</config>"""
SERVICES = """<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
    <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="256{port}"/>"""
CLUSTER = """<cluster id="{id}" name="s{id}" durability="disk">
    <server id="0" hostname="localhost"><network domain="D1" port="163{id}0"/>{first}</server>
    <server id="1" hostname="localhost"><network domain="D1" port="163{id}1"/>{second}</server>
    <server id="2" hostname="localhost" witness="true"><network domain="D1" port="163{id}2"/></server>
    <queue name="QA" cluster="s1 s2"/><topic name="TA" cluster="s1 s2"/>
  </cluster>
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Return servers s1 and s2, two replicas and a witness each, and the plain server s3."""
    clusters = "".join(
        CLUSTER.format(id=id, first=SERVICES.format(port=f"{id}0"), second=SERVICES.format(port=f"{id}1"))
        for id in (1, 2)
    )
    path = tmp_path / "a3servers.xml"
    path.write_text(XML.format(clusters=clusters, services=SERVICES.format(port=30)))
    with Servers(path, free_ports=True, data=tmp_path / "data") as servers:
        yield servers


class _Reader(threading.Thread):
    """Consumes from a destination until nothing has come for a while."""

    def __init__(self, connection: Connection, destination: str | Topic, quiet_s: float) -> None:
        super().__init__()
        self.got: list[int] = []
        self._session = Session(connection, ack=Ack.CLIENT, timeout=BOUND_S)
        self._consumer = self._session.consumer(destination, timeout_s=quiet_s)

    def run(self) -> None:
        with self._session, self._consumer:
            for message in self._consumer:
                self.got.append(int(str(message.body)))
                if len(self.got) % 50 == 0:
                    message.ack()
            self._session.acknowledge()


def test_a_clustered_queue_and_topic_while_the_masters_of_both_servers_are_killed(servers: Servers) -> None:
    with servers.connect("s1") as one, servers.connect("s2") as two:
        # Messages go to s1; consumers of the queue are at s2, those of the topic at both.
        readers = [_Reader(two, "QA", 8), _Reader(two, "QA", 8)]
        listeners = [_Reader(one, Topic("TA"), 8), _Reader(two, Topic("TA"), 8)]
        for each in (*readers, *listeners):
            each.start()
        with Session(one, timeout=BOUND_S) as session:
            queue, topic = session.producer("QA"), session.producer(Topic("TA"))
            for number in range(COUNT):
                queue.send_nowait(str(number))
                topic.send_nowait(str(number))
                if number == COUNT // 3:
                    servers.kill_master("s1")
                if number == 2 * COUNT // 3:
                    queue.flush()
                    servers.kill_master("s2")
            queue.flush()
            topic.flush()
        for each in (*readers, *listeners):
            each.join(4 * BOUND_S)
            assert not each.is_alive()
        assert sorted(readers[0].got + readers[1].got) == list(range(COUNT))
        assert [each.got for each in listeners] == [list(range(COUNT))] * 2


def test_what_is_stored_at_a_plain_server_reaches_the_queue_when_its_server_is_back(servers: Servers) -> None:
    first, last = servers.kill_master("s1"), servers.kill_master("s1")
    with servers.connect("s3") as local, Session(local, timeout=BOUND_S) as session:
        for number in range(20):
            session.send("outgoing", str(number))
        assert len(list(session.browse("outgoing"))) == 20
    # The one that holds the last view first: the other one alone cannot know what it has missed.
    for replica in (last, first):
        servers.start_replica("s1", replica)
    with servers.connect("s1") as one:
        reader = _Reader(one, "QA", 5)
        reader.start()
        reader.join(4 * BOUND_S)
        assert reader.got == list(range(20))
