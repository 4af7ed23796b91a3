"""A new cluster that continues from the disk of one replica, for when too few replicas of the old are left.

The view protocol never gives up an entry that may have been committed. An operator may do so, on one stopped
replica: the new configuration is this replica alone. It keeps its whole log, also entries that it does not
know to be committed, since they may have been acknowledged. Views carry the *lineage* of their cluster: the
life of the replica that it began with. Replicas of different lineages accept only heartbeats from each other,
so the old and the new cluster never mix. If the state of this replica was found to be wrong, the new cluster
takes it for right, since there is no other. Reasons: docs/decisions/0013-beginning-again.md.
"""

from ..model.log import Accepted, Activated, Fitness
from ..model.view import NO_VIEW, Seat, View, ViewNumber, Voter
from .durable_log import Remembered
from .journal import Journal

__all__ = ["NothingThere", "begin_again", "first_view"]


class NothingThere(ValueError):
    """The replica has never had an entry or a view of the cluster."""


def first_view(
    remembered: Remembered, me: Voter, seats: tuple[Seat, ...], entry: ViewNumber = NO_VIEW
) -> View:
    """Return the view with which a new cluster continues from the journal of one replica.

    me: a new life of that replica. seats: the replicas of the cluster, used if no view lists them. entry: the
    view of its last entry; a learner may have entries of a later view than it has accepted.
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

    Return the first view of the new cluster. Raises NothingThere, WriteFailed.
    """
    entries, remembered = journal.recovered, journal.remembered
    view = first_view(remembered, me, seats, entries[-1].view if entries else remembered.base.view)
    journal.rename(me.incarnation, [Accepted(view), Activated(view.number), Fitness(False)])
    return view
