"""The reactor of services, whose delayed calls happen only while their replica holds the lease.

In a process that was suspended all delayed calls are due when it resumes, while another replica may serve
already. The calls of services must not happen then.
"""

from collections.abc import Callable
from typing import Any

from ...hachannel.transport.ports import DelayedCallPort

__all__ = ["LeasedReactor"]

AGAIN_S = 0.02
"""Seconds until the next attempt of a call that was due without the lease."""


class LeasedReactor:
    """The reactor for one service. Only `callLater` differs from the reactor of the process."""

    def __init__(self, reactor: Any, may_act: Callable[[], bool]) -> None:
        """`may_act` returns whether the replica holds the lease at this moment."""
        self.ending = False
        """True while the service is being stopped: its timers need no lease then, so that it can clean up."""
        self._reactor = reactor
        self._may_act = may_act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any, **kw: Any) -> "LeasedCall":  # noqa: N802
        """Call the function after `delay` seconds; later if the replica may not serve then."""
        return LeasedCall(self._reactor, self._may_call, delay, function, args, kw)

    def _may_call(self) -> bool:
        return self.ending or self._may_act()


class LeasedCall:
    """A delayed call that waits for the lease when it is due. Everything else is that of Twisted's call."""

    def __init__(
        self,
        reactor: Any,
        may_call: Callable[[], bool],
        delay: float,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kw: dict[str, Any],
    ) -> None:
        self._reactor = reactor
        self._may_call = may_call
        self._function = function
        self._args = args
        self._kw = kw
        self._call: DelayedCallPort = reactor.callLater(delay, self._due)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def active(self) -> bool:
        """Return whether the call is still to come."""
        return self._call.active()

    def cancel(self) -> None:
        """Cancel the call."""
        self._call.cancel()

    def _due(self) -> None:
        if self._may_call():
            self._function(*self._args, **self._kw)
        else:
            self._call = self._reactor.callLater(AGAIN_S, self._due)
