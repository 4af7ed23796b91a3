"""Messages and connections whose fate is chosen from outside, and how often what may happen."""

from typing import TYPE_CHECKING

import attrs
import msgspec

from ...hachannel import Message
from ...hachannel.model.messages import Grant, Heartbeat
from ..channel.world import Host

if TYPE_CHECKING:
    from .world import ExploredWorld

__all__ = ["BUDGETED", "Budget", "Event", "ExploredNetwork"]

Event = tuple[str, int, int]
"""What happens, and to which two replicas; to one: named twice."""


@attrs.frozen
class Budget:
    """How often each kind of event may still happen."""

    crash: int = 0
    """A process ends. With a disk: which of the writes that wait are on it is chosen, too."""
    cut: int = 0
    """A connection breaks; it may come back at any time."""
    tick: int = 0
    """A replica looks at its clock: a little time has passed for it."""
    late: int = 0
    """The same, and so much has passed that it gives up what it waits for."""
    submit: int = 0
    """A client submits at the master."""
    forward: int = 0
    """A client submits at another replica."""
    remove: int = 0
    """An operator removes the last replica of the view."""
    lose: int = 0
    """The next message of a connection is lost, and the connection stands."""
    twice: int = 0
    """It arrives, and arrives again later."""
    overtake: int = 0
    """The message behind it arrives first."""
    outage: int = 0
    """All processes end at once."""
    stay: int = 0
    """Not 0: who has ended is not started again."""
    apart: int = 0
    """Not 0: who is not connected does not connect."""

    def less(self, kind: str) -> "Budget":
        """One event of a kind less."""
        left = {name: count - (name == kind) for name, count in attrs.asdict(self).items()}
        return Budget(**left)


BUDGETED = frozenset(field.name for field in attrs.fields(Budget))


class ExploredNetwork:
    """Connections whose messages wait to be handed over. Stands in for a network."""

    def __init__(self, world: "ExploredWorld") -> None:
        self._world = world
        self.connected: frozenset[tuple[int, int]] = frozenset()
        self.waiting: dict[tuple[int, int], tuple[Message, ...]] = {}
        self.sent = 0

    def add(self, host: int, endpoint: Host) -> None:
        """A process starts; it is not connected yet."""

    def remove(self, host: int) -> None:
        """A process is gone: its peers notice, and what they sent is lost."""
        for pair in sorted(pair for pair in self.connected if host in pair):
            self.close(*pair)

    def send(self, host: int, endpoint: Host, peer: int, message: Message) -> None:  # noqa: ARG002
        """Put a message on a connection."""
        if (min(host, peer), max(host, peer)) in self.connected:
            if isinstance(message, Heartbeat) and message.mark is not None and not self._world.timed:
                # Nobody asks for a lease where clocks do not agree.
                message = msgspec.structs.replace(message, mark=None)
            self.sent += 1
            self.waiting[host, peer] = (*self.waiting.get((host, peer), ()), message)

    def connect(self, one: int, other: int) -> None:
        """Both sides learn that there is a connection."""
        self.connected |= {(one, other)}
        for host, peer in ((one, other), (other, one)):
            self._world.own(host).up(peer, self._world.small[peer].incarnation)

    def close(self, one: int, other: int) -> None:
        """A connection breaks; both sides learn it at once."""
        self.connected -= {(one, other)}
        self.waiting.pop((one, other), None)
        self.waiting.pop((other, one), None)
        for host, peer in ((one, other), (other, one)):
            if self._world.small[host].running:
                self._world.own(host).down(peer)

    def take(self, one: int, other: int, position: int = 0, *, keep: bool = False) -> Message:
        """A message of a connection, which is gone from it unless it is kept."""
        queue = self.waiting[one, other]
        if not keep:
            rest = queue[:position] + queue[position + 1 :]
            if rest:
                self.waiting[one, other] = rest
            else:
                del self.waiting[one, other]
        return queue[position]

    def older(self, by_s: float) -> None:
        """The marks of leases under way are older."""
        for pair, queue in self.waiting.items():
            self.waiting[pair] = tuple(
                msgspec.structs.replace(message, mark=message.mark - by_s)
                if isinstance(message, Heartbeat | Grant) and message.mark is not None
                else message
                for message in queue
            )
