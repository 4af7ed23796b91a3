"""The outputs of a master, which wait until all members of its view have the same outcome. Pure.

An output that has left cannot be taken back. If it left before another replica has applied the entry, and
that replica differs and becomes master, the other one would contradict what was answered.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

from ...engine import Effects

__all__ = ["HeldOutputs"]

MAX_HELD_REACTIONS: Final = 16_384
"""While the entries whose outputs wait have more reactions than this, nothing is submitted."""
MAX_HELD_ENTRIES: Final = 1024
"""The same for the number of these entries."""
MAX_EARLY: Final = 256
"""Chains of a slave that are kept until the master has applied the entry; the last one replaces others."""


@attrs.define(eq=False)
class _Slave:
    """The outcomes that a slave has reported."""

    confirmed: int = 0
    """Up to this entry its outcomes are those of the master; 0 if none is known in this view."""
    early: deque[tuple[int, bytes]] = attrs.field(factory=deque[tuple[int, bytes]])
    """(index, chain) of entries that the master has not applied yet."""


class HeldOutputs:
    """The effects of applied entries, from the first one whose outcome some slave has not confirmed.

    The chain of an engine is the hash of all its reactions, so equal chains mean equal outcomes of all
    entries so far. A slave that differs confirms nothing more: what is held leaves with the next view, of
    which that slave is no member.
    """

    def __init__(self) -> None:
        self._slaves: dict[int, _Slave] = {}
        self._held: deque[Effects] = deque()
        self._chains: dict[int, bytes] = {}
        """By index, the chain after each held entry."""
        self._applied = 0
        self._reactions = 0
        self._begun = 0
        """The last entry applied before this replica began to serve."""

    @property
    def waits(self) -> bool:
        """Whether this replica is the master of a view with slaves, which have to confirm its outcomes."""
        return bool(self._slaves)

    @property
    def full(self) -> bool:
        """Whether so much is held that nothing more may be submitted."""
        return self._reactions > MAX_HELD_REACTIONS or len(self._held) > MAX_HELD_ENTRIES

    @property
    def confirmed(self) -> int:
        """The last entry whose outcome is the same on all members of the view."""
        return min((slave.confirmed for slave in self._slaves.values()), default=self._applied)

    @property
    def may_begin(self) -> bool:
        """Whether the state with which this replica wants to begin to serve is that of all members."""
        return self.confirmed >= self._begun

    def begin_view(self, slaves: Sequence[int], applied: int, chain: bytes) -> None:
        """Begin a view: `slaves` are the other members if this replica is the master, none otherwise.

        applied, chain: the last entry that this replica has applied, and its chain.
        """
        self._slaves = {slave: _Slave() for slave in slaves}
        self._applied = applied
        if not self._held:
            self._base(chain)

    def _base(self, chain: bytes) -> None:
        """Let the slaves confirm the present state."""
        if self._applied and self._slaves:
            self._held.append(Effects(self._applied, chain=chain))
            self._chains[self._applied] = chain
        self._begun = self._applied if self._slaves else 0

    def hold(self, effects: Effects) -> None:
        """Hold the outputs of the next entry, which this master has just applied."""
        self._applied = effects.index
        self._held.append(effects)
        self._chains[effects.index] = effects.chain
        self._reactions += len(effects.trace)
        for slave in self._slaves.values():
            early = slave.early
            while early and early[0][0] <= effects.index:
                self._compare(slave, *early.popleft())

    def reported(self, replica: int, index: int, chain: bytes) -> None:
        """Note the chain of a slave after an entry."""
        slave = self._slaves.get(replica)
        if slave is None:
            return
        if index <= self._applied:
            self._compare(slave, index, chain)
            return
        if len(slave.early) == MAX_EARLY:
            slave.early.pop()
        slave.early.append((index, chain))

    def _compare(self, slave: _Slave, index: int, chain: bytes) -> None:
        if self._chains.get(index) == chain:
            slave.confirmed = max(slave.confirmed, index)

    def release(self) -> list[Effects]:
        """Remove and return the effects that may leave, in order."""
        held, released = self._held, list[Effects]()
        if not held:
            return released
        upto = self.confirmed
        while held and held[0].index <= upto:
            effects = held.popleft()
            del self._chains[effects.index]
            self._reactions -= len(effects.trace)
            released.append(effects)
        return released

    def silence(self) -> None:
        """Drop the outputs that are held, because this replica serves no longer.

        What must not be lost of them is in the state of the agents, and is sent again. This replica serves
        again once that state is confirmed.
        """
        self._held = deque(Effects(each.index, chain=each.chain) for each in self._held)
        self._reactions = 0
        self._begun = self._applied if self._held else 0

    def notes_to(self, server: int) -> int:
        """Return the number of held notifications to another server."""
        return sum(len(effects.network.get(server, ())) for effects in self._held)
