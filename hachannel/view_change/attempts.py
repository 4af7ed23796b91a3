"""The states of an attempt to elect a view: preparing, and fetching the log of the view. A leaf."""

from collections.abc import Collection

import attrs

from ..model.messages import Entry, Promise
from ..model.view import NO_VIEW, ViewNumber, Voter
from .choice import Choice


@attrs.define(eq=False)
class Preparing:
    """The proposer waits for promises."""

    number: ViewNumber
    reason: str
    since: float
    sent: float
    ran: float
    """Time when this replica last evaluated the promises."""
    exclude: Collection[Voter]
    """Members that must not be in the view even if they answer."""
    boot: bool
    """The proposed view is the first one of the cluster."""
    joiner: Voter | None
    promises: dict[Voter, Promise] = attrs.field(factory=dict[Voter, Promise])
    waiting: str = "no answers yet"


@attrs.define(eq=False)
class Fetched:
    """The entries fetched so far from a member whose log is longer than that of the proposer.

    They are kept from one attempt to the next. If attempts were interrupted again and again, and each fetched
    all entries anew, no view would ever follow. Entries of one view are the same from every sender.
    """

    source: ViewNumber = NO_VIEW
    """The view whose log is fetched."""
    base: int = 0
    """Index of the entry before the first one."""
    entries: list[Entry] = attrs.field(factory=list[Entry])
    again_s: float = 0.0
    """Time without an answer, in seconds, after which a part is asked for again."""

    @property
    def reached(self) -> int:
        """Index of the last entry fetched."""
        return self.base + len(self.entries)

    def resume(self, choice: Choice, base: int, again_s: float) -> "Fetched":
        """Return the fetched entries that can be kept for a choice, after entry `base`."""
        if (self.source, self.base) != (choice.source.number, base):
            return Fetched(choice.source.number, base, [], again_s)
        del self.entries[choice.last.at - base :]
        return self


@attrs.define(eq=False)
class Fetching:
    """The proposer waits for the end of the log to adopt."""

    prepared: Preparing
    choice: Choice
    fetched: Fetched
    asked: float
    moved: float
    """Time when the last part arrived."""
