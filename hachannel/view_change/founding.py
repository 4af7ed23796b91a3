"""The founding of a cluster: when a replica may propose the first view, and what the promises allow.

Source: the channel protocol, section 4. At start-up, enough empty replicas that see each other found the
cluster. The rules for a first view that may have been active are in docs/decisions/0019.
"""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from ..model.messages import Promise
from ..model.view import NO_TAG, View, Voter, majority, required
from ..replication.peers import founds
from ..replication.replica_state import ReplicaState
from .attempts import Preparing
from .choice import Activation, Choice, activation, choose, witnesses_of

__all__ = ["AlreadyFounded", "FirstView", "Founding", "Impossible", "Verdict", "Waiting"]

MAX_BACKOFF = 50
"""Repeated failures stretch the pause between two proposals up to this many retry intervals."""


@attrs.frozen
class FirstView:
    """The promises suffice for a first view."""

    view: View
    others: tuple[Voter, ...]
    """Its members without the proposer."""


@attrs.frozen
class Waiting:
    """More promises are needed."""

    reason: str = ""
    """Reason for waiting, as a sentence; "" keeps the reason already noted."""


@attrs.frozen
class AlreadyFounded:
    """The cluster has, or may have, a first view, and the promises suffice to replace it."""


@attrs.frozen
class Impossible:
    """The attempt must end."""

    reason: str


Verdict: TypeAlias = FirstView | Waiting | AlreadyFounded | Impossible


class Founding:
    """The rules of the first view, as its proposer applies them."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._complete_since: float | None = None
        """Time since which this replica sees enough empty replicas; None if it does not."""

    def due(self, now: float, since: float, failures: int) -> bool:
        """Return whether enough empty replicas see each other and this one is the next to propose.

        Call on a replica that is empty. since: time when the last proposal known here made progress.
        failures: number of proposals of this replica that failed in a row.
        """
        state = self._state
        if state.leaving or state.seats.witness:
            return False
        found = {state.me.replica}
        for link in state.peers:
            if link.heartbeat is not None and link.heartbeat.founded:
                return False
            if link.connected and not link.suspected and founds(link, state.configuration.birth):
                found.add(link.replica)
        if len(found) < state.configuration.expected:
            self._complete_since = None
            return False
        if self._complete_since is None:
            self._complete_since = now
        settings = state.settings
        rank = [each for each in state.configuration.order if each in found - state.seats.witnesses].index(
            state.me.replica
        )
        wait = 0.0 if len(found) == len(state.configuration.order) else settings.boot_wait_s
        wait += rank * settings.view_change_s + min(failures**2, MAX_BACKOFF) * settings.retry_s
        return now >= max(self._complete_since, since) + wait

    def extend(self, now: float, pause_s: float) -> None:
        """Wait longer for the replicas that propose first: a disk was slow for `pause_s`."""
        if self._complete_since is not None:
            self._complete_since = min(self._complete_since + pause_s, now)

    def decide(self, now: float, attempt: Preparing) -> Verdict:
        """Return what the promises of an attempt allow.

        A first view needs the promises of enough empty replicas. For half of `view_change_s` the proposer
        waits for those of all connected empty replicas.
        """
        state = self._state
        promises = {
            voter: promise
            for voter, promise in attempt.promises.items()
            if voter == state.me
            or (state.peers.link(voter) is not None and voter.replica in state.configuration.order)
        }
        activations = {
            activation(promise.accepted, promises)
            for promise in promises.values()
            if promise.accepted is not None and promise.accepted.boot
        }
        awaited = self._awaited(now, attempt, promises)
        unsure = Activation.OPEN in activations
        if Activation.ACTIVE in activations or (unsure and not awaited and self._replaceable(attempt)):
            return AlreadyFounded()
        for voter, promise in promises.items():
            view = promise.accepted
            if promise.last != NO_TAG or (view is not None and (view.again or not view.boot)):
                return Impossible(f"replica {voter.replica} belongs to a cluster already")
        if unsure:
            return Waiting("replicas that do not answer may have founded a cluster")
        if awaited or len(promises) < state.configuration.expected:
            return Waiting()
        return self._first_view(attempt, promises)

    def _awaited(self, now: float, attempt: Preparing, promises: Mapping[Voter, Promise]) -> bool:
        """Return whether a connected empty replica may still promise in time."""
        state = self._state
        if now - attempt.since >= state.settings.view_change_s / 2:
            return False
        seen = [
            link.voter for link in state.peers if link.connected and founds(link, state.configuration.birth)
        ]
        return any(voter is not None and voter not in promises for voter in seen)

    def _replaceable(self, attempt: Preparing) -> bool:
        """Return whether the promises suffice to replace the last view that one of them accepted."""
        return isinstance(choose(attempt.promises, self._state.me), Choice)

    def _first_view(self, attempt: Preparing, promises: Mapping[Voter, Promise]) -> FirstView:
        state = self._state
        order = {replica: position for position, replica in enumerate(state.configuration.order)}
        data = [
            voter for voter in promises if voter != state.me and voter.replica not in state.seats.witnesses
        ]
        others = tuple(sorted(data, key=lambda voter: order[voter.replica]))
        members = (state.me, *others)
        view = View(
            attempt.number,
            tuple(sorted(promises)),
            members,
            required(state.settings.mode, members, state.settings.min_copies),
            0,
            majority(state.configuration.order),
            attempt.reason,
            state.configuration.seats,
            witnesses_of(promises, state.configuration.seats),
        )
        return FirstView(view, others)
