"""How a pack comes into the order from any member: the one place that knows. Pure.

The master submits. Another member sends its packs to the master, again after every view and from time to time
until it sees them delivered; the master takes each once, in order. What got into the log of a view is
delivered before its view event, so what is not delivered by then is sent again and cannot come twice.
"""

from collections import deque
from typing import Any

from .channel import Channel
from .errors import ProtocolError
from .group_order import Order, Packed
from .group_types import GroupLimits
from .group_wire import Forwarded, decode_forwarded, encode_forwarded

__all__ = ["Path"]

RETRY_S = 1.0
"""How long a member waits for the master before it sends its packs again."""


class Path:
    """The packs of one member that are not delivered yet and, on the master, those of others."""

    def __init__(self, channel: Channel, me: int, incarnation: int, order: "Order[Any]", limits: GroupLimits):
        self._channel = channel
        self._me = me
        self._incarnation = incarnation
        self._order = order
        self._limits = limits
        self._master: int | None = None
        self._packs: deque[Packed] = deque()
        self._given = 0
        """How many of them were submitted, or sent to the master, in this view."""
        self._moved = 0.0
        self._admitted: dict[int, tuple[int, int]] = {}
        """On the master: incarnation and last message taken of each other member in this view."""
        self._foreign: deque[tuple[int, bytes]] = deque()

    @property
    def idle(self) -> bool:
        """Nothing of this member is on its way."""
        return not self._packs

    @property
    def room(self) -> bool:
        """Whether `send` may be called."""
        return len(self._packs) < self._limits.packs_in_flight and self._open

    @property
    def _open(self) -> bool:
        if self._master == self._me:
            return self._channel.can_submit and not self._foreign
        return self._master is not None

    def send(self, now: float, pack: Packed) -> None:
        """Take a pack; it will be delivered once, unless this member ends."""
        if not self._packs:
            self._moved = now
        self._packs.append(pack)
        self.pump(now)

    def pump(self, now: float) -> bool:
        """Give on what can be given on; say whether anything was submitted."""
        channel = self._channel
        if self._master != self._me:
            while self._master is not None and self._given < len(self._packs):
                pack = self._packs[self._given]
                forwarded = Forwarded(self._incarnation, pack.first, pack.last, pack.body)
                channel.tell(self._master, encode_forwarded(forwarded))
                self._given += 1
            return False
        submitted = False
        while (self._foreign or self._given < len(self._packs)) and channel.can_submit:
            if self._foreign:
                channel.submit(now, 0, self._foreign.popleft()[1])
            else:
                channel.submit(now, 0, self._packs[self._given].body)
                self._given += 1
            submitted = True
        return submitted

    def delivered(self, now: float) -> None:
        """Something of this member may have been delivered."""
        last = self._order.confirmed()
        while self._packs and self._packs[0].last <= last:
            self._packs.popleft()
            self._given = max(0, self._given - 1)
            self._moved = now

    def begin(self, now: float, master: int) -> None:
        """A view is active; everything delivered before it is known."""
        self._master = master
        self._admitted.clear()
        self._foreign.clear()
        self._again(now)

    def suspend(self) -> None:
        """A view is about to follow: nothing goes out until `begin`."""
        self._master = None

    def connected(self, now: float, peer: int) -> None:
        """What was on its way to a peer may be lost."""
        if peer == self._master:
            self._again(now)

    def tick(self, now: float) -> None:
        """Time passed."""
        if self._given and self._master != self._me and now - self._moved > RETRY_S:
            self._again(now)

    def _again(self, now: float) -> None:
        self._given = 0
        self._moved = now

    def told(self, peer: int, data: bytes) -> None:
        """A pack of another member. What is not the next one of it, or not for this member, is dropped.

        Raises ProtocolError.
        """
        pack = decode_forwarded(data)
        if pack.first < 1 or pack.last < pack.first:
            raise ProtocolError("a forwarded pack without messages")
        if self._master != self._me:
            return
        incarnation, last = self._admitted.get(peer) or self._order.seen(peer)
        if pack.incarnation > incarnation:
            last = 0
        elif pack.incarnation < incarnation:
            return
        waiting = sum(1 for origin, _ in self._foreign if origin == peer)
        if pack.first == last + 1 and waiting < self._limits.packs_in_flight:
            self._admitted[peer] = (pack.incarnation, pack.last)
            self._foreign.append((peer, pack.body))
