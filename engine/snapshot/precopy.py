"""Pre-copy rounds: the order of the parts of a state, so that a copy converges while the state changes.

Source: the HA channel protocol, section 4, and the HA Joram specification, 4.6. The first round sends the
whole state, each further round the parts that have changed since; the last few parts are sent as of one
entry. The kind of the parts does not matter here.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import attrs
import msgspec

__all__ = ["Action", "Marker", "PrecopyRounds"]

K = TypeVar("K", bound=Any)

MAX_ROUNDS: Final = 8
"""Rounds over changed parts, after which the rest is sent as of one entry, whatever its size."""
FEW: Final = 256
"""Changed parts that are sent as of one entry, without a further round."""
SHRINKS: Final = 0.75
"""Largest share of changed parts, compared with the round before, for which another round pays."""
SORTED_AT_ONCE: Final = 5000


class Marker(msgspec.Struct, array_like=True, frozen=True):
    """State of a copy so far, so that another source can continue from there."""

    birth: int
    """The life of the state, see `Engine.birth`."""
    have: int = 0
    """The entry after which the copy had a whole state at the beginning; 0: it had nothing."""
    place: tuple[int, Any] | None = None
    """The copy has all parts up to this place, as they were after entry `floor` or later."""
    floor: int = 0
    """The entry that belongs to `place`, or to all parts if `whole`."""
    whole: bool = False
    """True if the copy has all parts, not only those up to `place`."""


class Action(Enum):
    """The action for a part."""

    SEND = "send it"
    KEEP = "the copy has it as it is"
    GONE = "it is no more"


@attrs.define(eq=False)
class PrecopyRounds(Generic[K]):
    """Yields the parts of a state in the order in which a copy receives them.

    Parts are visited in the order of (`bucket` of the key, key), which is the same at every source: so a copy
    can continue with another one. `changed` returns the entry that changed a part last, None when there is no
    such part; `now` returns the last applied entry.
    """

    _bucket: Callable[[K], int]
    _changed: Callable[[K], int | None]
    _now: Callable[[], int]
    _start: Marker
    """State of the copy before this transfer."""
    _few: int = attrs.field(default=FEW, alias="few")
    marks: dict[K, None] = attrs.field(factory=dict[K, None])
    """Parts that were changed, added or removed since they were sent; the owner of the parts adds them."""
    _unsorted: "deque[K]" = attrs.field(factory=deque[K], init=False)
    _buckets: dict[int, list[K]] = attrs.field(factory=dict[int, list[K]], init=False)
    _order: "deque[int]" = attrs.field(factory=deque[int], init=False)
    _queue: "deque[K]" = attrs.field(factory=deque[K], init=False)
    _at: int = attrs.field(default=0, init=False)
    _place: tuple[int, Any] | None = attrs.field(default=None, init=False)
    _began: int = attrs.field(default=0, init=False)
    _scanned: bool = attrs.field(default=False, init=False)
    _floor: int = attrs.field(default=0, init=False)
    rounds: int = attrs.field(default=0, init=False)
    """Rounds over changed parts so far."""
    _last: int = attrs.field(default=0, init=False)
    finished: bool = attrs.field(default=False, init=False)
    """True once the rounds are over, so that `rest` is to be sent as of one entry."""

    def begin(self, keys: Iterable[K]) -> None:
        """Begin with these parts. From now on the owner puts changed parts into `marks`."""
        self._unsorted = deque(keys)
        self._began = self._now()

    def prepare(self) -> bool:
        """Sort some of the parts. Return True once all are sorted."""
        for _ in range(min(SORTED_AT_ONCE, len(self._unsorted))):
            key = self._unsorted.popleft()
            self._buckets.setdefault(self._bucket(key), []).append(key)
        if self._unsorted:
            return False
        if self._buckets and not self._order:
            self._order = deque(sorted(self._buckets))
        return True

    def step(self) -> tuple[Action, K] | None:
        """Return the next part, or None at the end of a round: check `finished` then.

        Call this once `prepare` has returned True.
        """
        if not self._scanned:
            step = self._scan()
            if step is not None:
                return step
            self._scanned = True
            self._floor = self._began
            self._next_round()
            return None
        if self._queue:
            key = self._queue.popleft()
            self.marks.pop(key, None)
            return (Action.GONE if self._changed(key) is None else Action.SEND), key
        if not self.finished:
            self._floor = self._began
            self._next_round()
        return None

    def _scan(self) -> tuple[Action, K] | None:
        while True:
            while not self._queue:
                if not self._order:
                    return None
                self._at = self._order.popleft()
                self._queue.extend(sorted(self._buckets.pop(self._at)))
            key = self._queue.popleft()
            self._place = (self._at, key)
            changed = self._changed(key)
            if changed is None:
                # A removed part is left out, as for a copy that continues from a marker behind it.
                continue
            self.marks.pop(key, None)
            return (Action.KEEP if changed <= self._reached(self._place) else Action.SEND), key

    def _reached(self, place: tuple[int, Any]) -> int:
        """Return an entry after which the copy has this part: as it was then, or later."""
        start = self._start
        if start.whole or (start.place is not None and place <= start.place):
            return max(start.floor, start.have)
        return start.have

    def _next_round(self) -> None:
        left = len(self.marks)
        if left <= self._few or self.rounds >= MAX_ROUNDS or (self.rounds and left > SHRINKS * self._last):
            self.finished = True
            return
        self.rounds += 1
        self._last = left
        self._began = self._now()
        self._queue.extend(self.marks)
        self.marks.clear()

    def rest(self) -> list[K]:
        """Return the parts to be sent as of one entry, and clear `marks`."""
        rest = list(self.marks)
        self.marks.clear()
        return rest

    @property
    def marker(self) -> Marker:
        """State of the copy once it has received all parts returned so far."""
        start = self._start
        if self._scanned:
            return Marker(start.birth, start.have, None, self._floor, True)
        if start.whole or (start.place is not None and (self._place is None or self._place < start.place)):
            # The parts behind this place are as they were before this transfer.
            return start
        return Marker(start.birth, start.have, self._place, self._began)
