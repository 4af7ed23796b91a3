"""The stall report of a member: why it makes no progress, in a sentence that says what to do."""

from collections.abc import Callable

from ..protocol.channel import Channel
from ..protocol.diagnosis import diagnose
from ..transport.connection import SILENCE
from ..transport.connector import NO_ADDRESS, NOBODY_LISTENS
from .wire import REFUSAL

__all__ = ["StallReport"]

REPORT_AFTER_S = 2.0
"""Time, in seconds, after which a member that still waits for the same reason logs it."""


class StallReport:
    """Explains why a member waits. A sentence that stays the same for REPORT_AFTER_S is logged once."""

    def __init__(self, channel: Channel, log: Callable[[str], None]) -> None:
        self.sentence = ""
        """The reason why the member waits, and what to do; empty while it waits for nothing."""
        self._channel = channel
        self._log = log
        self._unreachable: set[int] = set()
        """Peers that are not connected, and whose hosts do not refuse connections."""
        self._unresolved: set[int] = set()
        """Unreachable peers whose host names do not resolve."""
        self._refusals: dict[int, str] = {}
        """Peers that refuse this member, with their reasons."""
        self._since = 0.0
        """Time when `sentence` last changed."""
        self._logged = ""

    def up(self, peer: int) -> None:
        """Note a connection to a peer."""
        self._unreachable.discard(peer)
        self._unresolved.discard(peer)
        self._refusals.pop(peer, None)

    def down(self, peer: int, reason: str) -> None:
        """Note that the connection to a peer is lost. reason: that of the link."""
        if SILENCE in reason:
            self._unreachable.add(peer)

    def unreachable(self, peer: int, reason: str) -> None:
        """Note that no connection can be made. reason: that of the transport."""
        self.up(peer)
        if reason.startswith(REFUSAL):
            self._refusals[peer] = reason.removeprefix(REFUSAL)
        elif NOBODY_LISTENS not in reason:
            self._unreachable.add(peer)
            if NO_ADDRESS in reason:
                self._unresolved.add(peer)

    def update(self, now: float) -> None:
        """Determine the sentence, and log it when due. Call on a timer and after each view."""
        sentence = diagnose(self._channel, self._unreachable, astray=self._unresolved, refused=self._refusals)
        if sentence != self.sentence:
            self.sentence, self._since = sentence, now
        if not sentence:
            self._logged = ""
        elif sentence != self._logged and now - self._since >= REPORT_AFTER_S:
            self._logged = sentence
            self._log(sentence)
