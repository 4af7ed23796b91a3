"""The state transfer of a group, at both ends: the application's state to the channel, and back.

The first part of a state has the latest packs of all members (`Order.head`). The other parts have the chunks
of the application.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from ..model.events import InstallPart, ProvideSnapshot
from .application import Application, unusable_state
from .context import MemberContext
from .handler import GroupFailed
from .wire import decode_part, encode_parts

__all__ = ["StateTransfer"]

PROVIDE_AGAIN_S = 1.0
"""Pause after a failure of `provide_state`, in seconds."""


class StateTransfer:
    """Answers the channel's requests for the state, and installs a state that the channel has received."""

    def __init__(
        self, context: MemberContext, application: Application, retry: Callable[[ProvideSnapshot], None]
    ) -> None:
        """retry: queues the event again, after all entries that wait for the application."""
        self._channel = context.channel
        self._order = context.order
        self._reactor = context.reactor
        self._now = context.now
        self._application = application
        self._retry = retry
        self._token = 0
        """Token of the transfer for which the state was last requested."""
        self._head = b""
        """The first part of an incoming state."""
        self._chunks: list[bytes] = []
        """The chunks of an incoming state so far."""

    def provide(self, event: ProvideSnapshot, applied: int) -> None:
        """Pass the parts of the state to the channel. applied: the entry that the state follows.

        If the handler fails, it is asked again after PROVIDE_AGAIN_S: the joining member waits for the
        state, and no other member can provide it.
        """
        self._token = event.token
        parts = self.parts()
        if parts is None:
            self._reactor.callLater(PROVIDE_AGAIN_S, self._provide_again, event)
            return
        self._channel.snapshot_ready(self._now(), event.token, max(applied, event.index), parts)

    def parts(self) -> Iterator[bytes] | None:
        """Return the parts of the state after the messages so far; None if the handler failed."""
        chunks = self._application.provide_state()
        return None if chunks is None else chain((self._order.head(),), encode_parts(chunks))

    def _provide_again(self, event: ProvideSnapshot) -> None:
        if self._token == event.token and self._channel.phases.giving == "state":
            # Not here: the state must not be taken in the middle of an entry.
            self._retry(event)

    def install(self, event: InstallPart) -> None:
        """Store one part of an incoming state; with the last part, replace the state.

        Raises GroupFailed if the state cannot be used.
        """
        try:
            if event.number:
                self._chunks += decode_part(event.data)
            else:
                self._head, self._chunks = event.data, []
            if event.index is not None:
                chunks, self._chunks = self._chunks, []
                self._order.restore(self._head)
                self._application.receive_state(chunks, self._order.position)
        except GroupFailed:
            raise
        except Exception as error:
            raise unusable_state(error) from None
