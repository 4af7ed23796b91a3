"""Small things between a channel and the reactor: its deadline, its messages, what its connections take."""

from collections.abc import Callable

from .channel import Channel
from .link import CallPort, LinkSettings, ReactorPort
from .messages import Message, encode_message
from .settings import Settings
from .transport import ChannelTransport

__all__ = ["Alarm", "link_settings", "send_messages"]


class Alarm:
    """Calls `ring` when the deadline of a channel is reached; `now` is the clock of the channel."""

    def __init__(
        self, channel: Channel, reactor: ReactorPort, now: Callable[[], float], ring: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._reactor = reactor
        self._now = now
        self._ring = ring
        self._call: CallPort | None = None
        self._at = 0.0

    @property
    def set_up(self) -> bool:
        """Whether a call is to come."""
        return self._call is not None

    def arm(self) -> None:
        """Look at the deadline. A call that comes too early is left: it looks again."""
        deadline = self._channel.deadline
        if deadline is None:
            return
        call = self._call
        if call is not None and call.active():
            if self._at <= deadline:
                return
            call.cancel()
        self._at = deadline
        self._call = self._reactor.callLater(max(0.0, deadline - self._now()), self._wake)

    def stop(self) -> None:
        """Never ring again."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _wake(self) -> None:
        self._call = None
        deadline = self._channel.deadline
        if deadline is not None and deadline <= self._now():
            self._ring()
        else:
            self.arm()


def send_messages(transport: ChannelTransport, messages: list[tuple[int, Message]]) -> None:
    """Send messages, each encoded once, in one write for each peer."""
    if len(messages) == 1:
        transport.send(messages[0][0], [encode_message(messages[0][1])])
        return
    encoded: dict[int, bytes] = {}
    by_peer: dict[int, list[bytes]] = {}
    for peer, message in messages:
        body = encoded.get(id(message))
        if body is None:
            body = encoded[id(message)] = encode_message(message)
        by_peer.setdefault(peer, []).append(body)
    for peer, bodies in by_peer.items():
        transport.send(peer, bodies)


def link_settings(settings: Settings) -> LinkSettings:
    """Connections that take whatever a channel with these settings sends."""
    default = LinkSettings()
    # An entry, or as much of a log or of a state as goes together; with what goes with it.
    largest = max(settings.max_payload_bytes, settings.part_bytes)
    waiting = settings.window_bytes + settings.forward_window_bytes + settings.transfer_window * largest
    return LinkSettings(
        max_frame_bytes=max(default.max_frame_bytes, 2 * largest),
        buffer_bytes=max(default.buffer_bytes, waiting),
    )
