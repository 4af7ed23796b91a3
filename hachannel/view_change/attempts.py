"""The states of an attempt to agree on a view: preparing, and fetching the log of the view. A leaf."""

from collections.abc import Collection

import attrs

from ..model.messages import Entry, Promise
from ..model.view import NO_VIEW, ViewNumber, Voter
from .choice import Choice


@attrs.define(eq=False)
class Preparing:
    """Waiting for promises."""

    number: ViewNumber
    reason: str
    since: float
    sent: float
    ran: float
    """When this replica last evaluated the promises."""
    exclude: Collection[Voter]
    """Members that shall not be in the view even if they answer."""
    boot: bool
    """The proposed view is the first one of the cluster."""
    joiner: Voter | None
    promises: dict[Voter, Promise] = attrs.field(factory=dict[Voter, Promise])
    waiting: str = "no answers yet"


@attrs.define(eq=False)
class Fetched:
    """The beginning of a log that a member of a view has beyond that of the proposer.

    Kept from one attempt to the next: with one interrupted by every part that comes, and begun again from the
    start, no view would ever follow. Entries of one view are the same whoever sends them.
    """

    source: ViewNumber = NO_VIEW
    """The view."""
    base: int = 0
    """The entry before the first one."""
    entries: list[Entry] = attrs.field(factory=list[Entry])
    again_s: float = 0.0
    """After this time without a part, it is asked for again."""

    @property
    def reached(self) -> int:
        """Index of the last entry fetched."""
        return self.base + len(self.entries)

    def resume(self, choice: Choice, base: int, again_s: float) -> "Fetched":
        """Return what is already here of the log to adopt, after entry `base`."""
        if (self.source, self.base) != (choice.source.number, base):
            return Fetched(choice.source.number, base, [], again_s)
        del self.entries[choice.last.at - base :]
        return self


@attrs.define(eq=False)
class Fetching:
    """Waiting for the end of the log to adopt."""

    prepared: Preparing
    choice: Choice
    fetched: Fetched
    asked: float
    moved: float
    """When the last part came."""
