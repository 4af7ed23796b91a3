"""Answers of a channel that change seldom, in one frozen record that its driver reads after every input."""

from typing import Literal, TypeAlias

import attrs

from ..model.view import View
from ..replication.lease import Lease, proposer
from ..replication.replica_state import ReplicaState

Role: TypeAlias = Literal["joining", "slave", "master", "changing", "blocked", "witness", "stopped"]


@attrs.frozen
class Standing:
    """Where a replica is in its cluster, as of the end of the last input.

    The channel makes another record only when a field changes, so `is` tells whether anything did.
    """

    role: Role = "joining"
    view: View | None = None
    """The last view this replica accepted, active or not; None before the first."""
    master: int | None = None
    """Replica id of the master this replica follows, itself included; None while there is none."""
    leading: bool = False
    """This replica is the master of an active view."""
    may_submit: bool = False
    """`Channel.submit` accepts payloads while the window has room, and enough members are there to commit."""
    may_change: bool = False
    """`Channel.admit` and `Channel.remove` may be called: this replica is a master that can commit."""
    too_few_copies: str = ""
    """Copies that the view lacks before it accepts new entries (`min_copies`), as a sentence; "" if none."""
    lease_until: float | None = None
    """When the lease of this replica ends unless it is prolonged, in monotonic seconds; infinite for a master
    that needs nobody's vote. None without the lease."""
    unfit: bool = False
    """The state of the application is wrong: see `Channel.disqualify`."""
    unlisted: bool = False
    """The master said that this replica does not belong to the cluster: add it, or stop it."""

    @property
    def members(self) -> tuple[int, ...]:
        """Replica ids of the members of the view, master first."""
        return () if self.view is None else self.view.replicas()

    def holds_lease(self, now: float) -> bool:
        """Whether this replica may do at this moment what only one replica may do."""
        return self.lease_until is not None and now < self.lease_until


def observe(state: ReplicaState, lease: Lease, before: Standing) -> Standing:
    """Return the present answers: `before` itself when nothing has changed."""
    view, leading = state.accepted, state.leading
    role = _role(state)
    master = _master(state)
    unhindered = leading and not (state.leaving or state.unfit)
    may_submit = unhindered and not state.blocked
    may_change = unhindered and state.commits
    too_few_copies = state.too_few_copies
    until = lease.held_until
    if (
        role == before.role
        and view is before.view
        and until == before.lease_until
        and master == before.master
        and leading == before.leading
        and may_submit == before.may_submit
        and may_change == before.may_change
        and too_few_copies == before.too_few_copies
        and state.unfit == before.unfit
        and state.seats.unlisted == before.unlisted
    ):
        return before
    return Standing(
        role,
        view,
        master,
        leading,
        may_submit,
        may_change,
        too_few_copies,
        until,
        state.unfit,
        state.seats.unlisted,
    )


def _role(state: ReplicaState) -> Role:
    if state.stopped:
        return "stopped"
    if state.seats.witness:
        return "witness" if state.seated else "joining"
    view = state.accepted
    if view is None or not state.member:
        return "joining"
    if state.blocked:
        return "blocked"
    if not state.serving:
        return "changing"
    return "master" if view.members[0] == state.me else "slave"


def _master(state: ReplicaState) -> int | None:
    if state.serving and state.accepted is not None:
        return state.accepted.members[0].replica
    for link in state.peers:
        heartbeat = link.heartbeat
        if heartbeat is None or link.suspected:
            continue
        # A member may report the view before its master does.
        leads = heartbeat.view < state.newer and link.voter == proposer(state.newer)
        if leads or (heartbeat.master and heartbeat.view == state.newer):
            return link.replica
    return None
