"""The host of one simulated replica: the process that crashes, pauses, restarts and leaves."""

from typing import TYPE_CHECKING

from ...hachannel import Channel, Message, ProtocolError, Source, decode_message, encode_message
from ...hachannel.model.log import MemoryLog
from ...hachannel.model.view import View
from ...hachannel.replication.replica_state import ReplicaState
from .application import App
from .application_driver import ApplicationDriver
from .channel_driver import ChannelDriver
from .machine import Machine
from .replica_disk import Disk

if TYPE_CHECKING:
    from .world import World

__all__ = ["Host"]


class Host:
    """One replica: at most one process at a time, on a machine that outlives it.

    Its parts are the `machine` (clock and disk), the `driver` (steps the channel) and the `application`.
    There are more than 20 methods because faults, the network, checkers and tests use a replica through it.
    """

    def __init__(self, world: "World", replica: int) -> None:
        self.world = world
        self.replica = replica
        self.incarnation = 0
        self.life = 0
        """The number of processes that this host has started."""
        self.running = False
        self.paused = False
        self.left = False
        """The last process has stopped in order."""
        self.retired = False
        """An administrator has removed this replica, and it must not be started again: removed replicas
        without memory could found another cluster."""
        self.lost = False
        """The replica stays dead while the others must recover without it."""
        self.channel: Channel
        self.state: ReplicaState
        """The inside of the channel, for checkers."""
        self._peer_lives: dict[int, int] = {}
        """The `life` of the process of each peer that was connected last."""
        self.machine, self.application, self.driver = self._parts()

    def _parts(self) -> tuple[Machine, ApplicationDriver, ChannelDriver]:
        """Make the parts of the host; a subclass may use others."""
        return Machine(self), ApplicationDriver(self), ChannelDriver(self)

    @property
    def app(self) -> App:
        """The application of the present process."""
        return self.application.app

    @property
    def services(self) -> int:
        """The number of services that need the lease and have not ended."""
        return self.application.services

    @property
    def disk(self) -> Disk | None:
        """The disk of the machine, if it has one."""
        return self.machine.disk

    def clock(self) -> float:
        """Return the reading of the monotonic clock of this machine, in seconds."""
        return self.machine.read_clock()

    @property
    def is_witness(self) -> bool:
        """Whether the replica is a witness."""
        return self.replica in self.world.witness_ids

    @property
    def remembered(self) -> View | None:
        """The accepted view that the next process of this replica will know."""
        if self.running and (self.disk is not None or not self.state.leaving):
            return self.state.accepted
        return None if self.disk is None or self.disk.spoiled else self.disk.remembered.accepted

    # The process

    def begin(self) -> None:
        """Start the first process, unless a schedule has started it already."""
        if not self.life:
            self.start()

    def start(self) -> None:
        """Start a process: with its disk the same voter as before, without one a new voter with nothing."""
        if self.retired or self.lost:
            return
        world = self.world
        shape = world.shape
        self.application.begin()
        if shape.disk:
            log = self.machine.recover()
        else:
            self.incarnation = world.incarnation()
            log = MemoryLog()
        self.running, self.paused, self.left = True, False, False
        self.life += 1
        self.driver.begin()
        configured = sorted({*world.configured, self.replica})
        self.channel = world.channel(
            self.replica,
            configured,
            incarnation=self.incarnation,
            cluster="c",
            expected=shape.founders(configured),
            settings=shape.settings,
            log=log,
            fresh=shape.fresh,
            witnesses=[each for each in configured if each in world.witness_ids],
        )
        self.state = self.channel.state
        world.trace(f"{self} starts")
        world.observer.started(self)
        self.application.recover()
        self.channel.start(self.clock())
        world.net.add(self.replica, self)
        self.settle()

    def crash(self, survive: int | None = None) -> None:
        """End the process as SIGKILL does.

        survive: how many of the waiting writes are durable all the same; None: a random number.
        """
        if self.running:
            self.running = False
            self.machine.crash(survive)
            self.world.net.remove(self.replica)

    def stopped(self) -> None:
        """End the process after its channel has stopped."""
        self.world.trace(f"{self} has stopped")
        self.left = True
        self.running = False
        self.machine.sync_everything()
        self.world.net.remove(self.replica)

    def pause(self) -> None:
        """Freeze the process as SIGSTOP does."""
        self.world.trace(f"{self} pauses")
        self.paused = True

    def resume(self) -> None:
        """Let a paused process run again, as SIGCONT does; inputs that arrived meanwhile run one by one."""
        self.world.trace(f"{self} goes on")
        self.paused = False
        self.driver.resume()

    def leave(self) -> None:
        """Stop the process in order."""
        self.world.trace(f"{self} leaves")
        self.driver.act(lambda: self.channel.leave(self.clock()))

    def disqualify(self, reason: str) -> None:
        """Report to the channel that the state of the application is wrong."""
        self.world.trace(f"{self} is unfit")
        self.driver.act(lambda: self.channel.disqualify(self.clock(), reason))

    def lose_disk(self) -> Disk:
        """Replace the disk of an ended process by an empty one: the next process is a new voter."""
        return self.machine.replace_disk()

    # The network calls these

    def deliver(self, peer: int, message: Message) -> None:
        """Receive a message."""
        if self.world.shape.codec:
            message = decode_message(encode_message(message))
        if self.world.verbose:
            self.world.trace(f"{peer} -> {self.replica} {message}")
        self.driver.act(lambda: self.channel.receive(self.clock(), peer, message))

    def up(self, peer: int, incarnation: int) -> None:
        """Report a new connection to the channel."""
        self._peer_lives[peer] = self.world.hosts[peer].life
        self.driver.act(lambda: self.channel.connected(self.clock(), peer, incarnation))

    def down(self, peer: int) -> None:
        """Report the end of a connection to the channel."""
        self.driver.act(lambda: self.channel.disconnected(self.clock(), peer, ended=self._has_ended(peer)))

    def _has_ended(self, peer: int) -> bool:
        """Return whether the operating system reports the end of the process that was connected last."""
        other = self.world.hosts[peer]
        runs = other.running and other.life == self._peer_lives.get(peer)
        return self.world.shape.shared_host and peer in self._peer_lives and not runs

    def garbage(self, peer: int, frame: bytes) -> bool:
        """Receive a frame. If it is no message, break the connection, as the transport does."""
        if not self.running:
            return False
        try:
            message = decode_message(frame)
        except ProtocolError:
            self.world.net.shut((min(self.replica, peer), max(self.replica, peer)))
        else:
            self.deliver(peer, message)
        return True

    # Clients call these

    def submit(self, payload: bytes) -> bool:
        """Submit a payload as the master. Return False if this replica does not accept it."""
        if not self.running or self.paused or not self.channel.can_submit:
            return False
        self.channel.submit(self.clock(), self.world.stamp(), payload)
        self.settle()
        return True

    def forward(self, payload: bytes) -> Source | None:
        """Submit a payload through the master. Return None if this replica does not accept it."""
        if not self.running or self.paused or not self.channel.can_forward:
            return None
        number = self.channel.forward(self.clock(), payload)
        source = Source(*self.state.me, self.state.boot, number)
        self.world.observer.forwarded(source, payload)
        self.settle()
        return source

    def send_direct(self, peer: int) -> None:
        """Send a message from this application to that of another replica, outside of the sequence."""
        if self.running and not self.paused:
            self.channel.send_direct(peer, b"%d %d" % (self.replica, peer))
            self.settle()

    def settle(self) -> None:
        """Act on the output of the channel until there is none: after a direct call of the channel."""
        self.driver.settle()

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}"
