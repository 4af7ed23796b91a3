"""Making what one replica has on its disk the beginning of a new cluster, when too few of the old are left.

The view protocol never gives up what may have been committed. An operator may, on one stopped replica: its
configuration becomes this replica alone, with everything that it has, also what it does not know to be
committed: it may have been acknowledged. Views carry the *lineage* of their cluster, the life of the replica
that was made its beginning. Replicas of different lineages take no message of each other but heartbeats, so
that the old and the new cluster never mix. Why so: docs/decisions/0013-beginning-again.md.
"""

from ..model.log import Accepted, Activated
from ..model.view import NO_VIEW, Seat, View, ViewNumber, Voter
from .durable_log import Remembered
from .journal import Journal

__all__ = ["NothingThere", "begin_again", "first_view"]


class NothingThere(ValueError):
    """The replica has never held anything of the cluster."""


def first_view(
    remembered: Remembered, me: Voter, seats: tuple[Seat, ...], entry: ViewNumber = NO_VIEW
) -> View:
    """The view with which a new cluster goes on from what one replica remembers.

    me: a life of that replica which nobody has met. seats: who belongs to the cluster, if no view says so.
    entry: the view of its last entry, which a learner may have from a later view than it was in.
    Raises NothingThere.
    """
    old = remembered.accepted
    if old is None and not remembered.last:
        raise NothingThere
    seen = max(remembered.promised.counter, 0 if old is None else old.number.counter, entry.counter)
    return View(
        ViewNumber(seen + 1, me.replica, me.incarnation),
        (me,),
        (me,),
        1,
        remembered.last,
        reason=f"replica {me.replica} was made the beginning of a new cluster",
        seats=seats if old is None or not old.seats else old.seats,
        lineage=me,
    )


def begin_again(journal: Journal, me: Voter, seats: tuple[Seat, ...]) -> View:
    """Make the journal that of the only replica of a new cluster, in one transaction.

    Returns the view that it begins with. Raises NothingThere, WriteFailed.
    """
    entries, remembered = journal.recovered, journal.remembered
    view = first_view(remembered, me, seats, entries[-1].view if entries else remembered.base.view)
    journal.rename(me.incarnation, [Accepted(view), Activated(view.number)])
    return view
