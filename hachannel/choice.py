"""What a proposer may conclude from the promises it got. Pure functions over views; a leaf.

Source: the channel protocol, section 3, step 3. The two overlaps make sure that every committed entry is in
the log that is adopted: |R and C| >= maj(C) finds the last view that can have been active, and
|R and M| >= |M| - k + 1 meets every set of k members that may have committed an entry in it.
"""

from collections.abc import Collection, Iterable, Mapping

import attrs

from .messages import Admit, Change, Dismiss, Promise, Reconfig
from .view import Seat, Tag, View, Voter, present


@attrs.frozen
class Choice:
    """The log to adopt and who may carry it on."""

    source: View
    """The highest view accepted by anybody who answered."""
    active: bool
    """Somebody knows that it was active, or was going to be."""
    holder: Voter
    """Who has the longest log among its members that accepted it."""
    last: Tag
    """The end of that log."""
    members: tuple[Voter, ...]
    """Its members that answered and do not leave, in order of seniority."""


def quorum_of(view: View, active: bool) -> int:
    """How many voters of a view's configuration a view that replaces it must meet.

    A majority. Competing first views share no configuration; while the first view is not known to be active
    it takes so many that any set of replicas that is large enough to found a cluster includes one of them.
    """
    return view.quorum if active else max(view.quorum, view.boot)


def choose(promises: Mapping[Voter, Promise], me: Voter) -> Choice | str:
    """The choice these promises allow, or the reason why they allow none yet."""
    source = latest(promises)
    if source is None:
        return "nobody who answered has accepted a view"
    same = {
        voter: promise
        for voter, promise in promises.items()
        if promise.accepted is not None and promise.accepted.number == source.number
    }
    active = any(promise.active for promise in same.values())
    reason = overlap(promises, source, active)
    if reason:
        return reason
    holder = longest({voter: same[voter] for voter in source.members if voter in same}, me)
    if holder is None:
        return f"no member of view {source.number} that accepted it has answered"
    members = tuple(voter for voter in source.members if voter in promises and not promises[voter].leaving)
    return Choice(source, active, holder, same[holder].last, members)


def latest(promises: Mapping[Voter, Promise]) -> View | None:
    """The highest view that anybody who answered has accepted."""
    views = [promise.accepted for promise in promises.values() if promise.accepted is not None]
    return max(views, key=lambda view: view.number, default=None)


def overlap(answered: Collection[Voter], source: View, active: bool) -> str:
    """Why those who answered do not meet every quorum of `source`, "" when they do."""
    voters, voters_needed = present(answered, source.config), quorum_of(source, active)
    if voters < voters_needed:
        return f"{voters} of {voters_needed} voters of view {source.number} answered"
    members, members_needed = present(answered, source.members), len(source.members) - source.k + 1
    if members < members_needed:
        return f"{members} of {members_needed} members of view {source.number} answered"
    return ""


def longest(holders: Mapping[Voter, Promise], me: Voter) -> Voter | None:
    """Who has the longest log; oneself when that is as long as any."""
    best: Voter | None = None
    for voter, promise in holders.items():
        if (
            best is None
            or promise.last.at > holders[best].last.at
            or (voter == me and promise.last.at == holders[best].last.at)
        ):
            best = voter
    return best


def never_active(view: View, promises: Mapping[Voter, Promise]) -> bool:
    """Whether a first view was never active nor ever will be, as its members say that have promised more.

    One of them did not accept it, or too few are left who can have said that they know of it.
    """
    unknowing = 0
    for member in view.members:
        promise = promises.get(member)
        if promise is None:
            continue
        if promise.accepted is None or promise.accepted.number < view.number:
            return True
        unknowing += promise.accepted.number == view.number and not promise.active
    return len(view.members) - unknowing < view.k


def reconfigured(config: Iterable[Voter], change: Change | None) -> tuple[Voter, ...]:
    """The configuration after at most one change, sorted."""
    voters = set(config)
    if isinstance(change, Dismiss):
        voters = {voter for voter in voters if voter.replica != change.replica}
    elif isinstance(change, Reconfig):
        voter = Voter(change.replica, change.incarnation)
        if change.add:
            voters.add(voter)
        else:
            voters.discard(voter)
    return tuple(sorted(voters))


def seated(seats: Iterable[Seat], change: Change | None) -> tuple[Seat, ...]:
    """The replicas of the cluster after at most one change, sorted."""
    if not isinstance(change, Admit | Dismiss):
        return tuple(seats)
    rest = [seat for seat in seats if seat.replica != change.replica]
    if isinstance(change, Admit):
        rest.append(Seat(change.replica, change.data, change.witness))
    return tuple(sorted(rest))


def feasible(config: Collection[Voter], answered: Collection[Voter]) -> bool:
    """Whether a configuration that is to come could become active with those who answered."""
    return present(answered, config) >= len(config) // 2 + 1


def activated(have: Collection[Voter], source: View | None, active: bool, view: View) -> bool:
    """Whether those who accepted or recorded `view` make it active."""
    if not set(view.members) <= set(have):
        return False
    if source is not None and present(have, source.config) < quorum_of(source, active):
        return False
    return present(have, view.config) >= quorum_of(view, False)
