"""The master's side of a replica: what it starts, and what becomes of it when it is master no longer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock

from quorate.hachannel.transport.connection import LinkSettings
from quorate.server.config import Config, Replica, Server, ServiceSpec
from quorate.server.context import ReplicaContext
from quorate.server.master.master import MasterSide
from quorate.server.metrics import Metrics
from quorate.server.network.addresses import Addresses
from quorate.server.node.outputs import NodeSettings

SERVICES = (
    ServiceSpec("quorate.services.manager:ConnectionManager", "root root"),
    ServiceSpec("quorate.services.tcp:TcpProxyService", "2560"),
)


def test_services_that_wait_while_the_master_goes_have_not_failed() -> None:
    told: list[str] = []
    node = SimpleNamespace(serving=True, posting=True, engine=None, post=lambda *_: True)
    port: Any = SimpleNamespace(node=node, flush_soon=lambda: None)
    replica = Replica(0, "localhost", services=SERVICES)
    server = Server(0, "s0", False, (replica,))
    config = Config(path=__file__, domains=(), servers=(server,))
    settings: Any = SimpleNamespace(link=LinkSettings(), secret=None, node=NodeSettings())
    metrics = Metrics()
    context = ReplicaContext(
        config, server, replica, settings, Path(), 1, Clock(), metrics, told.append, told.append
    )
    master = MasterSide(context, port, Addresses(server, replica))
    master.start(True)
    master.stop("this replica was blocked for too long")
    assert told == []
    assert metrics.counters == {}
