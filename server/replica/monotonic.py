"""The clock of the reactor."""

import time
from typing import Any

__all__ = ["use_monotonic"]


def use_monotonic(reactor: Any) -> None:
    """Make the reactor measure time by the monotonic clock, if it has no delayed calls yet.

    Twisted uses the time of day: when that is set back by an hour, nothing is called for an hour. Delayed
    calls that exist already have their time on the old clock, so the clock is not changed then.
    """
    if hasattr(reactor, "getDelayedCalls") and not reactor.getDelayedCalls():
        reactor.seconds = time.monotonic
