"""Message groups: which consumer has messages of a group, and what waits in each group.

A group belongs to a consumer from its first message that the consumer gets until the consumer has settled all
that it has got of it. Messages of the group that come meanwhile are for that consumer only, so two consumers
never have messages of one group at the same time.
"""

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from .message_log import MessageLog
from .protocol import MAX_PRIORITY
from .ranges import Range, Ranges

__all__ = ["Group", "Groups"]

MAX_LOOKED_AT: Final = 1000
"""Groups that are compared with the selector of a consumer before it gets none."""
COMPARED: Final = 16
"""Groups whose priorities are compared before one of them is given out."""


@attrs.define
class Group:
    """A group with messages that are not done with."""

    owner: str = ""
    """The consumer that has messages of it; empty: none has."""
    in_hand: int = 0
    """How many messages of it the owner has, or has accepted in a transaction that is not over."""
    ready: dict[int, Ranges] = attrs.field(factory=dict[int, Ranges])
    """By priority: what nobody has."""

    def head(self) -> tuple[int, int] | None:
        """Return the priority and the number of the message that is next, None if none waits."""
        for priority in sorted(self.ready, reverse=True):
            first = self.ready[priority].first
            if first is not None:
                return priority, first
        return None


@attrs.define
class Groups:
    """The groups of one subscription."""

    groups: dict[str, Group] = attrs.field(factory=dict[str, Group])
    waiting: Ranges = attrs.field(factory=Ranges)
    """All messages of groups that nobody has."""
    free: dict[str, None] = attrs.field(factory=dict[str, None])
    """Groups with waiting messages and no owner, in the order in which they are given out."""
    owned: dict[str, dict[str, None]] = attrs.field(factory=dict[str, dict[str, None]])
    """By consumer: its groups that have waiting messages."""

    def add(self, name: str, first: int, end: int, priority: int) -> None:
        """Let messages of a group wait."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group()
        if priority not in group.ready:
            group.ready[priority] = Ranges()
        group.ready[priority].add(first, end)
        self.waiting.add(first, end)
        if group.owner:
            self.owned.setdefault(group.owner, {})[name] = None
        else:
            self.free[name] = None

    def remove(self, log: MessageLog, first: int, end: int) -> list[Range]:
        """Remove messages that wait, and return those that there were."""
        found = self.waiting.remove(first, end)
        for name, number, count in _names(log, found):
            for ready in self.groups[name].ready.values():
                ready.remove(number, number + count)
            self._tidy(name)
        return found

    def head(self, consumer: str, wanted: Callable[[int], bool] | None) -> tuple[str, tuple[int, int]] | None:
        """Return the group of a consumer's next message, with the priority and the number of that message.

        wanted: whether the consumer takes the message of a number; None: it takes all.
        """
        for names in (self.owned.get(consumer, {}), self.free):
            best: tuple[str, tuple[int, int]] | None = None
            for looked_at, name in enumerate(names, 1):
                head = self.groups[name].head()
                if head is not None and (wanted is None or wanted(head[1])):
                    if best is None or head[0] > best[1][0]:
                        best = name, head
                    if looked_at >= COMPARED or head[0] == MAX_PRIORITY:
                        break
                if looked_at >= MAX_LOOKED_AT:
                    break
            if best is not None:
                return best
        return None

    def take(self, name: str, consumer: str, most: int, wanted: Callable[[int], bool] | None) -> list[Range]:
        """Give a consumer messages of a group, those of its highest priority, and return them."""
        group = self.groups[name]
        head = group.head()
        if head is None:
            return []
        ready = group.ready[head[0]]
        taken: list[Range] = []
        if wanted is None:
            taken = ready.take(most)
        else:
            while most > 0 and ready.first is not None and wanted(ready.first):
                taken += ready.take(1)
                most -= 1
        for first, end in taken:
            self.waiting.remove(first, end)
            group.in_hand += end - first
        if group.in_hand and not group.owner:
            group.owner = consumer
            self.free.pop(name, None)
            self.owned.setdefault(consumer, {})[name] = None
        self._tidy(name)
        return taken

    def put_back(self, name: str, ranges: Iterable[Range], priority: int) -> None:
        """Take messages back that were given in the same reaction."""
        group = self.groups[name]
        for first, end in ranges:
            group.in_hand -= end - first
            self.add(name, first, end, priority)
        self._release(name)

    def let_go(self, log: MessageLog, ranges: Iterable[Range]) -> None:
        """Learn that consumers do not have these messages any more. Other messages are passed over."""
        for name, _, count in _names(log, ranges):
            group = self.groups.get(name)
            if group is not None:
                group.in_hand = max(0, group.in_hand - count)
                self._release(name)

    def _release(self, name: str) -> None:
        """Make a group free of which nobody has a message."""
        group = self.groups[name]
        if group.owner and not group.in_hand:
            self._disown(name, group.owner)
            group.owner = ""
            if group.head() is not None:
                self.free[name] = None
        self._tidy(name)

    def _disown(self, name: str, owner: str) -> None:
        names = self.owned.get(owner)
        if names is not None:
            names.pop(name, None)
            if not names:
                del self.owned[owner]

    def _tidy(self, name: str) -> None:
        """Forget what is empty."""
        group = self.groups[name]
        for priority in [each for each, ready in group.ready.items() if not ready]:
            del group.ready[priority]
        if not group.ready:
            self.free.pop(name, None)
            if group.owner:
                self._disown(name, group.owner)
            if not group.in_hand:
                del self.groups[name]


def _names(log: MessageLog, ranges: Iterable[Range]) -> list[tuple[str, int, int]]:
    """Return the groups of messages: name, number and count of those that follow each other in one group."""
    found: list[tuple[str, int, int]] = []
    for number, pack in log.read(ranges):
        for index in range(len(pack)):
            name = pack.value("group", index)
            if not isinstance(name, str):
                continue
            if found and found[-1][0] == name and sum(found[-1][1:]) == number + index:
                found[-1] = name, found[-1][1], found[-1][2] + 1
            else:
                found.append((name, number + index, 1))
    return found
