"""The network of an exploration, and the budget of its events."""

from collections.abc import Callable, Sequence

import attrs
import msgspec

from ...hachannel import Message
from ...hachannel.model.messages import Grant, Heartbeat
from ..channel.host import Host

__all__ = ["BUDGETED", "Budget", "Event", "ExploredNetwork"]

Event = tuple[str, int, int]
"""A kind of event and its two replicas; an event of one replica names it twice."""


@attrs.frozen
class Budget:
    """The number of events of each kind that may still happen."""

    crash: int = 0
    """A process ends. With a disk, any number of its waiting writes becomes durable."""
    cut: int = 0
    """A connection breaks; it may be made again at any time."""
    tick: int = 0
    """A replica reads its clock: a little time has passed for it."""
    late: int = 0
    """A replica reads its clock: enough time has passed that everything that it waits for times out."""
    submit: int = 0
    """A client submits at the master."""
    forward: int = 0
    """A client submits at another replica."""
    remove: int = 0
    """An administrator removes the last replica of the view."""
    lose: int = 0
    """The next message of a connection is lost, and the connection stays open."""
    twice: int = 0
    """The next message of a connection arrives, and stays in flight."""
    overtake: int = 0
    """The second message of a connection arrives before the first."""
    outage: int = 0
    """All processes end at once."""
    stay: int = 0
    """If not 0, ended processes are not started again."""
    apart: int = 0
    """If not 0, broken connections are not made again."""

    def less(self, kind: str) -> "Budget":
        """Return the budget without one event of a kind."""
        left = {name: count - (name == kind) for name, count in attrs.asdict(self).items()}
        return Budget(**left)


BUDGETED = frozenset(field.name for field in attrs.fields(Budget))


class ExploredNetwork:
    """Connections whose messages wait until the exploration delivers them. Stands in for `Network`."""

    def __init__(self, hosts: Sequence[Host], own: Callable[[int], Host], *, timed: bool) -> None:
        """hosts: the replicas of the present state. own: returns one of them for a change. timed: there are
        leases."""
        self._hosts = hosts
        self._own = own
        self._timed = timed
        self.connected: frozenset[tuple[int, int]] = frozenset()
        self.waiting: dict[tuple[int, int], tuple[Message, ...]] = {}
        """The messages in flight by (sender, receiver)."""
        self.sent = 0

    def add(self, host: int, endpoint: Host) -> None:
        """Do nothing: a process that starts is connected by an event."""

    def remove(self, host: int) -> None:
        """Break the connections of an ended process; messages in flight are lost."""
        for pair in sorted(pair for pair in self.connected if host in pair):
            self.close(*pair)

    def send(self, host: int, endpoint: Host, peer: int, message: Message) -> None:  # noqa: ARG002
        """Put a message on a connection."""
        if (min(host, peer), max(host, peer)) in self.connected:
            if isinstance(message, Heartbeat) and message.mark is not None and not self._timed:
                # Without a common clock no master asks for a lease.
                message = msgspec.structs.replace(message, mark=None)
            self.sent += 1
            self.waiting[host, peer] = (*self.waiting.get((host, peer), ()), message)

    def connect(self, one: int, other: int) -> None:
        """Connect two replicas; both learn it at once."""
        self.connected |= {(one, other)}
        for host, peer in ((one, other), (other, one)):
            self._own(host).up(peer, self._hosts[peer].incarnation)

    def close(self, one: int, other: int) -> None:
        """Break a connection; both sides learn it at once, and messages in flight are lost."""
        self.connected -= {(one, other)}
        self.waiting.pop((one, other), None)
        self.waiting.pop((other, one), None)
        for host, peer in ((one, other), (other, one)):
            if self._hosts[host].running:
                self._own(host).down(peer)

    def pop(self, one: int, other: int, position: int = 0, *, keep: bool = False) -> Message:
        """Return a message in flight, and remove it from its connection unless `keep`."""
        queue = self.waiting[one, other]
        if not keep:
            rest = queue[:position] + queue[position + 1 :]
            if rest:
                self.waiting[one, other] = rest
            else:
                del self.waiting[one, other]
        return queue[position]

    def shift_marks(self, by_s: float) -> None:
        """Make the lease marks of messages in flight older by `by_s` seconds."""
        for pair, queue in self.waiting.items():
            self.waiting[pair] = tuple(
                msgspec.structs.replace(message, mark=message.mark - by_s)
                if isinstance(message, Heartbeat | Grant) and message.mark is not None
                else message
                for message in queue
            )
