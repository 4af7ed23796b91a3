"""One process of a replica in memory: the driver, connections and networks of a server, without its files."""

from typing import TYPE_CHECKING

from ...agents import Note
from ...engine import Engine, Reaction
from ...server.config import Replica, Server
from ...server.context import ReplicaContext
from ...server.local.local_replica import LocalReplica
from ...server.master.master import MasterSide
from ...server.metrics import Metrics
from ...server.network.hello import CHANNEL, NETWORK
from ...server.node.factory import make_node
from ...server.node.node import Node
from ...server.node.outputs import Output
from ...server.replica.driver import Driver
from ...server.replica.inbound import ChannelHandler
from ...server.replica.listeners import Listeners
from ...server.replica.output_dispatch import OutputDispatch
from ...server.replica.peer_connections import PeerConnections
from ...server.settings import ReplicaSettings
from .memory_disk import MemoryDisk

if TYPE_CHECKING:
    from .simulated_servers import SimulatedServers

__all__ = ["MemoryReplica"]

EPOCH_NS = 1_700_000_000_000_000_000


class MemoryReplica:
    """A replica from the start of its process to its end.

    It joins the parts of a server as `server.replica.Replica` does. The disk and the trace are in memory, no
    source address is checked, and there are no services, watchdog and log file. Implements `TracePort`.
    """

    def __init__(
        self, world: "SimulatedServers", server: Server, declared: Replica, host: str, disk: MemoryDisk
    ) -> None:
        self.world = world
        self.server = server
        self.id = declared.id
        self.host = host
        self.disk = disk
        self.lines: list[str] = []
        config = world.config
        self.reactor = world.net.machine(host)
        self.context = ReplicaContext(
            *(config, server, declared, ReplicaSettings.read(config, server, declared), config.path.parent),
            *(disk.incarnation, self.reactor, Metrics(), self._log, self._log),
            clock=self.reactor.seconds,
            wall_ns=self._wall_ns,
            jitter=world.random,
        )
        self.driver = Driver(
            self.reactor,
            self._carry_out,
            self._settled,
            now=self.context.clock,
            wall_ns=self.context.wall_ns,
        )
        self.peers = PeerConnections(self.context, self.driver)
        self.master = MasterSide(self.context, self.driver, self.peers.addresses, world.random)
        self.local = LocalReplica(self.context, self.driver, self.master)
        """The replica as collocated clients and threads see it; `local_server` does not know it."""
        self._outputs = OutputDispatch(self.context, self.peers, disk, self.master, self, self.local)
        self._listeners = Listeners(self.context)
        self._listeners.handlers.update(
            {
                CHANNEL: ChannelHandler(self.context, self.driver, self.peers),
                NETWORK: self.master.networks.incoming,
            }
        )

    @property
    def node(self) -> Node:
        """The node of this process."""
        return self.driver.node

    @property
    def alive(self) -> bool:
        """Whether the process runs or is paused."""
        return not self.reactor.stopped

    def start(self) -> None:
        """Recover from the disk, listen, and join the others."""
        config, server, settings = self.context.config, self.server, self.context.settings
        engine = Engine(
            server.id,
            config.names,
            settings.engine,
            routes=config.routes(server.id),
            causal=config.causal_domains(server.id),
        )
        log, reactions = self.disk.recover(engine)
        self.world.reacted(self, engine.birth, reactions)
        node = make_node(
            self.id,
            server.replica_ids,
            server=server.id,
            names=config.names,
            incarnation=self.disk.incarnation,
            cluster=config.digest,
            expected=len(server.replicas),
            channel_settings=settings.channel,
            settings=settings.node,
            log=log,
            engine=engine,
        )
        self.disk.attach(
            self.reactor, engine, log, lambda token: self.driver.call(self.node.persisted, token)
        )
        self._listeners.open()
        self.driver.begin(node)
        self.peers.start(self.disk.incarnation)
        self.driver.call(node.start)

    def kill(self, notice_s: float) -> None:
        """End the process at once; the others notice after `notice_s`."""
        self.disk.crash()
        self.world.net.crash(self.host, notice_s)

    def post(self, notes: list[Note], token: int) -> bool:
        """Post notes as a service does; return False if this replica is not the master."""
        posted = self.node.post(notes, token)
        if posted:
            self.driver.flush_soon()
        return posted

    def write(self, reactions: list[Reaction]) -> None:
        """Have the reactions checked."""
        self.world.reacted(self, self.node.engine.birth, reactions)

    def _carry_out(self, out: Output) -> None:
        out.loaded = False  # The garbage collections of a test stay as they are.
        self.world.applied(self)
        self._outputs.carry_out(out)
        self.world.acknowledged(out.committed)
        for role in out.roles:
            if role.master:
                if role.first_time:
                    self.world.begins(self)
                self.master.start(role.first_time)
            else:
                self.master.stop(role.reason).addBoth(lambda _: self.driver.call(self.node.services_stopped))
        if out.stopped:
            raise self.world.violation("no failure", f"replica {self.host} has ended: {out.stopped}")

    def _settled(self) -> None:
        self.master.resume()

    def _log(self, line: str) -> None:
        self.lines.append(line)
        if line.startswith("defect"):
            raise self.world.violation("no failure", f"replica {self.host}: {line}")

    def _wall_ns(self) -> int:
        return EPOCH_NS + int(self.reactor.seconds() * 1e9)
