"""The master's side of a replica: what it starts, and what becomes of it when it is master no longer."""

from types import SimpleNamespace
from typing import Any

from twisted.internet.task import Clock

from quorate.hachannel.transport.connection import LinkSettings
from quorate.server.config import Config, Replica, Server, ServiceSpec
from quorate.server.master.master import MasterSide
from quorate.server.metrics import Metrics

SERVICES = (
    ServiceSpec("quorate.services.manager:ConnectionManager", "root root"),
    ServiceSpec("quorate.services.tcp:TcpProxyService", "2560"),
)


def test_services_that_wait_while_the_master_goes_have_not_failed() -> None:
    told: list[str] = []
    node = SimpleNamespace(serving=True, engine=None, post=lambda *_: True)
    host: Any = SimpleNamespace(
        node=node,
        reactor=Clock(),
        metrics=Metrics(),
        log=told.append,
        tell=told.append,
        flush_soon=lambda: None,
    )
    replica = Replica(0, "localhost", services=SERVICES)
    server = Server(0, "s0", False, (replica,))
    config = Config(path=__file__, domains=(), servers=(server,))
    settings: Any = SimpleNamespace(link=LinkSettings(), secret=None)
    master = MasterSide(config, server, replica, settings, host, 1)
    master.start(True)
    master.stop("this replica was blocked for too long")
    assert told == []
    assert host.metrics.counters == {}
