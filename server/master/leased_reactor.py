"""The reactor of services, whose delayed calls happen only while their replica may serve.

A process that was suspended finds all delayed calls due when it resumes, and does not know yet that another
replica serves. The calls of services must not happen then.
"""

from collections.abc import Callable
from typing import Any

from ...hachannel.transport.ports import DelayedCallPort

__all__ = ["LeasedReactor"]

AGAIN_S = 0.02
"""Seconds after which a call that may not happen now is tried again."""


class LeasedReactor:
    """A reactor for one service; everything but `callLater` is that of the reactor itself."""

    def __init__(self, reactor: Any, may_act: Callable[[], bool]) -> None:
        """`may_act` says whether the replica holds the lease at this moment."""
        self.ending = False
        """The service is being stopped: it may use timers to clean up."""
        self._reactor = reactor
        self._may_act = may_act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any, **kw: Any) -> "LeasedCall":  # noqa: N802
        """Call the function after `delay` seconds; later if the replica may not serve then."""
        return LeasedCall(self, delay, lambda: function(*args, **kw))

    def allows(self) -> bool:
        """Whether a call may happen now."""
        return self.ending or self._may_act()

    def arm(self, delay: float, function: Callable[[], None]) -> DelayedCallPort:
        """Call the function after `delay` seconds, with or without the lease."""
        call: DelayedCallPort = self._reactor.callLater(delay, function)
        return call


class LeasedCall:
    """A call that is to come; everything but waiting for the lease is that of Twisted's."""

    def __init__(self, reactor: LeasedReactor, delay: float, function: Callable[[], Any]) -> None:
        self._leased = reactor
        self._function = function
        self._call = reactor.arm(delay, self._due)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def active(self) -> bool:
        """Say whether the call is still to come."""
        return self._call.active()

    def cancel(self) -> None:
        """Forget the call."""
        self._call.cancel()

    def _due(self) -> None:
        if self._leased.allows():
            self._function()
        else:
            self._call = self._leased.arm(AGAIN_S, self._due)
