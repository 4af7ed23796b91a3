"""The check that the two ends of a link between servers agree on their numbers."""

from collections.abc import Callable

from ...engine import Engine

__all__ = ["LinkChecker"]

Life = tuple[int, int]
"""A server, and its birth."""


class LinkChecker:
    """Follows the links of all replicas. The invariant: *links agree*.

    What a sender counts as acknowledged was recorded by a replica of the receiver before, and nobody records
    what was not sent. The numbers belong to one life of either server.
    """

    def __init__(self, violation: Callable[[str, str], Exception]) -> None:
        """`violation` makes an error of the name of an invariant and a text."""
        self._violation = violation
        self._recorded: dict[tuple[Life, Life], int] = {}
        """By source and target, the highest number that a replica of the target has recorded."""
        self._sent: dict[tuple[Life, Life], int] = {}
        """By source and target, the highest number that a replica of the source has given."""

    def applied(self, server: int, engine: Engine) -> None:
        """Check the links of a replica that has applied further entries, before it acts on them."""
        here = (server, engine.birth)
        for peer in engine.peers():
            numbers = engine.link_numbers(peer)
            if not numbers.peer_birth:
                continue
            there = (peer, numbers.peer_birth)
            self._sent[here, there] = max(self._sent.get((here, there), 0), numbers.sent)
            self._recorded[there, here] = max(self._recorded.get((there, here), 0), numbers.received)
            recorded, sent = self._recorded.get((here, there), 0), self._sent.get((there, here), 0)
            if numbers.acknowledged > recorded:
                text = f"{here} counts {numbers.acknowledged} acknowledged, {there} has recorded {recorded}"
                raise self._violation("links agree", text)
            if numbers.received > sent:
                text = f"{here} has recorded {numbers.received} from {there}, which has sent {sent}"
                raise self._violation("links agree", text)
