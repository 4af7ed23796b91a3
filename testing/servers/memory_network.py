"""A network in memory on a virtual clock, with reactors that have the interface of Twisted's.

Every machine of the test gets a `MemoryReactor`. Bytes arrive after `delay_s`, in order; machines can be cut
from each other, or stopped.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.python.failure import Failure

__all__ = ["MemoryNames", "MemoryNet", "MemoryReactor"]


class MemoryNet:
    """The network: machines, listeners, connections and delays.

    Addresses are host names of machines made by `machine`; "localhost" is the machine itself.
    """

    def __init__(self, delay_s: float = 0.001, clock: Any = None) -> None:
        """clock: that of a simulation, which lets time pass by itself; by default `advance` does."""
        self.clock: Any = Clock() if clock is None else clock
        self.delay_s = delay_s
        self.latency_s: Callable[[], float] = lambda: self.delay_s
        """Returns the delay of the bytes on a new connection, in seconds."""
        self.reactors: dict[str, MemoryReactor] = {}
        self.listeners: dict[tuple[str, int], Any] = {}
        self.cuts: set[frozenset[str]] = set()
        """Pairs of machines between which nothing arrives, while their connections stay open."""
        self.wires: list[_Wire] = []
        self._paused: dict[str, list[Callable[[], None]]] = {}
        """What happens on a paused machine once it goes on."""

    def machine(self, name: str) -> "MemoryReactor":
        """Return the reactor of a machine; a new one for a machine that was stopped."""
        reactor = self.reactors[name] = MemoryReactor(self, name)
        return reactor

    def advance(self, seconds: float, step_s: float = 0.005) -> None:
        """Let time pass, in small steps, so that everything is called close to its time."""
        for _ in range(max(1, round(seconds / step_s))):
            self.clock.advance(step_s)

    def until(self, condition: Callable[[], bool], limit_s: float = 30.0) -> None:
        """Let time pass until a condition holds. Raises AssertionError after `limit_s` virtual seconds."""
        end = self.clock.seconds() + limit_s
        while not condition():
            assert self.clock.seconds() < end, f"it did not happen within {limit_s:g} virtual seconds"
            self.advance(0.005)

    def cut(self, one: str, other: str) -> None:
        """Stop all traffic between two machines; connections stay open and silent."""
        self.cuts.add(frozenset((one, other)))

    def heal(self) -> None:
        """End all cuts. Bytes sent meanwhile are lost, so those connections break."""
        self.cuts.clear()
        for wire in list(self.wires):
            if wire.lost_bytes:
                wire.break_off()

    def crash(self, name: str, notice_s: float = 0.0) -> None:
        """Stop a machine: its listeners close, its connections break, and its code runs no more.

        The others learn of it after `notice_s`, and after the bytes in flight to them.
        """
        self._paused.pop(name, None)
        if name in self.reactors:
            self.reactors[name].stopped = True
        for place in [place for place in self.listeners if place[0] == name]:
            del self.listeners[place]
        for wire in list(self.wires):
            for end, other in ((wire.near, wire.far), (wire.far, wire.near)):
                if end.name == name and not end.over:
                    end.over = True
                    self.clock.callLater(notice_s + wire.delay_s, other.end, ConnectionLost("broken off"))

    def pause(self, name: str) -> None:
        """Stop a machine where it stands: its connections stay open, and nothing runs until `resume`."""
        self._paused.setdefault(name, [])

    def resume(self, name: str) -> None:
        """Let a paused machine go on, with everything that was due or has arrived meanwhile."""
        for call in self._paused.pop(name, []):
            self.happen(name, call)

    def happen(self, name: str, call: Callable[[], None]) -> None:
        """Let something happen on a machine, now or when it is resumed."""
        waiting = self._paused.get(name)
        if waiting is None:
            call()
        else:
            waiting.append(call)

    def is_paused(self, name: str) -> bool:
        """Return whether a machine is paused."""
        return name in self._paused

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether two machines are cut from each other."""
        return frozenset((one, other)) in self.cuts


class _Port:
    def __init__(self, net: MemoryNet, place: tuple[str, int]) -> None:
        self._net = net
        self._place = place

    def getHost(self) -> IPv4Address:  # noqa: N802
        return IPv4Address("TCP", "127.0.0.1", self._place[1])

    def stopListening(self) -> "Deferred[None]":  # noqa: N802
        self._net.listeners.pop(self._place, None)
        return succeed(None)


class MemoryNames:
    """A resolver (`IHostnameResolver`) for which every host name has the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    def resolveHostName(self, receiver: Any, host: str) -> None:  # noqa: N802
        """Report the addresses to the receiver."""
        del host
        receiver.resolutionBegan(None)
        for address in self._addresses:
            receiver.addressResolved((IPv6Address if ":" in address else IPv4Address)("TCP", address, 0))
        receiver.resolutionComplete()


class MemoryReactor:
    """The part of a reactor that quorate uses, for one machine."""

    def __init__(self, net: MemoryNet, name: str) -> None:
        self.net = net
        self.name = name
        self.stopped = False
        self._next_port = 50000

    def seconds(self) -> float:
        """Return the virtual time."""
        return float(self.net.clock.seconds())

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any) -> Any:  # noqa: N802
        """Call a function later."""
        return self.net.clock.callLater(delay, self._call, function, args)

    def callFromThread(self, function: Callable[..., Any], *args: Any) -> None:  # noqa: N802
        """Call a function in the next turn of the clock. Only the thread of the test may call this."""
        self.callLater(0, function, *args)

    def callBlocking(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":  # noqa: N802
        """Call a function that would block soon, in the same thread; fires with what it returns."""
        result: Deferred[Any] = Deferred()

        def call() -> None:
            if not result.called:
                maybeDeferred(cast("Any", function), *args).chainDeferred(result)

        self.callLater(0, call)
        return result

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        def call() -> None:
            if not self.stopped:
                function(*args)

        self.net.happen(self.name, call)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> _Port:  # noqa: N802
        """Listen on a port of this machine."""
        del backlog, interface
        if port == 0:
            self._next_port += 1
            port = self._next_port
        place = (self.name, port)
        if place in self.net.listeners:
            raise cast("Any", CannotListenError)("", port, OSError(98, "Address already in use"))
        self.net.listeners[place] = factory
        return _Port(self.net, place)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> None:  # noqa: N802
        """Connect to a port of a machine."""
        target = self.name if host in ("localhost", "127.0.0.1") else host
        self.callLater(self.net.delay_s, self._connect, target, port, factory, timeout)

    def _connect(self, host: str, port: int, factory: Any, timeout: float) -> None:
        net = self.net
        if net.is_cut(self.name, host):
            error: Exception = TimeoutError("no answer")
            self.callLater(timeout, factory.clientConnectionFailed, None, _failure(error))
            return
        listener = net.listeners.get((host, port))
        if listener is None:
            factory.clientConnectionFailed(None, _failure(_refused("nobody listens")))
            return
        near = factory.buildProtocol(IPv4Address("TCP", host, port))
        far = listener.buildProtocol(IPv4Address("TCP", self.name, 0))
        if near is None or far is None:
            factory.clientConnectionFailed(None, _failure(_refused("closed")))
            return
        wire = _Wire(net, _End(self.name, near), _End(host, far))
        net.wires.append(wire)
        # The operating system accepts the connection, also if the machine is paused.
        net.happen(host, lambda: far.makeConnection(wire.far))
        near.makeConnection(wire.near)


def _failure(error: Exception) -> Failure:
    return cast("Failure", cast("Any", Failure)(error))


def _refused(text: str) -> Exception:
    return cast("Exception", cast("Any", ConnectionRefusedError)(text))


class _Wire:
    """An open connection."""

    def __init__(self, net: MemoryNet, near: "_End", far: "_End") -> None:
        self.net = net
        self.near = near
        self.far = far
        self.lost_bytes = False
        self.delay_s = net.latency_s()
        near.join(self, far)
        far.join(self, near)

    def break_off(self) -> None:
        """Report to both ends that the connection is lost."""
        for end in (self.near, self.far):
            end.end(ConnectionLost("broken off"))

    def closed(self) -> None:
        if self.near.over and self.far.over and self in self.net.wires:
            self.net.wires.remove(self)


class _End:
    """A transport: one end of a wire."""

    def __init__(self, name: str, protocol: Any) -> None:
        self.name = name
        self.over = False
        self._protocol = protocol
        self._closing = False
        self._paused = False
        self._inbox: list[bytes] = []
        self.sent_bytes = 0

    def join(self, wire: _Wire, other: "_End") -> None:
        self._wire = wire
        self._other = other

    def write(self, data: bytes) -> None:
        if self.over or self._closing or not data:
            return
        self.sent_bytes += len(data)
        if self._wire.net.is_cut(self.name, self._other.name):
            self._wire.lost_bytes = True
            return
        self._wire.net.clock.callLater(self._wire.delay_s, self._other.arrive, data)

    def writeSequence(self, data: Iterable[bytes]) -> None:  # noqa: N802
        self.write(b"".join(data))

    def arrive(self, data: bytes) -> None:
        self._wire.net.happen(self.name, lambda: self._receive(data))

    def _receive(self, data: bytes) -> None:
        if self.over:
            return
        if self._paused or self._inbox:
            self._inbox.append(data)
        elif not self._closing:
            self._protocol.dataReceived(data)

    def loseConnection(self) -> None:  # noqa: N802
        if not self._closing:
            self._closing = True
            clock = self._wire.net.clock
            clock.callLater(self._wire.delay_s, self._other.end, ConnectionDone())
            clock.callLater(0, self.end, ConnectionDone())

    def abortConnection(self) -> None:  # noqa: N802
        if not self.over:
            self._closing = True
            clock = self._wire.net.clock
            if not self._wire.net.is_cut(self.name, self._other.name):
                clock.callLater(self._wire.delay_s, self._other.end, ConnectionLost("reset"))
            clock.callLater(0, self.end, ConnectionLost("aborted"))

    def end(self, error: Exception) -> None:
        self._wire.net.happen(self.name, lambda: self._end(error))

    def _end(self, error: Exception) -> None:
        if not self.over:
            self.over = True
            self._protocol.connectionLost(_failure(error))
            self._wire.closed()

    def pauseProducing(self) -> None:  # noqa: N802
        self._paused = True

    def resumeProducing(self) -> None:  # noqa: N802
        self._paused = False
        self._wire.net.clock.callLater(0, self._wire.net.happen, self.name, self._read_inbox)

    def _read_inbox(self) -> None:
        while self._inbox and not (self._paused or self._closing or self.over):
            self._protocol.dataReceived(self._inbox.pop(0))

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802
        del streaming
        self.producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802
        self.producer = None

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802
        del enabled

    def getPeer(self) -> IPv4Address:  # noqa: N802
        return IPv4Address("TCP", "127.0.0.1", 0)
