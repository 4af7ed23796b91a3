"""Small things between a channel and its connections: messages, limits, and what a member waits for."""

from collections.abc import Callable

from ..protocol.channel import Channel
from ..protocol.diagnosis import situation
from ..transport.connection import NO_ADDRESS, NOBODY_LISTENS, SILENCE
from .wire import REFUSAL

__all__ = ["Waits"]

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
