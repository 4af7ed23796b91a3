"""The homes of the members of a group with ``context="local"``: what each has filed on its disk. Pure."""

from collections.abc import Iterable

import attrs

from .protocol import HomeStatus

__all__ = ["LocalHomes"]


@attrs.define
class LocalHomes:
    """Homes that have members. Items that one of them has not filed are held for it."""

    applied: dict[int, int] = attrs.field(factory=dict[int, int])
    """By home: it has filed everything up to this item."""
    confirmed: set[int] = attrs.field(factory=set[int])
    """Homes that have said so; any other has a first member and has perhaps filed nothing yet."""
    away: dict[int, int] = attrs.field(factory=dict[int, int])
    """By home that does not run: since when, in nanoseconds."""

    def begin(self, home: int, last: int) -> bool:
        """Begin to hold what comes after `last` for a home; return False if it is one already."""
        if home in self.applied:
            return False
        self.applied[home] = last
        return True

    def file(self, home: int, upto: int) -> bool:
        """Note what a home has filed; return whether that is news."""
        if home not in self.applied or upto < self.applied[home]:
            return False
        self.confirmed.add(home)
        self.applied[home] = upto
        return True

    def low(self, last: int) -> int:
        """Return up to where all homes have filed; `last` if there is none."""
        return min(self.applied.values(), default=last)

    def low_of_running(self, last: int) -> int:
        """Return up to where all homes that run have filed; `last` if none runs."""
        return min((upto for home, upto in self.applied.items() if home not in self.away), default=last)

    def slowest(self) -> list[int]:
        """Return the homes for which most is held."""
        low = self.low(0)
        return [home for home, upto in self.applied.items() if upto == low]

    def keep(self, homes: Iterable[int]) -> None:
        """Forget the homes that have no members any more."""
        left = {*homes}
        for home in [home for home in self.applied if home not in left]:
            del self.applied[home]
            self.confirmed.discard(home)
            self.away.pop(home, None)

    def statuses(self, last: int) -> list[HomeStatus]:
        """Return what administrators are shown."""
        return [
            HomeStatus(home, last - upto, home in self.away) for home, upto in sorted(self.applied.items())
        ]
