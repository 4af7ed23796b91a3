"""The outcomes of entries that a master may have answered, compared by the other replicas with theirs. Pure.

The master sends them before its next entry. So a slave that differs notices that by itself, and one that
becomes master does not contradict what clients were told.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from .digests import Answered
from .outcome_history import OutcomeHistory

__all__ = ["AnsweredOutcomes", "Contradiction"]

MAX_ENTRIES: Final = 64
MAX_BYTES: Final = 8192
"""Bounds of one message. With more, the outcomes of the earliest entries are left out: those that
follow differ as well."""
MAX_EARLY: Final = 256
"""Messages with outcomes that a slave keeps until it has applied their entries."""


@attrs.frozen
class Contradiction:
    """The outcome of an entry here is not that of a master, which may have answered with it."""

    master: int
    index: int
    """An entry that ended otherwise, or after such an entry."""
    first: str
    """The first entry that ended otherwise, with its agent and class; "" if it is not known any more."""


class AnsweredOutcomes:
    """At a master, the outcomes that the slaves do not know yet; at a slave, the comparison with them."""

    def __init__(self, me: int, history: OutcomeHistory, agreed: Callable[[int, int], None]) -> None:
        """`history` is that of the replica `me`.

        agreed: gets a master, and the entry up to which it agrees.
        """
        self._me = me
        self._history = history
        self._on_agreed = agreed
        self._pending: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._early: deque[tuple[int, list[tuple[int, bytes]]]] = deque(maxlen=MAX_EARLY)
        """(master, outcomes) of entries that are not applied yet."""
        self.contradiction: Contradiction | None = None
        """The first one, while no other replica has shown that it agrees with this one."""

    # The master

    @property
    def pending(self) -> bool:
        """Whether there are outcomes that the slaves do not know."""
        return bool(self._pending)

    def add(self, index: int, outcome: bytes) -> None:
        """Add the outcome of an entry whose outputs leave now."""
        self._pending.append((index, outcome))
        self._bytes += len(outcome)
        while len(self._pending) > MAX_ENTRIES or (self._bytes > MAX_BYTES and len(self._pending) > 1):
            self._bytes -= len(self._pending.popleft()[1])

    def take(self) -> Answered:
        """Remove what is pending, and return the message for the slaves."""
        message = Answered(list(self._pending))
        self.begin_view()
        return message

    def begin_view(self) -> None:
        """Forget what is pending: the members of the new view are compared by their chains."""
        self._pending.clear()
        self._bytes = 0

    # A slave

    def received(self, master: int, message: Answered) -> bool:
        """Compare the outcomes of a master, or keep them until their entries are applied.

        Returns whether there is a contradiction that was not known before.
        """
        if not message.outcomes:
            return False
        self._early.append((master, message.outcomes))
        return self.applied()

    def applied(self) -> bool:
        """Compare what came before its entries were applied. See `received`."""
        found = False
        early = self._early
        while early and early[0][1][-1][0] <= self._history.applied:
            found = self._compare(*early.popleft()) or found
        return found

    def _compare(self, master: int, outcomes: list[tuple[int, bytes]]) -> bool:
        index, last = outcomes[-1]
        history = self._history
        chain = history.chain_after(index)
        if chain is None:
            return False
        if chain[:8] == last[:8]:
            self._on_agreed(master, index)
            return False
        if self.contradiction is not None:
            return False
        first = history.first_difference(self._me, master, outcomes)
        self.contradiction = Contradiction(master, index, first)
        return True

    def agreed(self, index: int) -> Contradiction | None:
        """Note that another replica has the same outcomes up to an entry. Returns what that settles.

        The two are more than the former master alone.
        """
        known = self.contradiction
        if known is None or index < known.index:
            return None
        self.contradiction = None
        return known

    def state_installed(self) -> None:
        """Forget what concerned the former state."""
        self.contradiction = None
        self._early.clear()
