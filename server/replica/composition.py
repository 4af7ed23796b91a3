"""The composition of a replica: context, parts, and the handlers of its inbound connections."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ...services.base import ServiceError
from ..admin.protocol import AdminTarget
from ..certificates import server_tls
from ..config import HTTP_SERVICE, Config, Server
from ..config import Replica as ReplicaConfig
from ..context import ReplicaContext
from ..errors import StartError
from ..http.figures import DestinationFigures
from ..http.views import ViewRecord
from ..metrics import Metrics
from ..network.hello import ADMIN, CHANNEL, NETWORK
from ..network.host_addresses import HostAddresses
from ..network.source_check import SourceCheck
from ..settings import ReplicaSettings
from .administration import Administration
from .figures import destination_figures
from .inbound import AdminHandler, ChannelHandler
from .log_file import ReplicaLog
from .replica import Replica
from .status import build_status

__all__ = ["make_context", "make_http_service", "make_replica"]

CONSOLE = "quorate.console.console"
"""The console stands above the server: it knows messaging and groups, too."""


def make_context(
    config: Config,
    server: Server,
    declared: ReplicaConfig,
    data: Path,
    incarnation: int,
    reactor: Any,
    *,
    accept_code_change: bool = False,
) -> tuple[ReplicaContext, ReplicaLog]:
    """Return the context of a replica, and its log, which is not open. Raises StartError."""
    directory = data / server.name / str(declared.id)
    labels: dict[str, str | int] = {"server": server.name, "replica": declared.id}
    in_json = config.setting("log_format", server=server.id, replica=declared.id) == "json"
    log = ReplicaLog(directory, labels if in_json else None)
    settings = ReplicaSettings.read(config, server, declared)
    context = ReplicaContext(
        config,
        server,
        declared,
        settings,
        directory,
        incarnation,
        reactor,
        Metrics(),
        log.line,
        log.announce,
        accept_code_change,
        tls=server_tls(config, server, declared, reactor.seconds, log.line),
    )
    return context, log


def make_replica(
    config: Config,
    server: Server,
    declared: ReplicaConfig,
    *,
    data: Path,
    expected: int | None,
    incarnation: int,
    reactor: Any,
    join: bool = False,
    accept_code_change: bool = False,
) -> Replica:
    """Return a replica that has not started.

    `declared` is its entry in the configuration. `incarnation` is a number that grows with every life of this
    replica. `expected` overrides the configuration's nbClusterExpected. `join`: the replica waits to
    be admitted by a cluster, and never founds one. `accept_code_change`: see `ReplicaContext`. Raises
    StartError for a setting that cannot be used.
    """
    context, log = make_context(
        config, server, declared, data, incarnation, reactor, accept_code_change=accept_code_change
    )
    replica = Replica(context, log, server.expected if expected is None else expected, join=join)
    replica.listeners.handlers.update(
        {
            CHANNEL: ChannelHandler(context, replica.driver, replica.peers),
            NETWORK: replica.master.networks.incoming,
            ADMIN: AdminHandler(context, Administration(replica)),
        }
    )
    if declared.service(HTTP_SERVICE) is not None:
        replica.http = make_http_service(
            context,
            Administration(replica),
            partial(build_status, replica),
            lambda: destination_figures(replica.node.engine),
            lambda: replica.views.records,
        )
    addresses, reported = replica.peers.addresses, replica.master.networks.reported_hosts
    replica.listeners.source_check = SourceCheck(
        config, server, declared, addresses, reported, HostAddresses(reactor)
    )
    return replica


def make_http_service(
    context: ReplicaContext,
    target: AdminTarget,
    status: Callable[[], Mapping[str, Any]],
    destinations: Callable[[], Sequence[DestinationFigures]],
    views: Callable[[], Sequence[ViewRecord]],
) -> Any:
    """Return the HTTP port of a replica or daemon, with the console. Raises StartError."""
    # They take some tenths of a second to import.
    from ..http.service import HttpService

    console: Any = import_module(CONSOLE)
    try:
        more = console.make_console(context, target, status, destinations, views)
    except ServiceError as error:
        raise StartError(f"The console cannot start: {error}.") from None
    return HttpService(context, status, destinations, more)
