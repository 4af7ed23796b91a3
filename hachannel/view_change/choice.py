"""The choice of a proposer: the conclusions that promises allow. Pure functions over views; a leaf.

Source: the channel protocol, section 3, step 3. The two overlaps make sure that every committed entry is in
the log that is adopted: |R and C| >= maj(C) finds the last view that can have been active, and
|R and M| >= |M| - k + 1 meets every set of k members that may have committed an entry in it.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

import attrs

from ..model.log import Log
from ..model.messages import Admit, Change, Dismiss, Promise, Reconfig
from ..model.view import Seat, Tag, View, Voter, majority, present, watching


@attrs.frozen
class Choice:
    """The log to adopt, and the possible members of the view that continues it."""

    source: View
    """The highest view that a voter which answered has accepted."""
    activation: "Activation"
    """Whether `source`, if it is a first view, was active."""
    holder: Voter
    """The voter with the longest log among the members that accepted `source`."""
    last: Tag
    """The last entry of that log."""
    members: tuple[Voter, ...]
    """The members of `source` that answered, are fit and do not leave, in order of seniority."""


def quorum_of(view: View, active: bool) -> int:
    """Return the number of voters of a view's configuration that must promise a view which replaces it.

    This is a majority. But competing first views have no common configuration. So while a first view is not
    known to be active, more than half of all replicas must promise, as for founding a cluster: any two such
    sets overlap.
    """
    return view.quorum if active else max(view.quorum, view.boot)


class Activation(Enum):
    """Whether a first view was active, as far as the promises at hand prove it."""

    ACTIVE = "active"
    """The view was active, or enough members know of it that no proposer can conclude it never was."""
    OPEN = "open"
    """The view may have been active; other proposers may conclude that it never was."""
    NEVER = "never"
    """The view was never active, and neither it nor a view that builds on it will ever be."""


def activation(view: View, promises: Mapping[Voter, Promise]) -> Activation:
    """Return whether a first view was active, as far as voters know that have promised a later view.

    A first view becomes active once k members have recorded that it may be, the proposer first. A member that
    has not recorded it and has promised a later view will never record it. See docs/decisions/0019.
    """
    same = accepted_by(view, promises)
    if any(promise.active for promise in same.values()):
        return Activation.ACTIVE
    if any(_replaces(promise.accepted, view) for promise in promises.values()):
        return Activation.NEVER
    proposer = view.members[0]
    aware = {voter for voter in view.members if voter in same and same[voter].foreseen}
    unaware = [voter for voter in view.members if voter in same and voter not in aware]
    if aware and len(aware | {proposer}) >= view.k:
        return Activation.ACTIVE
    behind = {voter for voter, promise in promises.items() if _before(promise.accepted, view)}
    if behind.intersection(view.members) or len(view.members) - len(unaware) < view.k:
        return Activation.NEVER
    # Its proposer has not made it active, and has promised a later view. Nor can a majority conclude that it
    # was active: one of these voters would have to accept the view that follows.
    if proposer in same and len(view.config) - present({*same, *behind}, view.config) < view.quorum:
        return Activation.NEVER
    return Activation.OPEN


def _replaces(accepted: View | None, view: View) -> bool:
    """Return whether this is a later first view, whose proposer found that no earlier one was active."""
    return accepted is not None and accepted.number > view.number and accepted.boot > 0 and not accepted.again


def _before(accepted: View | None, view: View) -> bool:
    return accepted is None or accepted.number < view.number


def choose(promises: Mapping[Voter, Promise], me: Voter) -> Choice | str:
    """Return the choice that these promises allow, or the reason why they allow none yet."""
    source = latest(promises)
    if source is None:
        return "nobody who answered has accepted a view"
    same = accepted_by(source, promises)
    verdict = activation(source, promises)
    reason = overlap(promises, source, verdict is Activation.ACTIVE)
    if reason:
        return reason
    holder = longest({voter: same[voter] for voter in source.members if voter in same}, me)
    if holder is None:
        return f"no member of view {source.number} that accepted it has answered"
    answers = [(voter, promises[voter]) for voter in source.members if voter in promises]
    members = tuple(voter for voter, promise in answers if not (promise.leaving or promise.unfit))
    return Choice(source, verdict, holder, same[holder].last, members)


def latest(promises: Mapping[Voter, Promise]) -> View | None:
    """Return the highest view that any of the promises has accepted, None if none has."""
    views = [promise.accepted for promise in promises.values() if promise.accepted is not None]
    return max(views, key=lambda view: view.number, default=None)


def accepted_by(view: View, promises: Mapping[Voter, Promise]) -> dict[Voter, Promise]:
    """Return the promises of the voters whose last accepted view is this one."""
    return {
        voter: promise
        for voter, promise in promises.items()
        if promise.accepted is not None and promise.accepted.number == view.number
    }


def overlap(answered: Collection[Voter], source: View, active: bool) -> str:
    """Return why the voters that answered do not overlap every quorum of `source`; "" if they do."""
    voters, voters_needed = present(answered, source.config), quorum_of(source, active)
    if voters < voters_needed:
        return f"{voters} of {voters_needed} voters of view {source.number} answered"
    members, members_needed = present(answered, source.members), len(source.members) - source.k + 1
    if members < members_needed:
        return f"{members} of {members_needed} members of view {source.number} answered"
    return ""


def longest(holders: Mapping[Voter, Promise], me: Voter) -> Voter | None:
    """Return the holder of the longest log; `me` if its log is as long as any."""
    best: Voter | None = None
    for voter, promise in holders.items():
        if (
            best is None
            or promise.last.at > holders[best].last.at
            or (voter == me and promise.last.at == holders[best].last.at)
        ):
            best = voter
    return best


def shared_prefixes(promises: Mapping[Voter, Promise], source: View | None, log: Log) -> dict[Voter, int]:
    """Return, by voter, the index up to which its log equals the adopted `log`.

    A voter that accepted `source` has a prefix of the adopted log; of any other, only the committed entries
    are certainly equal. A voter is left out if `log` no longer reaches back to that index.
    """
    prefixes: dict[Voter, int] = {}
    for voter, promise in promises.items():
        accepted = promise.accepted
        same = source is not None and accepted is not None and accepted.number == source.number
        index = promise.last.at if same else promise.commit
        if log.base.at <= index <= log.last.at:
            prefixes[voter] = index
    return prefixes


def reconfigured(config: Iterable[Voter], change: Change | None) -> tuple[Voter, ...]:
    """Return the configuration after at most one change, sorted."""
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
    """Return the replicas of the cluster after at most one change, sorted."""
    if not isinstance(change, Admit | Dismiss):
        return tuple(seats)
    rest = [seat for seat in seats if seat.replica != change.replica]
    if isinstance(change, Admit):
        rest.append(Seat(change.replica, change.data, change.witness))
    return tuple(sorted(rest))


def witnesses_of(config: Iterable[Voter], seats: Iterable[Seat]) -> tuple[Voter, ...]:
    """Return the voters of a configuration whose replicas are witnesses, sorted."""
    watchers = watching(seats)
    return tuple(sorted(voter for voter in config if voter.replica in watchers))


def feasible(config: Collection[Voter], answered: Collection[Voter]) -> bool:
    """Return whether a new configuration could become active with the voters that answered."""
    return present(answered, config) >= majority(config)


def activated(have: Collection[Voter], source: View | None, active: bool, view: View) -> bool:
    """Return whether the voters that accepted or recorded `view` make it active."""
    if not set(view.members) <= set(have):
        return False
    if source is not None and present(have, source.config) < quorum_of(source, active):
        return False
    return present(have, view.config) >= quorum_of(view, False)
