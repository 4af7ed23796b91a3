"""Timers of the agent of a group, sent to itself."""

import attrs

from ...agents import Notification

__all__ = ["RehomeCheck", "SlowCheck"]


@attrs.frozen
class RehomeCheck(Notification, name="quorate.group.rehome-check"):
    """Members whose replica has gone had time to connect to another one."""


@attrs.frozen
class SlowCheck(Notification, name="quorate.group.slow-check"):
    """Members have had time to acknowledge something after this item."""

    acked: int
