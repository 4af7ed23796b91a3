"""Departure: an orderly leave, after which the others go on at once and no message is lost."""

from collections.abc import Callable
from functools import partial

from ..transport.ports import DelayedCallPort
from .context import MemberContext

__all__ = ["Departure"]

LEAVE_TIMEOUT_S = 10.0
"""Time, in seconds, that a leaving member waits for the agreement of the others; then it stops."""
HAND_OVER_S = 5.0
"""Time, in seconds, that the last member waits for another one to receive its state."""


class Departure:
    """The two steps of leaving: hand over the state if no other member has it, then leave the channel."""

    def __init__(self, context: MemberContext, leaving: Callable[[], None], gone: Callable[[], None]) -> None:
        """leaving: called when the channel was asked to leave. gone: called when that takes too long."""
        self._me = context.me
        self._channel = context.channel
        self._reactor = context.reactor
        self._now = context.now
        self._log = context.log
        self._leaving = leaving
        self._gone = gone
        self._timeout: DelayedCallPort | None = None
        self._handing_over = False
        """The member wants to leave, and the channel has not been asked yet."""
        self._receiver_seen = False
        """Another member was receiving the state in the meantime."""

    @property
    def begun(self) -> bool:
        """Whether `begin` was called."""
        return self._timeout is not None

    def begin(self) -> None:
        """Leave as soon as no state is lost by it, or after HAND_OVER_S."""
        self._timeout = self._reactor.callLater(HAND_OVER_S, partial(self.advance, late=True))
        self._handing_over = True
        self.advance()

    def advance(self, *, late: bool = False) -> None:
        """Leave, unless only this member has the state and another one is receiving it.

        Call after every tick of the channel. late: leave in any case, since HAND_OVER_S have passed.
        """
        if not self._handing_over:
            return
        channel = self._channel
        standing = channel.standing
        if standing.members == (self._me,) and standing.role in ("master", "blocked", "changing"):
            # If the connection to the receiver breaks, it may be restored soon.
            self._receiver_seen = self._receiver_seen or channel.phases.giving != "nobody"
            if (self._receiver_seen or standing.role == "changing") and not late:
                return
            if self._receiver_seen:
                self._log("leaves before another member has received the state: the state is lost")
        self._handing_over = False
        self._cancel_timeout()
        self._timeout = self._reactor.callLater(LEAVE_TIMEOUT_S, self._gone)
        channel.leave(self._now())
        self._leaving()

    def stop(self) -> None:
        """Do nothing more."""
        self._handing_over = False
        self._cancel_timeout()

    def _cancel_timeout(self) -> None:
        if self._timeout is not None and self._timeout.active():
            self._timeout.cancel()
