"""The life of a daemon on a machine: how it starts, stops and ends."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.python.failure import Failure

from ...hachannel.transport.addresses import Address
from ...hachannel.transport.direct_write import DirectWriteReactor
from ...hachannel.transport.ports import ReactorPort
from ...services.base import ServiceError
from ...services.daemon_base import DaemonService
from ...tls.layer import secured
from ..config import Config, Server
from ..config import Replica as ReplicaConfig
from ..config.servers import CONNECTION_MANAGER, HTTP_SERVICE, ServiceSpec
from ..context import ReplicaContext
from ..errors import StartError
from ..master.service_class import load_service
from ..network.addresses import Addresses
from ..network.hello import ADMIN, CHANNEL
from ..network.host_addresses import HostAddresses
from ..network.source_check import SourceCheck
from ..replica.composition import make_context, make_http_service
from ..replica.fd_limits import make_room
from ..replica.inbound import AdminHandler
from ..replica.listeners import Listeners
from ..replica.log_file import ReplicaLog
from ..replica.monotonic import use_monotonic
from ..storage.data_directory import directory_error
from ..storage.disk_room import disk_room
from ..storage.private_files import exposure
from .administration import DaemonAdministration
from .peers import DaemonPeers
from .trace import DaemonTrace

__all__ = ["DaemonFailed", "DaemonReplica", "make_daemon"]

ROLE = "daemon"


class DaemonFailed(Exception):
    """The daemon had to stop because of an error. The text is one sentence."""


class _Context:
    """Implements `DaemonContext`."""

    def __init__(
        self,
        context: ReplicaContext,
        class_name: str,
        peers: DaemonPeers,
        trace: DaemonTrace,
        failed: Callable[[str], None],
    ) -> None:
        self._context = context
        self._class_name = class_name
        self._peers = peers
        self.failed = failed
        self.server_name = context.server.name
        self.replica = context.replica.id
        self.life = context.incarnation
        self.host = context.replica.host
        self.directory: Path = context.directory
        self.reactor = cast("ReactorPort", context.reactor)
        direct = DirectWriteReactor(context.reactor)
        self.client_reactor = cast("ReactorPort", secured(direct, context.tls, clients=True))
        self.addresses: Mapping[int, Address] = Addresses(context.server, context.replica).in_domain()
        manager = context.replica.service(CONNECTION_MANAGER)
        self.users = "" if manager is None else manager.args
        room = make_room(context.config, context.server, context.replica)
        self.max_clients = room.connections
        if room.sentence:
            context.log(room.sentence)
        self.log = context.log
        self.announce = context.announce
        self.count = context.metrics.count
        self.traced = trace.wanted
        self.trace = trace.write

    @property
    def clients(self) -> list[tuple[int, str, str]]:
        found = [(each, each.service(self._class_name)) for each in self._context.server.replicas]
        return [(each.id, each.host, service.args) for each, service in found if service is not None]

    def wall_ms(self) -> int:
        return self._context.wall_ns() // 1_000_000

    def setting(self, name: str, default: str = "") -> str:
        context = self._context
        text = context.config.setting(name, server=context.server.id, replica=context.replica.id)
        return default if text is None else text

    def send(self, replicas: Sequence[int], frames: Sequence[bytes]) -> None:
        self._peers.send(replicas, frames)

    def drop(self, replica: int, reason: str) -> None:
        self._peers.drop(replica, reason)

    def follow(self, addresses: Mapping[int, Address]) -> None:
        self._peers.follow(addresses)


class DaemonReplica:
    """One daemon: `start` it, and wait for `stopped`. `make_daemon` makes it."""

    role = ROLE

    def __init__(
        self, context: ReplicaContext, log: ReplicaLog, service: DaemonService, spec: ServiceSpec
    ) -> None:
        """`log` is not open yet. spec: the declaration of the service. Raises StartError."""
        self._spec = spec
        self.context = context
        self.log = log
        self.service = service
        self.trace = DaemonTrace(context)
        self.again = False
        """The process starts the daemon again after its end."""
        self.stopped: Deferred[None] = Deferred()
        """Fires when the daemon has stopped for any reason; fails with DaemonFailed after an error."""
        addresses = Addresses(context.server, context.replica)
        self.peers = DaemonPeers(context, addresses.in_domain())
        administration = DaemonAdministration(self)
        self.listeners = Listeners(context)
        self.listeners.handlers.update({CHANNEL: self.peers, ADMIN: AdminHandler(context, administration)})
        self.listeners.source_check = SourceCheck(
            context.config,
            context.server,
            context.replica,
            addresses,
            lambda _server: (),
            HostAddresses(context.reactor),
        )
        self._http: Any = None
        if context.replica.service(HTTP_SERVICE) is not None:
            self._http = make_http_service(context, administration, self.status, list, list)
        self._stopping = False

    def start(self) -> None:
        """Listen, open the service, and connect with the others. Raises StartError."""
        context = self.context
        try:
            self.log.open()
        except OSError as error:
            raise StartError(directory_error(context.directory, error)) from None
        use_monotonic(context.reactor)
        spec = next(
            each
            for each in context.replica.services
            if isinstance(self.service, load_service(each.class_name))
        )
        seen = _Context(context, spec.class_name, self.peers, self.trace, self.fail)
        try:
            self.listeners.open()
            if self._http is not None:
                self._http.open()
            self.service.open(seen, self._spec.args)
        except (StartError, ServiceError) as error:
            context.log(f"does not start: {error}")
            self.listeners.close()
            if self._http is not None:
                self._http.close()
            self.log.close()
            raise StartError(f"{str(error).rstrip('.')}.") from None
        context.log(
            f"daemon {context.replica.id} of {context.server.name} starts, life {context.incarnation}"
        )
        if exposed := exposure(context.directory):
            context.announce(exposed)
        self.peers.start(self.service)

    def interrupt(self) -> None:
        """Abandon a start that is under way: none takes long."""

    def handle_interrupts(self) -> None:
        """Nothing here runs code of users."""

    def diagnosis(self) -> str:
        """Return what keeps the daemon waiting: nothing does."""
        return ""

    def stop(self, *, together: bool = False) -> "Deferred[None]":
        """Stop in order. Fires when done; never fails."""
        del together
        done: Deferred[None] = Deferred()
        self.stopped.addBoth(partial(_pass_on, done))
        self._end(None)
        return done

    def fail(self, sentence: str) -> None:
        """Stop because of an error."""
        where = f"The directory of this replica is {self.context.directory.absolute()}."
        self._end(cast("Failure", cast("Any", Failure)(DaemonFailed(f"{sentence.rstrip('.')}. {where}"))))

    def _end(self, failure: Failure | None) -> None:
        if self._stopping:
            return
        self._stopping = True
        self.context.log("stopping" if failure is None else str(cast("Any", failure).value))
        closing: list[Deferred[Any]] = [
            maybeDeferred(cast("Callable[[], Any]", self.service.close)),
            *self.listeners.close(),
        ]
        if self._http is not None:
            closing.append(self._http.close())

        def closed(_: object) -> None:
            maybeDeferred(cast("Callable[[], Any]", self.trace.close)).addBoth(ended)

        def ended(_: object) -> None:
            self.peers.stop()
            self.context.log("stopped")
            self.log.close()
            if failure is None:
                self.stopped.callback(None)
            else:
                self.stopped.errback(failure)

        DeferredList(closing, consumeErrors=True).addBoth(closed)

    def status(self) -> dict[str, Any]:
        """Return the map of `AdminTarget.status`."""
        context, metrics = self.context, self.context.metrics
        network = context.replica.networks[0]
        mesh = dict(self.service.status())
        room = disk_room(context.directory)
        return {
            "server": context.server.name,
            "server_id": context.server.id,
            "replica": context.replica.id,
            "role": ROLE,
            "mesh": mesh,
            "connections": mesh.get("clients", 0),
            "disk_free_bytes": room.free_bytes if room is not None else None,
            "peers": self.peers.connected,
            "network_connections": self.listeners.connections,
            "garbage": metrics.counters.get("garbage", 0),
            "incarnation": context.incarnation,
            "configuration": context.config.digest,
            "settings": context.config.settings_digest(context.server.id, context.replica.id),
            "durability": "disk",
            "trace_problem": self.trace.problem,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - context.started_at, 3),
            "host": network.host,
            "port": network.port,
            "address": [network.host, network.port],
            "services": {"MeshService": line} if (line := self.service.status_line()) else {},
            "counters": dict(metrics.counters),
            "gauges": dict(metrics.gauges),
        }


def make_daemon(
    config: Config, server: Server, declared: ReplicaConfig, *, data: Path, incarnation: int, reactor: Any
) -> DaemonReplica:
    """Return a daemon that has not started. Raises StartError for a setting that cannot be used."""
    context, log = make_context(config, server, declared, data, incarnation, reactor)
    for spec in declared.services:
        found = load_service(spec.class_name)
        if issubclass(found, DaemonService):
            return DaemonReplica(context, log, found(), spec)
    raise StartError(f"Replica {declared.id} of {server.name} declares no service of a mesh.")


def _pass_on(done: "Deferred[None]", result: Any) -> Any:
    done.callback(None)
    return result
