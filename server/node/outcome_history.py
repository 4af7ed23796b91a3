"""The outcomes of the last entries, to be compared with those of another replica. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...engine import Effects
from ...engine.entry_outcome import Reacted, difference, encode_outcome, on_replica

__all__ = ["OutcomeHistory"]

MAX_REACTIONS: Final = 16_384
"""Reactions whose entries are kept; each takes some 150 bytes."""
MAX_SENT_REACTIONS: Final = 4096
"""Reactions whose marks are sent at once: 20 KiB and 12 bytes for each entry."""


class _Outcome(NamedTuple):
    entry: int
    chain: bytes
    marks: Sequence[int]
    trace: Sequence[Reacted]


class OutcomeHistory:
    """The entries that had reactions, up to `MAX_REACTIONS`: their chains, marks and agents.

    The chain of an engine is the hash of all its reactions, so equal chains mean equal histories.
    """

    def __init__(self, index: int, chain: bytes) -> None:
        """An engine has applied all entries up to `index`, and has `chain`."""
        self.restart(index, chain)

    def restart(self, index: int, chain: bytes) -> None:
        """Forget everything: the state after `index` came from elsewhere, with `chain`."""
        self.applied = index
        """The last entry that was applied."""
        self.chain = chain
        """The chain after that entry."""
        self._base = index, chain
        """The entry after which the history begins, and the chain there."""
        self._kept: list[_Outcome] = []
        self._reactions = 0

    def add(self, effects: Effects, chain: bytes) -> None:
        """Add the outcome of the next entry, after which the engine has `chain`."""
        self.applied, self.chain = effects.index, chain
        trace = effects.trace
        if not trace:
            return
        named = [Reacted(each.agent, each.cls, each.type, each.name, each.error) for each in trace]
        self._kept.append(_Outcome(effects.index, chain, effects.marks, named))
        self._reactions += len(trace)
        if self._reactions > MAX_REACTIONS:
            self._shorten()

    def _shorten(self) -> None:
        """Forget the older half: seldom, so that an entry costs little."""
        gone = 0
        while self._reactions > MAX_REACTIONS // 2 and gone < len(self._kept):
            self._reactions -= len(self._kept[gone].marks)
            gone += 1
        self._base = self._kept[gone - 1].entry, self._kept[gone - 1].chain
        del self._kept[:gone]

    def chain_after(self, index: int) -> bytes | None:
        """Return the chain after an entry; None if it is not known any more, or not applied yet."""
        if not self._base[0] <= index <= self.applied:
            return None
        place = self._place(index)
        return self._kept[place - 1].chain if place else self._base[1]

    def outcomes(self, after: int, upto: int) -> list[tuple[int, bytes]]:
        """Return the outcomes of the first entries after `after`, up to `upto`: (index, outcome)."""
        found: list[tuple[int, bytes]] = []
        reactions = 0
        for place in range(self._place(after), self._place(upto)):
            each = self._kept[place]
            reactions += len(each.marks)
            if found and reactions > MAX_SENT_REACTIONS:
                break
            found.append((each.entry, encode_outcome(each.chain, each.marks)))
        return found

    def first_difference(self, me: int, other: int, outcomes: Sequence[tuple[int, bytes]]) -> str:
        """Return the first entry that ended otherwise here than on another replica, and how; "" if unknown.

        me: this replica. outcomes: those of replica `other`, as its `outcomes` returned them.
        """
        if not outcomes or not self._base[0] < outcomes[0][0]:
            return ""
        terms = on_replica(me, other)
        # An earlier entry, which is not known any more, makes only the chains of these differ.
        unknown = f"ended otherwise {terms.than}"
        theirs = dict(outcomes)
        first, last = outcomes[0][0], outcomes[-1][0]
        ours = {each.entry: each for each in self._kept[self._place(first - 1) : self._place(last)]}
        for index in sorted({*theirs, *ours}):
            if index not in ours:
                if index > self.applied:
                    return ""
                return f"entry {index} had reactions {terms.where}, and has none {terms.here}"
            if index not in theirs:
                return f"entry {index} had no reaction {terms.where}, and has some {terms.here}"
            each = ours[index]
            different = difference(theirs[index], each.chain, each.marks, each.trace, terms)
            if different not in ("", unknown):
                return f"entry {index} {different}"
        return ""

    def _place(self, index: int) -> int:
        return bisect_right(self._kept, index, key=lambda each: each.entry)
