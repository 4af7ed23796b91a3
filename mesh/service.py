"""The service that is a daemon of a mesh: its disk, its clients, and its part in the mesh. Twisted.

Whatever arrives is given to the `Daemon`, one input after the other. What it puts out waits until the changes
of its state are on the disk: a thread writes them, all that have gathered meanwhile in one transaction.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from ..client.frames import VERSION, ByeCode, Hello, Welcome, tls_needed
from ..hachannel.transport.addresses import Address, listening_interface
from ..hachannel.transport.ports import ListeningPort
from ..hachannel.transport.timer import Timer
from ..services.base import ServiceError
from ..services.daemon_base import CommandRefused, DaemonContext, DaemonEvent, DaemonService
from ..services.failed_logins import FailedLogins
from ..services.listening import listen
from ..services.users import ADMINISTRATORS_PROPERTY, USERS_FILE_PROPERTY, Users
from ..tls.layer import proven_user
from .client_link import IDLE_TIMEOUT_S, ClientLink
from .daemon import Daemon
from .frames import MAX_CLIENT_FRAME, Acknowledge, ClientFrame, Deliver, ServerFrame
from .log import Log
from .model import MeshLimits
from .peer_frames import PeerFrames, cut
from .requests import Refusal, User
from .state import Output
from .store import Batch, SqliteLog
from .trace import MeshTrace, TracedLog

__all__ = ["MeshService"]

T = TypeVar("T")

WINDOW: Final = 4096
"""Messages that a publisher may have unacknowledged."""
MAX_UNWRITTEN_BYTES: Final = 16 * 1024 * 1024
"""With more bytes that wait for the disk, clients are not read from."""


class _Listener(Factory):
    noisy = False
    without_tls = tls_needed()

    def __init__(self, service: "MeshService") -> None:
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> ClientLink:  # noqa: N802, ARG002
        return self._service.new_link()


class MeshService(DaemonService):
    """Service ``MeshService``; its argument is the port that clients connect to."""

    def __init__(self) -> None:
        self._links: dict[int, ClientLink] = {}
        self._numbers = 0
        self._peers: dict[int, PeerFrames] = {}
        self._port: ListeningPort | None = None
        self._waiting: list[Output] = []
        """Outputs of inputs whose changes are not given to the disk."""
        self._writing = False
        self._flush_due = False
        self._unwritten = 0
        """Bytes that clients have sent and that are not on the disk."""
        self._paused = False
        self._stopped: Deferred[None] | None = None
        self._broken = False
        self._failed_logins = FailedLogins()
        self._trace: MeshTrace | None = None

    # Start and end

    def open(self, ctx: DaemonContext, args: str) -> None:
        """Open the file and listen. Raises ServiceError."""
        self._ctx = ctx
        words = args.split()
        if len(words) != 1 or not words[0].isdigit() or not 0 <= int(words[0]) < 65536:
            raise ServiceError('MeshService takes a port; write args="2560"')
        administrators, file = ctx.setting(ADMINISTRATORS_PROPERTY), ctx.setting(USERS_FILE_PROPERTY)
        self._users = Users(ctx.users, administrators, file, ctx.log)
        try:
            self._log = SqliteLog(ctx.directory / "mesh")
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ServiceError(f"the file of the mesh cannot be opened ({error})") from None
        now, wall_ms = self._time()
        try:
            self._daemon = Daemon(
                ctx.replica, ctx.life, ctx.addresses, self._traced(), _limits(ctx), now=now, wall_ms=wall_ms
            )
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            self._log.close()
            raise ServiceError(
                f"the file of the mesh is damaged ({error}); move it away, and the daemon gets the state of "
                "the others"
            ) from None
        self._members = self._daemon.state.directory.members
        self._timer = Timer(self._daemon.deadline, ctx.reactor, ctx.reactor.seconds, self._tick)
        self._pool = ThreadPool(1, 1, "mesh disk")
        interface = ctx.setting("client_interface", listening_interface(ctx.host))
        try:
            self._port = listen(ctx, int(words[0]), _Listener(self), interface)
        except ServiceError:
            self._log.close()
            raise
        self._pool.start()
        self._follow_members()
        self._after()

    def _traced(self) -> Log:
        """Return the log for the daemon, with a trace if one is wanted."""
        if not self._ctx.traced:
            return self._log
        self._trace = MeshTrace(self._ctx.replica, self._ctx.life)
        self._trace.add("open")
        return TracedLog(self._log, self._trace)

    def close(self) -> "Deferred[None]":
        """Disconnect the clients, write what is to be written, and close the file."""
        if self._stopped is not None:
            return self._stopped
        self._stopped = Deferred()
        self._timer.stop()
        port, self._port = self._port, None
        for link in list(self._links.values()):
            link.bye(ByeCode.UNAVAILABLE, "this daemon is stopping")
        closed: Deferred[Any] = (port.stopListening() if port is not None else None) or succeed(None)
        closed.addBoth(lambda _: self._finish())
        return self._stopped

    def _finish(self) -> None:
        assert self._stopped is not None
        if self._writing and not self._broken:
            # `_written` calls again.
            return
        if not self._broken and (batch := self._log.take_batch()):
            self._write(batch, [], [] if self._trace is None else self._trace.take())
            return
        self._pool.stop()
        self._log.close()
        if self._trace is not None and not self._broken:
            self._trace.add("close")
            self._ctx.trace(self._trace.take())
        self._stopped.callback(None)

    def _time(self) -> tuple[float, int]:
        return self._ctx.reactor.seconds(), self._ctx.wall_ms()

    # Inputs

    def _call(self, function: Callable[[float, int], T]) -> T:
        """Give an input to the daemon, and see to what it puts out."""
        try:
            return function(*self._time())
        finally:
            self._after()

    def _after(self) -> None:
        output = self._daemon.take_output()
        if output:
            for daemon, question in output.questions:
                self._ctx.send((daemon,), cut(question))
            if self._trace is not None:
                for client, frame in output.frames:
                    number = frame.consumer if isinstance(frame, Deliver) else 0
                    self._trace.answered(client, frame, self._daemon.consumers.with_number(client, number))
            self._waiting.append(output)
        if self._daemon.state.directory.members != self._members:
            self._follow_members()
        if not self._flush_due and not self._writing and self._stopped is None:
            # What arrives in the same turn of the reactor is written together.
            self._flush_due = True
            self._ctx.reactor.callLater(0, self._flush)
        self._timer.arm()

    def _tick(self) -> None:
        self._call(self._daemon.tick)

    def _follow_members(self) -> None:
        """Connect with the daemons that were added. A forgotten one may connect, and is told."""
        self._members = self._daemon.state.directory.members
        addresses: dict[int, Address] = dict(self._ctx.addresses)
        for daemon, state in self._daemon.state.directory.member_states.items():
            host, _, port = state.address.rpartition(":")
            if state.present and host and port.isdigit():
                addresses[daemon] = (host.strip("[]"), int(port))
        self._ctx.follow(addresses)

    # The disk

    def _flush(self) -> None:
        self._flush_due = False
        if self._writing or self._stopped is not None:
            return
        outputs, self._waiting = self._waiting, []
        events = [] if self._trace is None else self._trace.take()
        batch = self._log.take_batch()
        if batch:
            self._write(batch, outputs, events)
        else:
            self._release(outputs, events)

    def _write(self, batch: Batch, outputs: list[Output], events: list[DaemonEvent]) -> None:
        self._writing = True
        self._unwritten = 0
        written = deferToThreadPool(cast("Any", self._ctx.reactor), self._pool, self._log.write_batch, batch)
        written.addCallbacks(self._written, self._disk_failed, callbackArgs=(batch, outputs, events))

    def _written(self, _: None, batch: Batch, outputs: list[Output], events: list[DaemonEvent]) -> None:
        self._writing = False
        self._log.written(batch)
        if self._stopped is not None:
            self._ctx.trace(events)
            self._finish()
            return
        self._release(outputs, events)
        self._flush()
        if self._paused and self._unwritten < MAX_UNWRITTEN_BYTES:
            self._paused = False
            for link in self._links.values():
                link.resume_reading()

    def _disk_failed(self, failure: Failure) -> None:
        self._writing = False
        self._broken = True
        self._ctx.failed(f"The disk of this daemon failed ({cast('Any', failure).getErrorMessage()})")
        if self._stopped is not None and not self._stopped.called:
            self._finish()

    def _release(self, outputs: list[Output], events: list[DaemonEvent]) -> None:
        """Let outputs leave: what was stored before them is durable."""
        self._ctx.trace(events)
        frames: defaultdict[int, list[ServerFrame]] = defaultdict(list)
        for output in outputs:
            for to, message in output.messages:
                self._ctx.send(to, cut(message))
            for client, frame in output.frames:
                frames[client].append(frame)
            for line in output.log:
                self._ctx.announce(line)
        for client, each in frames.items():
            link = self._links.get(client)
            if link is not None:
                link.send(each)

    # Other daemons

    def peer_up(self, replica: int) -> None:
        """Begin with a connection."""
        self._peers[replica] = PeerFrames()
        self._call(lambda now, wall_ms: self._daemon.connected(now, wall_ms, replica))

    def peer_down(self, replica: int) -> None:
        """End with a connection."""
        if self._peers.pop(replica, None) is not None:
            self._call(lambda now, wall_ms: self._daemon.disconnected(now, wall_ms, replica))

    def peer_frames(self, replica: int, frames: list[bytes]) -> None:
        """Give messages to the daemon. Raises ValueError for garbage."""
        reader = self._peers.get(replica)
        if reader is not None:
            messages = reader.receive(frames)
            self._call(lambda now, wall_ms: self._daemon.receive(now, wall_ms, replica, messages))

    # Clients

    def new_link(self) -> ClientLink:
        """Return the end of a connection of a client."""
        self._numbers += 1
        return ClientLink(self._numbers, self, self._ctx.reactor)

    def link_made(self, link: ClientLink) -> None:
        """Record a connection."""
        self._links[link.number] = link
        if len(self._links) > self._ctx.max_clients:
            self._ctx.count("refused_connections")
            link.bye(ByeCode.FULL, f"this daemon has {self._ctx.max_clients} clients, and takes no more")

    def link_lost(self, link: ClientLink) -> None:
        """Forget a connection."""
        if self._links.pop(link.number, None) is not None and link.user is not None and not self._stopped:
            self._call(lambda now, wall_ms: self._daemon.client_lost(now, wall_ms, link.number))

    def violated(self, link: ClientLink, reason: str) -> None:
        """Count and log what is not the protocol."""
        self._ctx.count("garbage")
        self._ctx.log(f"client {link.peer} was turned away: {reason[:500]}")

    def hello(self, link: ClientLink, hello: Hello) -> None:
        """Check the password of a client, after a pause if many wrong ones came from its address."""
        wait_s = self._failed_logins.wait_s(self._ctx.reactor.seconds(), link.host, hello.user)
        if wait_s is None:
            link.bye(ByeCode.UNAVAILABLE, "too many wrong passwords came from this address; try again later")
        elif wait_s:
            self._ctx.reactor.callLater(wait_s, self._log_in, link, hello)
        else:
            self._log_in(link, hello)

    def _log_in(self, link: ClientLink, hello: Hello) -> None:
        if link.closed:
            return
        if not hello.password and hello.user and hello.user == proven_user(link.transport):
            self._verified(True, link, hello)
        else:
            self._users.verify(hello.user, hello.password).addCallback(self._verified, link, hello)

    def _verified(self, right: bool | None, link: ClientLink, hello: Hello) -> None:
        if link.closed or self._stopped is not None:
            return
        if right is None:
            link.bye(ByeCode.UNAVAILABLE, "too many passwords are being checked; try again")
            return
        if not right:
            self._failed_logins.failed(self._ctx.reactor.seconds(), link.host, hello.user)
            self._ctx.count("authentication_failures")
            self._ctx.log(f"client {link.peer}: wrong user or password")
            link.bye(ByeCode.AUTHENTICATION, "wrong user or password")
            return
        self._failed_logins.succeeded(link.host, hello.user)
        link.user = User(hello.user, self._users.administers(hello.user))
        daemons = [(host, int(args.split()[0])) for _, host, args in self._ctx.clients]
        link.send(
            [Welcome(VERSION, str(self._ctx.replica), daemons, IDLE_TIMEOUT_S, MAX_CLIENT_FRAME, WINDOW)]
        )

    def frames(self, link: ClientLink, frames: list[ClientFrame]) -> None:
        """Give frames of a client to the daemon."""
        user = link.user
        assert user is not None
        for frame in frames:
            bodies = getattr(frame, "bodies", None)
            if bodies is not None:
                self._unwritten += sum(map(len, bodies))
            if self._trace is not None:
                number = frame.consumer if isinstance(frame, Acknowledge) else 0
                consumer = self._daemon.consumers.with_number(link.number, number)
                self._trace.asked(frame, link.number, consumer)
            self._daemon.client_frame(*self._time(), link.number, user, frame)
        self._after()
        if self._unwritten > MAX_UNWRITTEN_BYTES and not self._paused:
            self._paused = True
            for each in self._links.values():
                each.pause_reading()

    # Administrators

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out a command. Raises CommandRefused."""
        try:
            return self._call(lambda now, wall_ms: self._daemon.command(now, wall_ms, name, dict(arguments)))
        except Refusal as refusal:
            raise CommandRefused(f"{str(refusal)[:1].upper()}{str(refusal)[1:]}.") from None
        except (KeyError, TypeError, ValueError) as error:
            raise CommandRefused(f"The command {name} cannot be understood: {error}.") from None

    def status(self) -> Mapping[str, Any]:
        """Return what the daemon knows of itself and the others."""
        found = self._daemon.requests.status()
        found["clients"] = sum(link.user is not None for link in self._links.values())
        return found

    def status_line(self) -> str:
        """Return whom the daemon reaches."""
        daemon = self._daemon
        region = ", ".join(map(str, daemon.region))
        missing = sorted(daemon.state.directory.members - set(daemon.region))
        text = f"reaches {region}"
        if missing:
            text += f"; not {', '.join(map(str, missing))}"
        if daemon.forgotten_by:
            text += "; forgotten by the others"
        return text


def _limits(ctx: DaemonContext) -> MeshLimits:
    """Read the limits from the properties. Raises ServiceError."""

    def value(name: str, default: float, low: float, high: float) -> float:
        text = ctx.setting(name)
        try:
            number = float(text) if text else default
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise ServiceError(f"property {name} must be a number from {low:g} to {high:g}, not {text!r}")
        return number

    limits = MeshLimits()
    return MeshLimits(
        gossip_s=value("gossip_s", limits.gossip_s, 0.01, 60.0),
        copies=int(value("copies", limits.copies, 1, 15)),
        topic_bytes=int(value("topic_bytes", limits.topic_bytes, 1, 1e15)),
        repair_share=value("repair_share", limits.repair_share, 0.01, 1.0),
        publishers=int(value("mesh_publishers", limits.publishers, 1, 1e7)),
    )
