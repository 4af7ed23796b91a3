"""Peers of another cluster, and masters that have lost what is committed here. Pure functions.

Clusters differ by their lineage: an operator can begin a cluster again from one of its replicas.
"""

from collections.abc import Iterable

from ..model.messages import Heartbeat
from ..model.view import View, ViewNumber
from .peers import Link

__all__ = ["forgetful_master", "is_foreign", "successor"]


def is_foreign(heartbeat: Heartbeat | None, view: View | None, *, founded: bool) -> bool:
    """Return whether the sender of a heartbeat belongs to another cluster than a replica with this view.

    founded: the cluster of this replica is known to exist. Before that, every peer may join it.
    """
    if heartbeat is None or view is None or not (founded and heartbeat.founded):
        return False
    return heartbeat.lineage != view.lineage


def successor(links: Iterable[Link], view: View | None) -> int | None:
    """Return a connected replica whose cluster was begun again after that of this replica; None if none is.

    view: the last one that this replica accepted. A cluster that was begun again from a replica that is not
    in this one does not count: it may have been removed before.
    """
    own = None if view is None else view.lineage
    for link in links:
        if link.foreign and link.connected and link.heartbeat is not None:
            theirs = link.heartbeat.lineage
            if theirs is None or view is None or not view.lists(theirs.replica):
                continue
            if own is None or theirs.incarnation > own.incarnation:
                return link.replica
    return None


def forgetful_master(links: Iterable[Link], written: ViewNumber, commit: int) -> Link | None:
    """Return the master of a later active view that lacks what is committed here; None if there is none.

    commit: the commit index of this replica. written: the view that appended that entry. A view begins with
    everything that was committed with an earlier number, unless disks have lost what they had confirmed. An
    entry of that view, or of a later one, may have arrived after the heartbeat of its master.
    """
    for link in links:
        heartbeat = link.heartbeat
        if (
            heartbeat is not None
            and heartbeat.active
            and heartbeat.master
            and not link.foreign
            and heartbeat.view > written
            and heartbeat.last < commit
        ):
            return link
    return None
