"""Timers of the agent of a group, sent to itself."""

import attrs

from ...agents import Notification

__all__ = ["HoldCheck", "RehomeCheck", "SlowCheck"]


@attrs.frozen
class HoldCheck(Notification, name="quorate.group.hold-check"):
    """A home has been away for as long as items are held for it."""

    home: int
    since_ns: int


@attrs.frozen
class RehomeCheck(Notification, name="quorate.group.rehome-check"):
    """Members whose replica has gone had time to connect again."""


@attrs.frozen
class SlowCheck(Notification, name="quorate.group.slow-check"):
    """Members have had time to acknowledge something after this item."""

    acked: int
