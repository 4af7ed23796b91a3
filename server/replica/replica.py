"""The life of a replica on a machine: how it starts, follows its role, stops and ends.

Every replica listens on its networks and talks to its peers; the master also runs the networks to other
servers and the services. Only what was committed leaves a replica.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.python.failure import Failure

from ...hachannel.protocol.diagnosis import diagnose
from ...hachannel.transport.addresses import Address
from ...services.base import Role
from ..context import ReplicaContext
from ..errors import StartError
from ..local.local_replica import LocalReplica
from ..master.master import MasterSide
from ..master.service_host import STOP_TIMEOUT_S
from ..node.node import Node
from ..node.outputs import HomeChange, Output, RoleChange
from ..storage.data_directory import directory_error
from ..storage.disk_room import disk_room
from ..storage.private_files import exposure
from .disk import ReplicaDisk
from .driver import Driver
from .fd_limits import make_room
from .incarnations import Incarnations
from .listeners import Listeners
from .log_file import ReplicaLog
from .monotonic import use_monotonic
from .output_dispatch import OutputDispatch
from .peer_connections import PeerConnections
from .role_hooks import RoleHooks
from .trace import TraceLives
from .view_history import ViewHistory
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ..http.service import HttpService

__all__ = ["Replica", "ReplicaFailed", "StartError", "role_of"]

LEAVE_TIMEOUT_S = 6.0
RETIRE_TIMEOUT_S = STOP_TIMEOUT_S + 2.0
"""Seconds that replicas stopping together have to reach the same entry, also if the master has to abandon a
service that does not stop; after that each ends with the entries it has."""


class ReplicaFailed(Exception):
    """The replica had to stop because of an error. The text is one sentence."""


class Replica:
    """One replica of a server: `start` it, and wait for `stopped`. `make_replica` makes it.

    Its parts do the work: `driver` calls the node, `OutputDispatch` carries out what the node puts out, and
    `incarnations` makes the node. This class decides when each of them starts and ends.
    """

    def __init__(self, context: ReplicaContext, log: ReplicaLog, expected: int, *, join: bool) -> None:
        """`log` is not open yet. `expected`: the replicas that found the cluster.

        `join`: the replica waits to be admitted by a cluster, and never founds one.
        """
        self.context = context
        self.log = log
        self.stopped: Deferred[None] = Deferred()
        """Fires when the replica has stopped for any reason; fails with ReplicaFailed after an error."""
        self.driver = Driver(
            context.reactor, self._carry_out, self._settled, now=context.clock, wall_ns=context.wall_ns
        )
        self.listeners = Listeners(context)
        self.again = False
        """The process starts the replica again after its end."""
        self.http: HttpService | None = None
        """Set before `start`."""
        self.trace = TraceLives(context)
        self.disk = ReplicaDisk(context, self.driver, self.trace, self._disk_failed, guest=join)
        self.peers = PeerConnections(context, self.driver)
        addresses = self.peers.addresses
        self.master = MasterSide(context, self.driver, addresses, context.jitter)
        self.watchdog = Watchdog(context, lambda: self.disk.saved)
        self.hooks = RoleHooks(context)
        self.incarnations = Incarnations(context, self.disk, addresses, self.watchdog, expected, join=join)
        self.local = LocalReplica(context, self.driver, self.master)
        self.views = ViewHistory(context.wall_ns)
        self._outputs = OutputDispatch(
            context, self.peers, self.disk, self.master, self.trace, self.local, self.views
        )
        self._stopping = False
        self._left: Deferred[None] | None = None
        """Fires when the node has ended, after the replica was asked to stop; None before."""

    @property
    def node(self) -> Node:
        """The node of the present incarnation."""
        return self.driver.node

    @property
    def role(self) -> str:
        """The role of the replica: see `Node.role`."""
        return self.node.role

    def handle_interrupts(self) -> None:
        """Let a signal report a reaction, and interrupt it: see `Watchdog.handle_interrupts`."""
        self.watchdog.handle_interrupts()

    # Start

    def start(self) -> "Deferred[None]":
        """Listen and join the others. Raises StartError; StartInterrupted after `interrupt`."""
        context = self.context
        try:
            self.log.open()
        except OSError as error:
            raise StartError(directory_error(context.directory, error)) from None
        self.watchdog.start()
        try:
            node = self.incarnations.new_node()
            self.listeners.open()
            if self.http is not None:
                self.http.open()
        except StartError as error:
            context.log(f"does not start: {error}")
            self.watchdog.stop()
            self._close_ports()
            self.disk.close(save=False)
            self.log.close()
            raise
        use_monotonic(context.reactor)
        context.log(
            f"replica {context.replica.id} of {context.server.name} starts, "
            f"incarnation {self.incarnations.current}"
        )
        if exposed := exposure(context.directory):
            context.announce(exposed)
        room = disk_room(context.directory)
        if room is not None and (problem := room.problem(context.directory)):
            context.announce(problem)
        self._limit_clients()
        self._begin(node)
        self.local.start()
        return succeed(None)

    def interrupt(self) -> None:
        """Abandon a start that is under way, which would delay `stop`. A signal handler may call it."""
        self.disk.interrupted = True

    def _limit_clients(self) -> None:
        """Limit client connections so that this process keeps file descriptors for everything else."""
        room = make_room(self.context.config, self.context.server, self.context.replica)
        if room.sentence:
            self.master.services.limits["max_connections"] = room.connections
            self.context.log(room.sentence)

    def _begin(self, node: Node) -> None:
        """Begin an incarnation."""
        self.disk.watch()
        self.local.queues.begin(self.incarnations.saved, self.incarnations.puts)
        self.trace.open(self.incarnations.life, self.incarnations.replayed, self.incarnations.accepted)
        self.driver.begin(node)
        self.hooks.open()
        self.hooks.follow(Role.JOINING)
        self.peers.start(self.incarnations.current)
        self.driver.call(node.start)

    # Outputs of the node

    def _carry_out(self, out: Output) -> None:
        self._outputs.carry_out(out)
        for home in out.homes:
            self._follow_home(home)
        for role in out.roles:
            self._follow_role(role)
        if out.stopped:
            where = f"The directory of this replica is {self.context.directory.absolute()}."
            self._node_ended(f"{out.stopped.rstrip('.')}. {where}" if out.failed else out.stopped, out.failed)

    def _settled(self) -> None:
        self.master.resume()
        if self.hooks.any:
            self.hooks.follow(role_of(self.node))
        if self._left is not None and self.node.retired:
            self._node_ended("stopped", False)

    def _follow_home(self, home: HomeChange) -> None:
        if not home.active:
            self.context.log(f"this replica serves clients no longer: {home.reason}")
            self.master.stop_home(home.reason)
        elif not self._stopping:
            self.context.log(f"this replica serves clients now: {home.reason}")
            self.master.start_home(home.first_time)

    def _follow_role(self, role: RoleChange) -> None:
        self.trace.role(role)
        if not role.master:
            if self.hooks.any:
                self.hooks.follow(role_of(self.node, serving=False))
            self.context.log(f"this replica is master no longer: {role.reason}")
            node = self.node
            self.master.stop(role.reason).addBoth(lambda _: self._services_stopped(node))
            self.local.mastership_lost()
        elif not self._stopping:
            self.context.log(f"this replica is master now: {role.reason}")
            self.hooks.follow(Role.MASTER)
            self.master.start(role.first_time)

    def _services_stopped(self, node: Node) -> None:
        if node is self.node:
            self.driver.call(node.services_stopped)

    # Stop

    def stop(self, *, together: bool = False) -> "Deferred[None]":
        """Stop in order: services, networks, then leave the cluster. Fires when done; never fails.

        together: all replicas of the server are being stopped. With disks none of them leaves the view then:
        they stop after the same entry, in the same view, and any majority of them can start again.
        """
        done: Deferred[None] = Deferred()
        self.stopped.addBoth(partial(_pass_on, done))
        if not self._stopping:
            self._stopping = True
            self.context.log("stopping")
            end = partial(self._retire, self.context.reactor.seconds()) if together else self._leave
            self.master.end("this replica is stopping").addBoth(lambda _: end())
        return done

    def _retire(self, asked_at: float) -> None:
        if self.disk.durability is None or self.node.role == "stopped":
            self._leave()
            return
        self._end_after(asked_at + RETIRE_TIMEOUT_S - self.context.reactor.seconds())
        self.driver.call(self.node.retire)

    def _leave(self) -> None:
        if self.node.role == "stopped":
            self._finish(None)
            return
        self._end_after(LEAVE_TIMEOUT_S)
        self.driver.call(self.node.leave)

    def _end_after(self, seconds: float) -> None:
        """Finish when the node has ended, after `seconds` at the latest."""
        self._left = Deferred()
        self._left.addTimeout(max(0.0, seconds), self.context.reactor)
        self._left.addBoth(lambda _: self._finish(None))

    # End

    def _disk_failed(self, sentence: str) -> None:
        # From here on the replica acknowledges nothing.
        self.driver.stop()
        self._node_ended(sentence, True)

    def _node_ended(self, sentence: str, failed: bool) -> None:
        if self._left is not None:
            left, self._left = self._left, None
            left.callback(None)
            return
        if self._stopping:
            return
        self._stopping = True
        if not failed:
            # The node has written the sentence to the log.
            self.log.show(sentence)
        failure = _failed(sentence) if failed else None
        self.master.end(sentence).addBoth(lambda _: self._finish(failure))

    def _finish(self, failure: Failure | None) -> None:
        """Close everything after the end of the node, then fire `stopped`."""
        self.local.close()
        self.disk.end_watch()
        self.driver.stop()
        self.hooks.follow(Role.STOPPED)
        self.peers.stop()
        stored = self.trace.close().addBoth(lambda _: self.disk.close(save=failure is None))
        closing: list[Deferred[Any]] = [stored, *self._close_ports()]
        DeferredList(closing, consumeErrors=True).addBoth(lambda _: self._fire_stopped(failure))

    def _close_ports(self) -> "list[Deferred[Any]]":
        http = [] if self.http is None else [self.http.close()]
        return [*self.listeners.close(), *http]

    def _fire_stopped(self, failure: Failure | None) -> None:
        if failure is None and self.disk.problem:
            # The stop was in order, but the state is not saved.
            failure = _failed(self.disk.problem)
        self.watchdog.stop()
        self.context.log("stopped")
        self.log.close()
        if not self.stopped.called:
            if failure is None:
                self.stopped.callback(None)
            else:
                self.stopped.errback(failure)

    # For administrators

    @property
    def serving(self) -> bool:
        """True while this replica serves as master and does not stop."""
        return self.node.serving and not self._stopping

    def diagnosis(self) -> str:
        """Return what keeps this replica from being master or slave; "" if nothing does, or it stops.

        For a master without a majority, name the replicas that it lacks.
        """
        if self._stopping:
            return ""
        otherwise = "`quorate status` says what those wait for"
        peers = self.peers
        diagnosis = diagnose(self.node.channel, peers.mute, astray=peers.astray, otherwise=otherwise)
        return (peers.turned_away or diagnosis) if diagnosis else ""

    def master_address(self) -> Address | None:
        """Return where the master listens, None if unknown."""
        networks = self.context.replica.networks
        if self.node.serving and networks:
            return (networks[0].host, networks[0].port)
        return self.master.networks.master_in(None)


def role_of(node: Node, *, serving: bool | None = None) -> Role:
    """Return the role of a replica for its services. `serving`: whether it serves, if not as `node` says."""
    if node.serving if serving is None else serving:
        return Role.MASTER
    role = node.role
    return Role.CHANGING if role == "master" else Role(role)


def _failed(sentence: str) -> Failure:
    return cast("Failure", cast("Any", Failure)(ReplicaFailed(sentence)))


def _pass_on(done: "Deferred[None]", result: Any) -> Any:
    done.callback(None)
    return result
