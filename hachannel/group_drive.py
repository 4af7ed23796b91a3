"""Small things between a channel and its connections: messages, limits, and what a member waits for."""

from collections.abc import Callable

from .channel import Channel
from .gathering import Body
from .group_wire import REFUSAL
from .link import NO_ADDRESS, NOBODY_LISTENS, SILENCE, LinkSettings
from .messages import Message, encode_body
from .outbox import SLACK
from .settings import Settings
from .situation import situation
from .transport import ChannelTransport

__all__ = ["Waits", "link_settings", "send_messages"]

WAITS_LONG_S = 2.0
"""Whoever waits for the same for so long says it."""


class Waits:
    """What a member waits for; said once when it waits for it long."""

    def __init__(self, channel: Channel, log: Callable[[str], None]) -> None:
        self.sentence = ""
        """For whom or what, and what to do; empty while it waits for nothing."""
        self._channel = channel
        self._log = log
        self._mute: set[int] = set()
        self._astray: set[int] = set()
        """Those of them whose host names do not resolve."""
        self._refused: dict[int, str] = {}
        """Why, of those that turn this member away."""
        self._since = 0.0
        self._told = ""

    def up(self, peer: int) -> None:
        """There is a connection with a peer."""
        self._mute.discard(peer)
        self._astray.discard(peer)
        self._refused.pop(peer, None)

    def down(self, peer: int, reason: str) -> None:
        """There is none any more, for a reason that the link gave."""
        if SILENCE in reason:
            self._mute.add(peer)

    def unreachable(self, peer: int, reason: str) -> None:
        """There is none, and none can be made, for a reason that the transport gave."""
        self.up(peer)
        if reason.startswith(REFUSAL):
            self._refused[peer] = reason.removeprefix(REFUSAL)
        elif NOBODY_LISTENS not in reason:
            self._mute.add(peer)
            if NO_ADDRESS in reason:
                self._astray.add(peer)

    def look(self, now: float) -> None:
        """To be called again and again."""
        sentence = situation(self._channel, self._mute, astray=self._astray, refused=self._refused)
        if sentence != self.sentence:
            self.sentence, self._since = sentence, now
        if not sentence:
            self._told = ""
        elif sentence != self._told and now - self._since >= WAITS_LONG_S:
            self._told = sentence
            self._log(sentence)


def send_messages(transport: ChannelTransport, messages: list[tuple[int, Message]]) -> None:
    """Send messages, each encoded once, in one write for each peer."""
    last = messages[0][1]
    body = encode_body(last)
    for _, message in messages:
        if message is not last:
            break
    else:
        transport.send([peer for peer, _ in messages], [body])
        return
    by_peer: dict[int, list[Body]] = {}
    for peer, message in messages:
        if message is not last:
            # What goes to several peers follows itself.
            body, last = encode_body(message), message
        bodies = by_peer.get(peer)
        if bodies is None:
            by_peer[peer] = [body]
        else:
            bodies.append(body)
    for peer, bodies in by_peer.items():
        transport.send((peer,), bodies)


def link_settings(settings: Settings) -> LinkSettings:
    """Connections that take whatever a channel with these settings sends."""
    default = LinkSettings()
    # An entry, or as much of a log or of a state as goes together; with what goes with it.
    largest = max(settings.max_payload_bytes, settings.part_bytes)
    # Pieces of a state, a little longer perhaps, and entries beside it.
    transfer = settings.transfer_window * (settings.part_bytes + settings.part_bytes // SLACK + largest)
    waiting = settings.window_bytes + settings.forward_window_bytes + transfer
    return LinkSettings(
        max_frame_bytes=max(default.max_frame_bytes, 2 * largest),
        buffer_bytes=max(default.buffer_bytes, waiting),
        # Who is not suspected yet is not cut off either.
        silence_s=max(default.silence_s, 2 * settings.suspect_s),
    )
