"""The context of a member: the objects that its parts share."""

from collections.abc import Callable
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred

from ..protocol.channel import Channel
from ..transport.direct_write import DirectWriteReactor
from .order import Order

__all__ = ["MemberContext", "MessageOrder"]

MessageOrder: TypeAlias = "Order[Deferred[int]]"
"""An order whose tickets are the Deferreds of `Group.multicast`."""


@attrs.frozen(eq=False)
class MemberContext:
    """One member of a group, as its parts see it."""

    me: int
    """The id of the member."""
    channel: Channel
    order: MessageOrder
    reactor: DirectWriteReactor
    now: Callable[[], float]
    """The clock of the channel, in seconds."""
    log: Callable[[str], None]
    """Writes a line to the log. Never raises."""
