"""A simulated cluster of channels: virtual clock, hosts that crash, pause and restart, an application."""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Sequence
from random import Random

import attrs

from ...hachannel import (
    Channel,
    Deliver,
    Event,
    InstallPart,
    LeaseChanged,
    Message,
    Output,
    ProtocolError,
    ProvidePart,
    ProvideSnapshot,
    Source,
    Stopped,
    ViewEvent,
    decode_message,
    encode_message,
)
from ...hachannel.journal.durable_log import Remembered
from ...hachannel.model.log import Committed, Log, MemoryLog, Reset
from ...hachannel.model.view import View
from ...hachannel.replication.replica_state import ReplicaState
from .application import App, Saved, Spoiled
from .clock import MachineClock
from .cluster_shape import Shape
from .disk import Write
from .network import Net
from .replica_disk import Disk

TRACE_LINES = 400
"""How much of the trace a failure shows."""


MAX_PIECES = 20
"""A state that is given as a whole is in about so many pieces at most."""
PARTS = 24
"""The application takes this much less time for a part than for the whole."""


class Observer:
    """Sees everything; raises Violation."""

    def started(self, host: "Host") -> None:
        """A replica has just started."""

    def stepped(self, host: "Host", output: Output) -> None:
        """A replica made a step; its output has not been acted upon."""

    def synced(self, host: "Host", writes: "Sequence[Write[Saved]]") -> None:
        """These are on the disk of a replica now."""

    def delivered(self, host: "Host", event: Event) -> None:
        """The application has handled an event."""

    def forwarded(self, source: Source, payload: bytes) -> None:
        """A replica has taken a payload to be ordered."""

    def ended(self, hosts: "Sequence[Host]") -> None:
        """The cluster has recovered; these replicas are in it, and have delivered everything."""


@attrs.define(eq=False)
class Fuse:
    """Something that happens after so many more steps of a process."""

    steps: int
    """A message sent, a write begun, a write done."""
    burn: Callable[[], None]


class Host:
    """One replica's machine: at most one process at a time."""

    def __init__(self, world: "World", replica: int) -> None:
        self.world = world
        self.replica = replica
        self.incarnation = 0
        self.running = False
        self.paused = False
        self.left = False
        self.retired = False
        """An operator has removed this replica: it is not started again. Without memory, enough of those that
        founded a cluster could found another one."""
        self.lost = False
        """It stays dead: the others have to do without it."""
        self.channel: Channel
        self.state: ReplicaState
        """The inside of the channel, for checkers."""
        self.app = App()
        self.disk: Disk | None = None
        self._again: list[Deliver] = []
        """What the disk has besides the saved state, while a process starts."""
        self._gathered: list[bytes] = []
        self._app_free = 0.0
        self.services = 0
        """What needs the lease, and is not at its end: once for each time that the lease was gained."""
        self.backlog: list[Callable[[], None]] = []
        self.fuse: Fuse | None = None
        self.life = 0
        """Counts the processes of this host."""
        self._wake: float | None = None
        self._lives: dict[int, int] = {}
        """Which process of each peer was connected last."""
        self._clock = MachineClock(world.seed, replica, world.shape.drift)

    def clock(self) -> float:
        """What the monotonic clock of this machine reads now."""
        return self._clock.read(self.world.now)

    @property
    def watches(self) -> bool:
        """Whether it is a witness."""
        return self.replica in self.world.watchers

    def _sees_end(self, peer: int) -> bool:
        """Whether the operating system says that the process connected last has ended."""
        other = self.world.hosts[peer]
        runs = other.running and other.life == self._lives.get(peer)
        return self.world.shape.shared_host and peer in self._lives and not runs

    @property
    def remembered(self) -> View | None:
        """The view it has accepted, as its next process will still know if it has a disk."""
        if self.running and (self.disk is not None or not self.state.leaving):
            return self.state.accepted
        return None if self.disk is None or self.disk.spoiled else self.disk.remembered.accepted

    def begin(self) -> None:
        """The first start, unless a schedule has started it already."""
        if not self.life:
            self.start()

    def start(self) -> None:
        """A new process: with its disk the voter it was, else a new one with nothing."""
        if self.retired or self.lost:
            return
        world = self.world
        shape = world.shape
        self.app = App()
        if shape.disk:
            log = self._recover()
        else:
            self.incarnation = world.incarnation()
            log = MemoryLog()
        self.running, self.paused, self.left = True, False, False
        self.fuse = None
        self.life += 1
        self.services = 0
        self._wake = None
        self.backlog.clear()
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
            witnesses=[each for each in configured if each in world.watchers],
        )
        self.state = self.channel.state
        world.say(f"{self} starts")
        world.observer.started(self)
        for event in self._again:
            # As the server does: its agents have it before the channel goes on.
            self.app.deliver(event)
            world.observer.delivered(self, event)
        self._again = []
        self.channel.start(self.clock())
        world.net.add(self.replica, self)
        self.settle()

    def _recover(self) -> Log:
        """What the disk has. One that is empty or refused makes a new voter."""
        disk = self.disk
        if disk is None:
            disk = self.disk = Disk(self.world.incarnation())
        elif disk.spoiled:
            self.world.say(f"{self}: its journal is damaged and put aside")
            disk = self.lose_disk()
        self.incarnation = disk.incarnation
        disk.full = False
        self._again = disk.recover(self.app)
        return disk.log()

    def lose_disk(self) -> Disk:
        """The disk of a process that has ended is replaced by an empty one, and it is a new voter."""
        self.disk = Disk(self.world.incarnation(), Remembered(guest=True))
        return self.disk

    def crash(self, survive: int | None = None) -> None:
        """SIGKILL. survive: how many of the writes that wait are on the disk all the same; by default any."""
        if self.running:
            self.running = False
            disk = self.disk
            if disk is not None:
                waiting = len(disk.waiting)
                count = self.world.chance.randint(0, waiting) if survive is None else min(survive, waiting)
                self.world.say(f"{self} dies, {waiting - count} of {waiting} writes are lost")
                self.world.observer.synced(self, [disk.waiting[position] for position in range(count)])
                disk.crash(count)
            else:
                self.world.say(f"{self} dies")
            self.world.net.remove(self.replica)

    def pause(self) -> None:
        """SIGSTOP."""
        self.world.say(f"{self} pauses")
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: what came meanwhile is handled, one by one."""
        self.world.say(f"{self} goes on")
        self.paused = False
        backlog, self.backlog = self.backlog, []
        for action in backlog:
            if self.running:
                action()
        if self.running:
            self._tick()

    def leave(self) -> None:
        """An orderly stop."""
        self.world.say(f"{self} leaves")
        self._act(lambda: self.channel.leave(self.clock()))

    # What the network does to it

    def deliver(self, peer: int, message: Message) -> None:
        """A message arrived."""
        if self.world.shape.codec:
            message = decode_message(encode_message(message))
        if self.world.verbose:
            self.world.say(f"{peer} -> {self.replica} {message}")
        self._act(lambda: self.channel.receive(self.clock(), peer, message))

    def up(self, peer: int, incarnation: int) -> None:
        """There is a connection."""
        self._lives[peer] = self.world.hosts[peer].life
        self._act(lambda: self.channel.connected(self.clock(), peer, incarnation))

    def down(self, peer: int) -> None:
        """The connection is gone."""
        self._act(lambda: self.channel.disconnected(self.clock(), peer, ended=self._sees_end(peer)))

    def garbage(self, peer: int, frame: bytes) -> bool:
        """A frame arrived that may be no message: hang up, as the transport does."""
        if not self.running:
            return False
        try:
            message = decode_message(frame)
        except ProtocolError:
            self.world.net.shut((min(self.replica, peer), max(self.replica, peer)))
        else:
            self.deliver(peer, message)
        return True

    def submit(self, payload: bytes) -> bool:
        """A client of this replica submits; false when it does not take it."""
        if not self.running or self.paused or not self.channel.can_submit:
            return False
        world = self.world
        self.channel.submit(self.clock(), world.stamp(), payload)
        self.settle()
        return True

    def forward(self, payload: bytes) -> Source | None:
        """A client of this replica has a payload ordered; None when it does not take it."""
        if not self.running or self.paused or not self.channel.can_forward:
            return None
        number = self.channel.forward(self.clock(), payload)
        source = Source(*self.state.me, self.state.boot, number)
        self.world.observer.forwarded(source, payload)
        self.settle()
        return source

    def tell(self, peer: int) -> None:
        """Have another replica told something."""
        if self.running and not self.paused:
            self.channel.tell(peer, b"%d %d" % (self.replica, peer))
            self.settle()

    def _act(self, action: Callable[[], None]) -> None:
        """Run an input now, or when the process runs again."""
        if not self.running:
            return
        if self.paused:
            self.backlog.append(lambda: self._act(action))
            return
        action()
        self.settle()

    def settle(self) -> None:
        """Act on what the channel put out, until it is silent; then set the alarm."""
        while self.running:
            output = self.channel.take()
            if not output:
                break
            world = self.world
            for line in output.notes:
                world.say(f"{self}: {line}")
            world.observer.stepped(self, output)
            if output.persist:
                resets = [record.base.at for record in output.persist if isinstance(record, Reset)]
                state = self.app.saved() if resets else None
                self._write(Write(output.persist, output.token, state, max(resets, default=0)))
            for peer, message in output.messages:
                if not self._burn():
                    return
                world.net.send(self.replica, self, peer, message)
            for event in output.events:
                if self.running:
                    self._handle(event)
        if self.running:
            if self.disk is not None:
                self._save(self.disk)
            self._alarm()

    def _burn(self) -> bool:
        """One step of the fuse; false when the process has died of it."""
        fuse = self.fuse
        if fuse is not None:
            fuse.steps -= 1
            if fuse.steps < 0:
                self.fuse = None
                fuse.burn()
        return self.running

    # The disk

    def _save(self, disk: Disk) -> None:
        """Save the application now and then, and forget the entries that led to it."""
        applied = self.channel.applied
        if applied - disk.saved < self.world.shape.save_entries:
            return
        # It takes its turn: a disk that is never idle would never forget an entry.
        if any(write.state is not None for write in disk.waiting):
            return
        state = self.app.saved()
        trim = min(self.state.log.base.at, applied)
        self._write(Write([Committed(applied)], 0, state, applied, trim))

    def _write(self, write: Write[Saved]) -> None:
        disk = self.disk
        assert disk is not None
        if disk.full:
            self.world.say(f"{self}: no space is left on its disk")
            self.crash(0)
            return
        disk.waiting.append(write)
        if self._burn() and len(disk.waiting) == 1:
            self._sync_later()

    def _sync_later(self) -> None:
        world, life = self.world, self.life
        world.at(world.now + world.chance.uniform(0.0002, world.sync_s), lambda: self._synced(life))

    def _synced(self, life: int) -> None:
        """A sync has ended. What came while the disk was busy waits for the next one."""
        disk = self.disk
        if disk is None or life != self.life or not self.running or not disk.waiting:
            return
        if disk.full:
            self.crash(0)
            return
        count = self.world.chance.randint(1, len(disk.waiting))
        self.world.observer.synced(self, [disk.waiting[position] for position in range(count)])
        token = disk.sync(count)
        if not self._burn():
            return
        if disk.waiting:
            self._sync_later()
        if token:
            channel = self.channel
            self._act(lambda: channel.persisted(self.clock(), token))

    def _handle(self, event: Event) -> None:
        world = self.world
        match event:
            case Deliver():
                self.app.deliver(event)
            case ProvideSnapshot() | ProvidePart():
                self._provide(event)
            case InstallPart():
                if world.shape.parts or event.index is not None:
                    self._soon(lambda: self._install(event))
                else:
                    self._install(event)
                return
            case LeaseChanged():
                if event.held:
                    self.services += 1
                else:
                    self._stop_services()
            case Stopped():
                world.say(f"{self} has stopped")
                self.left = True
                self.running = False
                if self.disk is not None:
                    world.observer.synced(self, list(self.disk.waiting))
                    self.disk.sync(len(self.disk.waiting))
                world.net.remove(self.replica)
            case ViewEvent():
                world.say(f"{self} {event}")
                self.app.settle(master=event.master == self.replica)
            case _:
                pass
        world.observer.delivered(self, event)

    def _stop_services(self) -> None:
        """End what needs the lease, sooner or later, then say so."""
        life = self.life

        def stopped() -> None:
            if life == self.life:
                self.services -= 1
                self.channel.lease_ended(self.clock())

        longest = self.world.shape.stop_s
        if longest:
            delay = self.world.leases.uniform(0, longest)
            self.world.at(self.world.now + delay, lambda: self._act(stopped))
        else:
            stopped()

    def _provide(self, event: ProvideSnapshot | ProvidePart) -> None:
        """Give the state, or the next part of it. A part is of the time when it is given."""
        world, channel, app = self.world, self.channel, self.app
        chunk = world.shape.chunk
        if world.shape.parts:
            if isinstance(event, ProvideSnapshot):
                app.begin(event)
            part = app.next(event.token, event.index, 1 + chunk // 2)
            if part is None:
                self._soon(lambda: channel.part_failed(self.clock(), event.token, "it has ended"))
                return
            data, index, last = part
            self._soon(lambda: channel.part_ready(self.clock(), event.token, data, index, last=last))
        else:
            whole = app.whole()
            size = max(chunk, len(whole) // MAX_PIECES)
            pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
            self._soon(lambda: channel.snapshot_ready(self.clock(), event.token, event.index, pieces))

    def _install(self, event: InstallPart) -> None:
        world, channel, app = self.world, self.channel, self.app
        if not world.shape.parts:
            if not event.number:
                self._gathered.clear()
            self._gathered.append(event.data)
            if event.index is not None:
                event = attrs.evolve(event, number=0, data=b"".join(self._gathered))
        marker = b""
        if world.shape.parts or event.index is not None:
            try:
                marker = app.take(event)
            except Spoiled as error:
                reason = str(error)
                world.say(f"{self} refuses: {reason}")
                channel.part_refused(self.clock(), event.token, reason)
                return
        world.observer.delivered(self, event)
        channel.part_installed(self.clock(), event.token, marker if world.shape.parts else b"")

    def _soon(self, action: Callable[[], None]) -> None:
        """The application takes its time."""
        life = self.life

        def act() -> None:
            if life == self.life:
                self._act(action)

        shape = self.world.shape
        most = shape.snapshot_s / (PARTS if shape.parts else 1)
        # One thing after the other, in the order of the events.
        now = self.world.now
        self._app_free = max(self._app_free, now + self.world.chance.uniform(0, most))
        self.world.at(self._app_free, act)

    def _alarm(self) -> None:
        deadline = self.channel.deadline
        if deadline is None or (self._wake is not None and self._wake <= deadline):
            return
        self._wake = deadline
        life = self.life
        at = self._clock.when(deadline)
        self.world.at(max(at, self.world.now), lambda: self._ring(life, deadline))

    def _ring(self, life: int, deadline: float) -> None:
        if life == self.life and self.running and self._wake == deadline:
            self._wake = None
            if not self.paused:
                self._tick()

    def _tick(self) -> None:
        self.channel.tick(self.clock())
        self.settle()

    def __str__(self) -> str:
        return f"{self.replica}/{self.incarnation}"


class World:
    """Clock, network and hosts of one run."""

    def __init__(
        self, seed: int, shape: Shape, observer: Observer, channel: Callable[..., Channel] = Channel
    ) -> None:
        self.seed = seed
        self.random = Random(f"load {seed}")
        """What clients and scripts draw from."""
        self.chance = Random(f"machines {seed}")
        """What disks and applications draw from."""
        self.leases = Random(f"services {seed}")
        """What the end of services draws from."""
        self.shape = shape
        self.observer = observer
        self.channel = channel
        self.now = 0.0
        self.sync_s = shape.sync_s
        """The longest time that a sync takes at present."""
        self.net = Net(self, Random(f"net {seed}"), attrs.evolve(shape.weather))
        self.steps = 0
        self.lines: deque[str] = deque(maxlen=TRACE_LINES)
        self.echo = False
        self.verbose = False
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._incarnations = 0
        self._stamps = 0
        self.configured = list(range(shape.replicas))
        """The replicas in the file that processes are started with; an operator edits it."""
        self.watchers = set(shape.watchers)
        """The replicas that are witnesses, for good."""
        self.hosts = [Host(self, replica) for replica in range(shape.replicas)]

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call `action` at `time`."""
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), self._count, action))

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Let time pass until `until`, or until `stop` says so; returns whether it did."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            self.steps += 1
            action()
            if stop is not None and stop():
                return True
        self.now = until
        return False

    def incarnation(self) -> int:
        """A number no other process uses."""
        self._incarnations += 1
        return self._incarnations

    def could_found_again(self, configured: Collection[int], victims: "Collection[Host]" = ()) -> bool:
        """Whether so many replicas of a file know of no cluster that they could found another one.

        victims: those that know nothing any more.
        """
        knowing = sum(
            host.replica in configured and host not in victims and host.remembered is not None
            for host in self.hosts
        )
        return len(configured) - knowing >= self.shape.founders(configured)

    def stamp(self) -> int:
        """What a master's clock reads."""
        self._stamps += 1
        return int(self.now * 1e9) + self._stamps

    def say(self, line: str) -> None:
        """One line of the trace."""
        line = f"{self.now:9.4f} {line}"
        self.lines.append(line)
        if self.echo:
            print(line)

    def master(self) -> Host | None:
        """A running replica that takes submissions, if any."""
        for host in self.hosts:
            if host.running and not host.paused and host.channel.can_submit:
                return host
        return None
