"""A replica on a machine: drives a node with the reactor, and acts on its outputs.

Every replica listens on its networks and talks to its peers; the master also runs the networks to other
servers and the services. Only what was committed leaves a replica.
"""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.python.failure import Failure

from ...agents import AgentError
from ...engine import Engine, Reaction, import_modules
from ...hachannel import Channel
from ...hachannel.journal.durable_log import DurableLog
from ...hachannel.protocol.diagnosis import diagnose
from ...hachannel.transport.connection import Address
from ...hachannel.transport.direct_write import DirectWriteReactor
from ...hachannel.transport.transport import ChannelTransport
from ..config import Config, Server
from ..config import Replica as ReplicaConfig
from ..errors import StartError
from ..master.master import MasterSide
from ..master.service_host import STOP_TIMEOUT_S
from ..metrics import Metrics
from ..network.addresses import Addresses
from ..network.hello import CHANNEL, NETWORK
from ..network.listener import InboundHandler, Listener
from ..node.node import Node
from ..node.outputs import Output, RoleChange
from ..settings import ReplicaSettings
from ..storage.data_directory import directory_error
from ..storage.directory_watch import DirectoryWatch
from ..storage.durability import Durability, identity_of
from . import gc_freeze
from .driver import Driver
from .fd_limits import make_room
from .inbound import ChannelHandler
from .log_file import ReplicaLog
from .peer_connections import PeerConnections
from .trace import TraceLives

__all__ = ["Replica", "ReplicaFailed", "StartError"]

LEAVE_TIMEOUT_S = 6.0
RETIRE_TIMEOUT_S = STOP_TIMEOUT_S + 2.0
"""Seconds that replicas stopping together have to reach the same entry, also if the master has to abandon a
service that does not stop; then each ends where it is."""
REJOIN_FIRST_S = 0.5
REJOIN_LAST_S = 60.0


class ReplicaFailed(Exception):
    """The replica had to stop because of an error. The text is one sentence."""


class Replica:
    """One replica of a server: make it, `start` it, and wait for `stopped`.

    `incarnation` is a number that grows with every life of this replica. `expected` takes the place of the
    configuration's nbClusterExpected. `join`: it waits to be let in by a cluster, and never founds one.
    """

    def __init__(
        self,
        config: Config,
        server: Server,
        replica: ReplicaConfig,
        *,
        data: Path,
        expected: int | None,
        incarnation: int,
        reactor: Any,
        join: bool = False,
    ) -> None:
        self.config = config
        self.server = server
        self.replica = replica
        self.directory = data / server.name / str(replica.id)
        self.reactor = reactor
        self.metrics = Metrics()
        self.stopped: Deferred[None] = Deferred()
        """Fires when the replica has stopped, whoever asked; fails with ReplicaFailed if it cannot go on."""
        self.on_announce: Callable[[str], None] | None = None
        """Called with the lines meant for the user who started the replica."""
        self.incarnation = incarnation
        """The incarnation of the voter: unchanged by a restart if the journal survived it."""
        self._life = incarnation
        """Number of the present node's life: never the same twice, whatever the journal holds."""
        self.started_at = time.monotonic()
        self.settings = ReplicaSettings.read(config, server, replica)
        self._join = join
        self._expected = server.expected if expected is None else expected
        self._log: ReplicaLog | None = None
        self.handlers: dict[str, InboundHandler] = {}
        """More handlers of inbound connections, by the purpose in the hello: see `make_replica`."""
        self._fronts: list[Listener] = []
        self.trace = TraceLives(self.directory, server, replica, self.settings, self.log)
        self.peers = PeerConnections(self)
        self.master = MasterSide(config, server, replica, self.settings, self, incarnation)
        self.interrupted = False
        """True after `interrupt`: a start that is under way is given up."""
        self._stopping = False
        self._refused = ""
        """Why the disk can no longer be written; "" while it can."""
        self._left: Deferred[None] | None = None
        self._rejoins = 0
        self._replayed: list[Reaction] = []
        self.durability = self._new_durability()
        self._watch = DirectoryWatch(self.directory, reactor, self._directory_lost)
        self._driver: Driver

    # Life

    def start(self) -> "Deferred[None]":
        """Listen and join the others. Raises StartError; StartInterrupted after `interrupt`."""
        try:
            self._log = ReplicaLog(self.directory)
        except OSError as error:
            raise StartError(directory_error(self.directory, error)) from None
        try:
            self._driver = self._new_driver()
            self._listen()
        except StartError:
            self._close_fronts()
            self._close_durability(save=False)
            self._log.close()
            raise
        _use_monotonic(self.reactor)
        self.log(f"replica {self.replica.id} of {self.server.name} starts, incarnation {self.incarnation}")
        self._make_room()
        self._begin()
        return succeed(None)

    def _make_room(self) -> None:
        """Limit client connections so that this process keeps file descriptors for everything else."""
        room = make_room(self.config, self.server, self.replica)
        if room.sentence:
            self.master.services.limits["max_connections"] = room.connections
            self.log(room.sentence)

    def _listen(self) -> None:
        purposes: dict[str, InboundHandler] = {
            CHANNEL: ChannelHandler(self),
            NETWORK: self.master.incoming,
            **self.handlers,
        }
        for network in self.replica.networks:
            front = Listener(
                DirectWriteReactor(self.reactor),
                purposes,
                secret=self.settings.secret,
                log=self.log,
                count=self.metrics.count,
                settings=self.settings.link,
                client_port=self.replica.client_port,
            )
            front.listen(network.port, _interface(network.host))
            self._fronts.append(front)

    def interrupt(self) -> None:
        """Give up a start that is under way, which would hold up `stop`. A signal handler may call it."""
        self.interrupted = True

    def stop(self, *, together: bool = False) -> "Deferred[None]":
        """Stop in order: services, networks, then leave the cluster. Fires when done; never fails.

        together: all replicas of the server are being stopped. With disks none of them leaves the view then:
        they stop after the same entry, in the same view, and any majority of them can start again.
        """
        done: Deferred[None] = Deferred()
        self.stopped.addBoth(partial(_pass_on, done))
        if not self._stopping:
            self._stopping = True
            self.log("stopping")
            end = partial(self._retire, self.reactor.seconds()) if together else self._leave
            self.master.stop("this replica is stopping").addBoth(lambda _: end())
        return done

    def _begin(self) -> None:
        if self.durability is not None:
            self._watch.start()
        replayed, self._replayed = self._replayed, []
        self.trace.open(self._life, replayed)
        self.peers.start()
        self._driver.give(self.node.start)

    def _new_durability(self) -> Durability | None:
        server = self.server
        if server.durability != "disk":
            return None
        return Durability(
            self.directory,
            identity_of(server, self.replica.id),
            server.clustered,
            self.reactor,
            self,
            self.settings.durability,
            guest=self._join,
        )

    def _new_driver(self, *, fresh: bool = False) -> Driver:
        """Make a node from what the disk holds, and its driver. `fresh`: see `Channel`. Raises StartError."""
        routes = self.config.routes(self.server.id)
        try:
            import_modules(self.settings.agent_modules)
        except AgentError as error:
            raise StartError(f"The property agent_modules: {error}.") from None
        engine = Engine(self.server.id, self.config.names, self.settings.engine, routes=routes)
        log: DurableLog | None = None
        if self.durability is not None:
            recovery = self.durability.open(self._life, engine)
            log, self.incarnation, self._replayed = recovery.log, recovery.incarnation, recovery.trace
            for line in recovery.lines:
                self.log(line)
            gc_freeze.freeze()
        try:
            channel = Channel(
                self.replica.id,
                self.server.replica_ids,
                incarnation=self.incarnation,
                cluster=self.config.digest,
                expected=self._expected + len(self.server.witness_ids),
                settings=self.settings.channel,
                log=log,
                data=self.peers.addresses.data,
                fresh=fresh,
                witnesses=self.server.witness_ids,
            )
        except ValueError as error:
            raise StartError(str(error)) from None
        if self._join:
            channel.bar_founding()
        return Driver(Node(channel, engine, self.settings.node), self.reactor, self)

    def _retire(self, asked_at: float) -> None:
        if self.durability is None or self.node.role == "stopped":
            self._leave()
            return
        self._end_after(asked_at + RETIRE_TIMEOUT_S - self.reactor.seconds())
        self._driver.give(self.node.retire)

    def _leave(self) -> None:
        if self.node.role == "stopped":
            self._finish(None)
            return
        self._end_after(LEAVE_TIMEOUT_S)
        self._driver.give(self.node.leave)

    def _end_after(self, seconds: float) -> None:
        """Finish when the node has ended, after `seconds` at the latest."""
        self._left = Deferred()
        self._left.addTimeout(max(0.0, seconds), self.reactor)
        self._left.addBoth(lambda _: self._finish(None))

    def _finish(self, failure: Failure | None) -> None:
        """The node has ended: close everything, then fire `stopped`."""
        self._watch.stop()
        self._driver.stop()
        self.peers.stop()
        stored = self.trace.close().addBoth(lambda _: self._close_durability(save=failure is None))
        closing: list[Deferred[Any]] = [stored, *self._close_fronts()]
        DeferredList(closing, consumeErrors=True).addBoth(lambda _: self._say_stopped(failure))

    def _say_stopped(self, failure: Failure | None) -> None:
        if failure is None and self._refused:
            # The stop was in order, but the state is not saved.
            failure = _failed(self._refused)
        self.log("stopped")
        if self._log is not None:
            self._log.close()
        if not self.stopped.called:
            if failure is None:
                self.stopped.callback(None)
            else:
                self.stopped.errback(failure)

    def _close_durability(self, *, save: bool) -> "Deferred[None]":
        return succeed(None) if self.durability is None else self.durability.close(save=save)

    def _close_fronts(self) -> "list[Deferred[Any]]":
        fronts, self._fronts = self._fronts, []
        return [front.stop() for front in fronts]

    def _rejoin(self, reason: str) -> None:
        """Replace the node by a new incarnation, which gets the state from the others."""
        if self._stopping:
            return
        self._rejoins += 1
        self.metrics.count("rejoins")
        delay = min(REJOIN_LAST_S, REJOIN_FIRST_S * 2 ** min(self._rejoins, 16))
        self._watch.stop()
        self._driver.stop()
        self.peers.stop()
        self.trace.close()
        self._life = self.incarnation = max(self._life + 1, time.time_ns() // 1_000_000)
        self.log(f"joining again in {delay:g} s as incarnation {self.incarnation}: {reason}")

        def again(_: object) -> None:
            if not self._stopping:
                self._driver = self._new_driver(fresh=True)
                self._begin()

        waits = [self.master.stop(reason), Deferred[None]()]
        self.reactor.callLater(delay, waits[1].callback, None)
        if self.durability is not None:
            waits.append(self.durability.set_aside(self._life))
        DeferredList(waits, fireOnOneErrback=True, consumeErrors=True).addCallback(again).addErrback(
            lambda failure: self._node_ended(f"The replica cannot join again: {_reason(failure)}", True)
        )

    # Outputs of the node

    @property
    def node(self) -> Node:
        """The node of the present incarnation."""
        return self._driver.node

    def act(self, out: Output) -> None:
        """Act on an output of the node, messages first."""
        durability = self.durability
        if out.loaded:
            gc_freeze.freeze()
        if out.messages:
            # Before the disk writes: the receivers have to wait for their own disks, too.
            self.peers.send(out.messages)
        if durability is not None:
            for taken in out.staged:
                durability.stage(taken)
            if out.persist:
                durability.write(out.persist, out.token, out.installed)
        if out.seats is not None:
            self.peers.follow(out.seats)
        for effects in out.effects:
            try:
                self.master.carry_out(effects)
            except Exception as error:  # the outputs of other entries are to leave all the same
                self.metrics.count("service_errors")
                self.log(f"defect: the outputs of entry {effects.index} did not all leave: {error!r}")
        if out.trace:
            self.trace.write(out.trace)
        for line in out.lines:
            self.log(line)
        for token in out.committed:
            self.master.committed(token)
        for role in out.roles:
            self._follow(role)
        if out.rejoin:
            self._rejoin(out.rejoin)
        elif out.stopped:
            where = f"The directory of this replica is {self.directory.absolute()}."
            self._node_ended(f"{out.stopped.rstrip('.')}. {where}" if out.failed else out.stopped, out.failed)

    def acted(self) -> None:
        """Note that the node has no more output for now."""
        self.master.call_waiting()
        if self._left is not None and self.node.retired:
            self._node_ended("stopped", False)

    def persisted(self, token: int) -> None:
        """The records up to this token are durable."""
        self._driver.give(self.node.persisted, token)

    def _directory_lost(self, path: Path) -> None:
        if self.replica.witness:
            remedy = "start it again, it joins as a new one"
        elif self.server.clustered:
            remedy = (
                "start it again, it joins as a new one and gets the state from the others, if those go on"
            )
        else:
            remedy = "put the directory back before you start it, without it the server begins with nothing"
        self._disk_gone(
            f"{path.absolute()} was removed, moved or replaced while {self.server.name}.{self.replica.id} "
            f"ran; it has stopped, for it can keep nothing there: {remedy}."
        )

    def disk_failed(self, sentence: str) -> None:
        """Stop: nothing more can be made durable."""
        missing = self._watch.missing()
        if missing is not None:
            self._directory_lost(missing)
        else:
            self._disk_gone(f"{sentence} The replica has stopped; free or mend the disk and start it.")

    def _disk_gone(self, sentence: str) -> None:
        self.log(sentence)
        self._refused = sentence
        # From here on it acknowledges nothing.
        self._driver.stop()
        self._node_ended(sentence, True)

    def _follow(self, role: RoleChange) -> None:
        if not role.master:
            self.log(f"this replica is master no longer: {role.reason}")
            node = self.node
            self.master.stop(role.reason).addBoth(lambda _: self._services_stopped(node))
        elif not self._stopping:
            self.log(f"this replica is master now: {role.reason}")
            self.master.start(role.first_time)

    def _services_stopped(self, node: Node) -> None:
        if node is self.node:
            self._driver.give(node.services_stopped)

    def _node_ended(self, sentence: str, failed: bool) -> None:
        if self._left is not None:
            left, self._left = self._left, None
            left.callback(None)
            return
        if self._stopping:
            return
        self._stopping = True
        if not failed:
            # The log has it.
            self._tell_starter(sentence)
        failure = _failed(sentence) if failed else None
        self.master.stop(sentence).addBoth(lambda _: self._finish(failure))

    # What its parts need

    def give(self, call: Callable[..., None], *args: Any) -> None:
        """Call an input of the node with the present time and these arguments, and act on what follows."""
        self._driver.give(call, *args)

    def flush_soon(self) -> None:
        """Submit what was posted, at the end of this turn of the reactor."""
        self._driver.flush_soon()

    def trace_flushed(self) -> "Deferred[Any]":
        """Fires when the reactions so far are in the files of the trace, or cannot be."""
        return self.trace.flushed()

    @property
    def transport(self) -> ChannelTransport | None:
        """The connections to the peers; None in a plain server, or before joining again."""
        return self.peers.transport

    def may_come_back(self, replica: int, incarnation: int) -> bool:
        """See `Channel.may_come_back`."""
        return self.node.channel.may_come_back(replica, incarnation)

    def peer_called(self, replica: int) -> None:
        """Another replica asks to be connected with."""
        self.peers.called(replica)

    @property
    def addresses(self) -> Addresses:
        """Where the replicas are, as far as is known."""
        return self.peers.addresses

    @property
    def serving(self) -> bool:
        """True while this replica serves as master and does not stop."""
        return self.node.serving and not self._stopping

    @property
    def connections(self) -> int:
        """Open connections on the networks it listens on."""
        return sum(front.connections for front in self._fronts)

    def diagnosis(self) -> str:
        """Return what keeps this replica from being master or slave; "" if nothing does, or it stops.

        For a master without a majority, name the replicas that it lacks.
        """
        if self._stopping:
            return ""
        otherwise = "`quorate status` says what those wait for"
        peers = self.peers
        said = diagnose(self.node.channel, peers.mute, astray=peers.astray, otherwise=otherwise)
        return peers.turned_away or said if said else ""

    def master_address(self) -> Address | None:
        """Where the master listens, None if unknown."""
        if self.node.serving and self.replica.networks:
            return (self.replica.networks[0].host, self.replica.networks[0].port)
        return self.master.master_in(None)

    def log(self, line: str) -> None:
        """Write a line to the log."""
        if self._log is not None:
            self._log.line(line)

    def tell(self, line: str) -> None:
        """Write a line to the log, and to the user who started the replica."""
        self.log(line)
        self._tell_starter(line)

    def _tell_starter(self, line: str) -> None:
        if self.on_announce is not None:
            # Its terminal may be closed, and its disk full.
            with contextlib.suppress(OSError, ValueError):
                self.on_announce(line)


def _use_monotonic(reactor: Any) -> None:
    """Make the reactor measure time by a clock that nobody sets.

    Twisted takes the time of day: where that is set back by an hour, nothing is called for an hour. Calls
    under way already would be confused, so the clock is left as it is where there are any.
    """
    if hasattr(reactor, "getDelayedCalls") and not reactor.getDelayedCalls():
        reactor.seconds = time.monotonic


def _interface(host: str) -> str:
    """A host that only this machine reaches is listened on there only."""
    if host == "localhost" or host.startswith("127."):
        return "127.0.0.1"
    return "::" if ":" in host else ""


def _failed(sentence: str) -> Failure:
    return cast("Failure", cast("Any", Failure)(ReplicaFailed(sentence)))


def _reason(failure: Failure) -> str:
    error = cast("Any", failure).value
    error = getattr(cast("Any", error), "subFailure", None)
    return failure.getErrorMessage() if error is None else str(error.getErrorMessage())


def _pass_on(done: "Deferred[None]", result: Any) -> Any:
    done.callback(None)
    return result
