"""The table of messages: which part of a channel handles which type."""

from typing import Final

from ..model.events import DirectReceived
from ..model.messages import (
    Ack,
    Activate,
    Commit,
    Data,
    DirectMessage,
    Forward,
    Forwarded,
    Message,
)
from ..model.view import Voter
from ..replication.handlers import Handler
from .heartbeats import Heartbeats
from .parts import ChannelParts

__all__ = ["FREQUENT", "Dispatch"]

FREQUENT: Final[frozenset[type[Message]]] = frozenset({Data, Ack, Commit, Forward, Forwarded})
"""Messages of the normal case: if no step follows them, no field of `Standing` has changed."""


class Dispatch:
    """Collects the handlers of all parts; hands over messages that a replica sends to itself."""

    def __init__(self, parts: ChannelParts, heartbeats: Heartbeats) -> None:
        self._state = parts.state
        self._replication = parts.replication
        self._installation = installation = parts.election.installation
        self.handlers: dict[type[Message], Handler] = {
            Data: self.on_data,
            DirectMessage: self.on_direct_message,
        }
        """Handlers of messages from peers."""
        for part in (
            parts.replication,
            parts.forwarding,
            parts.lease,
            parts.election,
            installation,
            parts.donor,
            parts.learner,
            parts.membership,
            heartbeats,
        ):
            self.handlers.update(part.handlers)

    def to_oneself(self, message: Message) -> None:
        """Handle a message that this replica has sent to itself, once what it depends on is durable."""
        state = self._state
        if isinstance(message, Activate):
            self._installation.on_noted(state.now, message)
        else:
            self.handlers[type(message)](state.now, state.me, message)

    def on_data(self, now: float, voter: Voter, message: Data) -> None:
        """Hand over an entry. An entry of the accepted view proves that this view is active."""
        state = self._state
        if not state.status.serving:
            view = state.accepted
            if view is not None and message.entry.view == view.number and voter == view.members[0]:
                self._installation.activate(now)
        self._replication.on_data(now, voter, message)

    def on_direct_message(self, _now: float, voter: Voter, message: DirectMessage) -> None:
        """Emit the event for an application message of a peer."""
        self._state.output.emit(DirectReceived(voter.replica, message.data))
