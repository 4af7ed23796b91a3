"""One process of a simulated replica: the driver, connections and services of a server, in memory."""

from collections.abc import Sequence
from typing import Protocol

from ...agents import Note
from ...engine import Engine, Reaction
from ...hachannel import ViewEvent
from ...server.config import Config, Replica, Server
from ...server.context import ReplicaContext
from ...server.local.local_replica import LocalReplica
from ...server.master.master import MasterSide
from ...server.metrics import Metrics
from ...server.network.hello import CHANNEL, NETWORK
from ...server.node.factory import make_node
from ...server.node.node import Node
from ...server.node.outputs import Output, RoleChange
from ...server.replica.driver import Driver
from ...server.replica.inbound import ChannelHandler
from ...server.replica.listeners import Listeners
from ...server.replica.output_dispatch import OutputDispatch
from ...server.replica.peer_connections import PeerConnections
from ...server.replica.replica import role_of
from ...server.replica.role_hooks import RoleHooks
from ...server.replica.view_history import ViewHistory
from ...server.settings import ReplicaSettings
from ...services.base import Role
from .memory_disk import MemoryDisk
from .memory_machine import MemoryMachine

__all__ = ["MemoryReplica", "ReplicaOwner"]


class ReplicaOwner(Protocol):
    """The server that a process belongs to: it makes engines, and follows what its processes do."""

    def new_engine(self, replica: int) -> Engine:
        """Return the engine of a process that starts, without agents."""
        ...

    def applying(self, replica: "MemoryReplica") -> None:
        """Check a replica that may have applied entries, before it acts on them."""
        ...

    def reacted(self, replica: "MemoryReplica", reactions: Sequence[Reaction]) -> None:
        """Check reactions, which follow each other."""
        ...

    def acted(self, replica: "MemoryReplica", out: Output) -> None:
        """Record what a replica has put out and carried out, before it follows its new role."""
        ...

    def log(self, replica: "MemoryReplica", line: str) -> None:
        """Record a line of the log of a replica."""
        ...


class MemoryReplica:
    """A replica from the start of its process to its end.

    It joins the parts of a server as `server.replica.Replica` does. The disk and the trace are in memory, no
    source address is checked, and there are no administrators, watchdog and log file. Implements `TracePort`.
    """

    def __init__(
        self,
        owner: ReplicaOwner,
        config: Config,
        server: Server,
        declared: Replica,
        machine: MemoryMachine,
        *,
        life: int,
    ) -> None:
        """`life` differs from that of all other processes of the server."""
        self.server = server
        self.id = declared.id
        self.machine = machine
        self.lines: list[str] = []
        """The log of this process."""
        self.roles: list[RoleChange] = []
        self._owner = owner
        self._config = config
        self.reactor = machine.start()
        self.context = ReplicaContext(
            *(config, server, declared, ReplicaSettings.read(config, server, declared), machine.directory),
            *(life, self.reactor, Metrics(), self._log, self._log),
            clock=self.reactor.seconds,
            started_at=self.reactor.seconds(),
            wall_ns=machine.wall_ns,
            jitter=machine.random,
        )
        self.driver = Driver(
            self.reactor,
            self._carry_out,
            self._settled,
            now=self.context.clock,
            wall_ns=self.context.wall_ns,
        )
        self.peers = PeerConnections(self.context, self.driver)
        self.master = MasterSide(self.context, self.driver, self.peers.addresses, machine.random)
        self._hooks = RoleHooks(self.context)
        local = LocalReplica(self.context, self.driver, self.master)
        views = ViewHistory(machine.wall_ns)
        self._outputs = OutputDispatch(
            self.context, self.peers, machine.disk, self.master, self, local, views
        )
        self._listeners = Listeners(self.context)
        self._listeners.handlers.update(
            {
                CHANNEL: ChannelHandler(self.context, self.driver, self.peers),
                NETWORK: self.master.networks.incoming,
            }
        )

    # Queries

    @property
    def node(self) -> Node:
        """The node of this process."""
        return self.driver.node

    @property
    def engine(self) -> Engine:
        """The engine of this process."""
        return self.driver.node.engine

    @property
    def host(self) -> str:
        """The name of the machine."""
        return self.machine.name

    @property
    def disk(self) -> MemoryDisk:
        """The disk of the machine."""
        return self.machine.disk

    @property
    def alive(self) -> bool:
        """Whether the process runs or is paused."""
        return not self.reactor.stopped

    @property
    def paused(self) -> bool:
        """Whether the process is paused."""
        return self.machine.paused

    @property
    def view_number(self) -> tuple[int, ...]:
        """The number of the view of the replica; lower than any other if it has none."""
        view = self.node.channel.view
        return (-1,) if view is None else tuple(view.number)

    # Life

    def start(self) -> None:
        """Recover from the disk, listen, and join the others."""
        server, settings, disk = self.server, self.context.settings, self.disk
        engine = self._owner.new_engine(self.id)
        log, reactions = disk.recover(engine)
        node = make_node(
            self.id,
            server.replica_ids,
            server=server.id,
            names=self._config.names,
            incarnation=disk.incarnation,
            cluster=self._config.digest,
            expected=len(server.replicas),
            channel_settings=settings.channel,
            settings=settings.node,
            log=log,
            engine=engine,
        )
        self._listeners.open()
        self.driver.begin(node)
        self._owner.reacted(self, reactions)
        disk.attach(self.reactor, engine, log, lambda token: self.driver.call(node.persisted, token))
        self._hooks.open()
        self._hooks.follow(Role.JOINING)
        self.peers.start(disk.incarnation)
        self.driver.call(node.start)

    def kill(self, notice_s: float = 0.0) -> None:
        """End the process at once; the others notice after `notice_s`."""
        self.driver.stop()
        self.machine.stop(notice_s)

    def post(self, notes: list[Note], token: int) -> bool:
        """Post notes as a service does; return False if this replica is not the master."""
        posted = self.node.post(notes, token)
        if posted:
            self.driver.flush_soon()
        return posted

    # Outputs of the node

    def view(self, event: ViewEvent) -> None:
        """Leave out a view: the checkers of the channel follow them."""

    def write(self, reactions: list[Reaction]) -> None:
        """Have the reactions checked."""
        self._owner.reacted(self, reactions)

    def _carry_out(self, out: Output) -> None:
        out.loaded = False  # The garbage collections of a test stay as they are.
        self._owner.applying(self)
        self._outputs.carry_out(out)
        self._owner.acted(self, out)
        for home in out.homes:
            self._log(f"this replica serves clients {'now' if home.active else 'no longer'}: {home.reason}")
            if home.active:
                self.master.start_home(home.first_time)
            else:
                self.master.stop_home(home.reason)
        for role in out.roles:
            self.roles.append(role)
            self._follow_role(role)

    def _follow_role(self, role: RoleChange) -> None:
        if role.master:
            self._log(f"this replica is master now: {role.reason}")
            self._hooks.follow(Role.MASTER)
            self.master.start(role.first_time)
            return
        if self._hooks.any:
            self._hooks.follow(role_of(self.node, serving=False))
        self._log(f"this replica is master no longer: {role.reason}")
        self.master.stop(role.reason).addBoth(lambda _: self.driver.call(self.node.services_stopped))

    def _settled(self) -> None:
        self.master.resume()
        if self._hooks.any:
            self._hooks.follow(role_of(self.node))

    def _log(self, line: str) -> None:
        self.lines.append(line)
        self._owner.log(self, line)
